import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import psutil
import pytest
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.responses import DeploymentResponse
from prefect.states import Crashed, Pending, Running

from loupe.flows.prefect_worker import JOB_TEMPLATE, LOST, is_to_run_again, reason_to_refuse
from loupe.models.profiles.settings import Settings, load_settings
from loupe.schemas.errors import ServiceError
from loupe.services.credentials import load_credentials
from loupe.services.prefect_server import (
    SERVER,
    WORK_POOL,
    WORKER,
    paused_runs,
    prefect_environment,
    prefect_login,
    prefect_profiles,
    register_deployments,
    restate_pause,
    resume_run,
    start_prefect_server,
    start_prefect_worker,
    worker_variables,
)
from loupe.services.process import LOOPBACK, PLAIN_HTTP, free_port, recorded, running, stop
from tests.services.foreign_page import attack

LOST_AFTER_SECONDS = 45.0
"""Longer than the heartbeat interval (30 s) and than the start of a run on a busy machine."""
STUB_FLOW = """
import os
import time
from pathlib import Path
from prefect import flow

@flow(name="stub")
def stub(word: str = "nothing") -> str:
    Path("ran.txt").write_text(f"{word} {os.environ['LOUPE_HOME']}")
    Path("environment.txt").write_text("\\n".join(os.environ))
    return word

@flow(name="endless")
def endless(marker: str) -> None:
    with Path(marker).open("a") as file:
        file.write(f"{os.getpid()}\\n")
    if len(Path(marker).read_text().split()) < 2:
        time.sleep(3600)
"""
STUB_DEPLOYMENTS = """
name: stub
deployments:
  - name: default
    entrypoint: loupe_stub_flow:stub
    work_pool: {name: loupe}
  - name: default
    entrypoint: loupe_stub_flow:endless
    work_pool: {name: loupe}
"""


