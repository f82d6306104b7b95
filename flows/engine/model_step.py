"""A step that asks a chat model: requests, parsed answers and stored entities."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from loupe.db.entities import AgentRef, NewEntity, StoredEntity, WorkResult, new_entity
from loupe.db.quarantine import CALLS
from loupe.db.store import Store
from loupe.db.work import Pending, count_pending, register_plan
from loupe.flows.answers import UnusableAnswerError, check_own_words, refused_answer
from loupe.flows.engine import cluster_models
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.ledger import RecordedChatModel
from loupe.flows.engine.rejections import naming_inputs
from loupe.flows.engine.report import Deferred, StageReport, StageResult
from loupe.flows.engine.runner import (
    Stage,
    get_or_create_entity,
    run_stage,
    run_stream,
    store_settings,
)
from loupe.flows.engine.scope import EVERYTHING, Scope
from loupe.models.chat import ChatModel
from loupe.models.registry import OnDemandChatModel
from loupe.prompts.loader import Prompt
from loupe.schemas.chat import (
    ANSWER_IN_REASONING,
    QUOTA_EXHAUSTED,
    RAISED,
    REFUSED,
    WRONG_RETURN,
    ChatAnswer,
    ChatFailure,
    ChatImage,
    ChatOutcome,
    ChatRequest,
    ModelRef,
)
from loupe.schemas.errors import ModelError
from loupe.schemas.profile import ChatModelSpec, OpenAIChat, VllmChat
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, PromptText, Rejection

_REFUSALS = (REFUSED, ANSWER_IN_REASONING, RAISED, WRONG_RETURN)
_SERVER_IS_GONE = ("unreachable", "misconfigured", "web_page", QUOTA_EXHAUSTED)
_SHOWN_CHARACTERS = 10_000  # characters of a server's message kept in quarantine
_SETTINGS_ARE_WRONG = ("misconfigured", "web_page", "out_of_memory")
_ENOUGH_REFUSALS = 3  # equal refusals after which the settings are considered wrong, not the inputs
_MOST_REFUSALS = 20  # equal refusals after which no further request is sent
_WITH_DIGIT = re.compile(r"\S*\d\S*")
_MOST_STREAMS = 6
_STREAMS_OF_CLUSTER = 32  # for as many actors, or half as many that never wait

InputT = TypeVar("InputT")
SubjectT = TypeVar("SubjectT")
ValueT = TypeVar("ValueT")


class DatasetModel:
    """A model of the profile, used to build one dataset; each of its calls is stored."""

    def __init__(self, context: RunContext, dataset: str, spec: ChatModelSpec) -> None:
        self.context = context
        self.dataset = dataset
        self.spec = spec
        self.model = RecordedChatModel(
            self._unrecorded(),
            context.store,
            dataset,
            spec.prices,
            context.budget,
            context.progress.waits,
            context.progress.say_once,
            is_immediate=spec.is_immediate,
        )

    def _unrecorded(self) -> ChatModel:
        """Return the model: one with weights is loaded by actors if there is a cluster."""
        if isinstance(self.spec, VllmChat) and self.context.settings.engine == "ray":
            return cluster_models.chat_model(
                self.spec, self.context.settings, self.spec.max_in_flight
            )
        return OnDemandChatModel(self.spec)

    def streams(self, chunk_size: int) -> int:
        """Return how many chunks are sent in parallel.

        Most models keep many requests of one stream in flight themselves. The vLLM engine starts
        requests of the next chunks while the slowest answers of the first one are generated, so it
        gets as many additional chunks as fill it. On a cluster, each model needs its own.
        """
        if not isinstance(self.spec, VllmChat):
            return 1
        if self.context.settings.engine == "ray":
            return _STREAMS_OF_CLUSTER
        return min(1 + ceil(self.spec.max_in_flight / chunk_size), _MOST_STREAMS)

    @property
    def agent(self) -> AgentRef:
        """The model as an agent of provenance."""
        return AgentRef.of_model(self.spec.ref)

    @property
    def author(self) -> str:
        """The model as the author of its texts."""
        return str(self.spec.ref)

    def settings_of(self, stage: str, version: str, prompt: Prompt, **values: object) -> NewEntity:
        """Return the settings of a stage that asks this model, as an entity."""
        settings = model_settings(self.spec, prompt, **values)
        return store_settings(self.context, self.dataset, stage, version, settings)

    def store_prompt(self, prompt: Prompt) -> NewEntity:
        """Store the prompt as an entity, so that lineage includes its text."""
        record = PromptText(
            prompt_id=prompt.id, version=prompt.version, digest=prompt.digest, text=prompt.text
        )
        return get_or_create_entity(self.context, record, self.dataset)

    def written_with(self, prompt: Prompt, settings: NewEntity) -> list[tuple[Role, str]]:
        """Return the links to a prompt, which is stored, and settings of what is written."""
        return [
            (Role.PROMPTED_BY, self.store_prompt(prompt).id),
            (Role.WRITTEN_WITH, settings.id),
        ]

    def caption(
        self,
        image: StoredEntity,
        text: str,
        position: int,
        parents: Sequence[tuple[Role, str]],
        call: str | None,
        *,
        language: str | None = None,
        group: str | None = None,
    ) -> NewEntity:
        """Return a caption of `image` by this model, in the group of the image's own captions."""
        source, author = image.record(Image).source, self.author
        return new_entity(
            Caption(source=source, text=text, position=position, author=author, language=language),
            image.dataset,
            parents=[(Role.DESCRIBES, image.id), *parents],
            split=image.split,
            group=group or image.id,
            model_call=call,
        )

    def picture(self, image: StoredEntity) -> ChatImage:
        """Return an image for a request."""
        record = image.record(Image)
        data = self.context.blobs.read(record.sha256, record.media_type)
        return ChatImage(media_type=record.media_type, data=data)


def model_settings(spec: ChatModelSpec, prompt: Prompt, **values: object) -> dict[str, Any]:
    """Return what determines the answers of a model, except their subjects; `values` are added."""
    return {
        "model": spec.ref.model_dump(),
        "parameters": spec.parameters,
        "prompt": prompt.digest,
        **({"read_reasoning": True} if _reads_reasoning(spec) else {}),
        **values,
    }


def _reads_reasoning(spec: ChatModelSpec) -> bool:
    """Tell whether answers are read in another way, although the calls are the same."""
    return isinstance(spec, OpenAIChat) and spec.read_reasoning


@dataclass(frozen=True)
class StagePlan:
    """What a model is asked in a stage: about which inputs, with which prompt and settings.

    It is made once and handed to all that forecast, run or count the stage. `configuration`
    determines the answers, except their subjects.
    """

    stage: str
    version: str
    spec: ChatModelSpec
    prompt: Prompt
    inputs: Pending
    configuration: dict[str, Any]

    @property
    def short_name(self) -> str:
        """The name of the model, for labels."""
        return self.spec.name.rsplit("/", 1)[-1]

    def count_pending(self, store: Store) -> int:
        """Count the inputs that the model was not asked about yet."""
        plan_id = register_plan(store, self.stage, self.version, self.configuration)
        return count_pending(store, plan_id, self.inputs)


class Ask(NamedTuple, Generic[SubjectT]):
    """A request and its subject, with which its answer is parsed and stored."""

    subject: SubjectT
    request: ChatRequest


class Parsed(NamedTuple, Generic[SubjectT, ValueT]):
    """A parsed answer, the key of its model call and the digest of its prompt."""

    subject: SubjectT
    value: ValueT
    call: str
    prompt_digest: str


class Unparsable(NamedTuple):
    """A request without a usable answer: its outcome, and why an answer was rejected."""

    outcome: ChatOutcome | None
    rejection: Rejection | None = None


@dataclass(frozen=True, kw_only=True)
class LLMStep(Generic[InputT, SubjectT, ValueT]):
    """A step that asks a chat model about each of its inputs.

    All functions work on a chunk of inputs and keep their order.

    Attributes:
        name: the name of the stage; see `Stage` for `version`, `label`, `configuration` and others.
        inputs: the pending entities, or numbered items.
        request: returns the request for each input, or its result if no request is needed.
        parse: returns the value of an answer about a subject, or why it cannot be used.
        outputs: returns the results of inputs whose answers were all parsed.
        repair: returns the request to send again after an answer was rejected, from the first
            request and its answer; without it the input is rejected at once.
        in_order: a chunk starts after the previous one is stored, as it depends on its results.
    """

    name: str
    version: str
    label: str
    configuration: dict[str, Any]
    inputs: Pending | Sequence[tuple[int, InputT]]
    request: Callable[[Sequence[InputT]], Iterable[Sequence[Ask[SubjectT]] | WorkResult]]
    parse: Callable[[SubjectT, ChatAnswer], ValueT | Rejection]
    outputs: Callable[[Sequence[Sequence[Parsed[SubjectT, ValueT]]]], Iterable[WorkResult]]
    repair: Callable[[ChatRequest, ChatAnswer, Rejection], ChatRequest] | None = None
    chunk_size: int = 200
    in_order: bool = False


