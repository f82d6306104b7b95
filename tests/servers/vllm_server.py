"""A real vLLM server on the CPU, from the environment that `services.environments` installs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from models.vllm_chat import STRICT_JSON
from services.environments import environment_python
from services.process import free_port
from tests.servers.processes import running

MAX_MODEL_TOKENS = 8192


@dataclass(frozen=True)
class VllmServer:
    """Where the server is (`base_url` ends in /v1) and what it calls its model."""

    base_url: str
    model: str


@contextmanager
def vllm_cpu_server(
    environment: Path, model_folder: Path, work_folder: Path
) -> Iterator[VllmServer]:
    """A server of the model in `model_folder`, ready to answer; logs go to `work_folder`."""
    port, name = free_port(), model_folder.name
    command: list[str | Path] = [
        *(environment_python(environment), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", model_folder, "--served-model-name", name),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--max-model-len", str(MAX_MODEL_TOKENS), "--dtype", "float32", "--enforce-eager"),
        # With seeds, prompts in pieces need a generator that can go back; those of a CPU cannot,
        # and the engine dies of it.
        "--no-enable-chunked-prefill",
        *("--distributed-executor-backend", "uni"),
        *("--structured-outputs-config", json.dumps(STRICT_JSON)),
    ]
    with running(
        command,
        f"http://127.0.0.1:{port}/health",
        work_folder / "vllm.log",
        vllm_variables(environment),
    ):
        yield VllmServer(f"http://127.0.0.1:{port}/v1", name)


def vllm_variables(environment: Path) -> dict[str, str]:
    """Environment variables that keep vLLM offline, small and quiet."""
    return {
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        # Unset: with its modules compiled, vLLM imports in half the time from the second start on.
        "PYTHONDONTWRITEBYTECODE": "",
        "TRANSFORMERS_OFFLINE": "1",
        # Kept: what classes of models can do is found out by a process that imports vLLM.
        "VLLM_CACHE_ROOT": str(environment / "cache"),
        "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
        # Each process imports vLLM anew: the model runs in that of the engine.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }
