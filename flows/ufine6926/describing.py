"""Has people and images described by the profile's models, as drafts or on their own."""

from collections.abc import Collection, Sequence
from functools import partial

from annotate.candidates import apply_policy
from annotate.items import DESCRIBES
from annotate.push import PROMPTED_BY
from annotate.queues import Queue
from db.decisions import NewDecision, State, append_decisions
from db.entities import (
    LIVE,
    AgentRef,
    NewEntity,
    StoredEntity,
    children_of,
    find,
    new_entity,
    pages,
    parents_of,
)
from db.store import Store
from db.work import Pending, WorkResult
from flows.answers import clean_answer, refusal_in
from flows.engine.context import RunContext
from flows.engine.invalidation import reconcile_superseded
from flows.engine.model_step import RecordedChatModel, ask, require_answers, result_without_response
from flows.engine.report import StageReport, StageResult
from flows.engine.runner import Stage, get_or_create_entity, run_stage
from flows.ufine3c.rewriting import store_prompt
from models.registry import build_chat_model
from prompts.loader import Prompt, load_prompt
from schemas.chat import ChatAnswer, ChatImage, ChatOutcome, ChatRequest, ModelRef
from schemas.profile import ChatModelSpec, DescribeSettings
from schemas.records import Caption, Image, Rejection
from schemas.video import StageSettings

# Asks a model to describe the person in a picture, and reads its answer.

STAGE = "describe_person"
VERSION = "1"


def request_description(image: ChatImage, prompt: Prompt) -> ChatRequest:
    """The request to describe the person in `image`."""
    return ChatRequest(
        purpose=STAGE, prompt=prompt.render(), prompt_digest=prompt.digest, images=(image,)
    )


def read_description(answer: ChatAnswer, max_characters: int) -> str | Rejection:
    """The description that `answer` holds, clean, or why it cannot be used.

    Reasons are those of `clean_answer`, and `refusal`.
    """
    text = clean_answer(answer.text, max_characters, truncated=answer.truncated)
    if isinstance(text, Rejection):
        return text.model_copy(update={"stage": STAGE})
    if (refusal := refusal_in(text)) is None:
        return text
    detail = f"The model refused: {refusal!r}."
    return Rejection(stage=STAGE, reason="refusal", detail=detail, context={"answer": answer.text})


# Has images drafted by the profile's models: where nobody describes them, and for who does.
#
# A draft that nobody accepted and nobody made a description of is in no release.

DRAFTED_WITH = "drafted_with"
"""The role in which the settings of a draft stand to it: model, parameters, prompt."""

_PAGE = 500


def offer_drafts(
    context: RunContext, queue: Queue, settings: DescribeSettings, *, wanted: bool
) -> list[StageReport]:
    """Where `wanted`, has the profile's first model draft for those who will describe images.

    To be called before images are sent to the desk; `annotate.push` says who begins with a draft.
    Where none are wanted, those that wait for somebody are retired.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is gone; what came back before is stored.
    """
    apply_policy(context.store, queue)
    drafters = _drafters(context, queue, settings)
    _keep_drafts(context, queue, drafters, offered=wanted)
    return _run(drafters[:1], "proposed") if wanted else []


def draft_descriptions(
    context: RunContext, queue: Queue, settings: DescribeSettings, *, offered: bool
) -> list[StageReport]:
    """Has every model of the profile draft a description of each accepted image without any.

    Images are accepted once their descriptions are written, or by a policy that asks nobody; in
    its name drafts are accepted, too. Drafts by other models, parameters or prompts than those of
    `settings` are retired, and come back with them. `offered` is what was `wanted` before.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: a model's server is gone; what came back before is stored.
    """
    drafters = _drafters(context, queue, settings)
    back = _keep_drafts(context, queue, drafters, offered=offered)
    for page in pages(back, _PAGE):
        with context.store.write() as connection:
            append_decisions(connection, list(map(partial(_acceptance, queue), page)))
    return _run(drafters, "accepted")


