"""Forecast the calls that a run of `build-ufine3c` would still make, and their cost."""

from itertools import islice
from typing import NamedTuple

from loupe.db.calls import cost_rows
from loupe.db.entities import find
from loupe.db.store import Store
from loupe.db.work import count_pending, register_plan
from loupe.flows.engine.model_step import model_settings
from loupe.flows.ufine3c.judging import STAGE as JUDGE
from loupe.flows.ufine3c.judging import pending_judgements
from loupe.flows.ufine3c.rewriting import STAGE as REWRITE
from loupe.flows.ufine3c.rewriting import VERSION, pending_captions, prompt_of
from loupe.prompts.loader import Prompt, load_prompt
from loupe.schemas.build import UFine3CBuild
from loupe.schemas.profile import BuiltinRewriter, ChatModelSpec, ImportedRewrites, Profile
from loupe.schemas.records import Caption
from loupe.schemas.wording import many

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
        return f"{self.model}: at most {many(self.calls, 'call')}" + ("" if free else f", {tokens}")


def forecast(store: Store, build: UFine3CBuild, profile: Profile) -> list[ForecastRow]:
    """Count the pending calls of a dataset: rewrites by model, then those of the judge.

    Equal captions are counted one by one but sent once.

    Tokens per call are the mean of this model's calls of this kind so far. Before the first call,
    they are estimated from the prompt and the first captions (a rewrite is as long as its caption).
    Captions that are not imported and drawn yet are not counted. The judge reads every later
    rewrite, too.
    """
    rows = []
    for spec in profile.rewrite.models:
        prompt = prompt_of(spec, profile.rewrite)
        limit = profile.rewrite.max_characters
        configuration = model_settings(spec, prompt, max_characters=limit)
        plan_id = register_plan(store, REWRITE, VERSION, configuration)
        calls = count_pending(store, plan_id, pending_captions(build.dataset))
        rows.append(_row(store, build.dataset, REWRITE, spec, prompt, calls, texts=1))
    if judge := profile.judge:
        calls = pending_judgements(store, build.dataset, judge) + sum(row.calls for row in rows)
        prompt = load_prompt(judge.prompt)
        rows.append(_row(store, build.dataset, JUDGE, judge.model, prompt, calls, texts=2))
    return rows


def _row(
    store: Store,
    dataset: str,
    stage: str,
    spec: ChatModelSpec,
    prompt: Prompt,
    calls: int,
    texts: int,
) -> ForecastRow:
    """Return a model's forecast in a stage; every call shows it that many texts."""
    tokens_in, tokens_out = _tokens_a_call(store, dataset, stage, spec, len(prompt.text), texts)
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
    store: Store,
    dataset: str,
    stage: str,
    spec: ChatModelSpec,
    prompt_characters: int,
    texts: int,
) -> tuple[float, float]:
    if isinstance(spec, BuiltinRewriter | ImportedRewrites):
        return 0.0, 0.0
    for row in cost_rows(store, dataset):
        known = row.calls - max(row.failed, row.unknown_usage)  # these may be the same
        if (row.model, row.stage) == (str(spec.ref), stage) and known > 0:
            return (row.tokens_in or 0) / known, (row.tokens_out or 0) / known
    captions = [
        len(entity.record(Caption).text)
        for entity in islice(find(store, dataset, Caption.kind), _SAMPLED_CAPTIONS)
    ]
    mean = sum(captions) / len(captions) if captions else 0.0
    read = prompt_characters + texts * mean
    return read / _CHARACTERS_PER_TOKEN, mean / _CHARACTERS_PER_TOKEN