def run_llm_step(
    model: DatasetModel, step: LLMStep[Any, SubjectT, ValueT], scope: Scope = EVERYTHING
) -> StageReport:
    """Ask `model` about all inputs of `step` in `scope` that have no result yet.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    stage = Stage(
        name=step.name,
        version=step.version,
        dataset=model.dataset,
        configuration=step.configuration,
        agents=(model.agent, *scope.packages),
        chunk_size=step.chunk_size,
        workers=1 if step.in_order else model.streams(step.chunk_size),
        label=step.label,
    )

    def request(inputs: Sequence[StoredEntity]) -> Iterable[Sequence[Ask[SubjectT]] | WorkResult]:
        return scope.passing_over(model.context.store, inputs, lambda those: step.request(those))

    in_scope = step if scope is EVERYTHING else replace(step, request=request)

    def work(items: Sequence[tuple[int, Any]]) -> list[StageResult]:
        return step_results(model.model, in_scope, items)

    def named(page: Sequence[StoredEntity]) -> list[StageResult]:
        return naming_inputs(model.context.store, page, work([(one.seq, one) for one in page]))

    if isinstance(step.inputs, Pending):
        report = run_stage(model.context, stage, step.inputs, named)
    else:
        report = run_stream(model.context, stage, step.inputs, work, total=len(step.inputs))
    report.asked_model = str(model.spec.ref)
    require_answers(model.spec.ref, report)
    return report


class LedgerModel(Protocol):
    """A chat model with a ledger of its calls: `loupe.flows.engine.ledger.RecordedChatModel`."""

    def key(self, request: ChatRequest) -> str:
        """Return the key of a call."""

    def has_answered(self, purposes: Iterable[str]) -> bool:
        """Tell whether it ever answered a request with one of these purposes."""

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """Answer requests as a `ChatModel` does."""


def step_results(
    model: LedgerModel,
    step: LLMStep[Any, SubjectT, ValueT],
    items: Sequence[tuple[int, Any]],
) -> list[StageResult]:
    """Return the results of a chunk, in order."""
    asked = list(step.request([input_ for _, input_ in items]))
    asks = [one for found in asked if not isinstance(found, WorkResult) for one in found]
    answers = iter(ask_and_parse(model, asks, step.parse, step.repair))
    results: dict[int, StageResult] = {}
    complete: dict[int, list[Parsed[SubjectT, ValueT]]] = {}
    for (number, _), found in zip(items, asked, strict=True):
        if isinstance(found, WorkResult):
            results[number] = found
            continue
        parsed: list[Parsed[SubjectT, ValueT]] = []
        for answer in [next(answers) for _ in found]:
            if isinstance(answer, Parsed):
                parsed.append(answer)
            else:
                results.setdefault(number, result_without_value(number, step.name, answer))
        if number not in results:
            complete[number] = parsed
    results |= zip(complete, step.outputs(list(complete.values())), strict=True)
    return [results[number] for number, _ in items]


def ask_and_parse(
    model: LedgerModel,
    asks: Sequence[Ask[SubjectT]],
    parse: Callable[[SubjectT, ChatAnswer], ValueT | Rejection],
    repair: Callable[[ChatRequest, ChatAnswer, Rejection], ChatRequest] | None = None,
) -> list[Parsed[SubjectT, ValueT] | Unparsable]:
    """Return the parsed answer to each request, in order; rejected ones are asked once more."""
    found = _asked(model, dict(enumerate(asks)), parse)
    if repair is not None:
        again = {
            number: Ask(
                asks[number].subject, repair(asks[number].request, one.outcome, one.rejection)
            )
            for number, one in found.items()
            if isinstance(one, Unparsable)
            and one.rejection is not None
            and isinstance(one.outcome, ChatAnswer)
        }
        for number, one in _asked(model, again, parse).items():
            found[number] = _with_calls_of(found[number], one)
    return [found[number] for number in range(len(asks))]


def _with_calls_of(
    first: Parsed[SubjectT, ValueT] | Unparsable, second: Parsed[SubjectT, ValueT] | Unparsable
) -> Parsed[SubjectT, ValueT] | Unparsable:
    """Return the second answer; if it was rejected, too, with the calls of both."""
    rejections = [one.rejection for one in (first, second) if isinstance(one, Unparsable)]
    if isinstance(second, Parsed) or None in rejections:
        return second
    calls = [call for one in rejections if one for call in one.context[CALLS]]
    return second._replace(rejection=_naming(rejections[1], calls))


def _naming(rejection: Rejection | None, calls: Sequence[str]) -> Rejection | None:
    """Return a rejection that names the calls to be made again on a retry."""
    if rejection is None:
        return None
    return rejection.model_copy(update={"context": {**rejection.context, CALLS: list(calls)}})


def _asked(
    model: LedgerModel,
    asks: Mapping[int, Ask[SubjectT]],
    parse: Callable[[SubjectT, ChatAnswer], ValueT | Rejection],
) -> dict[int, Parsed[SubjectT, ValueT] | Unparsable]:
    outcomes = ask(model, (one.request for one in asks.values()))
    found: dict[int, Parsed[SubjectT, ValueT] | Unparsable] = {}
    for place, (number, (subject, request)) in enumerate(asks.items()):
        outcome = outcomes.get(place)
        if not isinstance(outcome, ChatAnswer):
            found[number] = Unparsable(outcome)
        elif isinstance(value := parse(subject, outcome), Rejection):
            found[number] = Unparsable(outcome, _naming(value, [model.key(request)]))
        elif (copied := _copy_rejection(value, request, outcome)) is not None:
            found[number] = Unparsable(outcome, _naming(copied, [model.key(request)]))
        else:
            found[number] = Parsed(subject, value, model.key(request), request.prompt_digest)
    return found


def _copy_rejection(value: object, request: ChatRequest, answer: ChatAnswer) -> Rejection | None:
    """Return why the texts of a value are not the model's own words, or None if they are."""
    texts = (value,) if isinstance(value, str) else value
    if type(texts) is tuple:  # only texts: other fields that a step parses have predefined values
        try:
            for text in texts:
                if isinstance(text, str):
                    check_own_words(text, request.prompt)
        except UnusableAnswerError as unusable:
            return refused_answer(answer, request.purpose, unusable)
    return None


