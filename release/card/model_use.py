"""The calls of models for the captions and contrasts of a release, and their cost."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from loupe.release.format.publishable import (
    published_model,
    published_name,
    published_served,
    published_values,
)
from loupe.schemas.base import canonical_json
from loupe.schemas.build import SourceSpec, VideoSourceSpec
from loupe.schemas.chat import ServedModel
from loupe.schemas.provenance import CallRow
from loupe.schemas.release import EmbedderPurpose, ModelUse, ReleasedSource, ReleasedStep

BUILTIN_PREFIX = "loupe-"
"""Prefix of the names of built-in models; those of published models begin with their publisher."""

DEMONSTRATION_CITATION = "Loupe demonstration world"
"""Prefix of the citations of generated sources."""


def is_drawn(source: SourceSpec | VideoSourceSpec | ReleasedSource) -> bool:
    """Tell whether the images or videos of a source were drawn for a demonstration."""
    return (source.citation or "").startswith(DEMONSTRATION_CITATION)


def step_author(dataset: str, step: ReleasedStep) -> str:
    """The author of the texts that a step of a pipeline of one's own writes."""
    return f"{dataset}.{step.name}@{step.version}"


class _Key(NamedTuple):
    name: str
    revision: str
    parameters: str
    currency: str


@dataclass
class _Total:
    calls: int = 0
    tokens_in: int | None = 0
    tokens_out: int | None = 0
    cost: Decimal | None = Decimal(0)
    served: set[str] = field(default_factory=set)

    def add(self, call: CallRow) -> None:
        """Add equal calls; a sum with an unknown value is unknown."""
        self.calls += call.calls
        self.tokens_in = _sum(self.tokens_in, call.tokens_in, call.calls)
        self.tokens_out = _sum(self.tokens_out, call.tokens_out, call.calls)
        if call.cost is None or self.cost is None:
            self.cost = None
        else:
            self.cost += Decimal(repr(call.cost)) * call.calls
        if call.served is not None:
            self.served.add(published_served(call.served))


def model_uses(calls: Iterable[CallRow], authors: Iterable[str]) -> tuple[ModelUse, ...]:
    """Calls, tokens and money by model and parameters, sorted.

    Args:
        calls: the distinct calls for texts and strategies, in any order.
        authors: models (`name@revision`) that wrote released texts or proposed strategies, even
            if their calls were not recorded.
    """
    totals: dict[_Key, _Total] = {}
    for call in calls:
        parameters = canonical_json(published_values(call.parameters))
        name, revision = published_model(call.name, call.revision)
        key = _Key(name, revision, parameters, call.currency or "")
        totals.setdefault(key, _Total()).add(call)
    called = {f"{key.name}@{key.revision}" for key in totals}
    for author in set(map(published_name, authors)) - called:
        name, _, revision = author.rpartition("@")
        totals[_Key(name, revision, "{}", "")] = _Total(cost=None)
    return tuple(_use(key, total) for key, total in sorted(totals.items(), key=lambda one: one[0]))


def _use(key: _Key, total: _Total) -> ModelUse:
    return ModelUse(
        name=key.name,
        revision=key.revision,
        parameters=json.loads(key.parameters),
        calls=total.calls,
        tokens_in=total.tokens_in,
        tokens_out=total.tokens_out,
        cost=None if total.cost is None else f"{total.cost:.6f}".rstrip("0").rstrip("."),
        currency=key.currency or None,
        served=tuple(map(ServedModel.model_validate_json, sorted(total.served))),
    )


def _sum(total: int | None, more: int | None, count: int) -> int | None:
    return None if total is None or more is None else total + more * count


def is_demonstration(
    models: Iterable[ModelUse], sources: Iterable[ReleasedSource], makers: Iterable[str] = ()
) -> bool:
    """Whether a built-in model wrote texts of it, or it has a generated source.

    Also if one of the `makers`, who found people or edited images, is built in.
    """
    names = [*(model.name for model in models), *makers]
    return any(name.startswith(BUILTIN_PREFIX) for name in names) or any(
        source.citation.startswith(DEMONSTRATION_CITATION) for source in sources
    )


PURPOSES: dict[EmbedderPurpose, str] = {
    "validated_captions": "captions validated by how well they distinguish their image from others",
    "similar_images": "images selected for their similarity to an existing image",
    "confusing_captions": "captions compared with both images of a pair",
    "candidates": "candidates without captions: neighbours of images with captions",
    "found_images": "search results chosen by their similarity to the anchor",
    "edited_images": "edited images compared with the captions before and after the edit",
}
"""What an embedder decided, in words."""
_WORDS = {"k": "k", "eta": "η", "near_duplicates": "near-duplicates"}


def settings_in_words(settings: Mapping[str, Any]) -> str:
    """Settings of an embedder as one line, with nested tables in parentheses."""
    details = []
    for name, value in settings.items():
        word = _WORDS.get(name, name.replace("_", " "))
        if isinstance(value, dict):
            details.append(f"{word} ({settings_in_words(value)})")
        else:
            details.append(f"{word} {value:.4g}" if isinstance(value, float) else f"{word} {value}")
    return ", ".join(details)