class Prefect(NamedTuple):
    """A server and a worker as `loupe up` starts them, with the deployments of this module."""

    settings: Settings
    url: str
    workplace: Path
    deployments: Path

    @property
    def home(self) -> Path:
        return self.settings.home

    def start(self) -> None:
        start_prefect_worker(
            self.settings, self.url, self.workplace, self.deployments, LOST_AFTER_SECONDS
        )

    def ask(self, what: str, body: dict[str, Any], method: str = "POST") -> httpx.Response:
        address, login = f"{self.url}/api/{what}", prefect_login(self.home)
        with httpx.Client(auth=login, timeout=60, trust_env=False, verify=PLAIN_HTTP) as client:
            for _ in range(20):
                answer = client.request(method, address, json=body)
                if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:  # SQLite was busy
                    break
                time.sleep(1)
            return answer

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("flow_runs/filter", {}).json()
        return found

    def deployment(self, flow: str) -> str:
        """Return the id of the flow's deployment."""
        found = self.ask("deployments/filter", {"flows": {"name": {"any_": [flow]}}}).json()
        return str(found[0]["id"])

    def state(self, run: str) -> dict[str, Any]:
        state: dict[str, Any] = self.ask(f"flow_runs/{run}", {}, "GET").json()["state"]
        return state

    def names_of_states(self, run: str) -> list[str]:
        states = self.ask(f"flow_run_states/?flow_run_id={run}", {}, "GET").json()
        return [state["name"] for state in states]

    def start_endless(self, marker: str) -> tuple[str, int]:
        """Start a run that does not end, and return its id and process id."""
        create = f"deployments/{self.deployment('endless')}/create_flow_run"
        run = str(self.ask(create, {"parameters": {"marker": marker}}).json()["id"])
        path = self.workplace / marker
        wait_until(lambda: path.exists() and bool(path.read_text().strip()))
        return run, int(path.read_text())

    def ended(self, run: str) -> dict[str, Any]:
        """Wait for the end of a run and return its final state."""
        final = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
        wait_until(lambda: self.state(run)["type"] in final)
        return self.state(run)

    def command(self, *words: str, **variables: str) -> str:
        """Return the output of `prefect` with these variables and no other Prefect variables."""
        inherited = prefect_environment(self.home, self.url)
        plain = {name: value for name, value in inherited.items() if "PREFECT" not in name}
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *words],
            env={**plain, **variables},
            cwd=self.home.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    folder = tmp_path_factory.mktemp("prefect")
    (folder / "loupe_stub_flow.py").write_text(STUB_FLOW)
    (folder / "stub.yaml").write_text(STUB_DEPLOYMENTS)
    plant(folder / "workplace", folder / "planted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv("SOMEBODYS_SECRET", "not for runs")
        # A server from the user's environment must not be used.
        patch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
        settings = load_settings(home=folder / "home")
        try:
            server = start_prefect_server(settings.home, free_port())
            started = Prefect(settings, str(server.url), folder / "workplace", folder / "stub.yaml")
            open_pool = {"name": WORK_POOL, "type": "process"}
            started.ask("work_pools/", open_pool)  # before the server restricts it
            started.start()
            for _ in range(2):  # registering again changes nothing
                register_deployments(settings.home, started.url, started.deployments)
            yield started
        finally:
            stop(settings.home, WORKER)
            stop(settings.home, SERVER)


@pytest.mark.prefect
def test_a_registered_deployment_runs_to_completion(prefect: Prefect) -> None:
    service = running(prefect.home, SERVER)
    assert service is not None
    assert service.url == prefect.url
    assert_listens_on_loopback_only(prefect.home)
    profiles = {"PREFECT_PROFILES_PATH": str(prefect_profiles(prefect.home))}
    output = prefect.command(
        *("deployment", "run", "stub/default", "--watch", "--param", "word=hello"), **profiles
    )
    assert "Completed" in output
    assert (prefect.workplace / "ran.txt").read_text() == f"hello {prefect.home}"
    variables = (prefect.workplace / "environment.txt").read_text().split()
    assert "SOMEBODYS_SECRET" not in variables
    assert not (prefect.home.parent / "planted").exists()  # no file of the working folder ran
    assert (prefect.home / "prefect" / "runner_storage").is_dir()  # not shared in /tmp


@pytest.mark.prefect
def test_prefect_toml_connects_users_to_the_server_with_its_password(
    prefect: Prefect, tmp_path: Path
) -> None:
    toml = Path(__file__).parents[2] / "prefect.toml"
    copied = prefect.home.parent / "prefect.toml"
    copied.write_text(toml.read_text().replace(".loupe/", f"{prefect.home.name}/"))
    assert "stub/default" in prefect.command("deployment", "ls", HOME=str(tmp_path))
    secret = load_credentials(prefect.home).prefect_password.get_secret_value()
    assert prefect_profiles(prefect.home).stat().st_mode & 0o777 == 0o600
    for name in (SERVER, WORKER):
        service = recorded(prefect.home, name)
        assert service is not None
        assert secret not in " ".join(psutil.Process(service.pid).cmdline())
        assert secret not in service.log.read_text()


@pytest.mark.prefect
@pytest.mark.browser
def test_a_page_of_another_origin_gains_nothing_from_the_server(
    prefect: Prefect, browser: Any, tmp_path: Path
) -> None:
    deployment = prefect.deployment("stub")
    runs, marker = len(prefect.runs()), tmp_path / "hacked"
    assert attack(browser, prefect.url, deployment, f"touch {marker}") == []
    assert len(prefect.runs()) == runs
    assert not marker.exists()


@pytest.mark.prefect
@pytest.mark.browser
def test_the_user_interface_asks_for_the_password(prefect: Prefect, browser: Any) -> None:
    page = browser.new_page()
    page.goto(f"{prefect.url}/")
    page.wait_for_url("**/login*")

    def answer_to(password: str) -> int:
        page.get_by_role("textbox").or_(page.locator("input")).first.fill(f"loupe:{password}")
        with page.expect_response(lambda one: "authorization" in one.request.headers) as answer:
            page.keyboard.press("Enter")
        return int(answer.value.status)

    assert answer_to("another") == 401
    assert "/login" in page.url
    secret = load_credentials(prefect.home).prefect_password.get_secret_value()
    assert answer_to(secret) == 200
    page.wait_for_url("**/dashboard*")
    page.close()


@pytest.mark.prefect
def test_cross_origin_requests_are_refused(prefect: Prefect) -> None:
    login, port = prefect_login(prefect.home), prefect.url.rpartition(":")[2]
    runs = f"{prefect.url}/api/flow_runs/filter"
    own = {"Origin": prefect.url, "Content-Type": "application/json"}
    with httpx.Client(auth=login, timeout=60, trust_env=False, verify=PLAIN_HTTP) as client:
        assert client.post(runs, content="{}", headers=own).status_code == 200
        assert client.post(runs, content="{}", headers={"Origin": prefect.url}).status_code == 415
        for changed in (
            {"Origin": "https://example.org"},
            {"Origin": "null"},
            {"Origin": f"http://{LOOPBACK}:1"},
            {"Host": f"example.org:{port}"},
            {"Host": LOOPBACK},
        ):
            assert client.post(runs, content="{}", headers=own | changed).status_code == 403, (
                changed
            )
        other_name = {"Origin": f"http://localhost:{port}", "Sec-Fetch-Site": "cross-site"}
        assert client.post(runs, content="{}", headers=own | other_name).status_code == 200
        assert client.post(runs, content="{}", headers=own, auth=("x", "y")).status_code == 401
        for destination, status in (("iframe", 403), ("script", 403), ("document", 200)):
            headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": destination}
            assert client.get(f"{prefect.url}/docs", headers=headers).status_code == status
    assert socket_status(prefect.url, {"Origin": prefect.url}) == 101
    for changed in ({"Origin": "https://example.org"}, {"Host": f"example.org:{port}"}):
        assert socket_status(prefect.url, changed) == 403, changed


@pytest.mark.prefect
def test_job_variables_cannot_choose_what_the_worker_runs(prefect: Prefect, tmp_path: Path) -> None:
    deployment = prefect.deployment("stub")
    create, command = f"deployments/{deployment}/create_flow_run", f"touch {tmp_path}/hacked"
    for variables in ({"command": command}, {"env": {"A": "b"}}, {"working_dir": str(tmp_path)}):
        answer = prefect.ask(create, {"job_variables": variables})
        assert 400 <= answer.status_code < 500, answer.text
    # The worker refuses what the server accepts for an unrestricted pool.
    opened = {
        "job_configuration": {"command": "{{ command }}"},
        "variables": {"type": "object", "properties": {"command": {"type": "string"}}},
    }
    pool = f"work_pools/{WORK_POOL}"
    assert prefect.ask(pool, {"base_job_template": opened}, "PATCH").is_success
    run = prefect.ask(create, {"job_variables": {"command": command}}).json()["id"]
    state = prefect.ended(run)
    assert "job variables are not accepted; got command" in state["message"]
    assert not (tmp_path / "hacked").exists()
    stop(prefect.home, WORKER)
    prefect.start()
    assert prefect.ask(pool, {}, "GET").json()["base_job_template"] == JOB_TEMPLATE


def test_the_worker_refuses_deployments_not_registered_by_loupe_up() -> None:
    script = {"prefect.deployments.steps.run_shell_script": {"script": "sh"}}
    own, step = Path("/opt/ann/.loupe/prefect"), "prefect.deployments.steps.set_working_directory"
    elsewhere = [{step: {"directory": "/srv"}}]
    installing = [{step: {"directory": str(own), "requires": "somebodys-package"}}]
    twice = 2 * [{step: {"directory": str(own)}}]
    cases: list[tuple[dict[str, Any], dict[str, Any] | None, str | None]] = [
        ({}, {}, None),
        ({}, None, "only runs of deployments"),
        ({}, {"entrypoint": "os:system"}, "the entrypoint 'os:system' is not one of ours"),
        ({"job_variables": {"env": {}}}, {}, "got env"),
        ({}, {"job_variables": {"command": "sh"}}, "got command"),
        *(
            ({}, {"pull_steps": steps}, "its only pull step must be")
            for steps in ([script], elsewhere, installing, twice, [], None)
        ),
        ({}, {"path": "."}, None),
        ({}, {"path": str(own)}, None),
        ({}, {"path": "/srv"}, "its path must be the one of /opt/ann"),
        ({}, {"storage_document_id": uuid4()}, "its path must be the one of /opt/ann"),
    ]
    ours = {
        "name": "default",
        "flow_id": uuid4(),
        "entrypoint": "ours:flow",
        "pull_steps": [{step: {"directory": str(own)}}],
    }
    for run, deployment, problem in cases:
        known = DeploymentResponse(**(ours | deployment)) if deployment is not None else None
        asked = FlowRun(flow_id=uuid4(), **run)
        found = reason_to_refuse(asked, known, frozenset({"ours:flow"}), own)
        assert (problem in found) if problem and found else (found == problem), problem


def test_a_crashed_run_is_started_again_at_most_twice() -> None:
    cases: list[tuple[int, list[State[Any]], bool]] = [
        (1, [Running(), Crashed()], True),
        (2, [Running(), Crashed(), Running(), Crashed(name=LOST)], True),
        (3, 3 * [Running(), Crashed()], False),
        (0, [Pending(), Crashed(name=LOST)], True),
        (0, 3 * [Pending(), Crashed(name=LOST)], False),
        (0, [Pending(), Crashed()], False),  # refused by the worker
    ]
    for run_count, states, expected in cases:
        run = FlowRun(flow_id=uuid4(), run_count=run_count, state=states[-1])
        run.state_name = states[-1].name
        assert is_to_run_again(run, states) is expected, (run_count, states)


@pytest.mark.prefect
@pytest.mark.slow
def test_a_run_is_completed_after_its_worker_and_process_were_killed(
    prefect: Prefect,
) -> None:
    run, process = prefect.start_endless("killed.txt")
    worker = recorded(prefect.home, WORKER)
    assert worker is not None
    psutil.Process(worker.pid).kill()
    psutil.Process(process).kill()
    wait_until(lambda: running(prefect.home, WORKER) is None)
    prefect.start()
    assert prefect.state(run)["type"] == "RUNNING"
    wait_until(lambda: prefect.state(run)["type"] == "COMPLETED")
    assert prefect.names_of_states(run).count(LOST) == 1
    assert prefect.names_of_states(run).count("AwaitingRetry") == 1


@pytest.mark.prefect
@pytest.mark.soak
def test_a_cancelled_run_ends_and_is_not_started_again(prefect: Prefect) -> None:
    run, process = prefect.start_endless("cancelled.txt")
    cancelling = {"type": "CANCELLING", "name": "Cancelling"}  # as `prefect flow-run cancel` asks
    assert prefect.ask(f"flow_runs/{run}/set_state", {"state": cancelling}).is_success
    assert prefect.ended(run)["type"] == "CANCELLED"
    wait_until(lambda: not psutil.pid_exists(process))


def test_runs_receive_only_the_environment_variables_named_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "named by the profile")
    monkeypatch.setenv("MY_KEY", "named by the user")
    monkeypatch.setenv("SOMEBODYS_SECRET", "named by nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "needed for S3 only")
    settings = load_settings(home=tmp_path, profile="paper", worker_variables="MY_KEY")
    names = set(worker_variables(settings))
    assert {"OPENAI_API_KEY", "MY_KEY"} <= names
    assert not {"SOMEBODYS_SECRET", "AWS_SECRET_ACCESS_KEY"} & names
    assert not {"OPENAI_API_KEY", "MY_KEY"} & set(prefect_environment(tmp_path, "http://x"))


def test_a_file_that_cannot_be_registered_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("deployments: nonsense")
    with pytest.raises(ServiceError, match=r"the deployments of .*empty\.yaml could not be"):
        register_deployments(tmp_path, "http://127.0.0.1:9", tmp_path / "empty.yaml")


def test_the_prefect_environment_contains_only_the_settings_of_our_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_PROFILE", "somebody")
    monkeypatch.setenv("PREFECT_API_KEY", "secret")
    environment = prefect_environment(tmp_path, "http://127.0.0.1:1")
    secret = load_credentials(tmp_path).prefect_password.get_secret_value()
    assert {name: value for name, value in environment.items() if name.startswith("PREFECT")} == {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_URL": "http://127.0.0.1:1/api",
        "PREFECT_API_AUTH_STRING": f"loupe:{secret}",
    }


def plant(folder: Path, marker: Path) -> None:
    """Fill a working folder with files that Python or Prefect would run there."""
    folder.mkdir()
    for name in ("loupe_stub_flow", "json", "flows", "sitecustomize", "numpy"):
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write('{name} ')")
    logging = {"version": 1, "filters": {"x": {"()": "os.mkdir", "path": str(marker)}}}
    (folder / "logging.yml").write_text(json.dumps(logging))
    (folder / "prefect.toml").write_text('[logging]\nconfig_path = "logging.yml"\n')
    (folder / ".env").write_text("PREFECT_LOGGING_CONFIG_PATH=logging.yml\n")


def wait_until(condition: Callable[[], bool], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def socket_status(url: str, headers: dict[str, str]) -> int:
    """Return the status of the response to a WebSocket handshake for events."""
    handshake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "prefect",
    }
    address = f"{url}/api/events/out"
    with httpx.stream("GET", address, headers=handshake | headers, trust_env=False) as answer:
        return answer.status_code


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


def test_the_state_of_a_paused_run_is_restated_and_the_run_can_still_be_resumed(
    prefect: Prefect,
) -> None:
    """What is kept with the state, such as how it goes on, stays."""
    details = {"pause_reschedule": True, "pause_timeout": "2099-01-01T00:00:00Z"}
    paused = {"type": "PAUSED", "name": "Paused", "message": "9 items", "state_details": details}
    create = f"deployments/{prefect.deployment('stub')}/create_flow_run"
    run = str(prefect.ask(create, {"state": paused}).json()["id"])
    (found,) = [one for one in paused_runs(prefect.home, prefect.url) if one.id == run]
    restate_pause(prefect.home, prefect.url, found, "1 item")
    now = prefect.state(run)
    assert (now["type"], now["message"]) == ("PAUSED", "1 item")
    kept = now["state_details"]
    assert kept["pause_reschedule"]
    assert kept["pause_timeout"].startswith("2099")
    resume_run(prefect.home, prefect.url, found, "everything is decided")
    assert prefect.state(run)["type"] != "PAUSED"


def test_a_request_is_sent_again_while_the_servers_database_is_locked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Prefect then answers 503, and has changed nothing."""
    answers = [httpx.Response(503), httpx.Response(200, json=[])]

    def post(address: str, **_: object) -> httpx.Response:
        answer = answers.pop(0)
        answer.request = httpx.Request("POST", address)
        return answer

    monkeypatch.setattr(httpx, "post", post)
    assert paused_runs(tmp_path, "http://127.0.0.1:9") == []
    assert answers == []
