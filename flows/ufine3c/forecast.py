"""Estimate the requests of the next run to models before they are sent."""

from typing import NamedTuple

from db.calls import cost_rows
from db.entities import find
from db.pending import count_pending
from db.store import Store
from db.work import register_plan
from flows.answers import STAGE
from flows.ufine3c.rewriting import VERSION, pending_captions, prompt_of, rewrite_configuration
from schemas.build import UFine3CBuild
from schemas.profile import BuiltinRewriter, ChatModelSpec, ImportedRewrites, Profile
from schemas.records import Caption

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
        return f"{self.model}: {self.calls:,} calls to make" + ("" if free else f", {tokens}")


def forecast(store: Store, build: UFine3CBuild, profile: Profile) -> list[ForecastRow]:
    """Count the pending rewrites of a dataset, by model.

    Tokens per call are the mean of this model's calls so far. Before the first call, they are
    estimated from the prompt and the first captions (a rewrite is as long as its caption). Captions
    that are not imported and drawn yet are not counted.
    """
    return [_row(store, build.dataset, spec, profile) for spec in profile.rewrite.models]


def _row(store: Store, dataset: str, spec: ChatModelSpec, profile: Profile) -> ForecastRow:
    prompt = prompt_of(spec, profile.rewrite)
    configuration = rewrite_configuration(spec, profile.rewrite, prompt)
    plan_id = register_plan(store, STAGE, VERSION, configuration)
    calls = count_pending(store, plan_id, pending_captions(dataset))
    tokens_in, tokens_out = _tokens_a_call(store, dataset, spec, len(prompt.text))
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
    store: Store, dataset: str, spec: ChatModelSpec, prompt_characters: int
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
    return (prompt_characters + mean) / _CHARACTERS_PER_TOKEN, mean / _CHARACTERS_PER_TOKEN