def ask(model: LedgerModel, requests: Iterable[ChatRequest]) -> dict[int, ChatOutcome]:
    """Return outcomes by position; after the server is lost or refuses all, the rest is omitted.

    A model that refuses every request with the same message, or answers each among its reasoning,
    and has never answered a request of this kind, is misconfigured: then no refusal is final.
    """
    outcomes: dict[int, ChatOutcome] = {}
    remaining = iter(requests)
    purposes: set[str] = set()
    is_gone = False

    def while_useful() -> Iterator[ChatRequest]:
        while not is_gone:
            if len(outcomes) >= _MOST_REFUSALS and _same_refusal(outcomes.values()):
                return  # calls in flight may still be answered
            if (request := next(remaining, None)) is None:
                return
            purposes.add(request.purpose)
            yield request

    before = -1
    while before < len(outcomes):
        before = len(outcomes)
        for position, outcome in model.answer(while_useful()):
            outcomes[before + position] = outcome
            failed = isinstance(outcome, ChatFailure) and outcome.reason in _SERVER_IS_GONE
            is_gone = is_gone or failed
    refusal = _same_refusal(outcomes.values())
    if refusal and len(outcomes) >= _ENOUGH_REFUSALS and not model.has_answered(purposes):
        wrong = refusal.model_copy(update={"reason": "misconfigured", "retriable": True})
        return dict.fromkeys(outcomes, wrong)
    return outcomes


def _same_refusal(outcomes: Iterable[ChatOutcome]) -> ChatFailure | None:
    """Return the first outcome if all are refusals with the same message, numbers aside.

    An answer among the reasoning is none that can be used, and counts as a refusal; so does a
    plugin that raises.
    """
    first = None
    for one in outcomes:
        if not isinstance(one, ChatFailure) or one.reason not in _REFUSALS:
            return None
        first = first or one
        if _WITH_DIGIT.sub("#", one.detail) != _WITH_DIGIT.sub("#", first.detail):
            return None
    return first


def result_without_value(number: int, stage: str, found: Unparsable) -> StageResult:
    """Return the result of input `number`, whose request has no usable answer.

    It is deferred if no request was sent or the failure is temporary, and rejected otherwise.
    """
    if found.rejection is not None:
        return WorkResult(number, rejection=found.rejection)
    if not isinstance(failure := found.outcome, ChatFailure):
        return Deferred(number, "not_asked")
    if failure.retriable:
        return Deferred(number, failure.reason, failure.detail)
    raw = {"raw": failure.raw[:_SHOWN_CHARACTERS]} if failure.raw else {}
    return WorkResult.rejected(number, stage, failure.reason, failure.detail, **raw)


def require_answers(
    model: ModelRef, report: StageReport, stored: str = "the answers received are stored"
) -> None:
    """Stop the run if a model left inputs without an answer; `stored` says what is kept.

    Raises:
        ModelError: it left some.
    """
    if error := left_unanswered(model, report, stored):
        raise error


def left_unanswered(
    model: ModelRef, report: StageReport, stored: str = "the answers received are stored"
) -> ModelError | None:
    """Return the error to raise if a model left inputs without an answer, otherwise None.

    The message contains the last message of each reason, what is stored and what to do: run again,
    or change the settings.
    """
    if not report.deferred:
        return None
    is_wrong = any(reason in report.deferred for reason in _SETTINGS_ARE_WRONG)
    helps = "fix the settings and run again" if is_wrong else "run again when it answers"
    return ModelError(f"{model} did not answer {report.why_left}; {stored}, {helps}")
