"""Withdrawals while releases are built concurrently."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import insert, select

from loupe.db.entities import NewEntity, fetch, find, new_entity
from loupe.db.releases import find_release, list_releases
from loupe.db.store import Store
from loupe.db.tables import Checkpoint
from loupe.db.withdrawals import (
    StoredWithdrawal,
    erased_blobs,
    list_withdrawals,
    notices_of,
    steps_of,
)
from loupe.db.work import register_plan
from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.pipeline import PipelineSpec, Step, run_build
from loupe.flows.withdrawal.execution import carry_out, resume_reopened
from loupe.flows.withdrawal.plan import WithdrawalPlan
from loupe.release.build import build_release
from loupe.release.format.files import leftovers_in
from loupe.release.verify import verify_release
from loupe.release.withdrawn.files import read_mark
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from loupe.schemas.release import Manifest
from tests.between import between
from tests.db.samples import store_entities
from tests.flows.withdrawals import Home, home_of, state_after_withdrawal
from tests.release.worlds import DATASET, SOURCES, released_entities

FINE = SOURCES[1].name


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    is_marked = "database_url" in request.fixturenames
    url = request.getfixturevalue("database_url") if is_marked else None
    home = home_of(tmp_path / "home", url=url)
    yield home
    home.store.close()


def person(home: Home) -> Any:
    return home.plan("identity", "9", dataset=DATASET, source=FINE)


def build(home: Home, version: str, inspect: Any = lambda _folder, _manifest: None) -> None:
    store, blobs = home.world.store, home.world.blobs
    build_release(store, blobs, DATASET, version, home.release(version), inspect=inspect)


def versions(home: Home) -> list[str]:
    return [one.manifest.version for one in list_releases(home.store, DATASET)]


def test_a_release_fails_if_one_of_its_items_is_withdrawn_during_the_build(home: Home) -> None:
    def inspect(_folder: Path, _manifest: Manifest) -> None:
        home.withdraw("identity", "9", dataset=DATASET, source=FINE)

    with pytest.raises(IntegrityError, match="was withdrawn while this was built; build it again"):
        build(home, "2.0.0", inspect)
    assert versions(home) == ["1.0.0", "1.0.1"]
    assert not home.release("2.0.0").exists()
    build(home, "2.0.0")
    assert versions(home) == ["1.0.0", "1.0.1", "2.0.0"]
    assert person(home).is_done


@pytest.mark.usefixtures("database_url")
def test_a_release_waits_for_a_withdrawal_that_is_being_recorded(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release is stored while the withdrawal is recorded, and sees all of its entities.

    It depends on locks of the database; the other tests run on SQLite.
    """
    from loupe.db import withdrawals as withdrawal_recording

    plan, original = person(home), withdrawal_recording.withdraw_entities
    built, recording, storing = Event(), Event(), Event()
    refused: list[IntegrityError] = []

    def withdraw_entities(*arguments: Any) -> None:
        original(*arguments)
        recording.set()
        assert storing.wait(300)

    def inspect(_folder: Path, _manifest: Manifest) -> None:
        built.set()
        assert recording.wait(300)
        storing.set()

    def released() -> None:
        try:
            build(home, "2.0.0", inspect)
        except IntegrityError as error:
            refused.append(error)

    monkeypatch.setattr(withdrawal_recording, "withdraw_entities", withdraw_entities)
    thread = Thread(target=released)
    thread.start()
    assert built.wait(300)
    home.confirmed(plan)
    thread.join()
    assert "was withdrawn while this was built" in str(refused)
    assert versions(home) == ["1.0.0"]


def test_a_release_built_after_the_plan_invalidates_the_plan(home: Home) -> None:
    plan = person(home)
    build(home, "2.0.0")
    with pytest.raises(UsageError, match="have changed since the plan was shown"):
        home.confirmed(plan)
    assert list_withdrawals(home.store) == []
    again = home.withdraw("identity", "9", dataset=DATASET, source=FINE)
    assert [one.version for one in again.affected.patches] == ["2.0.1"]
    assert versions(home) == ["1.0.0", "2.0.0", "2.0.1"]
    assert read_mark(home.release("2.0.0")) is not None


def late_picture(home: Home) -> tuple[NewEntity, Image]:
    """Return an image that a run derives from an image of the person, and store its file."""
    original = next(
        one for one in find(home.store, DATASET, Image.kind) if one.state == "withdrawn"
    )
    content = b"what a run under way made of it"
    derived = original.record(Image).model_copy(update={"sha256": sha256_of(content)})
    home.world.blobs.put(content, derived.media_type)
    return new_entity(derived, "later", parents=[(Role.SAMPLED_FROM, original.id)]), derived


