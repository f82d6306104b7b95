"""Has every description rewritten by a model of the profile."""

from collections.abc import Sequence

from db.agents import AgentRef
from db.entities import NewEntity, StoredEntity, new_entity
from db.work import Pending, WorkResult
from flows.asking import ask, without_answer
from flows.context import RunContext
from flows.ledger import RecordedChatModel
from flows.report import StageReport, StageResult
from flows.runner import Stage, run_stage
from flows.single import store_entity
from models.chat import ChatModel
from prompts.loader import Prompt
from schemas.chat import ChatAnswer, ChatOutcome, ChatRequest
from schemas.profile import ChatModelSpec, RewriteSettings
from schemas.records import Caption, PromptText, Rejection, Rewrite
from stages.clean_answer import STAGE
from stages.rewrite_description import VERSION, read_rewrite, request_rewrite

STATES = ("proposed", "accepted")


def pending_captions(dataset: str) -> Pending:
    """The descriptions of `dataset` that a model is to rewrite."""
    return Pending(dataset, Caption.kind, STATES)


def rewrite_stage(
    dataset: str, spec: ChatModelSpec, settings: RewriteSettings, prompt: Prompt
) -> Stage:
    """The rewriting by one model: model, parameters, prompt and limits make its configuration."""
    return Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={
            "model": spec.ref.model_dump(),
            "parameters": spec.parameters,
            "prompt": prompt.digest,
            "max_characters": settings.max_characters,
        },
        agents=(AgentRef.of_model(spec.ref),),
        workers=1,  # a chat model keeps many requests in flight itself, one stream at a time
        label=f"rewrite {spec.name.rsplit('/', 1)[-1]}",
    )


def store_prompt(context: RunContext, dataset: str, prompt: Prompt) -> NewEntity:
    """The prompt as an entity, so that lineage ends in its words."""
    record = PromptText(
        prompt_id=prompt.id, version=prompt.version, digest=prompt.digest, text=prompt.text
    )
    return store_entity(context, record, dataset)


def store_prompts(context: RunContext, dataset: str, prompts: Sequence[Prompt]) -> dict[str, str]:
    """The ids of the prompts' entities by their digests, as requests name them."""
    return {one.digest: store_prompt(context, dataset, one).id for one in prompts}


def rewrite_captions(
    context: RunContext,
    dataset: str,
    model: ChatModel,
    spec: ChatModelSpec,
    settings: RewriteSettings,
    prompt: Prompt,
) -> StageReport:
    """Has `model` rewrite all pending captions of `dataset`; calls are stored as they return.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
    """
    prompt_entity = store_prompt(context, dataset, prompt)
    recorded = RecordedChatModel(model, context.store, dataset, spec.prices, context.budget)

    def work(captions: Sequence[StoredEntity]) -> list[StageResult]:
        requests = [
            request_rewrite(caption.record(Caption).text, prompt, settings.max_characters)
            for caption in captions
        ]
        outcomes = ask(recorded, requests)
        return [
            _result(recorded, prompt_entity, settings, caption, request, outcomes.get(position))
            for position, (caption, request) in enumerate(zip(captions, requests, strict=True))
        ]

    stage = rewrite_stage(dataset, spec, settings, prompt)
    return run_stage(context, stage, pending_captions(dataset), work)


def _result(
    model: RecordedChatModel,
    prompt: NewEntity,
    settings: RewriteSettings,
    caption: StoredEntity,
    request: ChatRequest,
    outcome: ChatOutcome | None,
) -> StageResult:
    if not isinstance(outcome, ChatAnswer):
        return without_answer(caption, STAGE, outcome)
    text = read_rewrite(outcome, settings.max_characters)
    if isinstance(text, Rejection):
        return WorkResult(caption.seq, rejection=text)
    rewrite = new_entity(
        Rewrite(source=caption.record(Caption).source, text=text, author=str(model.ref)),
        caption.dataset,
        parents=[("rewrite_of", caption.id), ("prompted_by", prompt.id)],
        split=caption.split,
        group=caption.group,
        model_call=model.key(request),
    )
    return WorkResult(caption.seq, entities=(rewrite,))
