"""`build-ccd` with annotators at all gates: decisions, later changes of them, and reversals."""

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyarrow import parquet
from sqlalchemy import func, select

from loupe.db.decisions import last_agents
from loupe.db.entities import LIVE, StoredEntity, fetch, parents_of
from loupe.db.store import Store
from loupe.db.tables import ModelCall
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.release.format.row_files import read_release
from loupe.release.verify import verify_release
from loupe.schemas.build import CcdBuild
from loupe.schemas.contrast import ContrastGroup, ImageRequest
from loupe.schemas.profile import BuiltinContraster
from loupe.schemas.proposals import Candidate, CaptionGroup, GroupMember, Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image
from loupe.schemas.taxonomy import DifferenceType
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.ccd_reviewers import (
    GATES,
    Opinion,
    answer,
    answer_all,
    build_once,
    change_answer,
    edited_group,
    edited_strategy,
    except_for,
    open_office,
    right,
    wrong,
)
from tests.flows.ccd_world import (
    DATASET,
    contrast_build,
    contrast_profile,
    entities,
    searched_folder,
)
from tests.flows.drawn_stills import DrawnStills
from tests.flows.runs import context_of, copied_run, new_run

Rows = dict[str, dict[str, Any]]
EDITED = "What a reviewer made of it, in words of their own."
DRAFTER = "loupe-coded-stills-contraster@2"
PLAN = "What a reviewer would rather have it become."


class Work(NamedTuple):
    """A run with two annotators, given by pseudonym."""

    run: RunContext
    office: MemoryOffice
    people: tuple[str, str]

    def build_once(self, build: CcdBuild) -> BuildReport:
        return build_once(self.run, build, self.office)

    def answer(self, opinion: Opinion) -> list[StoredEntity]:
        """Answer all open tasks alike; return the entities shown."""
        return answer_all(self.run, self.office, self.people, opinion)

    def until_released(self, build: CcdBuild, opinion: Opinion = right) -> BuildReport:
        """Run the build and answer tasks until it is released."""
        while (report := self.build_once(build)).waiting:
            assert self.answer(opinion), report.sentence
        assert report.release is not None
        return report

    def change(self, shown: StoredEntity, opinion: Opinion, step: str) -> None:
        change_answer(self.run, self.office, shown, opinion, step)

    @property
    def calls(self) -> int:
        """Number of model calls."""
        with self.run.store.read() as connection:
            return connection.execute(select(func.count()).select_from(ModelCall)).scalar_one()

    def state(self, entity: StoredEntity) -> str:
        return fetch(self.run.store, [entity.id])[entity.id].state

    def waiting(self, kind: str) -> list[StoredEntity]:
        return entities(self.run, kind, "proposed")

    def released(self, build: CcdBuild) -> Rows:
        """Return the rows of a release by the entity of their image."""
        folder = self.folder(build)
        assert verify_release(folder).problems == []
        assert not read_release(folder).manifest.unreviewed
        table = parquet.read_table(folder / "data").drop_columns("image")
        return {row["image_entity_id"]: row for row in table.to_pylist()}

    def folder(self, build: CcdBuild) -> Path:
        return self.run.settings.home / "releases" / f"{DATASET}-{build.version}"


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


@pytest.fixture
def work(sqlite_store: Store, tmp_path: Path) -> Work:
    run = context_of(sqlite_store, tmp_path / "home")
    return Work(run, *open_office(run))


@pytest.fixture
def build(stills: StillsWorld) -> CcdBuild:
    """Edits of two anchors, with annotators at all gates."""
    return contrast_build(stills, anchors=2, **GATES)


@pytest.fixture
def searching(stills: StillsWorld, tmp_path: Path) -> CcdBuild:
    """Found and edited images of two anchors, with annotators at all gates."""
    folder = searched_folder(stills, tmp_path / "pictures")
    return contrast_build(
        stills, anchors=2, methods=("search", "edit"), search_folder=folder, **GATES
    )


def later(build: CcdBuild, number: int = 1) -> CcdBuild:
    return build.model_copy(update={"version": f"0.{1 + number}.0"})


def strategy_of(work: Work, candidate: StoredEntity) -> str:
    return parents_of(work.run.store, [candidate.id], Role.MADE_FOR)[candidate.id][0]


