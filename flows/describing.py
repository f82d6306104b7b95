"""Has images drafted by the profile's models where no person described them."""

from collections.abc import Collection, Sequence

from annotate.queues import Queue
from db.agents import AgentRef
from db.decisions import NewDecision
from db.entities import NewEntity, StoredEntity, children_of, new_entity, parents_of
from db.work import Pending, WorkResult
from flows.asking import ask, require_answers, without_answer
from flows.context import RunContext
from flows.ledger import RecordedChatModel
from flows.report import StageReport, StageResult
from flows.rewriting import store_prompt
from flows.runner import Stage, run_stage
from models.registry import build_chat_model
from prompts.loader import Prompt, load_prompt
from schemas.chat import ChatAnswer, ChatImage, ChatOutcome, ChatRequest
from schemas.profile import ChatModelSpec, DescribeSettings
from schemas.records import Caption, Image, Rejection
from stages.describe_person import STAGE, VERSION, read_description, request_description

DESCRIBES = "describes"
_ACCEPTED = ("accepted",)


def draft_descriptions(
    context: RunContext, queue: Queue, settings: DescribeSettings
) -> list[StageReport]:
    """Has every model of the profile draft a description of each accepted image without any.

    Images are accepted once their descriptions are written, or by a policy that asks nobody; in
    its name drafts are accepted, too.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: a model's server is gone; what came back before is stored.
    """
    prompt = load_prompt(settings.prompt)
    reports = []
    for position, spec in enumerate(settings.models):
        drafting = _Drafting(context, queue, settings, prompt, spec, position)
        reports.append(drafting.run())
        require_answers(spec.ref, reports[-1])
    return reports


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

    def run(self) -> StageReport:
        """Drafts what is pending."""
        stage = Stage(
            name=STAGE,
            version=VERSION,
            dataset=self._dataset,
            configuration={
                "model": self._spec.ref.model_dump(),
                "parameters": self._spec.parameters,
                "prompt": self._prompt.digest,
                "max_characters": self._settings.max_characters,
                "position": self._position,
            },
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
        drafted = set(parents_of(self._context.store, everything, "prompted_by"))
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
        reason = f"nobody looked (policy {self._queue.policy}): a draft"
        accepted = NewDecision(draft.id, "accept", self._queue.agent, reason)
        return WorkResult(image.seq, entities=(draft,), decisions=(accepted,))

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
            parents=[(DESCRIBES, image.id), ("prompted_by", self._prompt_entity.id)],
            split=image.split,
            group=image.id,
            model_call=model.key(request),
        )
