"""Rewrite descriptions with the models of the profile: request, parsing, and step."""

from collections.abc import Iterator, Sequence

from loupe.checks.text import Form
from loupe.db.entities import NewEntity, StoredEntity, WorkResult, new_entity
from loupe.db.work import Pending
from loupe.flows.answers import language_of, object_schema, read_only_text, text_schema
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.model_step import (
    Ask,
    DatasetModel,
    LLMStep,
    Parsed,
    StagePlan,
    model_settings,
    run_llm_step,
)
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.scope import EVERYTHING, Scope
from loupe.prompts.loader import Prompt, load_prompt
from loupe.schemas.chat import ChatAnswer, ChatRequest
from loupe.schemas.profile import ChatModelSpec, ImportedRewrites, RewriteSettings
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Rejection, Rewrite

STAGE = "rewrite_description"
FIELD = "rewrite"
VERSION = "2"
_IMPORTED = "imported_rewrite"
_NO_STYLE = ""


def request_rewrite(
    description: str, prompt: Prompt, max_characters: int, style: str = ""
) -> ChatRequest:
    """Return the request to rewrite `description`, in a style if there is one.

    The description may contain anything, including instructions to the model. The prompt marks it
    as data, and the answer is checked like any other.
    """
    known = {"description": description, "max_characters": str(max_characters), "style": style}
    values = {name: known[name] for name in prompt.variables}
    schema = object_schema({FIELD: text_schema()})
    return prompt.request(STAGE, values, subject=description, answer_schema=schema)


def read_rewrite(answer: ChatAnswer, source: str, max_characters: int) -> str | Rejection:
    """Return the rewrite of `source` in `answer`, or why it cannot be used."""
    form = Form(language_of(source))
    return read_only_text(answer, STAGE, FIELD, max_characters, form, source)


def plan_rewriting(
    dataset: str,
    spec: ChatModelSpec,
    settings: RewriteSettings,
    styles: Sequence[str] = (),
    scope: Scope = EVERYTHING,
) -> StagePlan:
    """Plan the rewrites of a dataset's captions by a model, one in each style.

    The prompt of imported rewrites says that there was none.
    """
    is_imported = isinstance(spec, ImportedRewrites)
    prompt = load_prompt(_IMPORTED if is_imported else settings.prompt)
    configuration = model_settings(spec, prompt, max_characters=settings.max_characters)
    if styles:
        configuration["styles"] = list(styles)
    return StagePlan(
        stage=STAGE,
        version=VERSION,
        spec=spec,
        prompt=prompt,
        inputs=Pending(dataset, Caption.kind, ("proposed", "accepted")),
        configuration=scope.configuration(configuration),
    )


def rewrite_captions(
    context: RunContext,
    plan: StagePlan,
    settings: RewriteSettings,
    styles: Sequence[str] = (),
    scope: Scope = EVERYTHING,
) -> StageReport:
    """Rewrite all pending captions of a dataset with one model, in each style.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    model = DatasetModel(context, plan.inputs.dataset, plan.spec)
    prompt_id = model.store_prompt(plan.prompt).id
    step = rewrite_step(plan, settings, prompt_id, styles, scope)
    return run_llm_step(model, step, scope)


def rewrite_step(
    plan: StagePlan,
    settings: RewriteSettings,
    prompt_id: str,
    styles: Sequence[str] = (),
    scope: Scope = EVERYTHING,
) -> LLMStep[StoredEntity, StoredEntity, str]:
    """Return the step in which a model rewrites captions; `prompt_id` is its stored prompt."""
    author, limit = str(plan.spec.ref), settings.max_characters
    asked_styles = tuple(styles) or (_NO_STYLE,)

    def requests(captions: Sequence[StoredEntity]) -> Iterator[list[Ask[StoredEntity]]]:
        for one in captions:
            text = one.record(Caption).text
            yield [
                Ask(one, request_rewrite(text, plan.prompt, limit, style)) for style in asked_styles
            ]

    def rewrite(answer: Parsed[StoredEntity, str]) -> NewEntity:
        caption = answer.subject
        parents = [(Role.REWRITE_OF, caption.id), (Role.PROMPTED_BY, prompt_id), *scope.links]
        rewritten = new_entity(
            Rewrite(source=caption.record(Caption).source, text=answer.value, author=author),
            caption.dataset,
            parents=parents,
            split=caption.split,
            group=caption.group,
            model_call=answer.call,
        )
        return rewritten.linked(*scope.later_links)

    def output(answers: Sequence[Parsed[StoredEntity, str]]) -> WorkResult:
        """Return the rewrites of a caption; one text in two styles is one rewrite."""
        rewrites = [rewrite(one) for one in answers]
        different = {one.id: one for one in reversed(rewrites)}
        return WorkResult(answers[0].subject.seq, entities=tuple(reversed(different.values())))

    return LLMStep(
        name=STAGE,
        version=VERSION,
        label=f"rewrite {plan.short_name}",
        configuration=plan.configuration,
        inputs=plan.inputs,
        request=requests,
        parse=lambda caption, answer: read_rewrite(answer, caption.record(Caption).text, limit),
        outputs=lambda chunk: [output(answers) for answers in chunk],
    )
