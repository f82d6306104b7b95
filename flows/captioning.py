"""Has the images that tasks begin with described by the profile's multimodal model.

Facts that are known of an image stand in the request, so that what is said of it is true.
"""

from collections.abc import Sequence

from annotate.drafts import PROMPTED_BY
from annotate.items import DESCRIBES
from db.entities import LIVE, NewEntity, StoredEntity, fetch, new_entity, parents_of
from db.store import Store
from db.work import Pending, WorkResult
from flows.asked_model import AskedModel
from flows.asking import ask, require_answers, without_answer
from flows.context import RunContext
from flows.importing import KNOWN_FROM
from flows.report import StageReport, StageResult
from flows.rewriting import store_prompt
from flows.runner import Stage, run_stage
from flows.task_images import SAMPLED_FROM
from prompts.loader import load_prompt
from schemas.caption_request import CAPTION_PURPOSE
from schemas.chat import ChatAnswer, ChatOutcome, ChatRequest
from schemas.profile import CaptioningSettings
from schemas.records import Caption, Image, ImageFacts, Rejection
from schemas.recos import RenderedTruth
from schemas.retrieval_task import RetrievalTask
from stages.caption_images.answer import read_captions
from stages.caption_images.request import VERSION, request_captions

RENDERED_FROM = "rendered_from"
"""The role of what a generator drew, of which an image is the picture."""
WRITTEN_WITH = "written_with"
"""The role in which the settings of a caption stand to it: model, parameters, prompt."""


class Captioner(AskedModel):
    """The profile's captioner, and how it is asked, in one dataset."""

    def __init__(self, context: RunContext, dataset: str, settings: CaptioningSettings) -> None:
        super().__init__(context, dataset, settings.model)
        self.settings = settings


def write_captions(captioner: Captioner) -> tuple[NewEntity, StageReport]:
    """Has every image of v0 described five times; gives what was set, of which captions derive.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is gone; what came back before is stored.
    """
    context, dataset = captioner.context, captioner.dataset
    prompt = load_prompt(captioner.settings.prompt)
    prompt_entity = store_prompt(context, dataset, prompt)
    settings = captioner.settings_of(CAPTION_PURPOSE, VERSION, prompt)
    stage = Stage(
        name=CAPTION_PURPOSE,
        version=VERSION,
        dataset=dataset,
        configuration={"settings": settings.id},
        agents=(captioner.agent,),
        workers=1,  # a chat model keeps many requests in flight itself
        label="write captions",
    )

    def work(images: Sequence[StoredEntity]) -> list[StageResult]:
        facts = facts_of(context.store, [image.id for image in images])
        requests = [
            request_captions(
                captioner.picture(image), task_of(image), facts.get(image.id, ()), prompt
            )
            for image in images
        ]
        outcomes = ask(captioner.model, requests)
        parents = [(PROMPTED_BY, prompt_entity.id), (WRITTEN_WITH, settings.id)]
        return [
            _result(captioner, image, request, outcomes.get(place), parents)
            for place, (image, request) in enumerate(zip(images, requests, strict=True))
        ]

    report = run_stage(context, stage, Pending(dataset, Image.kind, LIVE, "v0"), work)
    require_answers(captioner.settings.model.ref, report)
    return settings, report


def facts_of(store: Store, image_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What is known of those images that were rendered, or whose source tells it; by their ids."""
    copied = parents_of(store, image_ids, SAMPLED_FROM)
    originals = {one for found in copied.values() for one in found}
    facts: dict[str, tuple[str, ...]] = {}
    kinds: tuple[tuple[str, type[RenderedTruth | ImageFacts]], ...] = (
        (RENDERED_FROM, RenderedTruth),
        (KNOWN_FROM, ImageFacts),
    )
    for role, kind in kinds:
        known = parents_of(store, originals, role)
        records = fetch(store, {one for found in known.values() for one in found})
        facts |= {
            original: records[one].record(kind).facts
            for original, found in known.items()
            for one in found
        }
    return {
        image_id: facts[original] for image_id, (original,) in copied.items() if facts.get(original)
    }


def truths_of(store: Store, originals: Sequence[str]) -> dict[str, RenderedTruth]:
    """What was drawn into images of sources, by the ids of those of which it is known."""
    drawn = parents_of(store, originals, RENDERED_FROM)
    truths = fetch(store, {one for found in drawn.values() for one in found})
    return {original: truths[found[0]].record(RenderedTruth) for original, found in drawn.items()}


def task_of(image: StoredEntity) -> RetrievalTask:
    """What an image of the benchmark is for."""
    task = image.record(Image).task
    assert task is not None  # noqa: S101 - `flows.task_images` gives every image one
    return task


def caption_entity(
    captioner: Captioner,
    image: StoredEntity,
    text: str,
    position: int,
    parents: Sequence[tuple[str, str]],
    model_call: str | None,
) -> NewEntity:
    """A caption by the model."""
    record = Caption(
        source=image.record(Image).source, text=text, position=position, author=captioner.author
    )
    return new_entity(
        record,
        captioner.dataset,
        parents=[(DESCRIBES, image.id), *parents],
        split=image.split,
        group=image.id,
        model_call=model_call,
    )


def _result(
    captioner: Captioner,
    image: StoredEntity,
    request: ChatRequest,
    outcome: ChatOutcome | None,
    parents: Sequence[tuple[str, str]],
) -> StageResult:
    if not isinstance(outcome, ChatAnswer):
        return without_answer(image, CAPTION_PURPOSE, outcome)
    captions = read_captions(outcome)
    if isinstance(captions, Rejection):
        return WorkResult(image.seq, rejection=captions)
    call = captioner.model.key(request)
    written = (
        caption_entity(captioner, image, text, position, parents, call)
        for position, text in enumerate(captions)
    )
    return WorkResult(image.seq, entities=tuple(written))
