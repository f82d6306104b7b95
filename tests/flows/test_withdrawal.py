"""Withdrawals: what is withdrawn and erased, patch releases, failures and resumption."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sqlalchemy import insert, select

from loupe.db.blobs import BlobStore
from loupe.db.decisions import append_decisions, decide
from loupe.db.embeddings import find_vectors, space_of, store_vectors
from loupe.db.entities import NewDecision, NewEntity, fetch, find, new_entity
from loupe.db.evaluations import evaluations_of, store_evaluation
from loupe.db.releases import find_release
from loupe.db.reviews import (
    ShownImage,
    StoredTask,
    announce_tasks,
    open_image_media_type,
    review_tasks,
)
from loupe.db.tables import Pseudonym
from loupe.db.withdrawals import (
    find_withdrawal,
    list_withdrawals,
    notices_of,
    refused_files,
    steps_of,
)
from loupe.demo.worlds.street import StreetWorld
from loupe.flows.engine.video_import import import_videos
from loupe.flows.evaluation.leaderboard import Leaderboard, collect
from loupe.flows.evaluation.leaderboard_page import leaderboard_folder, write_leaderboard
from loupe.flows.withdrawal.execution import carry_out
from loupe.flows.withdrawal.plan import WithdrawalPlan
from loupe.release.format.row_files import read_release
from loupe.release.rebuild import rebuild_release
from loupe.release.verify import verify_release
from loupe.release.withdrawn.files import read_mark, read_notices
from loupe.schemas.base import digest_of, sha256_of
from loupe.schemas.build import VideoSourceSpec
from loupe.schemas.chat import ModelRef
from loupe.schemas.errors import UsageError
from loupe.schemas.proposals import Tracklet, TrackletFrame
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image, Rewrite
from loupe.schemas.video import FilterReport, Video
from tests.annotate.memory_desk import MemoryOffice
from tests.db.samples import store_entities
from tests.flows.evaluation_samples import synthetic_evaluation
from tests.flows.homes import bytes_of
from tests.flows.steps.tracklets.samples import observation, track
from tests.flows.withdrawals import OPERATOR, Home, home_of, state_after_withdrawal
from tests.release.worlds import (
    DATASET,
    PERSON,
    SOURCES,
    picture,
    released_entities,
)

MakeHome = Callable[[str], Home]
FINE = SOURCES[1]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = home_of(tmp_path / "home")
    yield home
    home.store.close()


@pytest.fixture
def make_home(tmp_path: Path) -> Iterator[MakeHome]:
    """Return a function that creates equal installations in different folders."""
    homes: list[Home] = []

    def make(name: str) -> Home:
        homes.append(home_of(tmp_path / name))
        return homes[-1]

    yield make
    for one in homes:
        one.store.close()


def images(home: Home, identity: str, source: str = FINE.name) -> dict[str, Image]:
    """Return the images of a person in the released dataset."""
    found = {one.id: one.record(Image) for one in find(home.store, DATASET, "image")}
    return {
        id_: one for id_, one in found.items() if (one.identity, one.source) == (identity, source)
    }


def person(home: Home, **values: Any) -> Any:
    return home.plan("identity", "9", dataset=DATASET, source=FINE.name, **values)


def ask_about(home: Home, *entities: str, sha256: str) -> None:
    """Announce an open task for each entity, all showing one image."""
    tasks = [
        StoredTask(digest_of("task", one), "people", one, "", "review", False, "desk", 1, 7, "open")
        for one in entities
    ]
    shown = {one.key: [ShownImage(sha256, "image/jpeg")] for one in tasks}
    announce_tasks(home.store, tasks, shown)


def review_office() -> MemoryOffice:
    """Return the review server of these tasks."""
    office = MemoryOffice()
    office.server.url = "desk"
    return office


class Shown(NamedTuple):
    """Vectors, tasks and pages of a person and of others, before a withdrawal."""

    own: dict[str, Image]
    others: dict[str, Image]
    space: str
    board: Leaderboard
    document: str
    leaderboard: Path
    page: Path

    @classmethod
    def on(cls, home: Home) -> "Shown":
        """Create them in an installation."""
        own, others = images(home, "9"), images(home, "10")
        space = space_of(ModelRef(name="m", revision="1"), {}, "image")
        digests = [one.sha256 for one in (*own.values(), *others.values())]
        store_vectors(home.store, space, digests, np.ones((4, 2), np.float32))
        asked = next(iter(own))
        ask_about(home, asked, next(iter(others)), sha256=own[asked].sha256)
        release = home.release("1.0.0")
        store_evaluation(home.store, synthetic_evaluation(read_release(release), "model", 0.3))
        board = collect(home.store, str(release))
        written = write_leaderboard(board, leaderboard_folder(home.folder, board))
        page = home.folder / "reports" / f"{DATASET}-captions.html"
        page.parent.mkdir()
        page.touch()
        document = written.document.read_text()
        return cls(own, others, space, board, document, written.page, page)


class Withdrawn(NamedTuple):
    """An installation after the withdrawal of a person, with the state before."""

    home: Home
    plan: WithdrawalPlan
    shown: Shown


@pytest.fixture(scope="module")
def withdrawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Withdrawn]:
    """A person withdrawn on grounds of privacy, read-only."""
    home = home_of(tmp_path_factory.mktemp("withdrawn") / "home")
    shown = Shown.on(home)
    before = state_after_withdrawal(home)
    plan = person(home)
    assert state_after_withdrawal(home) == before, "a plan changes nothing"
    carry_out(home.run, home.confirmed(plan), desks=review_office())
    yield Withdrawn(home, plan, shown)
    home.store.close()


def test_a_person_is_withdrawn_from_both_datasets_with_all_captions(withdrawn: Withdrawn) -> None:
    kinds = {(one.dataset, one.kind): one.entities for one in withdrawn.plan.counts()}
    assert kinds["icfg-pedes", "image"] == kinds[DATASET, "image"] == len(withdrawn.shown.own) == 2
    assert kinds[DATASET, "caption"] == 4
    assert not any(kind in ("source", "prompt") for _, kind in kinds)
    states = withdrawn.home.states()
    assert {id_ for id_, state in states.items() if state == "withdrawn"} == set(
        withdrawn.plan.reached
    )
    others = {one.sha256 for one in images(withdrawn.home, "9", SOURCES[0].name).values()}
    assert sha256_of(picture(0)) in others, "the same name in another source is a different person"


def test_the_patch_equals_the_release_without_the_withdrawn_rows(withdrawn: Withdrawn) -> None:
    home = withdrawn.home
    (patch,) = withdrawn.plan.affected.patches
    old = find_release(home.store, f"{DATASET}@1.0.0").manifest
    new = find_release(home.store, f"{DATASET}@1.0.1").manifest
    assert (patch.version, patch.rows) == ("1.0.1", new.statistics.images)
    assert new.statistics.images == old.statistics.images - 2
    assert not verify_release(home.release("1.0.1")).problems
    notices = read_notices(home.release("1.0.1") / "withdrawals.json").notices
    assert [one.superseded_by for one in notices] == ["1.0.1"]
    assert {row.entity_id for row in notices[0].rows} == withdrawn.shown.own.keys()


def test_exactly_the_files_and_vectors_of_the_person_are_erased(withdrawn: Withdrawn) -> None:
    home, shown = withdrawn.home, withdrawn.shown
    mark = read_mark(home.release("1.0.0"))
    assert mark is not None
    (notice,) = mark.notices
    assert len(notice.rows) == len(shown.own)
    assert not any((home.release("1.0.0") / row.file_path).exists() for row in notice.rows)
    assert (home.folder / "notices" / f"{DATASET}.json").is_file()
    for images_, exist in ((shown.own, False), (shown.others, True)):
        for one in images_.values():
            assert home.world.blobs.has(one.sha256, one.media_type) == exist
            found = find_vectors(home.store, shown.space, [one.sha256])
            assert bool(found) == exist


def test_tasks_on_the_person_are_closed_and_the_image_is_not_shown(withdrawn: Withdrawn) -> None:
    tasks = review_tasks(withdrawn.home.store, "people").values()
    own = next(iter(withdrawn.shown.own))
    other = next(iter(withdrawn.shown.others))
    assert {one.entity_id: one.state for one in tasks} == {own: "closed", other: "open"}
    with withdrawn.home.store.read() as connection:
        assert open_image_media_type(connection, withdrawn.shown.own[own].sha256) is None


def test_evaluations_and_pages_no_longer_contain_the_person(
    withdrawn: Withdrawn, tmp_path: Path
) -> None:
    home, shown, ids = withdrawn.home, withdrawn.shown, set(withdrawn.plan.reached)
    assert any(id_ in shown.document for id_ in ids), "there is something to erase"
    assert not shown.leaderboard.parent.exists()
    assert not shown.page.exists()
    for path in write_leaderboard(collect(home.store, str(home.release("1.0.0"))), tmp_path):
        assert not any(id_ in path.read_text() for id_ in ids)
    (stored,) = evaluations_of(home.store, withdrawn.plan.affected.releases[0].release.manifest.id)
    assert stored.result.directions[0].scores == shown.board.boards[0].models[0].scores


def test_repeating_a_finished_withdrawal_changes_nothing(withdrawn: Withdrawn) -> None:
    before = state_after_withdrawal(withdrawn.home)
    plan = person(withdrawn.home)
    assert plan.is_done
    carry_out(withdrawn.home.run, find_withdrawal(withdrawn.home.store, plan.earlier[0].key))
    assert state_after_withdrawal(withdrawn.home) == before


def test_a_quality_withdrawal_keeps_files_and_a_later_one_can_erase_them(
    home: Home,
) -> None:
    shown = Shown.on(home)
    plan = home.plan("identity", "9", "quality", dataset=DATASET, source=FINE.name)
    carry_out(home.run, home.confirmed(plan), desks=review_office())
    assert {one.dataset for one in plan.reached.values()} == {DATASET}
    own = shown.own.values()
    assert all(home.world.blobs.has(one.sha256, one.media_type) for one in own)
    assert refused_files(home.store) == {}
    assert shown.leaderboard.exists()
    assert shown.page.exists()
    plan = person(home)
    carry_out(home.run, home.confirmed(plan), desks=review_office())
    assert plan.affected.patches == ()
    assert [one.superseded_by for one in plan.affected.releases] == ["1.0.1"]
    assert not any(home.world.blobs.has(one.sha256, one.media_type) for one in own)


def test_new_derivations_invalidate_a_plan_and_join_a_confirmed_withdrawal(
    home: Home,
) -> None:
    def derive(text: str) -> str:
        parent = (Role.REWRITE_OF, next(iter(images(home, "9"))))
        rewrite = Rewrite(source="s", text=text, author="m@1")
        entity = new_entity(rewrite, DATASET, parents=[parent])
        store_entities(home.store, [entity])
        return entity.id

    plan = person(home)
    derive("late")
    with pytest.raises(UsageError, match="have changed since"):
        home.confirmed(plan)
    assert list_withdrawals(home.store) == []
    withdrawal = home.confirmed(person(home))
    later = derive("later")
    carry_out(home.run, withdrawal)
    assert home.states()[later] == "withdrawn"


def test_items_accepted_since_the_release_are_not_in_the_patch(home: Home) -> None:
    waiting = [one for one, state in home.states().items() if state == "proposed"]
    rewrites = [id_ for id_, one in fetch(home.store, waiting).items() if one.kind == Rewrite.kind]
    with home.store.write() as connection:
        append_decisions(connection, [NewDecision(one, "accept", OPERATOR) for one in rewrites])
    assert rewrites
    home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    old = find_release(home.store, f"{DATASET}@1.0.0").manifest.statistics
    new = find_release(home.store, f"{DATASET}@1.0.1").manifest.statistics
    assert new.captions < old.captions


def test_the_patch_is_rebuilt_byte_for_byte_after_another_withdrawal(
    home: Home, tmp_path: Path
) -> None:
    home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    released = set(released_entities(home.store, find_release(home.store, DATASET).manifest.id))
    unused = next(
        id_ for id_, state in home.states().items() if state == "rejected" and id_ not in released
    )
    plan = home.withdraw("entity", unused, "quality")
    assert plan.affected.releases == ()
    stored = find_release(home.store, f"{DATASET}@1.0.1")
    rebuild_release(home.store, home.world.blobs, stored, tmp_path / "again")
    assert bytes_of(tmp_path / "again") == bytes_of(home.release("1.0.1"))


def test_a_release_contains_the_notices_of_all_earlier_releases(home: Home) -> None:
    home.withdraw("identity", "9", "quality", dataset=DATASET, source=FINE.name)
    home.withdraw("identity", "10", "quality", dataset=DATASET, source=FINE.name)
    notices = read_notices(home.release("1.0.2") / "withdrawals.json").notices
    assert {(one.version, one.superseded_by) for one in notices} == {
        ("1.0.0", "1.0.1"),
        ("1.0.0", "1.0.2"),
        ("1.0.1", "1.0.2"),
    }
    assert not verify_release(home.release("1.0.2")).problems


def test_a_file_used_by_another_dataset_is_kept_and_reported(home: Home) -> None:
    own = images(home, "9")
    plan = home.withdraw("identity", "9", "quality", dataset=DATASET, source=FINE.name, erases=True)
    assert plan.kept.keys() == {one.sha256 for one in own.values()}
    assert all(home.world.blobs.has(one.sha256, one.media_type) for one in own.values())


def test_crops_that_the_filter_dropped_go_with_the_person_of_their_part(home: Home) -> None:
    """Annotators split a tracklet of seven crops, of which the filter dropped every third."""
    seen = [observation(frame) for frame in range(7)]
    whole = track(seen, source=FINE.name)
    values = {"source": FINE.name, "video": whole.video, "video_sha256": whole.video_sha256}

    def tracklet(frames: Sequence[int], role: Role, parent: str) -> NewEntity:
        kept = tuple(
            TrackletFrame.model_validate(seen[frame], from_attributes=True) for frame in frames
        )
        record = Tracklet(**values, track=1, frames=kept, author="filter@1")
        return new_entity(record, DATASET, parents=[(role, parent)], group="video")

    def crop(frame: int, person: str, part: NewEntity) -> NewEntity:
        picture = seen[frame].crop.model_dump(exclude={"image_id"})
        name, digest = f"{frame}.jpg", seen[frame].crop.sha256
        record = Image(
            source=FINE.name,
            identity=person,
            split="test",
            file_path=name,
            source_sha256=digest,
            **picture,
        )
        return new_entity(record, DATASET, parents=[(Role.SELECTED_IN, part.id)])

    tracked = new_entity(whole, DATASET, group="video")
    report = FilterReport(source=FINE.name, track=1, parts=((1, 2, 4, 5),))
    filtered = new_entity(report, DATASET, parents=[(Role.REPORT_OF, tracked.id)])
    proposed = tracklet((1, 2, 4, 5), Role.PART_OF, filtered.id)
    parts = [tracklet(frames, Role.EDITED_FROM, proposed.id) for frames in ((1, 2), (4, 5))]
    crops = [crop(1, "a", parts[0]), crop(2, "a", parts[0])]
    crops += [crop(4, "b", parts[1]), crop(5, "b", parts[1])]
    store_entities(home.store, [tracked, filtered, proposed, *parts, *crops])
    decide(home.store, [NewDecision(proposed.id, "edit", OPERATOR, "", parts[0].id)])
    plan = home.plan("identity", "a", dataset=DATASET)
    digests = {one.sha256 for one in plan.erased}
    assert digests == {seen[frame].crop.sha256 for frame in (0, 1, 2, 3)}


def test_files_can_be_kept_on_a_ground_that_erases_by_default(home: Home) -> None:
    own = images(home, "9").values()
    home.withdraw("identity", "9", dataset=DATASET, source=FINE.name, erases=False)
    assert all(home.world.blobs.has(one.sha256, one.media_type) for one in own)
    assert refused_files(home.store).keys() == {one.sha256 for one in own}


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_withdrawal_gives_the_same_result_on_postgresql_and_sqlite(
    make_home: MakeHome, tmp_path: Path, database_url: str
) -> None:
    homes = make_home("sqlite"), home_of(tmp_path / "postgresql", url=database_url)
    for home in homes:
        with home.store.write() as connection:
            known = {"server": "s", "user_id": 1, "name": PERSON.name}
            connection.execute(insert(Pseudonym), known)
        own = images(home, "9")
        ask_about(home, *own, sha256=next(iter(own.values())).sha256)
        space = space_of(ModelRef(name="m", revision="1"), {}, "image")
        store_vectors(
            home.store,
            space,
            [one.sha256 for one in own.values()],
            np.ones((len(own), 2), np.float32),
        )
        read = read_release(home.release("1.0.0"))
        store_evaluation(home.store, synthetic_evaluation(read, "model", 0.3))
        carry_out(home.run, home.confirmed(person(home)), desks=review_office())
        home.withdraw("annotator", PERSON.name, "consent", erases=True)
        home.withdraw("source", SOURCES[2].name, "quality", dataset=DATASET)
        assert person(home).is_done
    assert state_after_withdrawal(homes[1]) == state_after_withdrawal(homes[0])
    homes[1].store.close()


def test_a_source_is_withdrawn_from_all_datasets_or_from_one(home: Home) -> None:
    in_one = home.plan("source", FINE.name, "quality", dataset=DATASET).reached.values()
    assert {one.dataset for one in in_one} == {DATASET}
    assert sum(one.kind == "image" for one in in_one) == 4
    plan = home.withdraw("source", FINE.name, "copyright")
    assert find_release(home.store, DATASET).manifest.statistics.images == 8
    assert {one.kind for one in plan.reached.values()} > {"source", "image", "caption"}


def test_no_patch_is_built_if_no_row_is_left(home: Home) -> None:
    for of in SOURCES[:2]:
        home.withdraw("source", of.name, "copyright")
    plan = home.withdraw("source", SOURCES[2].name, "copyright")
    assert plan.affected.patches == ()
    (last, *_) = reversed(list_withdrawals(home.store))
    assert last.is_finished
    assert {one.superseded_by for one in notices_of(home.store, last.id)} == {None}


def test_withdrawing_an_annotator_removes_texts_and_reopens_their_decisions(home: Home) -> None:
    with home.store.write() as connection:
        known = {"server": "s", "user_id": 1, "name": PERSON.name}
        connection.execute(insert(Pseudonym), known)
    plan = home.plan("annotator", PERSON.name, "consent", erases=True)
    written = [one for one in fetch(home.store, plan.reached).values() if one.kind == Rewrite.kind]
    assert {one.record(Rewrite).author for one in written} == {PERSON.name}
    judged = fetch(home.store, plan.reopened)
    assert judged
    assert {one.state for one in judged.values()} <= {"accepted", "rejected", "superseded"}
    carry_out(home.run, home.confirmed(plan))
    states = home.states()
    assert {states[one] for one in plan.reopened} == {"proposed"}
    assert {states[one] for one in plan.reached} == {"withdrawn"}
    assert home.plan("annotator", PERSON.name, "consent", erases=True).is_done
    with home.store.read() as connection:
        assert connection.execute(select(Pseudonym.name)).first() is None


def test_a_missing_folder_is_skipped(home: Home, tmp_path: Path) -> None:
    home.release("1.0.0").rename(tmp_path / "elsewhere")
    plan = home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    (release,) = plan.affected.releases
    assert len(release.rows) == 2
    (last,) = list_withdrawals(home.store)
    details = {one.step: one.details for one in steps_of(home.store, last.id)}
    assert details[f"mark {DATASET} 1.0.0"]["skipped"]
    assert not verify_release(home.release("1.0.1")).problems


def test_an_unwritable_folder_does_not_block_the_other_steps(
    make_home: MakeHome,
) -> None:
    """It is a one-line error, the other steps are done, and a later run does the rest."""
    obstacles = {
        f"releases/.{DATASET}-1.0.0.WITHDRAWN.json": "cannot be marked",
        f".notices.{DATASET}.json": "notices cannot be written",
    }
    for obstacle, wanted in obstacles.items():
        home = make_home(wanted)
        (home.folder / obstacle).mkdir()
        plan = person(home)
        withdrawal = home.confirmed(plan)
        with pytest.raises(UsageError, match=wanted):
            carry_out(home.run, withdrawal)
        assert home.release("1.0.1").is_dir()
        assert not any(home.world.blobs.has(*blob) for blob in plan.erased)
        assert not list_withdrawals(home.store)[0].is_finished
        (home.folder / obstacle).rmdir()
        carry_out(home.run, withdrawal)
        assert list_withdrawals(home.store)[0].is_finished
        assert read_mark(home.release("1.0.0")) is not None
        assert (home.folder / "notices" / f"{DATASET}.json").is_file()


class Killed(BaseException):
    """Simulates the end of the process."""


class MortalBlobs(BlobStore):
    """A blob store whose process is killed after `erasures` erasures."""

    def __init__(self, url: str, erasures: int) -> None:
        super().__init__(url)
        self.erasures = erasures

    def erase(self, sha256: str, media_type: str) -> bool:
        if not self.erasures:
            raise Killed
        self.erasures -= 1
        return super().erase(sha256, media_type)


def test_a_withdrawal_killed_after_every_step_ends_like_an_undisturbed_one(
    make_home: MakeHome,
) -> None:
    undisturbed = make_home("undisturbed")
    undisturbed.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    (done,) = list_withdrawals(undisturbed.store)
    wanted = state_after_withdrawal(undisturbed)
    steps = [one.step for one in steps_of(undisturbed.store, done.id)][1:]
    assert len(steps) >= 7
    home, killed = make_home("killed"), list[str]()
    withdrawal = home.confirmed(person(home))

    def end(name: str, _details: object) -> None:
        if name not in killed:
            killed.append(name)
            raise Killed

    for _ in steps:
        with pytest.raises(Killed):
            carry_out(home.run, withdrawal, end)
        (withdrawal,) = list_withdrawals(home.store)
        assert not withdrawal.is_finished
    carry_out(home.run, withdrawal, end)
    assert sorted(killed) == sorted(steps)
    assert state_after_withdrawal(home) == wanted


def test_a_withdrawal_killed_while_erasing_continues_with_the_rest(make_home: MakeHome) -> None:
    undisturbed, home = make_home("undisturbed"), make_home("killed")
    undisturbed.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    withdrawal = home.confirmed(person(home))
    mortal = MortalBlobs(str(home.folder / "blobs"), 1)
    with pytest.raises(Killed):
        carry_out(home.with_blobs(mortal), withdrawal)
    carry_out(home.run, withdrawal)
    assert state_after_withdrawal(home) == state_after_withdrawal(undisturbed)


def test_a_withdrawn_video_is_not_imported_again(home: Home, street: StreetWorld) -> None:
    def import_street(name: str) -> list[Video]:
        spec = VideoSourceSpec(
            name=name, videos=(str(street.folder),), licence="CC0-1.0", citation="c"
        )
        import_videos(home.run, spec)
        return [one.record(Video) for one in find(home.store, name, Video.kind)]

    first = import_street("first")
    assert len(first) == 2
    home.withdraw("video", first[0].file_path, "law", dataset="first")
    assert [one.sha256 for one in import_street("second")] == [first[1].sha256]
