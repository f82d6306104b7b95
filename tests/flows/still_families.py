"""Drawn stills and their variants: anchors, and strategies whose images exist in advance."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from loupe.demo.stills.text import statements
from loupe.demo.worlds.stills import StillsWorld, StillTruth, load_stills_truth
from loupe.schemas.build import SourceSpec
from loupe.schemas.requests import STRATEGIES_FIELD, StrategyBrief
from loupe.schemas.taxonomy import DifferenceType
from tests.flows.recos_world import stills_source
from tests.servers.contrasting import (
    asks_for_captions,
    brief_of,
    contrast_answer,
    contrast_completion,
)
from tests.servers.counting_server import Complete, completion_of
from tests.sources.web.adversary import Adversary, answer

_TYPES = {
    "colour": DifferenceType.ENTITY_ATTRIBUTE,
    "clothes": DifferenceType.ENTITY_ATTRIBUTE,
    "kind": DifferenceType.ENTITY_TYPE,
    "relation": DifferenceType.ENTITY_RELATION,
}


class Family(NamedTuple):
    """A still, and variants that differ from it in one detail each."""

    first: StillTruth
    variants: tuple[StillTruth, ...]

    @property
    def strategies(self) -> list[dict[str, str]]:
        """The strategies whose results the variants are."""
        return [_strategy(self.first, variant) for variant in self.variants]


def families(stills: StillsWorld, *variants: int) -> list[Family]:
    """Return the stills with variants, in order; the variants of a still change different details.

    With `variants`, return one family for each number: the first with this number of variants.
    """
    every = load_stills_truth(stills.folder)
    found = [
        Family(
            first,
            tuple(one for one in every if one.family == first.family and one.change in _TYPES),
        )
        for first in every
        if first.change is None
    ]
    distinct = [family for family in found if family.variants and _is_distinct(family)]
    chosen: list[Family] = []
    for number in variants:
        chosen.append(
            next(one for one in distinct if one not in chosen and len(one.variants) == number)
        )
    return chosen or distinct


def source_of_anchors(stills: StillsWorld, anchors: Sequence[StillTruth], file: Path) -> SourceSpec:
    """Write a source with these stills only."""
    listed = {
        "images": [{"id": one.image_id, "file_name": one.file_name} for one in anchors],
        "annotations": [
            {"id": 10 * one.image_id + number, "image_id": one.image_id, "caption": caption}
            for one in anchors
            for number, caption in enumerate(one.captions)
        ],
    }
    file.write_text(json.dumps(listed), encoding="utf-8")
    return stills_source(stills).model_copy(update={"annotations": file})


def proposing(families: Sequence[Family], edits: bool = False) -> Complete:
    """Return a model that proposes the variants of these families and refines like the built-in.

    With `edits` it adds the proposals of the built-in model, which the built-in editor can make.
    """
    known: Mapping[str, list[dict[str, str]]] = {
        family.first.captions[0]: family.strategies for family in families
    }

    def complete(request: dict[str, Any]) -> dict[str, Any]:
        if asks_for_captions(request):
            return contrast_completion(request)
        strategies = known[StrategyBrief.parse(brief_of(request)).caption]
        if edits:
            strategies = strategies + json.loads(contrast_answer(request))[STRATEGIES_FIELD]
        return completion_of(request, json.dumps({STRATEGIES_FIELD: strategies}))

    return complete


def found_on(
    host: Adversary, stills: StillsWorld, families: Sequence[Family]
) -> dict[str, list[dict[str, Any]]]:
    """Put the variants on `host`; return Openverse's results by caption: the variant only."""
    found = {}
    for one in (variant for family in families for variant in family.variants):
        path = f"/{one.file_name}"
        host.replies[path] = answer((stills.image_root / one.file_name).read_bytes())
        found[one.captions[0]] = [
            {
                "url": f"http://127.0.0.1:{host.port}{path}",
                "foreign_landing_url": f"https://example.org{path}",
                "creator": "A. Painter",
                "license": "by",
                "license_version": "4.0",
            }
        ]
    return found


def _is_distinct(family: Family) -> bool:
    changed = {(one["detail"], one["type"]) for one in family.strategies}
    return len(changed) == len(family.variants)


def _strategy(first: StillTruth, variant: StillTruth) -> dict[str, str]:
    before, after = statements(first.content), statements(variant.content)
    wanted = " ".join(min(after - before))
    return {
        "detail": " ".join(min(before - after)),
        "type": _TYPES[variant.change or ""],
        "plan": f"That is changed: {wanted}",
        "caption": variant.captions[0],
        "instruction": f"Make this true: {wanted}. Keep all else as it is.",
    }
