"""`build-recos` with people at both gates: what they say is done, and asked for again."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from annotate.queues import HOUSE
from db.decisions import last_agents
from db.entities import StoredEntity, fetch, find, parents_of
from db.reviews import tasks_by_key
from flows.engine.context import RunContext
from flows.engine.report import BuildReport
from flows.recos.similar_images import MOST_MATCHES, captions_of
from release.row_files import read_release
from release.verify import verify_release
from schemas.build import RecosBuild
from schemas.provenance import Role
from schemas.quality import Confusion
from schemas.records import Caption, Image
from sources.demonstration.stills import StillsWorld
from tests.annotate.answering import Regions, about, editing, rejecting
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.drawn_stills import DrawnStills
from tests.flows.recos_reviewers import (
    accept_caption,
    answer,
    build_once,
    fits_both,
    fits_own,
    of_tier,
    proposed,
)
from tests.flows.recos_world import DATASET, small_build

EDITED = "What a reviewer made of it, in words of their own."


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(80)


@pytest.fixture
def office() -> MemoryOffice:
    return MemoryOffice()


@pytest.fixture
def build(stills: StillsWorld, tmp_path: Path) -> RecosBuild:
    gates = {"captions_gate": "required", "confusions_gate": "required"}
    return small_build(stills, tmp_path, **gates)


def is_about(question: StoredEntity, image: StoredEntity) -> bool:
    """Whether a question asks if a caption of v0 fits `image` of v1."""
    return question.record(Confusion).other.image_id == image.id


def released(run: RunContext, version: str) -> Path:
    folder = run.settings.home / "releases" / f"{DATASET}-{version}"
    assert verify_release(folder) == []
    assert not read_release(folder).manifest.unreviewed
    return folder


def test_people_are_asked_twice_and_what_they_say_is_done(
    run: RunContext, build: RecosBuild, office: MemoryOffice
) -> None:
    first = build_once(run, build, office)
    captions = proposed(run, Caption.kind)
    assert first.waiting == len(captions) == 5 * 10
    assert first.release is None
    edited, refused = captions[0], captions[7]

    def opinion(shown: StoredEntity) -> Regions:
        if shown.id == edited.id:
            return about("caption", editing(EDITED))
        if shown.id == refused.id:
            return about("caption", rejecting(shown.record(Caption).text))
        return accept_caption(shown)

    assert answer(run, office, opinion) == len(captions)
    second = build_once(run, build, office)
    assert str(released(run, "0.1.0")) in second.sentence
    assert second.sentence.startswith(f"{second.waiting} items of {DATASET} wait for people")
    assert_the_edit_takes_the_place(run, edited, refused)

    confusing = proposed(run, Caption.kind)
    asked = proposed(run, Confusion.kind)
    assert second.waiting == len(asked)
    assert_each_is_asked_about(run, confusing, asked)
    assert build_once(run, build, office).waiting == second.waiting, "and nothing is asked twice"
    assert {one.state for one in fetch(run.store, [one.id for one in confusing]).values()} == {
        "proposed"
    }, "captions of v1 are no business of the first gate"

    unlucky = of_tier(run, "v1")[0]
    answer(run, office, lambda one: fits_both(one) if is_about(one, unlucky) else fits_own(one))
    third = build_once(run, build, office)
    assert_another_was_found(run, unlucky, third)
    answer(run, office, fits_own)
    last = build_once(run, build, office)
    assert last.waiting == 0
    for version in ("0.1.0", "1.1.0", "2.1.0"):
        released(run, version)
    assert_what_people_saw_is_said_to_be_reviewed(run)
    assert build_once(run, build, office).release_id == last.release_id


def assert_each_is_asked_about(
    run: RunContext, confusing: list[StoredEntity], asked: list[StoredEntity]
) -> None:
    """One question of each new caption, and of each caption of v0 with each similar image."""
    about = [one.record(Confusion).caption_id for one in asked]
    new = {one.id for one in confusing}
    assert {one for one in about if one in new} == new
    images = [one.id for one in of_tier(run, "v1")]
    partners = parents_of(run.store, images, Role.SIMILAR_TO)
    begun = captions_of(run.store, [found[0] for found in partners.values()])
    earlier = sum(len(begun[found[0]]) for found in partners.values())
    assert len(about) == len(new) + earlier


def assert_the_edit_takes_the_place(
    run: RunContext, edited: StoredEntity, refused: StoredEntity
) -> None:
    """An edit describes the image, and what is to be confused is written in its words."""
    now = fetch(run.store, [edited.id, refused.id])
    assert (now[edited.id].state, now[refused.id].state) == ("superseded", "rejected")
    (new,) = (
        one
        for one in find(run.store, DATASET, Caption.kind, states=("accepted",))
        if one.record(Caption).text == EDITED
    )
    assert parents_of(run.store, [new.id], Role.EDITED_FROM) == {new.id: [edited.id]}
    described = parents_of(run.store, [new.id, edited.id], Role.DESCRIBES)
    assert described[new.id] == described[edited.id]
    assert (new.group, new.record(Caption).position) == (
        edited.group,
        edited.record(Caption).position,
    )
    written = proposed(run, Caption.kind)
    confused = parents_of(run.store, [one.id for one in written], Role.CONFUSES)
    in_whose_words = {found[0] for found in confused.values()}
    assert new.id in in_whose_words
    assert not {edited.id, refused.id} & in_whose_words


def assert_another_was_found(run: RunContext, unlucky: StoredEntity, report: BuildReport) -> None:
    """The image fell away with all that hangs on it, and questions on the next one wait."""
    partner = parents_of(run.store, [unlucky.id], Role.SIMILAR_TO)[unlucky.id]
    again = [
        one
        for one in of_tier(run, "v1")
        if parents_of(run.store, [one.id], Role.SIMILAR_TO)[one.id] == partner
    ]
    assert fetch(run.store, [unlucky.id])[unlucky.id].state == "rejected"
    assert len(again) == 1
    assert again[0].record(Image).sha256 != unlucky.record(Image).sha256
    asked = proposed(run, Confusion.kind)
    with_images = parents_of(run.store, [one.id for one in asked], Role.ASKS_WITH)
    assert {found[0] for found in with_images.values()} == {again[0].id}
    assert report.waiting == len(asked) > 0


def assert_what_people_saw_is_said_to_be_reviewed(run: RunContext) -> None:
    """The record of a caption says that people decided on it in a question."""
    accepted = [one.id for one in find(run.store, DATASET, Caption.kind, states=("accepted",))]
    new = parents_of(run.store, accepted, Role.CONFUSES)
    assert new
    assert {agent.kind for agent in last_agents(run.store, accepted).values()} == {"person"}
    live = {one.id for one in of_tier(run, "v1")}
    described = parents_of(run.store, list(new), Role.DESCRIBES)
    assert {found[0] for found in described.values()} <= live, "none of an image that fell away"


def test_questions_on_what_fell_away_are_taken_off_the_desk(
    run: RunContext, build: RecosBuild, office: MemoryOffice
) -> None:
    build_once(run, build, office)
    answer(run, office, accept_caption)
    build_once(run, build, office)
    unlucky = of_tier(run, "v1")[0]
    asked = proposed(run, Confusion.kind)
    with_images = parents_of(run.store, [one.id for one in asked], Role.ASKS_WITH)
    about_it = {one.id for one in asked if with_images[one.id] == [unlucky.id]}
    one_answer(run, office, next(one for one in asked if is_about(one, unlucky)))

    report = build_once(run, build, office)
    waiting = {one.id for one in proposed(run, Confusion.kind)}
    assert not waiting & about_it
    assert report.waiting == len(waiting)
    assert {one.id for one in asked} - about_it < waiting, "the next image is asked about at once"
    desk = office(HOUSE)
    keys = tasks_by_key(run.store, [task.key for task in desk.open_tasks()])
    assert {task.entity_id for task in keys.values()} == waiting


def one_answer(run: RunContext, office: MemoryOffice, question: StoredEntity) -> None:
    """Somebody says of one question that the caption fits both images."""
    desk = office(HOUSE)
    tasks = tasks_by_key(run.store, [task.key for task in desk.open_tasks()])
    for task in desk.open_tasks():
        if tasks[task.key].entity_id == question.id:
            desk.submit(task.id, fits_both(question))


def test_an_image_for_which_nothing_stands_is_given_up(
    run: RunContext, build: RecosBuild, office: MemoryOffice
) -> None:
    """A reviewer who always answers "both" reaches the end; earlier findings stay."""
    alone = build.model_copy(update={"captions_gate": "auto", "tasks": build.tasks, "last": "v1"})
    rounds = 0
    while (report := build_once(run, alone, office)).waiting:
        rounds += 1
        assert rounds <= MOST_MATCHES
        answer(run, office, fits_both)
    assert of_tier(run, "v1") == []
    tried = parents_of(
        run.store, [one.id for one in of_tier(run, "v1", "rejected")], Role.SIMILAR_TO
    )
    counts = [list(tried.values()).count(found) for found in tried.values()]
    assert max(counts) <= MOST_MATCHES
    assert build_once(run, alone, office).release_id == report.release_id


def test_a_gate_that_nobody_stands_at_leaves_the_other_to_people(
    run: RunContext, build: RecosBuild, office: MemoryOffice
) -> None:
    """Captions of v1 wait for their questions, however often the first gate opens by itself."""
    alone = build.model_copy(update={"captions_gate": "auto", "last": "v1"})
    first, second = (build_once(run, alone, office) for _ in range(2))
    assert first.waiting == second.waiting == len(proposed(run, Confusion.kind)) > 0
    assert_each_is_asked_about(run, proposed(run, Caption.kind), proposed(run, Confusion.kind))
    answer(run, office, fits_own)
    assert build_once(run, alone, office).waiting == 0
    of_new = confusing_of(run)
    agents = last_agents(run.store, [one.id for one in of_new])
    assert {agent.kind for agent in agents.values()} == {"person"}
    released(run, "1.1.0")


def confusing_of(run: RunContext) -> Sequence[StoredEntity]:
    captions = {one.id: one for one in find(run.store, DATASET, Caption.kind, states=("accepted",))}
    return [captions[one] for one in parents_of(run.store, list(captions), Role.CONFUSES)]
