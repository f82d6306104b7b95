"""Has images drafted by the profile's models where no person described them."""

from collections.abc import Collection, Sequence
from functools import partial

from annotate.queues import Queue
from db.agents import AgentRef
from db.decisions import NewDecision, append_decisions
from db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    children_of,
    find,
    new_entity,
    pages,
    parents_of,
)
from db.work import Pending, WorkResult
from flows.asking import ask, require_answers, without_answer
from flows.context import RunContext
from flows.ledger import RecordedChatModel
from flows.report import StageReport, StageResult
from flows.retiring import keep_current
from flows.rewriting import store_prompt
from flows.runner import Stage, run_stage
from flows.single import store_entity
from models.registry import build_chat_model
from prompts.loader import Prompt, load_prompt
from schemas.chat import ChatAnswer, ChatImage, ChatOutcome, ChatRequest
from schemas.profile import ChatModelSpec, DescribeSettings
from schemas.records import Caption, Image, Rejection
from schemas.tracked_video import StageSettings
from stages.describe_person import STAGE, VERSION, read_description, request_description

DESCRIBES = "describes"
PROMPTED_BY = "prompted_by"
DRAFTED_WITH = "drafted_with"
"""The role in which the settings of a draft stand to it: model, parameters, prompt."""

_ACCEPTED = ("accepted",)
_PAGE = 500


def draft_descriptions(
    context: RunContext, queue: Queue, settings: DescribeSettings
) -> list[StageReport]:
    """Has every model of the profile draft a description of each accepted image without any.

    Images are accepted once their descriptions are written, or by a policy that asks nobody; in
    its name drafts are accepted, too. Drafts by other models, parameters or prompts than those of
    `settings` are retired, and come back with them.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: a model's server is gone; what came back before is stored.
    """
    prompt = load_prompt(settings.prompt)
    drafters = [
        _Drafting(context, queue, settings, prompt, spec, position)
        for position, spec in enumerate(settings.models)
    ]
    _keep_drafts(context, queue, {drafter.settings_id for drafter in drafters})
    reports = []
    for spec, drafter in zip(settings.models, drafters, strict=True):
        reports.append(drafter.run())
        require_answers(spec.ref, reports[-1])
    return reports


def _keep_drafts(context: RunContext, queue: Queue, settings_ids: Collection[str]) -> None:
    """Retires the drafts with other settings than these, and accepts those that are back."""
    dataset = queue.dataset
    drafted = _drafted_with(context, dataset)
    outdated = {draft for draft, settings in drafted.items() if settings not in settings_ids}
    keep_current(context, dataset, Caption.kind, lambda one: one.id not in outdated, LIVE)
    back = find(context.store, dataset, Caption.kind, states=("proposed",))
    for page in pages((one.id for one in back if one.id in drafted), _PAGE):
        with context.store.write() as connection:
            append_decisions(connection, list(map(partial(_acceptance, queue), page)))


def _drafted_with(context: RunContext, dataset: str) -> dict[str, str]:
    """For each draft of a model the settings that it was made with; "" where none are known."""
    captions = [one.id for one in find(context.store, dataset, Caption.kind)]
    prompted = parents_of(context.store, captions, PROMPTED_BY)
    settings = parents_of(context.store, prompted, DRAFTED_WITH)
    return {draft: next(iter(settings.get(draft, ())), "") for draft in prompted}


def _acceptance(queue: Queue, draft_id: str) -> NewDecision:
    reason = f"nobody looked (policy {queue.policy}): a draft"
    return NewDecision(draft_id, "accept", queue.agent, reason)


class _Drafting:
    """The drafts of one model, which stand at one position among the captions of each image."""

    def __init__(
        self,
        context: RunContext,
        queue: Queue,
        settings: DescribeSettings,
        prompt: Prompt,
        spec: ChatModelSpec,
        position: int,
    ) -> None:
        self._context = context
        self._queue = queue
        self._dataset = queue.dataset
        self._settings = settings
        self._prompt = prompt
        self._spec = spec
        self._position = position
        self._prompt_entity = store_prompt(context, queue.dataset, prompt)
        values = {
            "model": spec.ref.model_dump(),
            "parameters": spec.parameters,
            "prompt": prompt.digest,
            "max_characters": settings.max_characters,
            "position": position,
        }
        record = StageSettings(stage=STAGE, version=VERSION, values=values)
        self.settings_id = store_entity(context, record, queue.dataset).id

    def run(self) -> StageReport:
        """Drafts what is pending."""
        stage = Stage(
            name=STAGE,
            version=VERSION,
            dataset=self._dataset,
            configuration={"settings": self.settings_id},
            agents=(AgentRef.of_model(self._spec.ref),),
            workers=1,  # as for rewriting
            label=f"draft {self._spec.name.rsplit('/', 1)[-1]}",
        )
        model = RecordedChatModel(
            build_chat_model(self._spec),
            self._context.store,
            self._dataset,
            self._spec.prices,
            self._context.budget,
        )
        pending = Pending(self._dataset, Image.kind, _ACCEPTED)
        return run_stage(self._context, stage, pending, lambda images: self._work(model, images))

    def _work(self, model: RecordedChatModel, images: Sequence[StoredEntity]) -> list[StageResult]:
        described = self._described(images)
        asked = [image for image in images if image.id not in described]
        requests = [self._request(image) for image in asked]
        outcomes = ask(model, requests)
        results: dict[int, StageResult] = {
            image.seq: self._result(model, image, request, outcomes.get(place))
            for place, (image, request) in enumerate(zip(asked, requests, strict=True))
        }
        return [results.get(image.seq, WorkResult(image.seq)) for image in images]

    def _described(self, images: Sequence[StoredEntity]) -> Collection[str]:
        """Those of `images` of which a person wrote: drafts hang on a prompt, people's do not."""
        captions = children_of(self._context.store, [image.id for image in images], DESCRIBES)
        everything = [caption for found in captions.values() for caption in found]
        drafted = set(parents_of(self._context.store, everything, PROMPTED_BY))
        return {image for image, found in captions.items() if set(found) - drafted}

    def _request(self, image: StoredEntity) -> ChatRequest:
        record = image.record(Image)
        data = self._context.blobs.read(record.sha256, record.media_type)
        return request_description(ChatImage(media_type=record.media_type, data=data), self._prompt)

    def _result(
        self,
        model: RecordedChatModel,
        image: StoredEntity,
        request: ChatRequest,
        outcome: ChatOutcome | None,
    ) -> StageResult:
        if not isinstance(outcome, ChatAnswer):
            return without_answer(image, STAGE, outcome)
        text = read_description(outcome, self._settings.max_characters)
        if isinstance(text, Rejection):
            return WorkResult(image.seq, rejection=text)
        draft = self._draft(model, image, request, text)
        decision = _acceptance(self._queue, draft.id)
        return WorkResult(image.seq, entities=(draft,), decisions=(decision,))

    def _draft(
        self, model: RecordedChatModel, image: StoredEntity, request: ChatRequest, text: str
    ) -> NewEntity:
        record = Caption(
            source=image.record(Image).source,
            text=text,
            position=self._position,
            author=str(model.ref),
        )
        return new_entity(
            record,
            image.dataset,
            parents=[
                (DESCRIBES, image.id),
                (PROMPTED_BY, self._prompt_entity.id),
                (DRAFTED_WITH, self.settings_id),
            ],
            split=image.split,
            group=image.id,
            model_call=model.key(request),
        )
