"""Builds that wait for people, and how they go on."""

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from loupe.annotate.queues import load_queues, queues_in_use, shipped
from loupe.db.decisions import append_decisions
from loupe.db.entities import NewDecision
from loupe.db.store import Store
from loupe.flows.continuing import Continuation, ready_to_continue
from loupe.flows.engine.waiting import forget_waiting, note_waiting, waiting_builds
from loupe.models.profiles.settings import load_settings
from loupe.services.installation import builds_started, take_down
from loupe.services.process import recorded, running
from tests.annotate.world import DATASET, World
from tests.flows.worlds import tiny_build

QUEUE = shipped().queue(DATASET, "rewrites")
HOSTED_KEY = "OPENAI_API_KEY"
PROGRAM = """#!{python}
import os, sys
shown = {{name: value for name, value in os.environ.items() if "LOUPE_" in name}}
print(os.getcwd(), sys.argv[1:], os.environ.get("HF_HOME"), shown)
"""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which this process is `loupe run build-ufine3c --config 'a b'`."""
    program, folder = tmp_path / "bin" / "loupe", tmp_path / "work"
    program.parent.mkdir()
    folder.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(program), "run", "build-ufine3c", "--config", "a b"])
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def decided(tmp_path: Path) -> World:
    """A world whose only item is decided."""
    world = World(tmp_path)
    decide(world, world.add())
    return world


def decide(world: World, item: str) -> None:
    with world.store.write() as connection:
        append_decisions(connection, [NewDecision(item, "accept", QUEUE.agent, "")])


def output_of_build(home: Path) -> str:
    (name,) = builds_started(home)
    deadline = time.monotonic() + 30
    while running(home, name) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    service = recorded(home, name)
    assert service is not None
    return service.log.read_text()


def test_a_build_goes_on_when_its_last_item_is_decided(
    tmp_path: Path, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, with its arguments, folder and variables, and again after new answers."""
    world, builds = World(tmp_path), Continuation()
    monkeypatch.setenv("HF_HOME", "/models")
    monkeypatch.setenv("LOUPE_ENGINE_WORKERS", "3")
    own, item = load_settings(home=tmp_path), world.add()
    note_waiting(own, DATASET, "builtin", in_prefect=False)
    monkeypatch.delenv("HF_HOME")
    monkeypatch.delenv("LOUPE_ENGINE_WORKERS")
    monkeypatch.chdir(tmp_path)
    assert ready_to_continue(own, world.store, [QUEUE]) == []
    assert list(builds.resume(own, world.store, [QUEUE])) == []
    decide(world, item)
    (ready,) = ready_to_continue(own, world.store, [QUEUE])
    assert f"loupe run build-ufine3c --config 'a b' (in {started})" in ready
    (said,) = builds.resume(own, world.store, [QUEUE])
    output = output_of_build(tmp_path)
    assert output.startswith(f"{started} ['run', 'build-ufine3c', '--config', 'a b'] /models")
    assert "'LOUPE_ENGINE_WORKERS': '3'" in output
    assert str(tmp_path / "services" / builds_started(tmp_path)[0]) in said
    assert list(builds.resume(own, world.store, [QUEUE])) == []
    builds.note_answers(DATASET)
    assert len(list(builds.resume(own, world.store, [QUEUE]))) == 1
    output_of_build(tmp_path)
    later = world.add("Another rewrite.")  # the next gate of the build
    assert list(builds.resume(own, world.store, [QUEUE])) == []
    decide(world, later)
    assert len(list(builds.resume(own, world.store, [QUEUE]))) == 1
    output_of_build(tmp_path)
    forget_waiting(tmp_path, DATASET)
    assert not waiting_builds(tmp_path).builds
    assert not ready_to_continue(own, world.store, [QUEUE])
    take_down(tmp_path)
    assert not builds_started(tmp_path)


def test_a_damaged_record_of_a_waiting_build_is_reported(
    tmp_path: Path, started: Path, decided: World
) -> None:
    own = load_settings(home=tmp_path)
    note_waiting(own, DATASET, "builtin", in_prefect=False)
    (path,) = (tmp_path / "waiting").iterdir()
    path.write_bytes(path.read_bytes()[:20])
    (said,) = ready_to_continue(own, decided.store, [QUEUE])
    assert f"{path} is damaged: run it again" in said


def test_keys_are_not_stored_and_a_build_without_them_is_not_started(
    tmp_path: Path, started: Path, decided: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOSTED_KEY, "sk-very-secret")
    monkeypatch.setenv("LOUPE_DATABASE_URL", "postgresql://loupe:very-secret@127.0.0.1/none")
    monkeypatch.setenv("LOUPE_SIGNING_KEY_FILE", "key.pem")
    own = load_settings(home=tmp_path)
    note_waiting(own, DATASET, "hosted", in_prefect=False)
    (path,) = (tmp_path / "waiting").iterdir()
    assert "very-secret" not in path.read_text()
    (build,) = waiting_builds(tmp_path).builds
    assert {HOSTED_KEY, "LOUPE_DATABASE_URL", "LOUPE_SIGNING_KEY_FILE"} <= {*build.keys}
    monkeypatch.delenv(HOSTED_KEY)
    (said,) = Continuation().resume(own, decided.store, [QUEUE])
    assert f"the queue watcher has no {HOSTED_KEY}: run loupe run" in said
    assert not builds_started(tmp_path)
    assert str(started) in said


@pytest.mark.slow
def test_a_real_build_ends_in_a_release_after_the_last_decision(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tiny_build(tmp_path, gate="required")
    program = Path(sys.executable).with_name("loupe")

    def loupe(*arguments: str | Path) -> str:
        variables = {**os.environ, "LOUPE_HOME": str(home), "LOUPE_PREFECT_PORT": "1"}
        done = subprocess.run(
            [program, *arguments], cwd=tmp_path, env=variables, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    loupe("run", "build-ufine3c", "--config", file.name)
    (build,) = waiting_builds(home).builds
    assert build.how == f"loupe run build-ufine3c --config build.toml (in {tmp_path})"
    ids = loupe("queue", "search", "tiny-rewrites", "--state", "proposed", "--ids").split()
    loupe("queue", "accept", "tiny-rewrites", *ids, "--reason", "all are right")
    own = load_settings(home=home)
    with closing(Store.open_existing(own.database_url, home)) as store:
        queues = queues_in_use(store, load_queues(own.queues_file))
        (said,) = Continuation().resume(own, store, queues)
    assert "tiny goes on" in said
    assert "tiny-0.1.0" in output_of_build(home)
    assert (home / "releases" / "tiny-0.1.0" / "manifest.json").is_file()
    assert not waiting_builds(home).builds
    status = loupe("status")
    assert status.count(builds_started(home)[0]) == 2
    assert "started again: succeeded with release " in status


@pytest.mark.parametrize("reason", ["setting", "notebook", "folder"])
def test_a_build_that_cannot_or_must_not_be_started_is_only_named(
    tmp_path: Path, started: Path, decided: World, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    own = load_settings(home=tmp_path, continue_builds=reason != "setting")
    if reason == "notebook":
        monkeypatch.setattr("sys.argv", ["/opt/ipykernel_launcher.py", "-f", "kernel.json"])
    note_waiting(own, DATASET, "builtin", in_prefect=False)
    monkeypatch.chdir(tmp_path)
    if reason == "folder":
        started.rmdir()
    (said,) = Continuation().resume(own, decided.store, [QUEUE])
    assert said.startswith(f"{DATASET} is ready to continue")
    assert str(started) in said
    assert not builds_started(tmp_path)
