"""Forecast the calls that a stage would still make, and their cost."""

from itertools import islice
from typing import NamedTuple

from loupe.db.calls import cost_rows
from loupe.db.entities import find
from loupe.db.store import Store
from loupe.flows.engine.model_step import StagePlan
from loupe.schemas.profile import BuiltinRewriter, ImportedRewrites
from loupe.schemas.records import Caption
from loupe.schemas.wording import many

_CHARACTERS_PER_TOKEN = 4.0  # English text, the usual estimate
_SAMPLED_CAPTIONS = 200


_TOKENS_OF_IMAGE = 1_000  # of about a megapixel


class CallSize(NamedTuple):
    """How many texts of a caption's length and images a call shows, and texts it writes."""

    shown: int
    written: int
    images: int = 0


REWRITE = CallSize(shown=1, written=1)
JUDGEMENT = CallSize(shown=2, written=3)  # each fact of the caption, with a verdict, as JSON
CAPTION_JUDGEMENT = CallSize(shown=1, written=3, images=1)


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
    tokens_of_images = size.images * _TOKENS_OF_IMAGE
    return read / _CHARACTERS_PER_TOKEN + tokens_of_images, written / _CHARACTERS_PER_TOKEN
