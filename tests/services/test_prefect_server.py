import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from profiles.settings import load_settings
from schemas.errors import ServiceError
from services.prefect_server import (
    SERVER,
    WORKER,
    prefect_api_url,
    prefect_environment,
    register_deployments,
    start_prefect_server,
    start_prefect_worker,
)
from services.process import LOOPBACK, RunningService, free_port, recorded, stop

STUB_FLOW = """
import os
from pathlib import Path
from prefect import flow

@flow(name="stub")
def stub(word: str = "nothing") -> str:
    Path("ran.txt").write_text(f"{word} {os.environ['LOUPE_HOME']}")
    return word
"""
STUB_DEPLOYMENT = """
name: stub
deployments:
  - name: default
    entrypoint: loupe_stub_flow:stub
    work_pool: {name: loupe}
"""


@pytest.mark.prefect
def test_a_registered_deployment_runs_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loupe_stub_flow.py").write_text(STUB_FLOW)
    (tmp_path / "stub.yaml").write_text(STUB_DEPLOYMENT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    # A server that somebody else named must not be asked.
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    settings = load_settings(home=tmp_path / "home")
    home, workplace = settings.home, tmp_path / "workplace"
    workplace.mkdir()
    try:
        server = start_prefect_server(home, free_port())
        url = str(server.url)
        assert prefect_api_url(home) == f"{url}/api"
        start_prefect_worker(settings, url, workplace)
        for _ in range(2):  # registering again changes nothing
            register_deployments(home, url, workplace, tmp_path / "stub.yaml")
        assert deployments(url) == ["default"]
        assert_listens_on_loopback_only(home)
        assert_cross_origin_requests_are_refused(server)
        output = run_deployment(home, url, "stub/default", "word=hello")
        assert "Completed" in output
        assert (workplace / "ran.txt").read_text() == f"hello {home}"
    finally:
        stop(home, WORKER)
        stop(home, SERVER)
    assert prefect_api_url(home) is None


def test_a_file_that_cannot_be_registered_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("deployments: nonsense")
    with pytest.raises(ServiceError, match=r"the deployments of .*empty\.yaml could not be"):
        register_deployments(tmp_path, "http://127.0.0.1:9", tmp_path, tmp_path / "empty.yaml")


def test_a_prefect_program_sees_our_server_and_no_other_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_PROFILE", "somebody")
    monkeypatch.setenv("PREFECT_API_KEY", "secret")
    environment = prefect_environment(tmp_path, "http://127.0.0.1:1")
    assert {name: value for name, value in environment.items() if name.startswith("PREFECT")} == {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_URL": "http://127.0.0.1:1/api",
    }


def run_deployment(home: Path, url: str, name: str, parameter: str) -> str:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "prefect", "deployment", "run", name),
            *("--watch", "--param", parameter),
        ],
        env=prefect_environment(home, url),
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def deployments(url: str) -> list[str]:
    answer = httpx.post(f"{url}/api/deployments/filter", json={}, timeout=60)
    return [deployment["name"] for deployment in answer.json()]


def assert_listens_on_loopback_only(home: Path) -> None:
    addresses = set()
    for name in (SERVER, WORKER):
        service = recorded(home, name)
        assert service is not None
        leader = psutil.Process(service.pid)
        for process in [leader, *leader.children(recursive=True)]:
            addresses |= {
                connection.laddr[0]
                for connection in process.net_connections(kind="inet")
                if connection.status == psutil.CONN_LISTEN
            }
    assert addresses == {LOOPBACK}


def assert_cross_origin_requests_are_refused(server: RunningService) -> None:
    preflight = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    answer = httpx.options(f"{server.url}/api/flow_runs/", headers=preflight, timeout=60)
    assert "access-control-allow-origin" not in answer.headers
