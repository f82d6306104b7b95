"""Forecast the calls that a run of `build-ufine3c` would still make, and their cost."""

from itertools import islice
from typing import NamedTuple

from loupe.db.calls import cost_rows
from loupe.db.entities import find
from loupe.db.store import Store
from loupe.flows.engine.model_step import StagePlan
from loupe.flows.ufine3c.judging import plan_judging
from loupe.flows.ufine3c.rewriting import plan_rewriting
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.profile import BuiltinRewriter, ChatModelSpec, ImportedRewrites, Profile
from loupe.schemas.records import Caption
from loupe.schemas.wording import many

_CHARACTERS_PER_TOKEN = 4.0  # English text, the usual estimate
_SAMPLED_CAPTIONS = 200


class CallSize(NamedTuple):
    """How many texts of the length of a caption a call shows a model, and how many it writes."""

    shown: int
    written: int


REWRITE = CallSize(shown=1, written=1)
JUDGEMENT = CallSize(shown=2, written=3)  # each fact of the caption, with a verdict, as JSON


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


class Plans(NamedTuple):
    """The stages of a run that ask models; `judging` is None without a judge."""

    rewriting: tuple[StagePlan, ...]
    judging: StagePlan | None


def rewriters_of(profile: Profile) -> tuple[ChatModelSpec, ...]:
    """Return the models of a profile that rewrite.

    Raises:
        ConfigurationError: it has none.
    """
    if not profile.rewrite.models:
        raise ConfigurationError(
            f"profile {profile.name!r}: rewrite.models is missing: the models that rewrite "
            f"descriptions; see docs/profiles.md"
        )
    return profile.rewrite.models


def plan_calls(dataset: str, profile: Profile) -> Plans:
    """Plan the rewrites by each model of a profile, and the judgements on them."""
    settings, judge = profile.rewrite, profile.judge
    rewriters = rewriters_of(profile)
    return Plans(
        rewriting=tuple(plan_rewriting(dataset, spec, settings) for spec in rewriters),
        judging=None if judge is None else plan_judging(dataset, judge),
    )


def forecast(store: Store, plans: Plans) -> list[ForecastRow]:
    """Count the pending calls of a dataset: rewrites by model, then those of the judge.

    Equal captions are counted one by one but sent once.

    Tokens per call are the mean of this model's calls of this kind so far. Before the first call,
    they are estimated from the prompt and the first captions (a rewrite is as long as its caption,
    a judgement three times as long).
    Captions that are not imported and drawn yet are not counted. The judge reads every later
    rewrite, too.
    """
    rows = [
        forecast_calls(store, plan, plan.count_pending(store), REWRITE) for plan in plans.rewriting
    ]
    if plans.judging is not None:
        calls = plans.judging.count_pending(store) + sum(row.calls for row in rows)
        rows.append(forecast_calls(store, plans.judging, calls, JUDGEMENT))
    return rows


def forecast_calls(store: Store, plan: StagePlan, calls: int, size: CallSize) -> ForecastRow:
    """Return a model's forecast in a stage."""
    tokens_in, tokens_out = _tokens_a_call(store, plan, size)
    total_in, total_out = round(calls * tokens_in), round(calls * tokens_out)
    prices = plan.spec.prices
    return ForecastRow(
        str(plan.spec.ref),
        calls,
        total_in,
        total_out,
        prices.cost(total_in, total_out) if prices else None,
        prices.currency if prices else None,
    )


def _tokens_a_call(store: Store, plan: StagePlan, size: CallSize) -> tuple[float, float]:
    if isinstance(plan.spec, BuiltinRewriter | ImportedRewrites):
        return 0.0, 0.0
    dataset, asked = plan.inputs.dataset, (str(plan.spec.ref), plan.stage)
    for row in cost_rows(store, dataset):
        known = row.calls - max(row.failed, row.unknown_usage)  # these may be the same
        if (row.model, row.stage) == asked and known > 0:
            return (row.tokens_in or 0) / known, (row.tokens_out or 0) / known
    captions = islice(find(store, dataset, Caption.kind), _SAMPLED_CAPTIONS)
    lengths = [len(one.record(Caption).text) for one in captions]
    mean = sum(lengths) / len(lengths) if lengths else 0.0
    read, written = len(plan.prompt.text) + size.shown * mean, size.written * mean
    return read / _CHARACTERS_PER_TOKEN, written / _CHARACTERS_PER_TOKEN