def image_of(work: Work, candidate: StoredEntity) -> StoredEntity:
    """Return the image accepted from a candidate."""
    images = {one.id: one for one in entities(work.run, Image.kind)}
    candidates = parents_of(work.run.store, list(images), Role.ACCEPTED_FROM)
    (found,) = (images[one] for one, origin in candidates.items() if origin == [candidate.id])
    return found


def live(work: Work) -> dict[str, str]:
    """Return the kinds of all live images, groups and captions by id, reviewed or not."""
    kinds = (Image.kind, ContrastGroup.kind, CaptionGroup.kind, Caption.kind)
    return {one.id: one.kind for kind in kinds for one in entities(work.run, kind, *LIVE)}


def difference(strategy: StoredEntity) -> DifferenceType:
    return strategy.record(Strategy).difference


def test_a_rejected_found_image_is_replaced_by_an_edit_until_it_is_accepted(
    work: Work, searching: CcdBuild
) -> None:
    """Of two accepted candidates, the found one gives the image."""
    work.build_once(searching)
    work.answer(right)
    work.build_once(searching)
    found = work.waiting(Candidate.kind)
    assert {one.record(Candidate).origin.method for one in found} == {"search"}
    without = {one.id for one in entities(work.run, Strategy.kind)}
    without -= {strategy_of(work, one) for one in found}
    refused = {strategy_of(work, one): one for one in found[1:]}
    work.answer(except_for(right, dict.fromkeys((one.id for one in found[1:]), wrong)))

    second = work.build_once(searching)
    edits = work.waiting(Candidate.kind)
    assert second.waiting == len(edits) > 0
    assert {one.record(Candidate).origin.method for one in edits} == {"edit"}
    orders = [one for one in entities(work.run, ImageRequest.kind) if one.group == "edit"]
    ordered = parents_of(work.run.store, [one.id for one in orders], Role.ORDERED_BY)
    wanted = without | refused.keys()
    assert {strategy for parents in ordered.values() for strategy in parents} == wanted
    refused_edit, *kept_edits = sorted(edits, key=lambda one: strategy_of(work, one) in refused)
    work.answer(except_for(right, {refused_edit.id: wrong}))

    assert work.until_released(searching).release is not None
    accepted = {one.id for one in (found[0], *kept_edits)}
    images = [one for one in entities(work.run, Image.kind) if one.record(Image).contrast]
    candidates = parents_of(work.run.store, [one.id for one in images], Role.ACCEPTED_FROM)
    assert {candidate for parents in candidates.values() for candidate in parents} == accepted
    people = last_agents(work.run.store, [one.id for one in images])
    assert {agent.kind for agent in people.values()} == {"person"}
    grouped = {
        id_
        for one in entities(work.run, ContrastGroup.kind, *LIVE)
        for id_ in one.record(ContrastGroup).image_ids
    }
    assert grouped == {one.id for one in images}
    earlier = work.released(searching)
    released = contrastive(earlier)
    assert {row["contrast"]["method"] for row in released.values()} == {"search", "edit"}
    assert released.keys() <= grouped

    edit = next(one for one in kept_edits if strategy_of(work, one) in refused)
    first, before = refused[strategy_of(work, edit)], live(work)
    work.change(first, right, "candidates")
    work.until_released(later(searching))
    assert (work.state(first), work.state(edit)) == ("accepted", "inactive")
    assert image_of(work, first).id in live(work)
    assert image_of(work, edit).id not in live(work) | work.released(later(searching))
    work.change(first, wrong, "candidates")
    assert work.build_once(later(searching, 2)).waiting == 0
    assert (work.state(first), work.state(edit)) == ("rejected", "accepted")
    assert live(work) == before
    assert caption_columns(work.released(later(searching, 2))) == caption_columns(earlier)


