"""Withdrawals: exactly what must be withdrawn, everywhere, once, and to the end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import insert, select

from db.blobs import BlobStore
from db.decisions import NewDecision, append_decisions
from db.embeddings import find_vectors, register_space, store_vectors
from db.entities import children_of, fetch, find, new_entity
from db.evaluations import evaluations_of, store_evaluation
from db.releases import find_release, released_entities
from db.reviews import ShownImage, StoredTask, announce_tasks, open_image_media_type, review_tasks
from db.tables.review import Pseudonym
from db.withdrawals import find_withdrawal, list_withdrawals, notices_of, refused_files, steps_of
from flows.evaluation.leaderboard import collect
from flows.evaluation.leaderboard_page import leaderboard_folder, write_leaderboard
from flows.withdrawal.execution import carry_out
from release.notices_files import read_mark, read_notices
from release.reading import read_release
from release.rebuild import rebuild_release
from release.verify import verify_release
from schemas.base import digest_of, sha256_of
from schemas.chat import ModelRef
from schemas.errors import UsageError
from schemas.provenance import Role
from schemas.records import Image, Rewrite
from tests.annotate.memory_desk import MemoryOffice
from tests.db.samples import store_entities
from tests.flows.evaluation_samples import made_up
from tests.flows.homes import bytes_of
from tests.flows.withdrawals import OPERATOR, Home, home_of, left_of
from tests.release.worlds import DATASET, PERSON, SOURCES, picture

DerivedRecord = Callable[[str], Home]
FINE = SOURCES[1]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = home_of(tmp_path / "home")
    yield made
    made.store.close()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[DerivedRecord]:
    """Installations that are the same but for where they lie."""
    homes: list[Home] = []

    def make(name: str) -> Home:
        homes.append(home_of(tmp_path / name))
        return homes[-1]

    yield make
    for one in homes:
        one.store.close()


def images(home: Home, identity: str, source: str = FINE.name) -> dict[str, Image]:
    """The images of a person in the dataset that is released."""
    found = {one.id: one.record(Image) for one in find(home.store, DATASET, "image")}
    return {
        id_: one for id_, one in found.items() if (one.identity, one.source) == (identity, source)
    }


def person(home: Home, **values: Any) -> Any:
    return home.plan("identity", "9", dataset=DATASET, source=FINE.name, **values)


def test_a_person_goes_from_both_datasets_with_all_that_was_said(home: Home) -> None:
    own = images(home, "9")
    plan = person(home)
    kinds = {(one.dataset, one.kind): one.entities for one in plan.counts()}
    assert kinds["icfg-pedes", "image"] == kinds[DATASET, "image"] == len(own) == 2
    assert kinds[DATASET, "caption"] == 4
    assert not any(kind in ("source", "prompt") for _, kind in kinds)
    carry_out(home.run, home.confirmed(plan))
    states = home.states()
    gone = {id_ for id_, state in states.items() if state == "withdrawn"}
    assert gone == set(plan.reached)


def test_nothing_is_changed_by_looking(home: Home) -> None:
    before = left_of(home)
    person(home)
    assert left_of(home) == before


def test_the_patch_is_the_release_without_what_went(home: Home) -> None:
    plan = home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    (patch,) = plan.affected.patches
    old = find_release(home.store, f"{DATASET}@1.0.0").manifest
    new = find_release(home.store, f"{DATASET}@1.0.1").manifest
    assert (patch.version, patch.rows) == ("1.0.1", new.statistics.images)
    assert new.statistics.images == old.statistics.images - 2
    assert not verify_release(home.release("1.0.1"))
    notices = read_notices(home.release("1.0.1") / "withdrawals.json").notices
    assert [one.superseded_by for one in notices] == ["1.0.1"]
    assert {row.entity_id for row in notices[0].rows} == set(images(home, "9"))


def test_what_was_accepted_since_is_no_part_of_the_patch(home: Home) -> None:
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


def test_a_release_tells_of_all_withdrawals_from_those_before_it(home: Home) -> None:
    home.withdraw("identity", "9", "quality", dataset=DATASET, source=FINE.name)
    home.withdraw("identity", "10", "quality", dataset=DATASET, source=FINE.name)
    notices = read_notices(home.release("1.0.2") / "withdrawals.json").notices
    assert {(one.version, one.superseded_by) for one in notices} == {
        ("1.0.0", "1.0.1"),
        ("1.0.0", "1.0.2"),
        ("1.0.1", "1.0.2"),
    }
    assert not verify_release(home.release("1.0.2"))


def test_the_old_release_says_what_went_and_loses_the_files(home: Home) -> None:
    rows = [one.file_path for one in images(home, "9").values()]
    home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    mark = read_mark(home.release("1.0.0"))
    assert mark is not None
    (notice,) = mark.notices
    assert len(notice.rows) == len(rows) == 2
    assert not any((home.release("1.0.0") / row.file_path).exists() for row in notice.rows)
    assert (home.folder / "notices" / f"{DATASET}.json").is_file()


def test_files_are_erased_where_the_ground_demands_it(home: Home) -> None:
    own = images(home, "9").values()
    home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    assert not any(home.world.blobs.has(one.sha256, one.media_type) for one in own)
    others = images(home, "10").values()
    assert all(home.world.blobs.has(one.sha256, one.media_type) for one in others)


def test_on_grounds_of_quality_the_original_and_the_files_stay(home: Home) -> None:
    own = images(home, "9").values()
    plan = home.withdraw("identity", "9", "quality", dataset=DATASET, source=FINE.name)
    assert {one.dataset for one in plan.reached.values()} == {DATASET}
    assert all(home.world.blobs.has(one.sha256, one.media_type) for one in own)
    assert refused_files(home.store) == {}


def test_a_file_that_another_dataset_needs_is_kept_and_said(home: Home) -> None:
    own = images(home, "9")
    plan = home.withdraw("identity", "9", "quality", dataset=DATASET, source=FINE.name, erases=True)
    assert plan.kept.keys() == {one.sha256 for one in own.values()}
    assert all(home.world.blobs.has(one.sha256, one.media_type) for one in own.values())


def test_bytes_may_be_kept_though_the_ground_would_erase_them(home: Home) -> None:
    own = images(home, "9").values()
    home.withdraw("identity", "9", dataset=DATASET, source=FINE.name, erases=False)
    assert all(home.world.blobs.has(one.sha256, one.media_type) for one in own)
    assert refused_files(home.store).keys() == {one.sha256 for one in own}


def test_vectors_of_what_is_erased_are_forgotten_and_no_others(home: Home) -> None:
    own = [one.sha256 for one in images(home, "9").values()]
    others = [one.sha256 for one in images(home, "10").values()]
    space = register_space(home.store, ModelRef(name="m", revision="1"), {}, 2)
    vectors = np.ones((4, 2), np.float32)
    store_vectors(home.store, space, "image", [*own, *others], vectors)
    home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    found = find_vectors(home.store, space, "image", [*own, *others])
    assert found.keys() == set(others)


def ask_about(home: Home, *entities: str, sha256: str) -> None:
    """Puts an open question about each entity, all showing one image."""
    tasks = [
        StoredTask(digest_of("task", one), "people", one, "", "review", False, "desk", 1, 7, "open")
        for one in entities
    ]
    shown = {one.key: [ShownImage(sha256, "image/jpeg")] for one in tasks}
    announce_tasks(home.store, tasks, shown)


def at_desk() -> MemoryOffice:
    """The review server of these questions."""
    office = MemoryOffice()
    office.server.url = "desk"
    return office


def test_questions_about_it_are_closed_and_it_is_shown_no_more(home: Home) -> None:
    ids = list(images(home, "9"))
    stays = next(iter(images(home, "10")))
    sha256 = images(home, "9")[ids[0]].sha256
    ask_about(home, ids[0], stays, sha256=sha256)
    carry_out(home.run, home.confirmed(person(home)), desks=at_desk())
    states = {one.entity_id: one.state for one in review_tasks(home.store, "people").values()}
    assert states == {ids[0]: "closed", stays: "open"}
    with home.store.read() as connection:
        assert open_image_media_type(connection, sha256) is None


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_on_postgresql_it_ends_as_on_sqlite(
    made: DerivedRecord, tmp_path: Path, database_url: str
) -> None:
    homes = made("sqlite"), home_of(tmp_path / "postgresql", url=database_url)
    for home in homes:
        with home.store.write() as connection:
            known = {"server": "s", "user_id": 1, "name": PERSON.name}
            connection.execute(insert(Pseudonym), known)
        own = images(home, "9")
        ask_about(home, *own, sha256=next(iter(own.values())).sha256)
        space = register_space(home.store, ModelRef(name="m", revision="1"), {}, 2)
        store_vectors(
            home.store,
            space,
            "image",
            [one.sha256 for one in own.values()],
            np.ones((len(own), 2), np.float32),
        )
        read = read_release(home.release("1.0.0"))
        store_evaluation(home.store, made_up(read, "model", 0.3))
        carry_out(home.run, home.confirmed(person(home)), desks=at_desk())
        home.withdraw("annotator", PERSON.name, "consent", erases=True)
        home.withdraw("source", SOURCES[2].name, "quality", dataset=DATASET)
        assert person(home).is_done
    assert left_of(homes[1]) == left_of(homes[0])
    homes[1].store.close()


def test_a_text_goes_alone_and_its_row_says_so(home: Home) -> None:
    image = next(iter(images(home, "9")))
    caption = children_of(home.store, [image], Role.DESCRIBES)[image][0]
    home.withdraw("entity", caption, "quality")
    mark = read_mark(home.release("1.0.0"))
    assert mark is not None
    ((row,),) = [one.rows for one in mark.notices]
    assert row.entity_id == image
    assert caption in row.texts
    assert not verify_release(home.release("1.0.1"))


def test_a_source_goes_whole(home: Home) -> None:
    plan = home.withdraw("source", FINE.name, "copyright")
    assert find_release(home.store, DATASET).manifest.statistics.images == 8
    assert {one.kind for one in plan.reached.values()} > {"source", "image", "caption"}


def test_where_nothing_is_left_no_patch_is_built_and_it_is_said(home: Home) -> None:
    for of in SOURCES[:2]:
        home.withdraw("source", of.name, "copyright")
    plan = home.withdraw("source", SOURCES[2].name, "copyright")
    assert plan.affected.patches == ()
    (last, *_) = reversed(list_withdrawals(home.store))
    assert last.is_finished
    assert {one.superseded_by for one in notices_of(home.store, last.id)} == {None}


def test_an_annotators_texts_go_and_items_only_they_judged_are_asked_again(home: Home) -> None:
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


def test_it_is_done_once(home: Home) -> None:
    home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    before = left_of(home)
    plan = person(home)
    assert plan.is_done
    carry_out(home.run, find_withdrawal(home.store, plan.earlier[0].key))
    assert left_of(home) == before


def test_a_second_ground_may_still_erase_what_was_only_withdrawn(home: Home) -> None:
    own = images(home, "9").values()
    home.withdraw("identity", "9", "quality", dataset=DATASET, source=FINE.name)
    plan = home.withdraw("identity", "9", "privacy", dataset=DATASET, source=FINE.name)
    assert plan.affected.patches == ()
    assert [one.superseded_by for one in plan.affected.releases] == ["1.0.1"]
    assert not any(home.world.blobs.has(one.sha256, one.media_type) for one in own)


def test_what_is_made_of_it_while_it_goes_goes_too(home: Home) -> None:
    withdrawal = home.confirmed(person(home))
    caption = new_entity(
        Rewrite(source="s", text="late", author="m@1"),
        DATASET,
        parents=[(Role.REWRITE_OF, next(iter(images(home, "9"))))],
    )
    store_entities(home.store, [caption])
    carry_out(home.run, withdrawal)
    assert home.states()[caption.id] == "withdrawn"


def test_what_changed_since_it_was_shown_is_not_withdrawn_unseen(home: Home) -> None:
    plan = person(home)
    late = Rewrite(source="s", text="late", author="m@1")
    parent = (Role.REWRITE_OF, next(iter(images(home, "9"))))
    store_entities(home.store, [new_entity(late, DATASET, parents=[parent])])
    with pytest.raises(UsageError, match="has changed since"):
        home.confirmed(plan)
    assert list_withdrawals(home.store) == []


def test_a_missing_folder_is_skipped(home: Home, tmp_path: Path) -> None:
    home.release("1.0.0").rename(tmp_path / "elsewhere")
    plan = home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    (release,) = plan.affected.releases
    assert len(release.rows) == 2
    (last,) = list_withdrawals(home.store)
    details = {one.step: one.details for one in steps_of(home.store, last.id)}
    assert details[f"mark {DATASET} 1.0.0"]["skipped"]
    assert not verify_release(home.release("1.0.1"))


@pytest.mark.parametrize(
    ("obstacle", "wanted"),
    [
        (f"releases/.{DATASET}-1.0.0.WITHDRAWN.json", "cannot be marked"),
        (f".notices.{DATASET}.json", "notices cannot be written"),
    ],
)
def test_a_folder_that_cannot_be_written_to_keeps_nothing_else_waiting(
    home: Home, obstacle: str, wanted: str
) -> None:
    """One sentence says so, everything else is done, and what is left is done later."""
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


def test_a_patch_that_cannot_be_built_keeps_nothing_else_waiting(home: Home) -> None:
    home.release("1.0.1").mkdir(parents=True)
    (home.release("1.0.1") / "notes.txt").write_text("somebody's")
    withdrawal = home.confirmed(person(home))
    with pytest.raises(UsageError, match=r"1\.0\.1"):
        carry_out(home.run, withdrawal)
    assert read_mark(home.release("1.0.0")) is not None
    own = images(home, "9").values()
    assert not any(home.world.blobs.has(one.sha256, one.media_type) for one in own)
    assert not find_withdrawal(home.store, withdrawal.key).is_finished
    (home.release("1.0.1") / "notes.txt").unlink()
    home.release("1.0.1").rmdir()
    carry_out(home.run, withdrawal)
    assert find_withdrawal(home.store, withdrawal.key).is_finished
    assert not verify_release(home.release("1.0.1"))


def test_what_a_dataset_took_of_a_source_goes_from_there_alone(home: Home) -> None:
    plan = home.withdraw("source", FINE.name, "quality", dataset=DATASET)
    assert {one.dataset for one in plan.reached.values()} == {DATASET}
    assert sum(one.kind == "image" for one in plan.reached.values()) == 4


class Killed(BaseException):
    """Stands for the end of the process."""


class MortalBlobs(BlobStore):
    """Erases so many files, then the process ends."""

    def __init__(self, url: str, erasures: int) -> None:
        super().__init__(url)
        self.erasures = erasures

    def erase(self, sha256: str, media_type: str) -> bool:
        if not self.erasures:
            raise Killed
        self.erasures -= 1
        return super().erase(sha256, media_type)


def test_killed_after_any_step_it_ends_as_an_undisturbed_one(made: DerivedRecord) -> None:
    undisturbed = made("undisturbed")
    undisturbed.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    (done,) = list_withdrawals(undisturbed.store)
    wanted = left_of(undisturbed)
    steps = [one.step for one in steps_of(undisturbed.store, done.id)][1:]
    assert len(steps) >= 7
    for place, last in enumerate(steps):
        home = made(f"killed {place}")
        withdrawal = home.confirmed(person(home))

        def end(name: str, _details: object, last: str = last) -> None:
            if name == last:
                raise Killed

        with pytest.raises(Killed):
            carry_out(home.run, withdrawal, end)
        (open_,) = list_withdrawals(home.store)
        assert not open_.is_finished
        carry_out(home.run, open_)
        assert left_of(home) == wanted, last


def test_killed_while_it_erases_it_goes_on_with_the_rest(made: DerivedRecord) -> None:
    undisturbed, home = made("undisturbed"), made("killed")
    undisturbed.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    withdrawal = home.confirmed(person(home))
    mortal = MortalBlobs(str(home.folder / "blobs"), 1)
    with pytest.raises(Killed):
        carry_out(home.with_blobs(mortal), withdrawal)
    carry_out(home.run, withdrawal)
    assert left_of(home) == left_of(undisturbed)


def test_the_bytes_are_those_that_the_pictures_have(home: Home) -> None:
    """The worlds of these tests hold what they say, or nothing above would mean anything."""
    assert sha256_of(picture(0)) in {
        one.sha256 for one in images(home, "9", SOURCES[0].name).values()
    }


def test_what_evaluations_and_pages_show_of_it_is_erased(home: Home) -> None:
    own = images(home, "9")
    texts = [text for id_ in own for text in children_of(home.store, [id_], Role.DESCRIBES)[id_]]
    read = read_release(home.release("1.0.0"))
    store_evaluation(home.store, made_up(read, "model", 0.3))
    board = collect(home.store, str(home.release("1.0.0")))
    written = write_leaderboard(board, leaderboard_folder(home.folder, board))
    page = home.folder / "reports" / f"{DATASET}-captions.html"
    page.parent.mkdir()
    page.touch()
    ids = {*own, *texts}
    assert any(id_ in written.document.read_text() for id_ in ids)
    home.withdraw("identity", "9", dataset=DATASET, source=FINE.name)
    assert not written.page.parent.exists()
    assert not page.exists()
    again = write_leaderboard(collect(home.store, str(home.release("1.0.0"))), page.parent)
    for path in again:
        assert not any(id_ in path.read_text() for id_ in ids)
    (stored,) = evaluations_of(home.store, read.manifest.id)
    assert stored.result.directions[0].scores == board.boards[0].models[0].scores


def test_pages_and_examples_stay_where_files_are_kept(home: Home) -> None:
    read = read_release(home.release("1.0.0"))
    store_evaluation(home.store, made_up(read, "model", 0.3))
    board = collect(home.store, str(home.release("1.0.0")))
    written = write_leaderboard(board, leaderboard_folder(home.folder, board))
    home.withdraw("identity", "9", "consent", dataset=DATASET, source=FINE.name)
    assert written.page.exists()
