"""Decided items continue while others wait; the release does not depend on the order."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loupe.db.entities import StoredEntity, fetch
from loupe.db.reviews import tasks_by_key
from loupe.db.store import Store
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.release.verify import verify_release
from loupe.schemas.build import CcdBuild
from loupe.schemas.contrast import ContrastGroup, ImageRequest
from loupe.schemas.proposals import Candidate, CaptionGroup, Strategy
from tests.annotate.memory_desk import MemoryDesk, MemoryOffice
from tests.annotate.office import hire
from tests.flows.ccd_reviewers import GATES, Opinion, build_once, right, wrong
from tests.flows.ccd_world import contrast_build, entities, searched_folder
from tests.flows.drawn_stills import DrawnStills
from tests.flows.runs import context_of, new_run


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


@pytest.fixture
def build(stills: StillsWorld) -> CcdBuild:
    return contrast_build(stills, anchors=2, **GATES)


class Reviewer:
    """One person who answers everything."""

    def __init__(self, run: RunContext) -> None:
        own = "[steps.strategies]\noverlap = 1\n"
        run.settings.home.mkdir(exist_ok=True)
        run.settings.queues_file.write_text(own, encoding="utf-8")
        self.run = run
        self.office = MemoryOffice()
        self.desk: MemoryDesk = self.office(hire(run.store, self.office, "ann"))

    def build_once(self, build: CcdBuild) -> BuildReport:
        return build_once(self.run, build, self.office)

    def answer(
        self, opinion: Opinion, wanted: Callable[[StoredEntity], bool]
    ) -> list[StoredEntity]:
        """Answer the open tasks whose entity is `wanted`; return these entities."""
        open_tasks = self.desk.open_tasks()
        known = tasks_by_key(self.run.store, [task.key for task in open_tasks])
        shown = fetch(self.run.store, [task.entity_id for task in known.values()])
        asked = [(task.id, shown[known[task.key].entity_id]) for task in open_tasks]
        chosen = [(number, one) for number, one in asked if wanted(one)]
        for number, one in chosen:
            self.desk.submit(number, opinion(one))
        return [one for _, one in chosen]

    def deepest(self) -> StoredEntity:
        """Return the newest waiting entity: a group, else a candidate, else a strategy."""
        kinds = (Strategy.kind, Candidate.kind, CaptionGroup.kind)
        return [one for kind in kinds for one in entities(self.run, kind, "proposed")][-1]


def mixed_opinion(shown: StoredEntity) -> list[dict[str, object]]:
    """Reject about a third of the strategies and half of the candidates."""
    refused = {Strategy.kind: 3, Candidate.kind: 2}.get(shown.kind)
    text = shown.record(Strategy).detail if shown.kind == Strategy.kind else shown.id[:4]
    return wrong(shown) if refused and sum(text.encode()) % refused == 0 else right(shown)


def test_an_undecided_strategy_holds_back_only_its_anchor(
    sqlite_store: Store, tmp_path: Path, build: CcdBuild
) -> None:
    ann = Reviewer(context_of(sqlite_store, tmp_path / "home"))
    first = ann.build_once(build)
    strategies = entities(ann.run, Strategy.kind, "proposed")
    assert first.waiting_in == {"strategies": len(strategies)}
    left = strategies[0]
    ann.answer(right, lambda one: one.id != left.id)

    second = ann.build_once(build)
    assert second.waiting_in["strategies"] == 1
    assert second.waiting_in["candidates"] == len(entities(ann.run, Candidate.kind)) > 0
    ann.answer(right, lambda one: one.kind == Candidate.kind)

    third = ann.build_once(build)
    (group,) = entities(ann.run, ContrastGroup.kind)
    assert group.group != left.group, "its group would change once the strategy is decided"
    ann.answer(right, lambda one: one.kind == CaptionGroup.kind)
    assert third.sentence == (
        "2 items of contrasts wait for people (1 in strategies, 1 in groups); run again when they "
        "have decided in Label Studio (loupe status shows the address, and loupe annotator adds "
        "people)"
    )


def test_a_release_is_the_same_whether_items_are_decided_at_once_or_one_by_one(
    migrated_sqlite: Path, tmp_path: Path, stills: StillsWorld
) -> None:
    build = contrast_build(stills, anchors=1, **GATES)
    released, runs = {}, {}
    for way in ("at once", "one by one"):
        home = tmp_path / way.replace(" ", "-")
        home.mkdir()
        with new_run(migrated_sqlite, home) as run:
            ann = Reviewer(run)
            runs[way] = 1
            while (report := ann.build_once(build)).waiting:
                runs[way] += 1
                if way == "at once":
                    assert ann.answer(mixed_opinion, lambda _: True)
                    continue
                chosen = ann.deepest()
                assert ann.answer(mixed_opinion, chosen.__eq__)
            assert report.release is not None
            assert verify_release(report.release).problems == []
            released[way] = report.release_id
            states = {one.state for one in entities(run, Candidate.kind)}
            assert states == {"accepted", "rejected"}
    assert runs["one by one"] > 2 * runs["at once"]
    assert len(set(released.values())) == 1, released


def test_a_search_waits_until_all_strategies_are_decided(
    sqlite_store: Store, tmp_path: Path, stills: StillsWorld
) -> None:
    """Its results depend on the images of other strategies, but must not depend on their order."""
    folder = searched_folder(stills, tmp_path / "pictures")
    build = contrast_build(
        stills, anchors=2, methods=("search", "edit"), search_folder=folder, **GATES
    )
    ann = Reviewer(context_of(sqlite_store, tmp_path / "home"))
    ann.build_once(build)
    left = entities(ann.run, Strategy.kind, "proposed")[0]
    ann.answer(right, lambda one: one.id != left.id)
    assert ann.build_once(build).waiting_in == {"strategies": 1}
    assert not entities(ann.run, ImageRequest.kind)
