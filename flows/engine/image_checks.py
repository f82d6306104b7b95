"""Spot checks of drawn images, before models are paid for: the gate `images`.

A question is proposed for each image that was drawn from a source. A rejected image is left out of
the dataset, with its captions and rewrites; that of the source is not changed.
"""

from collections.abc import Sequence
from typing import Any

from loupe.db.decisions import decide, last_agents, last_reasons
from loupe.db.entities import (
    LIVE,
    NewDecision,
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch,
    fetch_children,
    parents_of,
)
from loupe.flows.engine.context import PipelineRun, PipelineStep
from loupe.flows.engine.embedding import picture_of
from loupe.flows.engine.pipeline import Gate, Step
from loupe.flows.engine.runner import Stage, run_each
from loupe.schemas.base import digest_of
from loupe.schemas.grouping import grouped
from loupe.schemas.proposals import ImageQuestion
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rewrite

VERSION = "1"
STAGE = "propose_image_checks"
_MOST_OTHERS = 3
_FOLLOWED = "as people answered whether it is usable"


def image_checks() -> tuple[PipelineStep[Any], ...]:
    """Return the steps that ask people about drawn images, if the build has an `images_gate`."""
    return (
        Step(_propose_questions, enabled=_is_asked),
        Gate("images", "images_gate", apply=_follow_answers, enabled=_is_asked),
    )


def _is_asked(run: PipelineRun[Any]) -> bool:
    return "images" in run.queues


def _propose_questions(run: PipelineRun[Any]) -> None:
    """Propose a question for each drawn image that has none.

    A question that was withdrawn with a caption or another image on its page is asked again.
    """
    images = run.find(Image, *LIVE)
    drawn = parents_of(run.store, [one.id for one in images], Role.SAMPLED_FROM)
    images = [one for one in images if one.id in drawn]
    captions = fetch_children(run.store, list(drawn), Role.DESCRIBES)
    of_identity = grouped((_identity(image), image) for image in images)
    asked = {one.group for one in run.find(ImageQuestion) if one.state != "withdrawn"}
    questions = [
        _question(run, image, captions[image.id], of_identity[_identity(image)])
        for image in images
        if image.id not in asked
    ]
    stage = Stage(STAGE, VERSION, run.dataset, {"dataset": run.dataset}, label="propose images")
    # numbers are equal for equal questions only
    numbered = [(int(digest_of(one.payload)[:15], 16), one) for one in questions]
    run.add(run_each(run.context, stage, numbered, lambda number, one: WorkResult(number, (one,))))


def _question(
    run: PipelineRun[Any],
    image: StoredEntity,
    texts: Sequence[StoredEntity],
    of_identity: Sequence[StoredEntity],
) -> NewEntity:
    """Return the question about an image, with its captions and other images of its identity."""
    captions = [one for one in texts if one.kind == Caption.kind and one.state in LIVE]
    captions.sort(key=lambda one: one.record(Caption).position)
    others = [one for one in of_identity if one.id != image.id][:_MOST_OTHERS]
    source, identity = _identity(image)
    question = ImageQuestion(
        source=source,
        identity=identity,
        picture=picture_of(image),
        captions=tuple(one.record(Caption).text for one in captions),
        others=tuple(map(picture_of, others)),
    )
    parents = [
        (Role.SELECTS, image.id),
        *((Role.ASKS_ABOUT, one.id) for one in captions),
        *((Role.ASKS_WITH, one.id) for one in others),
    ]
    return run.create(question, parents, group=image.id)


def _identity(image: StoredEntity) -> tuple[str, str]:
    record = image.record(Image)
    return record.source, record.identity


def _follow_answers(run: PipelineRun[Any]) -> None:
    """Reject images that were found unusable, and reopen them if the answer was changed.

    Their captions and rewrites are inactive meanwhile. An image with another decision, such as a
    withdrawal, is left unchanged.
    """
    store = run.store
    questions = {one.group: one for one in run.find(ImageQuestion, *LIVE, "rejected") if one.group}
    images = fetch(store, list(questions))
    agents = last_agents(store, [one.id for one in questions.values()])
    reasons = last_reasons(store, list(images))
    rejected = {id_ for id_, one in questions.items() if one.state == "rejected"}
    decisions: list[NewDecision] = []
    for id_, image in images.items():
        agent = agents.get(questions[id_].id, run.queues["images"].agent)
        if id_ in rejected and image.state in LIVE:
            decisions.append(NewDecision(id_, "reject", agent, _FOLLOWED))
        elif id_ not in rejected and (image.state, reasons.get(id_)) == ("rejected", _FOLLOWED):
            decisions.append(NewDecision(id_, "reopen", agent, _FOLLOWED))
    decide(store, decisions)
    for kind in (Caption, Rewrite):
        run.sync_active(
            kind,
            lambda text: text.group not in rejected if text.group in questions else None,
            LIVE,
        )
