"""What rows are filtered by: for each a few bytes, all of which the page holds at once."""

import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from release.report.row_data import captions_of, number_in
from release.report.scripts import packed
from release.rows import CaptionOrigin
from release.statistics import words_of
from release.tiers import TIERS
from schemas.records import Split
from schemas.retrieval_task import RetrievalTask
from schemas.taxonomy import DifferenceType

ORIGINS: tuple[str, ...] = get_args(CaptionOrigin)
"""The bits of the column of origins, the lowest first."""
REVIEWS = ("all", "some", "none", "no captions")
"""Of how many of a row's captions a person decided."""
ANCHOR = "none (anchor)"
_LARGEST = 0xFFFF


class Facet(NamedTuple):
    """A property that rows are chosen by; `name` is used in addresses, `title` on the page."""

    name: str
    title: str


FACETS = (
    Facet("split", "Split"),
    Facet("source", "Source"),
    Facet("task", "Task"),
    Facet("tier", "Tier"),
    Facet("difference", "Difference"),
    Facet("way", "Made by"),
    Facet("reviewed", "Reviewed by a person"),
    Facet("licence", "Licence"),
)
"""Those of which a row has one value. Origins of captions, of which it may have several, and words
come beside them."""


_ORDERS: dict[str, tuple[str, ...]] = {
    "split": get_args(Split),
    "task": tuple(map(str, RetrievalTask)),
    "tier": TIERS,
    "difference": (ANCHOR, *map(str, DifferenceType)),
    "reviewed": REVIEWS,
}
"""How values are listed that have an order of their own; others as rows have them."""


def in_order(facet: str, values: Sequence[str]) -> list[str]:
    """The values of a facet as they are listed; the empty one, of rows without any, comes first."""
    known = {value: place for place, value in enumerate(("", *_ORDERS.get(facet, ())))}
    return sorted(values, key=lambda value: known.get(value, len(known)))


def facet_values(row: Mapping[str, Any]) -> dict[str, str]:
    """The value of a row for each facet that it has."""
    plain = ("split", "source", "task", "tier", "licence")
    values = {name: row[name] for name in plain if row.get(name)}
    if "contrast" in row:
        contrast = row["contrast"]
        values["difference"] = contrast["difference"] if contrast else ANCHOR
        if contrast and contrast["way"]:
            values["way"] = contrast["way"]
    values["reviewed"] = _review(row["caption_reviewed"])
    return values


def _review(reviewed: list[bool]) -> str:
    if not reviewed:
        return "no captions"
    return "all" if all(reviewed) else "some" if any(reviewed) else "none"


def origin_bits(row: Mapping[str, Any]) -> int:
    """The origins that captions of a row have, as bits in the order of `ORIGINS`."""
    bits = 0
    for _, _, origin, _, _ in captions_of(row):
        bits |= 1 << ORIGINS.index(origin)
    return bits


def mean_words(row: Mapping[str, Any]) -> int:
    """The words of a caption of a row, on average, rounded down; 0 where it has none."""
    captions = row["captions"]
    return sum(len(words_of(text)) for text in captions) // len(captions) if captions else 0


class Columns:
    """Collects the columns of rows as they come: about 25 bytes a row."""

    def __init__(self) -> None:
        self.rows = 0
        self._values: dict[str, dict[str, int]] = {one.name: {"": 0} for one in FACETS}
        self._facets = {one.name: array("H") for one in FACETS}
        self._origins = array("B")
        self._words = array("H")
        self._identities = array("I")
        self._anchors = array("I")

    def add(self, row: Mapping[str, Any]) -> None:
        """Appends a row."""
        self.rows += 1
        values = facet_values(row)
        for name, known in self._values.items():
            value = values.get(name, "")
            if value not in known and len(known) > _LARGEST:
                value = ""
            self._facets[name].append(known.setdefault(value, len(known)))
        self._origins.append(origin_bits(row))
        self._words.append(min(mean_words(row), _LARGEST))
        self._identities.append(min(row["id"], 0xFFFFFFFF))
        contrast = row.get("contrast")
        self._anchors.append((number_in(contrast["anchor"]) or 0) if contrast else 0)

    def details(self) -> dict[str, Any]:
        """All columns, packed; facets that no row has a value of are left out."""
        return {
            "facets": [self._facet(one) for one in FACETS if len(self._values[one.name]) > 1],
            "origins": {"values": list(ORIGINS), "data": packed(self._origins.tobytes())},
            "words": _packed(self._words),
            "identities": _packed(self._identities),
            "anchors": _packed(self._anchors) if any(self._anchors) else None,
        }

    def _facet(self, facet: Facet) -> dict[str, Any]:
        met = list(self._values[facet.name])
        values = in_order(facet.name, met)
        place = {value: code for code, value in enumerate(values)}
        codes = array("H", (place[met[code]] for code in self._facets[facet.name]))
        wide = len(values) > 256
        data = _packed(codes) if wide else packed(bytes(codes.tolist()))
        return {
            "name": facet.name,
            "title": facet.title,
            "values": values,
            "wide": wide,
            "data": data,
        }


def _packed(values: "array[int]") -> str:
    """Whole numbers as base64, the lowest byte of each first, as browsers' machines have them."""
    if sys.byteorder == "big":
        values = array(values.typecode, values)
        values.byteswap()
    return packed(values.tobytes())
