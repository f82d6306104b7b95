"""Writes the captions of v1: in the words of captions of v0, and true of their own images only."""

from collections.abc import Sequence
from typing import NamedTuple

from annotate.drafts import PROMPTED_BY
from db.entities import (
    NewEntity,
    StoredEntity,
    parents_of,
)
from db.work import Pending, WorkResult
from flows.asking import ask, require_answers, without_answer
from flows.captioning import WRITTEN_WITH, Captioner, caption_entity, facts_of, task_of
from flows.confusion_questions import question
from flows.report import StageReport, StageResult
from flows.rewriting import store_prompt
from flows.runner import Stage, run_stage
from flows.similar_images import SIMILAR_TO, Begun
from prompts.loader import load_prompt
from schemas.chat import ChatAnswer, ChatOutcome, ChatRequest
from schemas.confusion_request import ConfusionBrief
from schemas.records import Caption, Image, Rejection
from stages.caption_images.answer import folded
from stages.caption_images.request import MAX_CHARACTERS
from stages.confusing_captions.request import STAGE, VERSION, read_confusion, request_confusion

_SAME_WORDS = "The model described the similar image in the same words."
CONFUSES = "confuses"
"""The role of the caption of v0 in whose words one of v1 is written."""


def write_confusing_captions(captioner: Captioner, begun: Begun) -> StageReport:
    """Has for every image of v1 a caption written to each caption of its image of v0.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is gone; what came back before is stored.
    """
    context, dataset = captioner.context, captioner.dataset
    prompt = load_prompt(captioner.settings.confusion_prompt)
    prompt_entity = store_prompt(context, dataset, prompt)
    settings = captioner.settings_of(STAGE, VERSION, prompt)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"settings": settings.id},
        agents=(captioner.agent,),
        chunk_size=50,  # of pictures, which are held
        workers=1,
        label="write confusing captions",
    )
    parents = [(PROMPTED_BY, prompt_entity.id), (WRITTEN_WITH, settings.id)]

    def work(images: Sequence[StoredEntity]) -> list[StageResult]:
        partner = parents_of(context.store, [image.id for image in images], SIMILAR_TO)
        facts = facts_of(context.store, [image.id for image in images])
        asked = [
            (image, caption)
            for image in images
            for caption in begun.captions.get(partner[image.id][0], ())
        ]
        pictures = {image.id: captioner.picture(image) for image in images}
        requests = [
            request_confusion(
                pictures[image.id],
                ConfusionBrief(
                    task=task_of(image),
                    caption=caption.record(Caption).text,
                    facts=facts.get(image.id, ()),
                ),
                prompt,
                MAX_CHARACTERS,
            )
            for image, caption in asked
        ]
        outcomes = ask(captioner.model, requests)
        first = {image.id: image for image in begun.images}
        answered = [
            _Answered(image, first[partner[image.id][0]], caption, request, outcomes.get(place))
            for place, ((image, caption), request) in enumerate(zip(asked, requests, strict=True))
        ]
        return [
            _written(captioner, image, [one for one in answered if one.image is image], parents)
            for image in images
        ]

    report = run_stage(context, stage, Pending(dataset, Image.kind, ("proposed",), "v1"), work)
    require_answers(captioner.settings.model.ref, report)
    return report


class _Answered(NamedTuple):
    """An answer about an image of v1, a caption of v0, and the image that this one describes."""

    image: StoredEntity
    partner: StoredEntity
    caption: StoredEntity
    request: ChatRequest
    outcome: ChatOutcome | None


def _written(
    captioner: Captioner,
    image: StoredEntity,
    answered: Sequence[_Answered],
    parents: Sequence[tuple[str, str]],
) -> StageResult:
    """What was written for an image; an answer that is no use costs itself, unless all are.

    People are asked of the caption of v0 all the same: where the model gave back its words, it may
    well fit both.
    """
    entities: list[NewEntity] = []
    refused: list[Rejection] = []
    said: set[str] = set()
    for one in answered:
        if not isinstance(one.outcome, ChatAnswer):
            failed = without_answer(image, STAGE, one.outcome)
            if not isinstance(failed, WorkResult) or failed.rejection is None:
                return failed
            refused.append(failed.rejection)
            continue
        caption = one.caption.record(Caption)
        text = _different(read_confusion(one.outcome, caption.text, MAX_CHARACTERS), said)
        if isinstance(text, Rejection):
            refused.append(text)
            doubts = (_SAME_WORDS,) if text.reason == "same_words" else ()
            entities += question(one.caption, one.partner, image, image, doubts)
            continue
        said.add(folded(text))
        call = captioner.model.key(one.request)
        roles = [*parents, (CONFUSES, one.caption.id)]
        entities.append(caption_entity(captioner, image, text, caption.position, roles, call))
    if refused and not said:
        return WorkResult(image.seq, rejection=refused[0])
    return WorkResult(image.seq, entities=tuple(entities))


def _different(text: str | Rejection, said: set[str]) -> str | Rejection:
    """A caption, or why it is no use where others of its image say it already."""
    if isinstance(text, Rejection) or folded(text) not in said:
        return text
    detail = f"Another caption of the image says the same: {text!r}."
    return Rejection(stage=STAGE, reason="same_captions", detail=detail, context={"text": text})
