"""Ray: clusters that are accepted, and ports that a local Ray listens on."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from loupe.flows.engine.engines import open_engine
from loupe.flows.engine.ray import _session_folder
from loupe.models.profiles.settings import load_settings
from loupe.schemas.errors import ConfigurationError
from tests.flows.ray_cluster import NAMESPACE, PRIVATE_NETWORK
from tests.flows.test_programs import UpperCase
from tests.separation import require

ROOT = Path(__file__).parents[2]

LOCAL = """
import os, signal, sys
from pathlib import Path
from loupe.flows.engine.context import open_context
from loupe.flows.engine.engines import open_engine
from loupe.models.profiles.settings import load_settings
from tests.flows.test_programs import UpperCase

before = signal.getsignal(signal.SIGTERM)
os.chdir(sys.argv[2])
settings = load_settings(home=Path(sys.argv[1]), engine="ray", engine_workers=1)
store = open_context(settings).store
with open_engine(settings, UpperCase(), 1, store) as engine:
    assert engine.threads == 2
    assert engine.work(()) == []
    assert signal.getsignal(signal.SIGTERM) is before
    import ray
    assert sys.argv[2] not in ray.get(ray.remote(lambda: sys.path).remote())
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    assert session.parent.parent.parent == settings.home, session
    assert session.parent.parent.stat().st_mode & 0o777 == 0o700
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                print(fields[1].partition(":")[0])
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def refusal(home: Path, address: str) -> str:
    settings = load_settings(home=home, engine="ray", ray_address=address)
    opened = open_engine(settings, UpperCase(), 1, None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError) as refused, opened:
        pass
    return str(refused.value)


def test_a_cluster_must_require_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    for address in ("10.0.0.1:6379", "127.0.0.1:6379"):
        assert f"the Ray cluster at {address} must require a token" in refusal(tmp_path, address)
    assert "must be HOST:PORT" in refusal(tmp_path, "ray://10.0.0.1:10001")


def test_sockets_of_ray_fit_into_paths_of_any_home(tmp_path: Path) -> None:
    long = tmp_path / ("long" * 20)
    long.mkdir()
    folder = _session_folder(long)
    assert folder.parent == Path("/tmp")  # noqa: S108
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()


@pytest.mark.slow
def test_a_ray_started_by_a_run_listens_only_on_loopback(tmp_path: Path) -> None:
    """The machine has another address, which Ray would choose by default."""
    require("unshare", "ip")
    command = [*NAMESPACE, "sh", "-c", PRIVATE_NETWORK, "sh", sys.executable, "-c", LOCAL]
    environment = os.environ | {"HOME": str(tmp_path)}
    foreign, short = tmp_path / "foreign", Path(tempfile.mkdtemp())
    foreign.mkdir()
    done = subprocess.run(
        [*command, short / "home", foreign],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not list((short / "home").glob("ray-*"))
    shutil.rmtree(short)
    listening = done.stdout.split()
    assert len(listening) >= 5
    assert set(listening) <= LOOPBACK
    assert not (tmp_path / ".ray").exists()  # where Ray leaves a token that others may read
