"""Automatic gates that become reviewed: decisions of the policy are reopened."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loupe.db.decisions import last_agents, last_reasons
from loupe.db.entities import StoredEntity, fetch, find, parents_of
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.schemas.build import RecosBuild
from loupe.schemas.proposals import Confusion
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption
from tests.annotate.answering import Regions, about, rejecting
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.recos_reviewers import (
    DoubtedTasks,
    accept_caption,
    answer,
    proposed,
    sizes,
)
from tests.flows.recos_reviewers import build_once as reviewed_once
from tests.flows.recos_world import DATASET, doubting_profile
from tests.flows.runs import copied_run

pytestmark = pytest.mark.xdist_group("recos_people")  # the shared build is made once


@pytest.fixture
def office() -> MemoryOffice:
    return MemoryOffice()


@pytest.fixture
def build(doubted_tasks: DoubtedTasks) -> RecosBuild:
    return doubted_tasks.build.model_copy(update={"last": "v1"})


@pytest.fixture
def done(doubted_tasks: DoubtedTasks, tmp_path: Path) -> Iterator[RunContext]:
    """A copy of a build whose v0 and v1 were released without review, that tests may change."""
    with copied_run(doubted_tasks.run, tmp_path / "home") as run:
        yield run


def build_once(run: RunContext, build: RecosBuild, office: MemoryOffice) -> BuildReport:
    return reviewed_once(run, build, office, doubting_profile())


def decided_by_policy(run: RunContext, kind: str) -> list[StoredEntity]:
    """Return the entities that the policy of the queue decided without review."""
    found = list(find(run.store, DATASET, kind, states=("accepted", "rejected")))
    reasons = last_reasons(run.store, [one.id for one in found])
    return [one for one in found if reasons[one.id].startswith("nobody looked")]


def test_a_required_captions_gate_reopens_decisions_of_the_policy(
    done: RunContext, build: RecosBuild, office: MemoryOffice
) -> None:
    """Rejected captions are reopened, too; rejecting one deactivates its confusing captions."""
    decided = decided_by_policy(done, Caption.kind)
    assert {one.state for one in decided} == {"accepted", "rejected"}
    later = build.model_copy(update={"captions_gate": "required", "revision": "1.1"})
    report = build_once(done, later, office)
    asked = proposed(done, Caption.kind)
    assert {one.id for one in asked} == {one.id for one in decided}
    assert report.waiting == len(asked)
    assert report.release is None
    again = sizes(done)
    assert build_once(done, later, office).waiting == len(asked)
    assert sizes(done) == again

    confused = parents_of(
        done.store, [one.id for one in confusing(done, "accepted")], Role.CONFUSES
    )
    first = next(iter(confused.values()))[0]
    rescued = [one.id for one in decided if one.state == "rejected"]

    def opinion(shown: StoredEntity) -> Regions:
        if shown.id == first:
            return about("caption", rejecting(shown.record(Caption).text))
        return accept_caption(shown)

    answer(done, office, opinion)
    assert build_once(done, later, office).waiting == 0
    now = fetch(done.store, [*rescued, first, *confused])
    assert {now[one].state for one in rescued} == {"accepted"}
    assert now[first].state == "rejected"
    assert {now[one].state for one, found in confused.items() if found[0] == first} == {"inactive"}
    written = parents_of(done.store, [one.id for one in confusing(done)], Role.CONFUSES).values()
    assert set(rescued) & {found[0] for found in written}, (
        "rescued captions get confusing captions, too"
    )
    agents = last_agents(done.store, [one.id for one in decided])
    assert {agent.kind for agent in agents.values()} == {"person"}


def confusing(run: RunContext, *states: str) -> list[StoredEntity]:
    captions = list(find(run.store, DATASET, Caption.kind, states=states or None))
    confused = parents_of(run.store, [one.id for one in captions], Role.CONFUSES)
    return [one for one in captions if one.id in confused]


def test_a_larger_sample_reopens_only_the_additional_items(
    done: RunContext, build: RecosBuild, office: MemoryOffice
) -> None:
    asked: list[set[str]] = []
    for gate in ("sample:0.2", "sample:0.6"):
        build_once(done, build.model_copy(update={"confusions_gate": gate}), office)
        asked.append({one.id for one in proposed(done, Confusion.kind)})
    assert asked[0] < asked[1]
    assert decided_by_policy(done, Confusion.kind), "the rest keeps its decision"
