"""Builds that wait for people, and when they are ready."""

from pathlib import Path

import pytest

from loupe.annotate.queues import shipped
from loupe.db.decisions import append_decisions
from loupe.db.entities import NewDecision
from loupe.flows.continuing import Continuation, ready_to_continue
from loupe.flows.engine.waiting import forget_waiting, note_waiting, waiting_builds
from loupe.models.profiles.settings import load_settings
from tests.annotate.world import DATASET, World

QUEUE = shipped().queue(DATASET, "rewrites")


def test_a_build_is_ready_when_its_last_item_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher says so once, and again after new answers."""
    monkeypatch.setattr("sys.argv", ["/opt/bin/loupe", "run", "build-ufine3c", "--config", "a b"])
    monkeypatch.chdir(tmp_path)
    world, own, builds = World(tmp_path), load_settings(home=tmp_path), Continuation()
    item = world.add()
    note_waiting(tmp_path, DATASET, in_prefect=False)
    assert ready_to_continue(own, world.store, [QUEUE]) == []
    assert list(builds.resume(own, world.store, [QUEUE])) == []
    with world.store.write() as connection:
        append_decisions(connection, [NewDecision(item, "accept", QUEUE.agent, "")])
    (ready,) = ready_to_continue(own, world.store, [QUEUE])
    assert f"loupe run build-ufine3c --config 'a b' (in {tmp_path})" in ready
    assert len(list(builds.resume(own, world.store, [QUEUE]))) == 1
    assert list(builds.resume(own, world.store, [QUEUE])) == []
    builds.note_answers(DATASET)
    assert len(list(builds.resume(own, world.store, [QUEUE]))) == 1
    forget_waiting(tmp_path, DATASET)
    assert not waiting_builds(tmp_path)
    assert not ready_to_continue(own, world.store, [QUEUE])
