"""Rewrite descriptions with the models of the profile: request, parsing, and step."""

from typing import Any, NamedTuple

from db.calls import cost_rows
from db.entities import StoredEntity, WorkResult, find, new_entity
from db.store import Store
from db.work import Pending, count_pending, register_plan
from flows.answers import FIELD, STAGE, clean_answer, object_schema, text_schema
from flows.engine.context import RunContext
from flows.engine.model_step import Ask, DatasetModel, LLMStep, Parsed, model_settings, run_llm_step
from flows.engine.report import StageReport
from flows.ufine3c.judging import pending_judgements
from prompts.loader import Prompt, load_prompt
from schemas.build import UFine3CBuild
from schemas.chat import ChatAnswer, ChatRequest
from schemas.profile import (
    BuiltinRewriter,
    ChatModelSpec,
    ImportedRewrites,
    Profile,
    RewriteSettings,
)
from schemas.provenance import Role
from schemas.records import Caption, Rejection, Rewrite

VERSION = "1"
_IMPORTED = "imported_rewrite"


def answer_schema(max_characters: int) -> dict[str, Any]:
    """Return the JSON schema of an answer: a string `rewrite` of at most `max_characters`."""
    return object_schema({FIELD: text_schema(max_characters)})


def request_rewrite(description: str, prompt: Prompt, max_characters: int) -> ChatRequest:
    """Return the request to rewrite `description`.

    The description may contain anything, including instructions to the model. The prompt marks it
    as data, and the answer is checked like any other.
    """
    schema = answer_schema(max_characters)
    return prompt.request(
        STAGE, {"description": description}, subject=description, answer_schema=schema
    )


def read_rewrite(answer: ChatAnswer, max_characters: int) -> str | Rejection:
    """Return the rewrite in `answer`, cleaned, or the reason why it cannot be used."""
    return clean_answer(answer.text, max_characters, truncated=answer.truncated)


def _pending_captions(dataset: str) -> Pending:
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
        inputs=_pending_captions(dataset),
        request=lambda captions: [
            [Ask(one, request_rewrite(one.record(Caption).text, prompt, limit))] for one in captions
        ],
        parse=lambda _, answer: read_rewrite(answer, limit),
        outputs=lambda answers: [output(one) for (one,) in answers],
    )


_CHARACTERS_PER_TOKEN = 4.0  # English text, the usual estimate
_SAMPLED_CAPTIONS = 200


class ForecastRow(NamedTuple):
    """The remaining work of one model; tokens are estimates, `cost` is None without prices."""

    model: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    currency: str | None

    @property
    def sentence(self) -> str:
        """Return the forecast as a sentence."""
        price = "" if self.cost is None else f", about {self.cost:.2f} {self.currency}"
        tokens = f"about {self.tokens_in + self.tokens_out:,} tokens{price}"
        free = not (self.tokens_in or self.tokens_out or self.cost)
        return f"{self.model}: at most {self.calls:,} calls" + ("" if free else f", {tokens}")


def forecast(store: Store, build: UFine3CBuild, profile: Profile) -> list[ForecastRow]:
    """Count the pending calls of a dataset: rewrites by model, then those of the judge.

    Equal captions are counted each, but sent once.

    Tokens per call are the mean of this model's calls so far. Before the first call, they are
    estimated from the prompt and the first captions (a rewrite is as long as its caption). Captions
    that are not imported and drawn yet are not counted. The judge reads every later rewrite, too.
    """
    rows = []
    for spec in profile.rewrite.models:
        prompt = prompt_of(spec, profile.rewrite)
        limit = profile.rewrite.max_characters
        configuration = model_settings(spec, prompt, max_characters=limit)
        plan_id = register_plan(store, STAGE, VERSION, configuration)
        calls = count_pending(store, plan_id, _pending_captions(build.dataset))
        rows.append(_row(store, build.dataset, spec, prompt, calls, texts=1))
    if judge := profile.judge:
        calls = pending_judgements(store, build.dataset, judge) + sum(row.calls for row in rows)
        prompt = load_prompt(judge.prompt)
        rows.append(_row(store, build.dataset, judge.model, prompt, calls, texts=2))
    return rows


def _row(
    store: Store, dataset: str, spec: ChatModelSpec, prompt: Prompt, calls: int, texts: int
) -> ForecastRow:
    """Return a model's forecast; every call shows it that many texts."""
    tokens_in, tokens_out = _tokens_a_call(store, dataset, spec, len(prompt.text), texts)
    total_in, total_out = round(calls * tokens_in), round(calls * tokens_out)
    prices = spec.prices
    return ForecastRow(
        str(spec.ref),
        calls,
        total_in,
        total_out,
        prices.cost(total_in, total_out) if prices else None,
        prices.currency if prices else None,
    )


def _tokens_a_call(
    store: Store, dataset: str, spec: ChatModelSpec, prompt_characters: int, texts: int
) -> tuple[float, float]:
    if isinstance(spec, BuiltinRewriter | ImportedRewrites):
        return 0.0, 0.0
    for row in cost_rows(store, dataset):
        known = row.calls - row.failed - row.unknown_usage
        if row.model == str(spec.ref) and known > 0:
            return (row.tokens_in or 0) / known, (row.tokens_out or 0) / known
    captions = [
        len(entity.record(Caption).text)
        for entity, _ in zip(find(store, dataset, Caption.kind), range(_SAMPLED_CAPTIONS))  # noqa: B905
    ]
    mean = sum(captions) / len(captions) if captions else 0.0
    read = prompt_characters + texts * mean
    return read / _CHARACTERS_PER_TOKEN, mean / _CHARACTERS_PER_TOKEN
