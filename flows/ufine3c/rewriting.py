"""Rewrite descriptions with the models of the profile: request, parsing, and step."""

from loupe.checks.text import Form
from loupe.db.entities import StoredEntity, WorkResult, new_entity
from loupe.db.work import Pending
from loupe.flows.answers import language_of, object_schema, read_only_text, text_schema
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.model_step import (
    Ask,
    DatasetModel,
    LLMStep,
    Parsed,
    model_settings,
    run_llm_step,
)
from loupe.flows.engine.report import StageReport
from loupe.prompts.loader import Prompt, load_prompt
from loupe.schemas.chat import ChatAnswer, ChatRequest
from loupe.schemas.profile import ChatModelSpec, ImportedRewrites, RewriteSettings
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Rejection, Rewrite

STAGE = "rewrite_description"
FIELD = "rewrite"
VERSION = "2"
_IMPORTED = "imported_rewrite"


def request_rewrite(description: str, prompt: Prompt, max_characters: int) -> ChatRequest:
    """Return the request to rewrite `description`.

    The description may contain anything, including instructions to the model. The prompt marks it
    as data, and the answer is checked like any other.
    """
    values = {"description": description}
    if "max_characters" in prompt.variables:
        values["max_characters"] = str(max_characters)
    schema = object_schema({FIELD: text_schema()})
    return prompt.request(STAGE, values, subject=description, answer_schema=schema)


def read_rewrite(answer: ChatAnswer, source: str, max_characters: int) -> str | Rejection:
    """Return the rewrite of `source` in `answer`, or why it cannot be used."""
    form = Form(language_of(source))
    return read_only_text(answer, STAGE, FIELD, max_characters, form, source)


def pending_captions(dataset: str) -> Pending:
    """Return the descriptions of `dataset` that a model still has to rewrite."""
    return Pending(dataset, Caption.kind, ("proposed", "accepted"))


def prompt_of(spec: ChatModelSpec, settings: RewriteSettings) -> Prompt:
    """Return the prompt of a model; that of imported rewrites says that there was none."""
    return load_prompt(_IMPORTED if isinstance(spec, ImportedRewrites) else settings.prompt)


def rewrite_captions(
    context: RunContext, dataset: str, spec: ChatModelSpec, settings: RewriteSettings
) -> StageReport:
    """Rewrite all pending captions of `dataset` with one model.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    model = DatasetModel(context, dataset, spec)
    prompt = model.store_prompt(prompt_of(spec, settings))
    return run_llm_step(model, rewrite_step(dataset, spec, settings, prompt.id))


def rewrite_step(
    dataset: str, spec: ChatModelSpec, settings: RewriteSettings, prompt_id: str
) -> LLMStep[StoredEntity, StoredEntity, str]:
    """Return the step in which a model rewrites captions; `prompt_id` is its stored prompt."""
    prompt, limit = prompt_of(spec, settings), settings.max_characters

    def output(answer: Parsed[StoredEntity, str]) -> WorkResult:
        caption = answer.subject
        rewrite = new_entity(
            Rewrite(source=caption.record(Caption).source, text=answer.value, author=str(spec.ref)),
            caption.dataset,
            parents=[(Role.REWRITE_OF, caption.id), (Role.PROMPTED_BY, prompt_id)],
            split=caption.split,
            group=caption.group,
            model_call=answer.call,
        )
        return WorkResult(caption.seq, entities=(rewrite,))

    return LLMStep(
        name=STAGE,
        version=VERSION,
        label=f"rewrite {spec.name.rsplit('/', 1)[-1]}",
        configuration=model_settings(spec, prompt, max_characters=limit),
        inputs=pending_captions(dataset),
        request=lambda captions: [
            [Ask(one, request_rewrite(one.record(Caption).text, prompt, limit))] for one in captions
        ],
        parse=lambda caption, answer: read_rewrite(answer, caption.record(Caption).text, limit),
        outputs=lambda answers: [output(one) for (one,) in answers],
    )
