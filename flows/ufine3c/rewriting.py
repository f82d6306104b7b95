"""Descriptions rewritten by the models of the profile: request, parsing, and step."""

from typing import Any

from db.entities import StoredEntity, new_entity
from db.pending import Pending
from db.work import WorkResult
from flows.answers import FIELD, STAGE, clean_answer, object_schema, text_schema
from flows.engine.context import RunContext
from flows.engine.model_step import Ask, DatasetModel, LLMStep, Parsed, run_llm_step
from flows.engine.report import StageReport
from prompts.loader import Prompt, load_prompt
from schemas.chat import ChatAnswer, ChatRequest
from schemas.profile import ChatModelSpec, ImportedRewrites, RewriteSettings
from schemas.provenance import Role
from schemas.records import Caption, Rejection, Rewrite

VERSION = "1"
_IMPORTED = "imported_rewrite"


def answer_schema(max_characters: int) -> dict[str, Any]:
    """The JSON schema of an answer: one string, `rewrite`, of 1 to `max_characters` characters."""
    return object_schema({FIELD: text_schema(max_characters)})


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


def pending_captions(dataset: str) -> Pending:
    """The descriptions of `dataset` that a model is to rewrite."""
    return Pending(dataset, Caption.kind, ("proposed", "accepted"))


def prompt_of(spec: ChatModelSpec, settings: RewriteSettings) -> Prompt:
    """The prompt that a model is given; rewrites that are imported had none, and theirs says so."""
    return load_prompt(_IMPORTED if isinstance(spec, ImportedRewrites) else settings.prompt)


def rewrite_configuration(
    spec: ChatModelSpec, settings: RewriteSettings, prompt: Prompt
) -> dict[str, Any]:
    """What determines the rewrites by one model, apart from their captions."""
    return {
        "model": spec.ref.model_dump(),
        "parameters": spec.parameters,
        "prompt": prompt.digest,
        "max_characters": settings.max_characters,
    }


def rewrite_captions(
    context: RunContext, dataset: str, spec: ChatModelSpec, settings: RewriteSettings
) -> StageReport:
    """Has one model rewrite all pending captions of `dataset`.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is gone; what came back before is stored.
    """
    prompt = prompt_of(spec, settings)
    model = DatasetModel(context, dataset, spec)
    prompt_id = model.store_prompt(prompt).id
    limit = settings.max_characters

    def output(answer: Parsed[StoredEntity, str]) -> WorkResult:
        caption = answer.subject
        rewrite = new_entity(
            Rewrite(source=caption.record(Caption).source, text=answer.value, author=model.author),
            caption.dataset,
            parents=[(Role.REWRITE_OF, caption.id), (Role.PROMPTED_BY, prompt_id)],
            split=caption.split,
            group=caption.group,
            model_call=answer.call,
        )
        return WorkResult(caption.seq, entities=(rewrite,))

    step: LLMStep[StoredEntity, StoredEntity, str] = LLMStep(
        name=STAGE,
        version=VERSION,
        label=f"rewrite {spec.name.rsplit('/', 1)[-1]}",
        configuration=rewrite_configuration(spec, settings, prompt),
        inputs=pending_captions(dataset),
        request=lambda captions: [
            [Ask(one, request_rewrite(one.record(Caption).text, prompt, limit))] for one in captions
        ],
        parse=lambda _, answer: read_rewrite(answer, limit),
        outputs=lambda answers: [output(one) for (one,) in answers],
    )
    return run_llm_step(model, step)