def pipeline_of(step: Callable[[PipelineRun[Any]], None]) -> PipelineSpec[Any, PipelineRun[Any]]:
    """Return a pipeline of one step that ignores its build file."""
    build = SimpleNamespace(dataset="later", sources=(), against=(), gates={})
    return PipelineSpec(
        SimpleNamespace, lambda _: build, PipelineRun, (Step(step),), lambda _: "0.1.0"
    )


def assert_withdrawn_and_erased(home: Home, entity: NewEntity, late_image: Image) -> None:
    (withdrawal,) = list_withdrawals(home.store)
    assert withdrawal.is_finished
    assert home.states()[entity.id] == "withdrawn"
    assert late_image.sha256 in {one.sha256 for one in erased_blobs(home.store, withdrawal.id)}
    assert not home.world.blobs.has(late_image.sha256, late_image.media_type)


def test_late_items_of_a_concurrent_run_are_withdrawn_when_it_ends(home: Home) -> None:
    home.withdraw("identity", "9", dataset=DATASET, source=FINE)
    entity, late_image = late_picture(home)

    def import_late(_run: PipelineRun[Any]) -> None:
        store_entities(home.store, [entity])
        assert home.states()[entity.id] == "withdrawn"
        assert not person(home).is_done

    run_build(home.run, pipeline_of(import_late), None, None, resume_reopened)
    assert_withdrawn_and_erased(home, entity, late_image)
    assert person(home).is_done


def test_late_items_of_a_failed_run_are_withdrawn(home: Home) -> None:
    home.withdraw("identity", "9", dataset=DATASET, source=FINE)
    entity, late_image = late_picture(home)

    def fail(_run: PipelineRun[Any]) -> None:
        store_entities(home.store, [entity])
        raise UsageError("the version is too small")

    with pytest.raises(UsageError, match="too small"):
        run_build(home.run, pipeline_of(fail), None, None, resume_reopened)
    assert_withdrawn_and_erased(home, entity, late_image)


def test_a_run_leaves_confirmed_withdrawals_to_the_process_that_confirmed_them(home: Home) -> None:
    withdrawal = home.confirmed(person(home))
    resume_reopened(home.run)
    assert list_withdrawals(home.store) == [withdrawal]
    assert versions(home) == ["1.0.0"]


def test_items_added_between_the_steps_are_withdrawn_before_the_end(tmp_path: Path) -> None:
    for last in ("find what came since", "erase files", "write notices"):
        home = home_of(tmp_path / last)
        withdrawal = home.confirmed(person(home))
        late: list[tuple[NewEntity, Image]] = []

        def on_step(
            name: str,
            _details: object,
            home: Home = home,
            last: str = last,
            late: list[tuple[NewEntity, Image]] = late,
        ) -> None:
            if name == last and not late:
                late.append(late_picture(home))
                store_entities(home.store, [late[0][0]])

        carry_out(home.run, withdrawal, on_step)
        assert_withdrawn_and_erased(home, *late[0])
        home.store.close()


def test_a_file_that_somebody_needs_since_the_confirmation_is_kept_and_named(home: Home) -> None:
    """The ground concerns this dataset only, and an import stores the same bytes elsewhere."""
    plan = home.plan("source", FINE, "quality", erases=True)
    withdrawal = home.confirmed(plan)
    blob = plan.erased[0]
    (original, *_) = (
        one.record(Image)
        for one in find(home.store, DATASET, Image.kind)
        if one.record(Image).sha256 == blob.sha256
    )
    store_entities(home.store, [new_entity(original, "elsewhere")])
    carry_out(home.run, withdrawal)
    assert home.world.blobs.has(*blob)
    assert not any(home.world.blobs.has(*one) for one in plan.erased[1:])
    (step,) = (one for one in steps_of(home.store, withdrawal.id) if one.step == "erase files")
    assert step.details["needed"] == [blob.sha256]
    assert step.details["removed"] == len(plan.erased) - 1


def test_an_erasure_also_drops_checkpoints_of_the_tracker(home: Home) -> None:
    plan = person(home)
    own, *_ = fetch(home.store, plan.reached).values()
    other = next(one for one in find(home.store, DATASET, Image.kind) if one.id not in plan.reached)
    plan_id = register_plan(home.store, "follow_people", "1", {})
    with home.store.write() as connection:
        rows = [
            {"plan_id": plan_id, "input": one.seq, "position": 20, "state": b"looks"}
            for one in (own, other)
        ]
        connection.execute(insert(Checkpoint), rows)
    carry_out(home.run, home.confirmed(plan))
    with home.store.read() as connection:
        left = connection.execute(select(Checkpoint.input)).scalars().all()
    assert left == [other.seq]


