"""Ask a chat model for a second opinion on rewrites, and forecast the calls of a build."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from db.calls import cost_rows
from db.entities import StoredEntity, WorkResult, fetch_parents, find, new_entity
from db.store import Store
from db.work import Pending, count_pending, register_plan
from flows.answers import STAGE as REWRITE
from flows.answers import (
    UnusableAnswerError,
    check_fields,
    object_schema,
    read_answer,
    read_line,
    text_schema,
)
from flows.engine.context import RunContext
from flows.engine.model_step import Ask, DatasetModel, LLMStep, Parsed, model_settings, run_llm_step
from flows.engine.report import StageReport
from flows.ufine3c import rewriting
from prompts.loader import Prompt, load_prompt
from schemas.build import UFine3CBuild
from schemas.chat import ChatAnswer, ChatRequest
from schemas.profile import BuiltinRewriter, ChatModelSpec, ImportedRewrites, JudgeSettings, Profile
from schemas.provenance import Role
from schemas.quality import CaptionCheck
from schemas.records import Caption, Rejection, Rewrite

STAGE = "judge_rewrite"
VERSION = "1"
_SENTENCES = {
    "added": "The judge finds no source for: {}",
    "contradicted": "The judge finds a contradiction: {}",
}
"""The fields of an answer, and what annotators read about each of their facts."""
Judgement = dict[str, tuple[str, ...]]
"""The facts that a judge objects to, by the field of its answer."""
_MOST_FACTS = 20
_MOST_CHARACTERS = 200


def request_judgement(description: str, rewrite: str, prompt: Prompt) -> ChatRequest:
    """Return the request to compare `rewrite` with the `description` that it was made from."""
    values = {"description": description, "rewrite": rewrite}
    facts = {"type": "array", "items": text_schema(_MOST_CHARACTERS), "maxItems": _MOST_FACTS}
    schema = object_schema(dict.fromkeys(_SENTENCES, facts))
    return prompt.request(STAGE, values, answer_schema=schema)


def read_judgement(answer: ChatAnswer) -> Judgement | Rejection:
    """Return the facts that the judge objects to, or why the answer cannot be used."""

    def read(found: dict[str, Any]) -> Judgement:
        check_fields(found, tuple(_SENTENCES), "The answer")
        for field, facts in found.items():
            if not isinstance(facts, list) or len(facts) > _MOST_FACTS:
                detail = f"{field!r} must be a list of at most {_MOST_FACTS} facts."
                raise UnusableAnswerError("wrong_type", detail)
        return {
            field: tuple(read_line(one, f"{field!r}", _MOST_CHARACTERS) for one in facts)
            for field, facts in found.items()
        }

    return read_answer(answer, STAGE, read)


def _pending_rewrites(dataset: str) -> Pending:
    return Pending(dataset, Rewrite.kind, ("proposed",))


def judge_rewrites(context: RunContext, dataset: str, settings: JudgeSettings) -> StageReport:
    """Ask the judge about every proposed rewrite; what it objects to is shown to annotators.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    model = DatasetModel(context, dataset, settings.model)
    spec, prompt = settings.model, load_prompt(settings.prompt)
    prompt_id = model.store_prompt(prompt).id

    def requests(rewrites: Sequence[StoredEntity]) -> Iterator[list[Ask[StoredEntity]]]:
        sources = fetch_parents(context.store, [one.id for one in rewrites], Role.REWRITE_OF)
        for one in rewrites:
            (source,) = sources[one.id]
            texts = source.record(Caption).text, one.record(Rewrite).text
            yield [Ask(one, request_judgement(*texts, prompt))]

    def output(answer: Parsed[StoredEntity, Judgement]) -> WorkResult:
        rewrite = answer.subject
        warnings = tuple(
            sentence.format(fact)
            for field, sentence in _SENTENCES.items()
            for fact in answer.value[field]
        )
        check = new_entity(
            CaptionCheck(warnings=warnings, judge=model.author),
            rewrite.dataset,
            parents=[(Role.EXAMINES, rewrite.id), (Role.PROMPTED_BY, prompt_id)],
            group=rewrite.group,
            model_call=answer.call,
        )
        return WorkResult(rewrite.seq, entities=(check,))

    step = LLMStep(
        name=STAGE,
        version=VERSION,
        label=f"judge by {spec.name.rsplit('/', 1)[-1]}",
        configuration=model_settings(spec, prompt),
        inputs=_pending_rewrites(dataset),
        request=requests,
        parse=lambda _, answer: read_judgement(answer),
        outputs=lambda answers: [output(one) for (one,) in answers],
    )
    return run_llm_step(model, step)


# The calls that a run of a build would still make.

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

    Equal captions are counted one by one but sent once.

    Tokens per call are the mean of this model's calls so far. Before the first call, they are
    estimated from the prompt and the first captions (a rewrite is as long as its caption). Captions
    that are not imported and drawn yet are not counted. The judge reads every later rewrite, too.
    """
    rows = []
    for spec in profile.rewrite.models:
        prompt = rewriting.prompt_of(spec, profile.rewrite)
        limit = profile.rewrite.max_characters
        configuration = model_settings(spec, prompt, max_characters=limit)
        plan_id = register_plan(store, REWRITE, rewriting.VERSION, configuration)
        calls = count_pending(store, plan_id, rewriting.pending_captions(build.dataset))
        rows.append(_row(store, build.dataset, spec, prompt, calls, texts=1))
    if judge := profile.judge:
        calls = _pending_judgements(store, build.dataset, judge) + sum(row.calls for row in rows)
        prompt = load_prompt(judge.prompt)
        rows.append(_row(store, build.dataset, judge.model, prompt, calls, texts=2))
    return rows


def _pending_judgements(store: Store, dataset: str, settings: JudgeSettings) -> int:
    """Count the rewrites that the judge has yet to read."""
    configuration = model_settings(settings.model, load_prompt(settings.prompt))
    plan_id = register_plan(store, STAGE, VERSION, configuration)
    return count_pending(store, plan_id, _pending_rewrites(dataset))


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
