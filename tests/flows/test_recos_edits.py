"""A caption of v0 that people change when v1 is there already, and change back."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from annotate.pull import pull
from annotate.queues import shipped
from db.decisions import last_agents
from db.entities import StoredEntity, fetch, find, parents_of
from flows.engine.context import RunContext
from release.row_files import read_release
from schemas.build import RecosBuild
from schemas.provenance import Role
from schemas.quality import Confusion
from schemas.records import Caption
from sources.demonstration.stills import StillsWorld
from tests.annotate.answering import Regions, about, accepting, editing, rejecting
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.drawn_stills import DrawnStills
from tests.flows.recos_reviewers import (
    accept_caption,
    answer,
    build_once,
    change_answer,
    fits_own,
    of_tier,
    proposed,
    sizes,
)
from tests.flows.recos_world import DATASET, small_build
from tests.flows.runs import copied_run, new_run

EDITED = "What a reviewer made of it, when all was done."


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(60)


@pytest.fixture(scope="module")
def build(stills: StillsWorld, tmp_path_factory: pytest.TempPathFactory) -> RecosBuild:
    gates = {"captions_gate": "required", "confusions_gate": "required"}
    return small_build(stills, tmp_path_factory.mktemp("build"), last="v1", **gates)


@pytest.fixture(scope="module")
def released(
    build: RecosBuild, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunContext, MemoryOffice]]:
    """v1 is released, as people said; nobody changes it."""
    office = MemoryOffice()
    with new_run(migrated_sqlite, tmp_path_factory.mktemp("released")) as run:
        build_once(run, build, office)
        answer(run, office, accept_caption)
        build_once(run, build, office)
        answer(run, office, fits_own)
        assert build_once(run, build, office).release is not None
        yield run, office


@pytest.fixture
def run(released: tuple[RunContext, MemoryOffice], tmp_path: Path) -> Iterator[RunContext]:
    """The same, to be changed."""
    with copied_run(released[0], tmp_path / "home") as copied:
        yield copied


@pytest.fixture
def office(released: tuple[RunContext, MemoryOffice]) -> MemoryOffice:
    return deepcopy(released[1])


@pytest.fixture
def done(run: RunContext) -> StoredEntity:
    """A caption of v0 in whose words one of v1 is accepted."""
    confused = confused_by(run, "accepted")
    return fetch(run.store, confused.values())[min(confused.values())]


def test_its_confusing_caption_is_written_and_asked_again(
    run: RunContext, build: RecosBuild, office: MemoryOffice, done: StoredEntity
) -> None:
    before = state_of(run)
    (old,) = confusing(run, done.id)
    assert old.state == "accepted"
    say_of(run, office, done, editing(EDITED))
    later = build.model_copy(update={"revision": "1.1"})
    calls = sizes(run)[-1]
    report = build_once(run, later, office)

    assert sizes(run)[-1] == calls + 1, "one answer is paid, that to the new caption"
    edited = the_caption(run, EDITED)
    (new,) = confusing(run, edited.id)
    assert new.state == "proposed"
    assert same_place(run, new, old)
    assert state_now(run, old) == "inactive"
    waiting = proposed(run, Confusion.kind)
    about_ = parents_of(run.store, [one.id for one in waiting], Role.ASKS_ABOUT)
    assert {found[0] for found in about_.values()} == {new.id, edited.id}
    assert report.waiting == len(waiting) == 2, "of all other captions nobody is asked again"
    untouched = {one: state for one, state in before.items() if one not in {done.id, old.id}}
    assert untouched.items() <= state_of(run).items()
    assert_nothing_is_done(run, later, office)

    answer(run, office, fits_own)
    assert build_once(run, later, office).waiting == 0
    assert state_now(run, new) == "accepted"
    folder = run.settings.home / "releases" / f"{DATASET}-1.1.1"
    said = {one.text for row in read_release(folder).rows for one in row.captions}
    assert {EDITED, new.record(Caption).text} <= said
    assert old.record(Caption).text not in said - texts_of(run, "accepted")
    assert done.record(Caption).text not in said - texts_of(run, "accepted")
    assert_nothing_is_done(run, later, office)


def test_who_takes_the_change_back_has_what_was_there(
    run: RunContext, build: RecosBuild, office: MemoryOffice, done: StoredEntity
) -> None:
    """Nothing is written again, and nobody is asked again what was answered."""
    (old,) = confusing(run, done.id)
    before = {one.id for one in confused_captions(run, "accepted")}
    say_of(run, office, done, editing(EDITED))
    build_once(run, build.model_copy(update={"revision": "1.1"}), office)
    assert state_now(run, old) == "inactive"

    say_of(run, office, done, accepting(done.record(Caption).text))
    calls = sizes(run)[-1]
    later = build.model_copy(update={"revision": "1.2"})
    report = build_once(run, later, office)
    assert report.waiting == 0
    assert sizes(run)[-1] == calls
    assert state_now(run, old) == "accepted"
    assert last_agents(run.store, [old.id])[old.id].kind == "person"
    assert {one.id for one in confused_captions(run, "accepted")} == before
    assert proposed(run, Confusion.kind) == []
    assert_nothing_is_done(run, later, office)


def test_a_caption_that_is_refused_takes_its_confusing_one_along(
    run: RunContext, build: RecosBuild, office: MemoryOffice, done: StoredEntity
) -> None:
    (old,) = confusing(run, done.id)
    images = [one.id for one in of_tier(run, "v1")]
    say_of(run, office, done, rejecting(done.record(Caption).text))
    calls = sizes(run)[-1]
    later = build.model_copy(update={"revision": "1.1"})
    report = build_once(run, later, office)
    assert report.waiting == 0
    assert sizes(run)[-1] == calls
    assert state_now(run, old) == "inactive"
    assert [one.id for one in of_tier(run, "v1")] == images, "others of its captions stand"
    assert_nothing_is_done(run, later, office)


def test_an_image_of_which_nothing_stands_loses_its_similar_one(
    run: RunContext, build: RecosBuild, office: MemoryOffice, done: StoredEntity
) -> None:
    (image,) = parents_of(run.store, [done.id], Role.DESCRIBES)[done.id]
    for caption in captions_of_image(run, image):
        say_of(run, office, caption, rejecting(caption.record(Caption).text))
    before = len(of_tier(run, "v1"))
    report = build_once(run, build.model_copy(update={"revision": "1.1"}), office)
    assert report.waiting == 0
    assert len(of_tier(run, "v1")) == before - 1


def say_of(run: RunContext, office: MemoryOffice, caption: StoredEntity, regions: Regions) -> None:
    """Somebody changes what they said of a caption, and it is fetched."""
    change_answer(run, office, caption, about("caption", regions))
    pull(run.store, office, shipped().queue(DATASET, "captions"))


def assert_nothing_is_done(run: RunContext, build: RecosBuild, office: MemoryOffice) -> None:
    """A run that finds nothing changed leaves the store as it is."""
    before = sizes(run)
    build_once(run, build, office)
    assert sizes(run) == before


def confused_captions(run: RunContext, *states: str) -> list[StoredEntity]:
    """The captions of v1."""
    captions = list(find(run.store, DATASET, Caption.kind, states=states or None))
    new = parents_of(run.store, [one.id for one in captions], Role.CONFUSES)
    return [one for one in captions if one.id in new]


def confused_by(run: RunContext, *states: str) -> dict[str, str]:
    """For captions of v1 those of v0 in whose words they are."""
    ids = [one.id for one in confused_captions(run, *states)]
    return {one: found[0] for one, found in parents_of(run.store, ids, Role.CONFUSES).items()}


def confusing(run: RunContext, caption_id: str) -> list[StoredEntity]:
    """What was written in the words of a caption."""
    found = [one for one, other in confused_by(run).items() if other == caption_id]
    return list(fetch(run.store, found).values())


def captions_of_image(run: RunContext, image_id: str) -> Iterable[StoredEntity]:
    captions = list(find(run.store, DATASET, Caption.kind, states=("accepted",)))
    described = parents_of(run.store, [one.id for one in captions], Role.DESCRIBES)
    return [one for one in captions if described[one.id] == [image_id]]


def the_caption(run: RunContext, text: str) -> StoredEntity:
    (found,) = (
        one
        for one in find(run.store, DATASET, Caption.kind, states=("accepted",))
        if one.record(Caption).text == text
    )
    return found


def same_place(run: RunContext, one: StoredEntity, other: StoredEntity) -> bool:
    described = parents_of(run.store, [one.id, other.id], Role.DESCRIBES)
    positions = {caption.record(Caption).position for caption in (one, other)}
    return described[one.id] == described[other.id] and len(positions) == 1


def state_now(run: RunContext, entity: StoredEntity) -> str:
    return fetch(run.store, [entity.id])[entity.id].state


def state_of(run: RunContext) -> dict[str, str]:
    return {one.id: one.state for one in find(run.store, DATASET, Caption.kind)}


def texts_of(run: RunContext, state: str) -> set[str]:
    return {
        one.record(Caption).text for one in find(run.store, DATASET, Caption.kind, states=(state,))
    }