def test_a_withdrawal_that_another_process_finishes_first_ends_as_if_alone(tmp_path: Path) -> None:
    alone, both = (home_of(tmp_path / name) for name in ("alone", "both"))
    carry_out(alone.run, alone.confirmed(person(alone)))

    finished: list[StoredWithdrawal] = []

    def finish(other: Store) -> None:
        (withdrawal,) = list_withdrawals(other)
        carry_out(replace(both.run, store=other), withdrawal)
        finished.extend(list_withdrawals(other))

    with between(both.store, "INSERT INTO withdrawal (", "INSERT INTO withdrawal_step", finish):
        carry_out(both.run, both.confirmed(person(both)))
    assert state_after_withdrawal(both) == state_after_withdrawal(alone)
    assert list_withdrawals(both.store) == finished, "the time of the end is that of the first"
    for home in (alone, both):
        home.store.close()


def test_a_release_that_another_process_builds_first_is_the_same(home: Home) -> None:
    def build_first(other: Store) -> None:
        build_release(other, home.world.blobs, DATASET, "2.0.0", home.release("2.0.0"))

    with between(home.store, "max(entity.seq)", "FROM entity JOIN release_item", build_first):
        built = build_release(home.store, home.world.blobs, DATASET, "2.0.0", home.release("2.0.0"))
    assert not built.is_new
    assert versions(home) == ["1.0.0", "2.0.0"]
    assert verify_release(built.folder).problems == []
    assert leftovers_in(home.folder / "releases") == []


def test_resume_with_json_lists_all_finished_withdrawals(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    from loupe.flows.cli.output import show
    from loupe.flows.cli.withdraw import _resume

    first = home.confirmed(plan := person(home))
    other = next(one for one in find(home.store, DATASET, Image.kind) if one.id not in plan.reached)
    second = home.confirmed(home.plan("entity", other.id))
    show(_resume(home.run), as_json=True)
    output = json.loads(capsys.readouterr().out)
    assert [one["key"] for one in output] == [first.key, second.key]
    show(_resume(home.run), as_json=True)
    assert json.loads(capsys.readouterr().out) == []


def test_resume_withdraws_late_items_that_an_earlier_run_left(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version of Loupe stored late derivations without withdrawing them."""
    from loupe.flows.cli.output import show
    from loupe.flows.cli.withdraw import _resume

    home.withdraw("identity", "9", dataset=DATASET, source=FINE)
    entity, late_image = late_picture(home)
    with monkeypatch.context() as unguarded:
        unguarded.setattr("loupe.db.work.withdraw_late_children", lambda *_: None)
        store_entities(home.store, [entity])
    assert home.states()[entity.id] == "proposed"
    show(_resume(home.run), as_json=False)
    assert_withdrawn_and_erased(home, entity, late_image)


def plan_another(home: Home, *plans: Any) -> WithdrawalPlan:
    """Plan the withdrawal of an image that none of the plans includes."""
    found = find(home.store, DATASET, Image.kind)
    free = (one for one in found if not any(one.id in plan.reached for plan in plans))
    return home.plan("entity", next(free).id)


def test_a_patch_version_built_by_another_withdrawal_is_shared(home: Home) -> None:
    """Two withdrawals plan 1.0.1; the first to run builds it without the items of either."""
    first = home.confirmed(plan := person(home))
    second = home.confirmed(other := plan_another(home, plan))
    carry_out(home.run, second)
    third = home.confirmed(plan_another(home, plan, other))
    carry_out(home.run, third)
    carry_out(home.run, first)
    assert versions(home) == ["1.0.0", "1.0.1", "1.0.2"]
    assert all(one.is_finished for one in list_withdrawals(home.store))
    (notice,) = notices_of(home.store, first.id)
    assert notice.superseded_by == "1.0.1"
    assert not set(released_entities(home.store, release_of(home, "1.0.1"))) & plan.reached.keys()


def release_of(home: Home, version: str) -> str:
    return find_release(home.store, f"{DATASET}@{version}").manifest.id


def test_resume_continues_with_the_others_if_one_withdrawal_fails(home: Home) -> None:
    from loupe.flows.cli.output import show
    from loupe.flows.cli.withdraw import _resume

    first = home.confirmed(plan := person(home))
    other = next(one for one in find(home.store, DATASET, Image.kind) if one.id not in plan.reached)
    second = home.confirmed(home.plan("entity", other.id))
    home.release("1.0.1").mkdir(parents=True)
    (home.release("1.0.1") / "notes.txt").write_text("somebody's")
    image = other.record(Image)
    assert home.world.blobs.has(image.sha256, image.media_type)
    with pytest.raises(UsageError, match=r"1\.0\.1"):
        show(_resume(home.run), as_json=False)
    assert not home.world.blobs.has(image.sha256, image.media_type)
    (home.release("1.0.1") / "notes.txt").unlink()
    home.release("1.0.1").rmdir()
    show(_resume(home.run), as_json=False)
    found = list_withdrawals(home.store)
    assert [one.key for one in found if one.is_finished] == [first.key, second.key]
