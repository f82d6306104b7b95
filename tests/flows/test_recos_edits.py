"""Changes of a caption of v0, and their reversal, after v1 was released."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from loupe.annotate.pull import pull
from loupe.annotate.queues import shipped
from loupe.db.decisions import last_agents
from loupe.db.entities import StoredEntity, fetch, find, parents_of
from loupe.flows.engine.context import RunContext
from loupe.release.format.row_files import read_release
from loupe.schemas.build import RecosBuild
from loupe.schemas.proposals import Confusion
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption
from tests.annotate.answering import Regions, about, accepting, editing, rejecting
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.recos_reviewers import (
    ReviewedTasks,
    answer,
    build_once,
    change_answer,
    fits_own,
    of_tier,
    proposed,
    sizes,
)
from tests.flows.recos_world import DATASET
from tests.flows.runs import copied_run

pytestmark = pytest.mark.xdist_group("recos_people")  # the shared build is made once

EDITED = "What a reviewer made of it, when all was done."


@pytest.fixture
def build(reviewed_tasks: ReviewedTasks) -> RecosBuild:
    return reviewed_tasks.build


@pytest.fixture
def run(reviewed_tasks: ReviewedTasks, tmp_path: Path) -> Iterator[RunContext]:
    """A copy of the build with a released v1 that tests may change."""
    with copied_run(reviewed_tasks.released[0], tmp_path / "home") as copied:
        yield copied


@pytest.fixture
def office(reviewed_tasks: ReviewedTasks) -> MemoryOffice:
    return deepcopy(reviewed_tasks.released[1])


@pytest.fixture
def done(run: RunContext) -> StoredEntity:
    """A caption of v0 for which a confusing caption of v1 is accepted."""
    confused = confused_by(run, "accepted")
    return fetch(run.store, confused.values())[min(confused.values())]


def test_an_edited_caption_gets_a_new_confusing_caption_until_the_edit_is_reverted(
    run: RunContext, build: RecosBuild, office: MemoryOffice, done: StoredEntity
) -> None:
    before = caption_states(run)
    confused = {one.id for one in confused_captions(run, "accepted")}
    (old,) = confusing(run, done.id)
    assert old.state == "accepted"
    change_caption_answer(run, office, done, editing(EDITED))
    later = build.model_copy(update={"revision": "1.1"})
    calls = sizes(run)[-1]
    report = build_once(run, later, office)

    assert sizes(run)[-1] == calls + 1, "one model call, for the new caption"
    edited = caption_with_text(run, EDITED)
    (new,) = confusing(run, edited.id)
    assert new.state == "proposed"
    assert same_place(run, new, old)
    assert current_state(run, old) == "inactive"
    waiting = proposed(run, Confusion.kind)
    about_ = parents_of(run.store, [one.id for one in waiting], Role.ASKS_ABOUT)
    assert {found[0] for found in about_.values()} == {new.id, edited.id}
    assert report.waiting == len(waiting) == 2, "no new question on other captions"
    untouched = {one: state for one, state in before.items() if one not in {done.id, old.id}}
    assert untouched.items() <= caption_states(run).items()
    assert_a_run_changes_nothing(run, later, office)

    answer(run, office, fits_own)
    assert build_once(run, later, office).waiting == 0
    assert current_state(run, new) == "accepted"
    folder = run.settings.home / "releases" / f"{DATASET}-1.1.1"
    texts = {one.text for row in read_release(folder).rows for one in row.captions}
    assert {EDITED, new.record(Caption).text} <= texts
    assert old.record(Caption).text not in texts - texts_of(run, "accepted")
    assert done.record(Caption).text not in texts - texts_of(run, "accepted")
    assert_a_run_changes_nothing(run, later, office)

    change_caption_answer(run, office, done, accepting(done.record(Caption).text))
    calls = sizes(run)[-1]
    restored = build.model_copy(update={"revision": "1.2"})
    assert build_once(run, restored, office).waiting == 0
    assert sizes(run)[-1] == calls, "no caption is generated again"
    assert current_state(run, old) == "accepted"
    assert last_agents(run.store, [old.id])[old.id].kind == "person"
    assert {one.id for one in confused_captions(run, "accepted")} == confused
    assert proposed(run, Confusion.kind) == [], "no answered question is asked again"
    assert_a_run_changes_nothing(run, restored, office)


def test_an_image_without_accepted_captions_loses_its_similar_image(
    run: RunContext, build: RecosBuild, office: MemoryOffice, done: StoredEntity
) -> None:
    (image,) = parents_of(run.store, [done.id], Role.DESCRIBES)[done.id]
    for caption in captions_of_image(run, image):
        change_caption_answer(run, office, caption, rejecting(caption.record(Caption).text))
    (old,) = confusing(run, done.id)
    before, calls = len(of_tier(run, "v1")), sizes(run)[-1]
    report = build_once(run, build.model_copy(update={"revision": "1.1"}), office)
    assert report.waiting == 0
    assert len(of_tier(run, "v1")) == before - 1
    assert current_state(run, old) == "inactive"
    assert sizes(run)[-1] == calls


def change_caption_answer(
    run: RunContext, office: MemoryOffice, caption: StoredEntity, regions: Regions
) -> None:
    """Change an answer on a caption and pull it."""
    change_answer(run, office, caption, about("caption", regions))
    pull(run.store, office, shipped().queue(DATASET, "captions"))


def assert_a_run_changes_nothing(run: RunContext, build: RecosBuild, office: MemoryOffice) -> None:
    before = sizes(run)
    build_once(run, build, office)
    assert sizes(run) == before


def confused_captions(run: RunContext, *states: str) -> list[StoredEntity]:
    """Return the captions of v1."""
    captions = list(find(run.store, DATASET, Caption.kind, states=states or None))
    new = parents_of(run.store, [one.id for one in captions], Role.CONFUSES)
    return [one for one in captions if one.id in new]


def confused_by(run: RunContext, *states: str) -> dict[str, str]:
    """Map captions of v1 to the captions of v0 that they confuse."""
    ids = [one.id for one in confused_captions(run, *states)]
    return {one: found[0] for one, found in parents_of(run.store, ids, Role.CONFUSES).items()}


def confusing(run: RunContext, caption_id: str) -> list[StoredEntity]:
    """Return the confusing captions of a caption."""
    found = [one for one, other in confused_by(run).items() if other == caption_id]
    return list(fetch(run.store, found).values())


def captions_of_image(run: RunContext, image_id: str) -> Iterable[StoredEntity]:
    captions = list(find(run.store, DATASET, Caption.kind, states=("accepted",)))
    described = parents_of(run.store, [one.id for one in captions], Role.DESCRIBES)
    return [one for one in captions if described[one.id] == [image_id]]


def caption_with_text(run: RunContext, text: str) -> StoredEntity:
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


def current_state(run: RunContext, entity: StoredEntity) -> str:
    return fetch(run.store, [entity.id])[entity.id].state


def caption_states(run: RunContext) -> dict[str, str]:
    return {one.id: one.state for one in find(run.store, DATASET, Caption.kind)}


def texts_of(run: RunContext, state: str) -> set[str]:
    return {
        one.record(Caption).text for one in find(run.store, DATASET, Caption.kind, states=(state,))
    }
