"""Has every description rewritten by a model of the profile."""

from collections.abc import Sequence
from typing import Any

from db.entities import AgentRef, NewEntity, StoredEntity, new_entity
from db.work import Pending, WorkResult
from flows.answers import FIELD, STAGE, clean_answer
from flows.engine.context import RunContext
from flows.engine.model_step import RecordedChatModel, ask, result_without_response
from flows.engine.report import StageReport, StageResult
from flows.engine.runner import Stage, get_or_create_entity, run_stage
from models.chat import ChatModel
from prompts.loader import Prompt
from schemas.chat import ChatAnswer, ChatOutcome, ChatRequest
from schemas.profile import ChatModelSpec, RewriteSettings
from schemas.records import Caption, PromptText, Rejection, Rewrite

# Asks a model to say a description in another way, and reads its answer.

VERSION = "1"


def answer_schema(max_characters: int) -> dict[str, Any]:
    """The JSON schema of an answer: one string, `rewrite`, of 1 to `max_characters` characters."""
    return {
        "type": "object",
        "properties": {FIELD: {"type": "string", "minLength": 1, "maxLength": max_characters}},
        "required": [FIELD],
        "additionalProperties": False,
    }


def request_rewrite(description: str, prompt: Prompt, max_characters: int) -> ChatRequest:
    """The request to rewrite `description`.

    The description may hold anything, instructions to the model included: the prompt sets it apart
    as data, and what a model makes of it is checked as any answer is.
    """
    return ChatRequest(
        purpose=STAGE,
        prompt=prompt.render(description=description),
        prompt_digest=prompt.digest,
        subject=description,
        answer_schema=answer_schema(max_characters),
    )


def read_rewrite(answer: ChatAnswer, max_characters: int) -> str | Rejection:
    """The rewrite that `answer` holds, clean, or why it cannot be used."""
    return clean_answer(answer.text, max_characters, truncated=answer.truncated)


# Has every description rewritten by a model of the profile.

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
    return get_or_create_entity(context, record, dataset)


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
        return result_without_response(caption, STAGE, outcome)
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
