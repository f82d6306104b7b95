"""`build-recos` with review at both gates."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from annotate.queues import SHARED
from db.decisions import last_agents
from db.entities import StoredEntity, fetch, find, parents_of
from db.reviews import tasks_by_key
from flows.engine.context import RunContext
from flows.engine.report import BuildReport
from flows.recos.similar_images import MOST_MATCHES, captions_of
from release.row_files import read_release
from release.verify import verify_release
from schemas.proposals import Confusion
from schemas.provenance import Role
from schemas.records import Caption, Image
from schemas.recos import DiscriminabilitySettings
from tests.annotate.answering import Regions, about, editing, rejecting
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.drawn_stills import DrawnStills
from tests.flows.recos_reviewers import (
    ReviewedTasks,
    accept_caption,
    answer,
    build_once,
    fits_both,
    fits_own,
    of_tier,
    proposed,
)
from tests.flows.recos_world import DATASET, small_build, small_profile
from tests.flows.runs import copied_run

pytestmark = pytest.mark.xdist_group("recos_people")  # the shared build is made once

EDITED = "What a reviewer made of it, in words of their own."


@pytest.fixture
def captions_wait(
    reviewed_tasks: ReviewedTasks, tmp_path: Path
) -> Iterator[tuple[RunContext, MemoryOffice]]:
    """A copy of a build whose captions wait for answers."""
    run, office = reviewed_tasks.captions_wait
    with copied_run(run, tmp_path / "captions") as copied:
        yield copied, deepcopy(office)


@pytest.fixture
def questions_wait(
    reviewed_tasks: ReviewedTasks, tmp_path: Path
) -> Iterator[tuple[RunContext, MemoryOffice]]:
    """A copy of a build whose v0 is released and whose questions on v1 wait for answers."""
    run, office = reviewed_tasks.questions_wait
    with copied_run(run, tmp_path / "questions") as copied:
        yield copied, deepcopy(office)


def is_about(question: StoredEntity, image: StoredEntity) -> bool:
    """Whether a question is about `image` of v1."""
    return question.record(Confusion).other.image_id == image.id


def released(run: RunContext, version: str) -> Path:
    folder = run.settings.home / "releases" / f"{DATASET}-{version}"
    assert verify_release(folder) == []
    assert not read_release(folder).manifest.unreviewed
    return folder


def test_answers_at_both_gates_are_applied(
    captions_wait: tuple[RunContext, MemoryOffice], reviewed_tasks: ReviewedTasks
) -> None:
    (run, office), build = captions_wait, reviewed_tasks.build.model_copy(update={"last": "v2"})
    captions = proposed(run, Caption.kind)
    assert len(captions) == 5 * 10
    assert not (run.settings.home / "releases").exists()
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
    assert_the_edit_replaces_the_caption(run, edited, refused)

    confusing = proposed(run, Caption.kind)
    asked = proposed(run, Confusion.kind)
    assert second.waiting == len(asked)
    assert_each_caption_has_a_question(run, confusing, asked)
    assert build_once(run, build, office).waiting == second.waiting, "no question is created twice"
    assert {one.state for one in fetch(run.store, [one.id for one in confusing]).values()} == {
        "proposed"
    }, "captions of v1 are not decided at the first gate"

    confused_image = of_tier(run, "v1")[0]
    answer(
        run, office, lambda one: fits_both(one) if is_about(one, confused_image) else fits_own(one)
    )
    third = build_once(run, build, office)
    assert_a_replacement_was_found(run, confused_image, third)
    answer(run, office, fits_own)
    last = build_once(run, build, office)
    assert last.waiting == 0
    for version in ("0.1.0", "1.1.0", "2.1.0"):
        released(run, version)
    assert_accepted_captions_are_marked_as_reviewed(run)
    assert build_once(run, build, office).release_id == last.release_id


def assert_each_caption_has_a_question(
    run: RunContext, confusing: list[StoredEntity], asked: list[StoredEntity]
) -> None:
    """Assert a question per new caption, and per caption of v0 with each similar image."""
    about = [one.record(Confusion).caption_id for one in asked]
    new = {one.id for one in confusing}
    assert {one for one in about if one in new} == new
    images = [one.id for one in of_tier(run, "v1")]
    partners = parents_of(run.store, images, Role.SIMILAR_TO)
    v0_captions = captions_of(run.store, [found[0] for found in partners.values()])
    earlier = sum(len(v0_captions[found[0]]) for found in partners.values())
    assert len(about) == len(new) + earlier


def assert_the_edit_replaces_the_caption(
    run: RunContext, edited: StoredEntity, refused: StoredEntity
) -> None:
    """Assert that the edit describes the image and is the base of the confusing caption."""
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
    confused_ids = {found[0] for found in confused.values()}
    assert new.id in confused_ids
    assert not {edited.id, refused.id} & confused_ids


def assert_a_replacement_was_found(
    run: RunContext, confused_image: StoredEntity, report: BuildReport
) -> None:
    """Assert that the image is rejected and that questions on its replacement wait."""
    partner = parents_of(run.store, [confused_image.id], Role.SIMILAR_TO)[confused_image.id]
    replacements = [
        one
        for one in of_tier(run, "v1")
        if parents_of(run.store, [one.id], Role.SIMILAR_TO)[one.id] == partner
    ]
    assert fetch(run.store, [confused_image.id])[confused_image.id].state == "rejected"
    assert len(replacements) == 1
    assert replacements[0].record(Image).sha256 != confused_image.record(Image).sha256
    asked = proposed(run, Confusion.kind)
    with_images = parents_of(run.store, [one.id for one in asked], Role.ASKS_WITH)
    assert {found[0] for found in with_images.values()} == {replacements[0].id}
    assert report.waiting == len(asked) > 0


def assert_accepted_captions_are_marked_as_reviewed(run: RunContext) -> None:
    """Assert that the last decision on every accepted caption is by a person."""
    accepted = [one.id for one in find(run.store, DATASET, Caption.kind, states=("accepted",))]
    new = parents_of(run.store, accepted, Role.CONFUSES)
    assert new
    assert {agent.kind for agent in last_agents(run.store, accepted).values()} == {"person"}
    live = {one.id for one in of_tier(run, "v1")}
    described = parents_of(run.store, list(new), Role.DESCRIBES)
    assert {found[0] for found in described.values()} <= live, "no caption of a rejected image"


def test_open_questions_on_a_rejected_image_are_removed_from_the_desk(
    questions_wait: tuple[RunContext, MemoryOffice], reviewed_tasks: ReviewedTasks
) -> None:
    (run, office), build = questions_wait, reviewed_tasks.build
    confused_image = of_tier(run, "v1")[0]
    asked = proposed(run, Confusion.kind)
    with_images = parents_of(run.store, [one.id for one in asked], Role.ASKS_WITH)
    about_it = {one.id for one in asked if with_images[one.id] == [confused_image.id]}
    answer_fits_both(run, office, next(one for one in asked if is_about(one, confused_image)))

    report = build_once(run, build, office)
    waiting = {one.id for one in proposed(run, Confusion.kind)}
    assert not waiting & about_it
    assert report.waiting == len(waiting)
    assert {one.id for one in asked} - about_it < waiting, "the replacement has questions already"
    desk = office(SHARED)
    keys = tasks_by_key(run.store, [task.key for task in desk.open_tasks()])
    assert {task.entity_id for task in keys.values()} == waiting


def answer_fits_both(run: RunContext, office: MemoryOffice, question: StoredEntity) -> None:
    """Answer one question: the caption fits both images."""
    desk = office(SHARED)
    tasks = tasks_by_key(run.store, [task.key for task in desk.open_tasks()])
    for task in desk.open_tasks():
        if tasks[task.key].entity_id == question.id:
            desk.submit(task.id, fits_both(question))


def test_the_search_for_a_similar_image_ends_after_the_limit(
    run: RunContext, drawn_stills: DrawnStills, tmp_path: Path
) -> None:
    """A reviewer who always answers "both" ends the loop; rejected images are kept.

    The captions gate decides alone; captions of v1 wait for their questions even if it runs twice.
    """
    office = MemoryOffice()
    base = small_build(drawn_stills(80), tmp_path, last="v1", confusions_gate="required")
    build = base.model_copy(update={"tasks": base.tasks[1:2]})
    profile = small_profile(DiscriminabilitySettings(k=3, eta=0.9, rounds=0))
    first, second = (build_once(run, build, office, profile) for _ in range(2))
    assert first.waiting == second.waiting == len(proposed(run, Confusion.kind)) > 0
    assert_each_caption_has_a_question(
        run, proposed(run, Caption.kind), proposed(run, Confusion.kind)
    )
    rounds = 0
    while (report := build_once(run, build, office, profile)).waiting:
        rounds += 1
        assert rounds <= MOST_MATCHES
        answer(run, office, fits_both)
    assert rounds == MOST_MATCHES
    assert of_tier(run, "v1") == []
    tried = parents_of(
        run.store, [one.id for one in of_tier(run, "v1", "rejected")], Role.SIMILAR_TO
    )
    counts = [list(tried.values()).count(found) for found in tried.values()]
    assert max(counts) == MOST_MATCHES
    assert build_once(run, build, office, profile).release_id == report.release_id
