"""Queues that the watcher of `loupe up` serves, and their policies."""

from functools import partial
from pathlib import Path

import pytest

from loupe.annotate.queues import (
    SHARED,
    Policy,
    Queue,
    apply_policy,
    reopen_for_people,
    shipped,
)
from loupe.db.gold import reopen_items
from loupe.db.store import Store
from loupe.flows.cli.queue import _pull_and_push
from loupe.flows.continuing import Continuation
from loupe.flows.engine import pipeline
from loupe.flows.engine.pipeline import review
from loupe.flows.notifying import Messages
from loupe.flows.watched import watched as watched_queues
from loupe.models.profiles.settings import load_settings
from tests.annotate.memory_desk import MemoryOffice
from tests.annotate.office import push
from tests.annotate.world import DATASET, REWRITE, World
from tests.flows.runs import context_of


def open_queue(world: World, policy: Policy | None) -> Queue:
    """Open a queue as a build with this gate does."""
    queue = shipped().queue(DATASET, "rewrites", policy)
    apply_policy(world.store, queue)
    push(world.store, MemoryOffice(), queue)
    return queue


def watched(world: World, home: Path) -> list[str]:
    settings = load_settings(home=home)
    return [str(queue.policy) for queue in watched_queues(settings, world.store)]


def test_a_queue_is_served_under_the_policy_of_its_build(tmp_path: Path) -> None:
    for number, (policy, expected) in enumerate(
        [
            (None, "required"),
            (Policy(policy="sample", rate=0.2, seed=3), "sample:0.2:3"),
            (Policy(policy="auto"), None),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = World(folder)
        for item in range(12):
            world.add(f"{REWRITE} {item}", suspect=item == 0)
        open_queue(world, policy)
        assert watched(world, folder) == ([expected] if expected else []), expected


def test_items_of_another_run_are_decided_as_well_if_nobody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    queue = shipped().queue(DATASET, "rewrites", Policy(policy="auto"))
    late = [f"{REWRITE} of another run", f"{REWRITE} of a third run"]
    world.add(REWRITE, suspect=False)

    def decide_and_propose(store: Store, queue: Queue) -> int:
        decided = apply_policy(store, queue)
        if late:
            world.add(late.pop(), suspect=False)
        return decided

    monkeypatch.setattr(pipeline, "apply_policy", decide_and_propose)
    context = context_of(world.store, tmp_path)
    assert review(context, queue, MemoryOffice, wait=False) == (0, {})
    assert not late


def test_a_build_asks_people_about_reopened_items_whatever_its_policy(tmp_path: Path) -> None:
    for policy in (Policy(policy="sample", rate=0), Policy(policy="auto")):
        folder = tmp_path / policy.policy
        folder.mkdir()
        world = World(folder)
        context, item = context_of(world.store, folder), world.add(suspect=False)
        queue = shipped().queue(DATASET, "rewrites", policy)
        reviewed = partial(review, context, queue, MemoryOffice, wait=False)
        assert reviewed() == (0, {}), policy
        assert reopen_items(world.store, queue.name, [item], queue.lead, "").reopened == 1, policy
        waiting, projects = reviewed()
        assert (waiting, list(projects)) == (1, [SHARED]), policy


def test_a_queue_whose_sample_was_reopened_for_people_is_served_as_required(tmp_path: Path) -> None:
    world = World(tmp_path)
    for item in range(12):
        world.add(f"{REWRITE} {item}", suspect=False)
    open_queue(world, Policy(policy="sample", rate=0.2, seed=3))
    assert reopen_for_people(world.store, shipped().queue(DATASET, "rewrites"))
    assert watched(world, tmp_path) == ["required"]


def test_a_problem_is_printed_once_and_does_not_end_the_watcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path))
    problems: dict[str, str] = {}
    for queues, printed in (
        (None, "nothing is stored here yet"),
        ("[steps", "is not valid TOML"),
        ("[steps", ""),
        ("", ""),
    ):
        if queues is not None:
            World(tmp_path)
            (tmp_path / "queues.toml").write_text(queues)
        _pull_and_push(None, problems, Continuation(), Messages(), [])
        found = capsys.readouterr().err
        assert printed in found, queues
        assert bool(printed) == bool(found), queues