def _drafters(context: RunContext, queue: Queue, settings: DescribeSettings) -> "list[_Drafting]":
    prompt = load_prompt(settings.prompt)
    return [
        _Drafting(context, queue, settings, prompt, spec, position)
        for position, spec in enumerate(settings.models)
    ]


def _run(drafters: "Sequence[_Drafting]", state: State) -> list[StageReport]:
    """Has images in `state` drafted."""
    reports = []
    for drafter in drafters:
        reports.append(drafter.run(state))
        require_answers(drafter.ref, reports[-1])
    return reports


def _keep_drafts(
    context: RunContext, queue: Queue, drafters: "Sequence[_Drafting]", *, offered: bool
) -> list[str]:
    """Retires drafts that nobody waits for; gives those of which nobody's word takes the place.

    A draft counts if it was made with the settings of now, and its image either waits for people
    and drafts are `offered` to them, or was accepted without a description of theirs.
    """
    store, dataset = context.store, queue.dataset
    settings_ids = {drafter.settings_id for drafter in drafters}
    drafted = _drafted_with(context, dataset)
    images = {draft: found[0] for draft, found in parents_of(store, drafted, DESCRIBES).items()}
    waiting = {one.id for one in find(store, dataset, Image.kind, states=("proposed",))}
    described = _described(store, set(images.values()))

    def counts(draft: str) -> bool:
        image = images[draft]
        wanted = offered if image in waiting else image not in described
        return wanted and drafted[draft] in settings_ids

    reconcile_superseded(
        context, dataset, Caption.kind, lambda one: one.id not in drafted or counts(one.id), LIVE
    )
    live = find(store, dataset, Caption.kind, states=("proposed",))
    return [one.id for one in live if one.id in drafted and images[one.id] not in waiting]


def _drafted_with(context: RunContext, dataset: str) -> dict[str, str]:
    """For each draft of a model the settings that it was made with; "" where none are known."""
    captions = [one.id for one in find(context.store, dataset, Caption.kind)]
    prompted = parents_of(context.store, captions, PROMPTED_BY)
    settings = parents_of(context.store, prompted, DRAFTED_WITH)
    return {draft: next(iter(settings.get(draft, ())), "") for draft in prompted}


def _described(store: Store, image_ids: Collection[str]) -> set[str]:
    """Those of the images of which a person wrote: drafts hang on a prompt, people's do not."""
    captions = children_of(store, image_ids, DESCRIBES)
    everything = [caption for found in captions.values() for caption in found]
    drafted = set(parents_of(store, everything, PROMPTED_BY))
    return {image for image, found in captions.items() if set(found) - drafted}


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
        self.settings_id = get_or_create_entity(context, record, queue.dataset).id

    @property
    def ref(self) -> ModelRef:
        """The model."""
        return self._spec.ref

    def run(self, state: State) -> StageReport:
        """Drafts what is pending among the images in `state`."""
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
        pending = Pending(self._dataset, Image.kind, (state,))
        return run_stage(self._context, stage, pending, lambda images: self._work(model, images))

    def _work(self, model: RecordedChatModel, images: Sequence[StoredEntity]) -> list[StageResult]:
        described = _described(self._context.store, [image.id for image in images])
        asked = [image for image in images if image.id not in described]
        requests = [self._request(image) for image in asked]
        outcomes = ask(model, requests)
        results: dict[int, StageResult] = {
            image.seq: self._result(model, image, request, outcomes.get(place))
            for place, (image, request) in enumerate(zip(asked, requests, strict=True))
        }
        return [results.get(image.seq, WorkResult(image.seq)) for image in images]

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
            return result_without_response(image, STAGE, outcome)
        text = read_description(outcome, self._settings.max_characters)
        if isinstance(text, Rejection):
            return WorkResult(image.seq, rejection=text)
        draft = self._draft(model, image, request, text)
        asked_nobody = image.state == "accepted"
        decisions = (_acceptance(self._queue, draft.id),) if asked_nobody else ()
        return WorkResult(image.seq, entities=(draft,), decisions=decisions)

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
