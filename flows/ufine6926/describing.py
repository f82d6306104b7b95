"""Describe people and images with the models of the profile, as drafts or as final captions."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from loupe.annotate.queues import Queue, apply_policy
from loupe.db.decisions import decide
from loupe.db.entities import (
    LIVE,
    NewDecision,
    StoredEntity,
    WorkResult,
    children_of,
    find,
    parents_of,
)
from loupe.db.store import Store
from loupe.db.work import Pending
from loupe.flows.answers import read_only_text
from loupe.flows.engine.context import RunContext, sync_active
from loupe.flows.engine.model_step import Ask, DatasetModel, LLMStep, Parsed, run_llm_step
from loupe.flows.engine.report import StageReport
from loupe.prompts.loader import load_prompt
from loupe.schemas.chat import ChatAnswer
from loupe.schemas.profile import DescribeSettings
from loupe.schemas.provenance import Role, State
from loupe.schemas.records import Caption, Image, Rejection

STAGE = "describe_person"
VERSION = "2"


def read_description(answer: ChatAnswer, max_characters: int) -> str | Rejection:
    """Return the description in `answer`, or the reason why it cannot be used."""
    return read_only_text(answer, STAGE, None, max_characters)


def offer_drafts(
    context: RunContext, queue: Queue, settings: DescribeSettings, *, wanted: bool
) -> list[StageReport]:
    """Draft descriptions with the profile's first model for the annotators, if `wanted`.

    Call it before images are sent to the annotation backend; `loupe.annotate.push` decides which
    annotators start from a draft. If drafts are not wanted, those still waiting become inactive.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    apply_policy(context.store, queue)
    drafters = _drafters(context, queue, settings)
    _keep_drafts(context, queue, drafters, offered=wanted)
    asked = drafters[:1] if wanted else []
    return [_draft(queue, settings, one, "proposed") for one in asked]


def draft_descriptions(
    context: RunContext, queue: Queue, settings: DescribeSettings, *, offered: bool
) -> list[StageReport]:
    """Draft a description by every model of the profile for each accepted image without one.

    Images are accepted once their descriptions are written, or by a policy without people. Such a
    policy accepts the drafts as well. Drafts by other models, parameters or prompts than those of
    `settings` are inactive until these are used again. `offered` is the value that `wanted` had
    before.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: a model's server is unavailable; earlier answers are stored.
    """
    drafters = _drafters(context, queue, settings)
    back = _keep_drafts(context, queue, drafters, offered=offered)
    decide(context.store, [_acceptance(queue, draft_id) for draft_id in back])
    return [_draft(queue, settings, one, "accepted") for one in drafters]


class _Drafter(NamedTuple):
    """A model of the profile; `position` is that of its drafts among the captions of an image."""

    model: DatasetModel
    position: int
    settings_id: str


def _drafters(context: RunContext, queue: Queue, settings: DescribeSettings) -> list[_Drafter]:
    prompt = load_prompt(settings.prompt)
    drafters = []
    for position, spec in enumerate(settings.models):
        limits = {"max_characters": settings.max_characters, "position": position}
        model = DatasetModel(context, queue.dataset, spec)
        entity = model.settings_of(STAGE, VERSION, prompt, **limits)
        drafters.append(_Drafter(model, position, entity.id))
    return drafters


def _keep_drafts(
    context: RunContext, queue: Queue, drafters: Sequence[_Drafter], *, offered: bool
) -> list[str]:
    """Make unneeded drafts inactive; return those that no human description replaces.

    A draft counts if it was made with the current settings, and its image either waits for
    annotators and drafts are `offered` to them, or was accepted without a human description.
    """
    store, dataset = context.store, queue.dataset
    settings_ids = {drafter.settings_id for drafter in drafters}
    captions = [one.id for one in find(store, dataset, Caption.kind)]
    drafted = parents_of(store, captions, Role.DRAFTED_WITH)
    images = parents_of(store, drafted, Role.DESCRIBES)
    waiting = {one.id for one in find(store, dataset, Image.kind, states=("proposed",))}
    described = _described(store, {found[0] for found in images.values()})

    def counts(draft: StoredEntity) -> bool:
        if draft.id not in drafted:
            return True
        image = images[draft.id][0]
        wanted = offered if image in waiting else image not in described
        return wanted and drafted[draft.id][0] in settings_ids

    sync_active(context, dataset, Caption.kind, counts, LIVE)
    live = find(store, dataset, Caption.kind, states=("proposed",))
    return [one.id for one in live if one.id in drafted and images[one.id][0] not in waiting]


def _described(store: Store, image_ids: Collection[str]) -> set[str]:
    """Return the images described by a person: unlike drafts, such captions need no prompt."""
    captions = children_of(store, image_ids, Role.DESCRIBES)
    everything = [caption for found in captions.values() for caption in found]
    drafted = set(parents_of(store, everything, Role.PROMPTED_BY))
    return {image for image, found in captions.items() if set(found) - drafted}


def _acceptance(queue: Queue, draft_id: str) -> NewDecision:
    reason = f"nobody looked (policy {queue.policy}): a draft"
    return NewDecision(draft_id, "accept", queue.agent, reason)


def _draft(
    queue: Queue, settings: DescribeSettings, drafter: _Drafter, state: State
) -> StageReport:
    """Draft a description with one model of each undescribed image in `state`."""
    prompt, model = load_prompt(settings.prompt), drafter.model
    parents = [
        (Role.PROMPTED_BY, model.store_prompt(prompt).id),
        (Role.DRAFTED_WITH, drafter.settings_id),
    ]

    def request(images: Sequence[StoredEntity]) -> Iterator[list[Ask[StoredEntity]] | WorkResult]:
        described = _described(model.context.store, [image.id for image in images])
        for image in images:
            if image.id in described:
                yield WorkResult(image.seq)
            else:
                yield [Ask(image, prompt.request(STAGE, {}, images=[model.picture(image)]))]

    def output(answer: Parsed[StoredEntity, str]) -> WorkResult:
        image = answer.subject
        draft = model.caption(image, answer.value, drafter.position, parents, answer.call)
        decisions = (_acceptance(queue, draft.id),) if image.state == "accepted" else ()
        return WorkResult(image.seq, entities=(draft,), decisions=decisions)

    step = LLMStep(
        name=STAGE,
        version=VERSION,
        label=f"draft {model.spec.name.rsplit('/', 1)[-1]}",
        configuration={"settings": drafter.settings_id},
        inputs=Pending(queue.dataset, Image.kind, (state,)),
        request=request,
        parse=lambda _, answer: read_description(answer, settings.max_characters),
        outputs=lambda answers: [output(one) for (one,) in answers],
    )
    return run_llm_step(model, step)