def test_groups_are_accepted_edited_or_rejected_as_a_whole(work: Work, stills: StillsWorld) -> None:
    """A group with the same caption for two images is not released, whoever accepted it."""
    build = contrast_build(stills, anchors=3, **GATES)
    for kind in (Strategy.kind, Candidate.kind):
        work.build_once(build)
        assert {one.kind for one in work.answer(right)} == {kind}
    waiting = work.build_once(build).waiting
    groups = work.waiting(CaptionGroup.kind)
    assert waiting == len(groups) >= 3
    written, calls = live(work), work.calls
    (early,) = answer(work.run, work.office, work.people[0], right, limit=1)
    assert work.build_once(build).waiting == waiting - 1
    assert (live(work), work.calls) == (written, calls), "an answer of one of two changes nothing"
    edited, refused, *kept = [one for one in groups if one.id != early.id]
    work.answer(except_for(right, {edited.id: edited_group({(0, 1): EDITED}), refused.id: wrong}))
    assert work.build_once(build).waiting == 0

    rows = work.released(build)
    for column, member in enumerate(members_of(edited)):
        row, expected = rows[str(member.picture.image_id)], list(member.captions)
        authors, origins = [DRAFTER] * 5, ["drafted"] * 5
        if column == 1:
            expected[0], authors[0], origins[0] = EDITED, editor_of(work, edited), "edited_draft"
        assert row["captions"] == expected
        assert row["caption_authors"] == authors
        assert row["caption_origins"] == origins
    assert {one for row in rows.values() for one in row["caption_reviewed"]} == {True}
    gone = {member.picture.image_id for member in members_of(refused)}
    assert not gone & rows.keys()
    assert rows.keys() == {
        member.picture.image_id for one in (early, edited, *kept) for member in members_of(one)
    }
    contrasts = read_release(work.folder(build)).manifest.statistics.contrasts
    assert contrasts is not None
    images = entities(work.run, Image.kind, *LIVE)
    assert contrasts.without_captions == len(images) - len(rows) >= len(gone)
    card = (work.folder(build) / "README.md").read_text(encoding="utf-8")
    assert f"{contrasts.without_captions} images without fine captions are left out" in card
    assert "edited by a person from another text | 1 (" in card
    assert "unreviewed" not in card.casefold()

    same = members_of(edited)[0].captions[0].upper()
    work.change(edited, edited_group({(0, 1): same}), "groups")
    report = work.build_once(later(build))
    (checked,) = (one for one in report.stages if one.stage == "check groups")
    assert checked.rejected == {"same_captions": 1}
    shown = {str(member.picture.image_id) for member in members_of(edited)}
    assert not shown & work.released(later(build)).keys()
    work.change(edited, edited_group({(0, 1): EDITED}), "groups")
    work.until_released(later(build, 2))
    again = work.released(later(build, 2))
    assert caption_columns(again) == caption_columns(rows)


def members_of(group: StoredEntity) -> tuple[GroupMember, ...]:
    return group.record(CaptionGroup).members


def editor_of(work: Work, group: StoredEntity) -> str:
    """Return the annotator who edited a group."""
    edits = entities(work.run, CaptionGroup.kind, "accepted")
    edited = parents_of(work.run.store, [one.id for one in edits], Role.EDITED_FROM)
    (author,) = (
        one.record(CaptionGroup).author for one in edits if edited.get(one.id) == [group.id]
    )
    assert author in work.people
    return author


def contrastive(rows: Rows) -> Rows:
    return {image: row for image, row in rows.items() if row["contrast"]}


@pytest.fixture(scope="module")
def finished(
    stills: StillsWorld, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Work]:
    """Edits of two anchors, released with an edited caption (read-only)."""
    build = contrast_build(stills, anchors=2, **GATES)
    with new_run(migrated_sqlite, tmp_path_factory.mktemp("finished")) as run:
        work = Work(run, *open_office(run))
        for _ in range(2):
            work.build_once(build)
            work.answer(right)
        work.build_once(build)
        group = accepted_candidate(work).group
        (edited,) = (one for one in work.waiting(CaptionGroup.kind) if one.group == group)
        work.answer(except_for(right, {edited.id: edited_group({(2, 1): EDITED})}))
        work.until_released(build)
        yield work


@pytest.fixture
def done(finished: Work, tmp_path: Path) -> Iterator[Work]:
    """A copy of `finished` that tests may change."""
    with copied_run(finished.run, tmp_path / "done") as run:
        yield finished._replace(run=run, office=deepcopy(finished.office))


def accepted_candidate(work: Work) -> StoredEntity:
    """Return an accepted candidate of a group with at least two."""
    found = entities(work.run, Candidate.kind, "accepted")
    sizes = Counter(one.group for one in found)
    return next(one for one in found if sizes[one.group] >= 2)


