"""`build-recos` with review at both gates."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from loupe.annotate.queues import SHARED
from loupe.db.entities import StoredEntity, parents_of
from loupe.db.reviews import tasks_by_key
from loupe.flows.engine.context import RunContext
from loupe.flows.recos.run import captions_of
from loupe.flows.recos.similar_images import MOST_MATCHES
from loupe.schemas.proposals import Confusion
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption
from loupe.schemas.recos import DiscriminabilitySettings
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.drawn_stills import DrawnStills
from tests.flows.recos_reviewers import (
    ReviewedTasks,
    answer,
    build_once,
    fits_both,
    of_tier,
    proposed,
)
from tests.flows.recos_world import small_build, small_profile
from tests.flows.runs import copied_run

pytestmark = pytest.mark.xdist_group("recos_people")  # the shared build is made once


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


def test_open_questions_on_a_rejected_image_are_removed_from_the_desk(
    questions_wait: tuple[RunContext, MemoryOffice], reviewed_tasks: ReviewedTasks
) -> None:
    (run, office), build = questions_wait, reviewed_tasks.build
    confused_image = of_tier(run, "v1")[0]
    asked = proposed(run, Confusion.kind)
    assert_each_caption_has_a_question(run, proposed(run, Caption.kind), asked)
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


@pytest.mark.soak
def test_the_search_for_a_similar_image_ends_after_the_limit(
    run: RunContext, drawn_stills: DrawnStills, tmp_path: Path
) -> None:
    """A reviewer who always answers "both" ends the loop; rejected images are kept.

    The captions gate decides alone; captions of v1 wait for their questions even if it runs twice.
    """
    office = MemoryOffice()
    base = small_build(drawn_stills(60), tmp_path, last="v1", confusions_gate="required")
    build = base.model_copy(update={"tasks": base.tasks[1:2]})
    profile = small_profile(DiscriminabilitySettings(k=2, eta=0.9, rounds=0))
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