def test_an_image_rejected_later_leaves_its_group_until_it_is_accepted_again(
    done: Work, build: CcdBuild
) -> None:
    """Then the release is restored, with the caption that a reviewer had edited."""
    candidate = accepted_candidate(done)
    image = image_of(done, candidate)
    before, calls, earlier = live(done), done.calls, done.released(build)
    assert EDITED in texts(caption_columns(earlier))
    done.change(candidate, wrong, "candidates")
    report = done.build_once(later(build))

    assert done.state(image) == "inactive"
    (group,) = done.waiting(CaptionGroup.kind)
    assert report.waiting == 1
    assert group.group == candidate.group
    shown = {member.picture.image_id for member in members_of(group)}
    assert image.id not in shown
    assert done.calls == calls + 5, "only the captions of this group are requested"
    old = {one for one, kind in before.items() if kind == Caption.kind} - live(done).keys()
    described = parents_of(done.run.store, list(old), Role.DESCRIBES)
    assert {found[0] for found in described.values()} == {*shown, image.id}
    assert len(old) == 5 * (len(shown) + 1), "all fine captions of that group are withdrawn"
    done.build_once(later(build))
    assert done.calls == calls + 5

    done.answer(right)
    assert done.build_once(later(build)).waiting == 0
    rows = done.released(later(build))
    assert rows.keys() == earlier.keys() - {image.id}
    others = rows.keys() - shown
    assert others
    for one in others:
        assert rows[one]["captions"] == earlier[one]["captions"]
    assert all(
        len(rows[one]["coarse_captions"]) == (0 if rows[one]["contrast"] else 5) for one in rows
    )
    columns = caption_columns(earlier)
    assert EDITED not in texts(caption_columns(rows))
    assert_restored(done, later(build, 2), candidate, "candidates", before, columns)


def assert_restored(
    work: Work,
    build: CcdBuild,
    changed: StoredEntity,
    step: str,
    before: dict[str, str],
    earlier: dict[str, Any],
) -> None:
    """Accepting the entity again restores the state, without new tasks or model calls."""
    calls = work.calls
    work.change(changed, right, step)
    assert work.build_once(build).waiting == 0, "no new tasks"
    assert work.calls == calls, "no new model calls"
    assert live(work) == before
    assert caption_columns(work.released(build)) == earlier


def caption_columns(rows: Rows) -> dict[str, Any]:
    """Return each image's captions, their authors, and whether they were reviewed."""
    columns = [name for name in next(iter(rows.values())) if "caption" in name]
    return {image: [row[name] for name in columns] for image, row in rows.items()}


def texts(columns: dict[str, Any]) -> set[str]:
    """Return all fine captions."""
    return {text for first, *_ in columns.values() for text in first}


def test_editing_a_strategy_later_replaces_its_image(done: Work, build: CcdBuild) -> None:
    candidate = accepted_candidate(done)
    image, id_ = image_of(done, candidate), strategy_of(done, candidate)
    strategy = fetch(done.run.store, [id_])[id_]
    before, earlier = live(done), caption_columns(done.released(build))
    done.change(strategy, edited_strategy(plan=PLAN), "strategies")
    done.until_released(later(build))
    assert done.state(candidate) == done.state(image) == "inactive"
    rows = contrastive(done.released(later(build)))
    assert image.id not in rows
    assert [row["contrast"]["plan"] for row in rows.values()].count(PLAN) == 1
    assert_restored(done, later(build, 2), strategy, "strategies", before, earlier)


def test_changing_a_model_and_back_restores_the_release(done: Work, build: CcdBuild) -> None:
    """One image a strategy and five captions an image, independent of earlier requests."""
    before, earlier = live(done), caption_columns(done.released(build))
    other = contrast_profile(strategist=BuiltinContraster(revision="3"))
    while build_once(done.run, later(build), done.office, other).waiting:
        assert done.answer(right)
    rows = done.released(later(build))
    assert len(rows) == len(earlier)
    assert all(len(row["captions"]) == 5 for row in rows.values())
    assert len({row["sha256"] for row in rows.values()}) == len(rows), "no image twice"
    strategies = entities(done.run, Strategy.kind, "accepted")
    assert {one.record(Strategy).author for one in strategies} == {
        "loupe-coded-stills-contraster@3"
    }
    calls = done.calls
    assert done.build_once(later(build, 2)).waiting == 0, "no new tasks"
    assert done.calls == calls, "no new model calls"
    assert live(done) == before
    assert caption_columns(done.released(later(build, 2))) == earlier
