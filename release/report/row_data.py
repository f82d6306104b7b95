"""The data of a row for the report: in full for its own page, in short for its gallery tile."""

import re
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from release.report.scripts import packed
from release.rows import CaptionOrigin, number_in
from release.statistics import words_of
from release.tiers import TIERS
from schemas.records import Split
from schemas.retrieval_task import RetrievalTask
from schemas.taxonomy import DifferenceType

_SNIPPET_CHARACTERS = 140
_SAFE_URL = re.compile(r"https?://[^\s]+\Z", re.IGNORECASE)
_CROP = ("video", "frame", "time_seconds", "box_xyxy", "score")
_CONTRAST = ("difference", "detail", "plan", "way")
_PLAIN = (
    *("id", "source", "identity", "split", "file_path", "source_file_path", "width_px"),
    *("height_px", "sha256", "image_entity_id", "task", "tier", "licence", "creator"),
)


def row_detail(row: Mapping[str, Any], shown: bool) -> dict[str, Any]:
    """Everything the page of a row shows; missing values are omitted.

    Captions are lists of text, author, origin, reviewed and entity id. Coarse captions are lists of
    text and entity id, translations of language, caption index, text, author and entity id. `shown`
    says if the report has a picture of the row.
    """
    details: dict[str, Any] = {name: row[name] for name in _PLAIN if row.get(name) is not None}
    details["captions"] = [list(one) for one in _captions_of(row)]
    if row.get("coarse_captions"):
        ids = row["coarse_caption_entity_ids"]
        details["coarse"] = [list(one) for one in zip(row["coarse_captions"], ids, strict=True)]
    if row.get("translations"):
        details["translations"] = [
            [one[name] for name in ("language", "caption", "text", "author", "entity_id")]
            for one in row["translations"]
        ]
    if contrast := row.get("contrast"):
        details["contrast"] = {name: contrast[name] for name in _CONTRAST if contrast[name]}
    if crop := row.get("crop"):
        details["crop"] = {name: crop[name] for name in _CROP}
    if (url := row.get("source_url")) is not None:
        details["url" if _SAFE_URL.fullmatch(url) else "place"] = url
    if not shown:
        details["hidden"] = 1
    if row.get("withdrawn"):
        details["withdrawn"] = 1
    return details


def _captions_of(row: Mapping[str, Any]) -> list[tuple[str, str, str, int, str]]:
    """Text, author, origin, reviewed by a person (0 or 1) and entity id of each caption."""
    names = ("captions", "caption_authors", "caption_origins", "caption_reviewed")
    columns = (*(row[name] for name in names), row["caption_entity_ids"])
    return [
        (text, author, origin, int(reviewed), entity_id)
        for text, author, origin, reviewed, entity_id in zip(*columns, strict=True)
    ]


def row_tile(row: Mapping[str, Any], shown: bool) -> list[Any]:
    """The beginning of the first text of a row, followed by 1 if the row has no picture."""
    if row.get("withdrawn"):
        return ["withdrawn", 1]
    contrast = row.get("contrast")
    text = row["captions"][0] if row["captions"] else (contrast["plan"] if contrast else "")
    short = text if len(text) <= _SNIPPET_CHARACTERS else f"{text[: _SNIPPET_CHARACTERS - 1]}…"
    return [short] if shown else [short, 1]


def texts_of(row: Mapping[str, Any]) -> list[str]:
    """All texts that the search covers: captions, coarse captions, translations, the difference."""
    contrast = row.get("contrast")
    return [
        *row["captions"],
        *(row.get("coarse_captions") or ()),
        *(one["text"] for one in row.get("translations") or ()),
        *((contrast["detail"], contrast["plan"]) if contrast else ()),
    ]


_ORIGINS: tuple[str, ...] = get_args(CaptionOrigin)
"""The bits of the column of origins, lowest first."""
_REVIEWS = ("all", "some", "none", "no captions")
"""How many of a row's captions were reviewed by a person."""
_ANCHOR = "none (anchor)"
_LARGEST = 0xFFFF


_FACETS = {
    "split": "Split",
    "source": "Source",
    "task": "Task",
    "tier": "Tier",
    "difference": "Difference",
    "way": "Made by",
    "reviewed": "Reviewed by a person",
    "licence": "Licence",
}
"""Properties with one value per row: their names in addresses and their titles.

Caption origins, of which a row may have several, and word counts are separate.
"""

_ORDERS: dict[str, tuple[str, ...]] = {
    "split": get_args(Split),
    "task": tuple(map(str, RetrievalTask)),
    "tier": TIERS,
    "difference": (_ANCHOR, *map(str, DifferenceType)),
    "reviewed": _REVIEWS,
}
"""Facets whose values have a fixed order; the values of others are in order of appearance."""


def in_order(facet: str, values: Sequence[str]) -> list[str]:
    """Sort the values of a facet for display; the empty value (rows without any) comes first."""
    known = {value: place for place, value in enumerate(("", *_ORDERS.get(facet, ())))}
    return sorted(values, key=lambda value: known.get(value, len(known)))


def _facet_values(row: Mapping[str, Any]) -> dict[str, str]:
    """The value of a row for each of its facets."""
    plain = ("split", "source", "task", "tier", "licence")
    values = {name: row[name] for name in plain if row.get(name)}
    if "contrast" in row:
        contrast = row["contrast"]
        values["difference"] = contrast["difference"] if contrast else _ANCHOR
        if contrast and contrast["way"]:
            values["way"] = contrast["way"]
    values["reviewed"] = _review(row["caption_reviewed"])
    return values


def _review(reviewed: list[bool]) -> str:
    if not reviewed:
        return "no captions"
    return "all" if all(reviewed) else "some" if any(reviewed) else "none"


def _mean_words(row: Mapping[str, Any]) -> int:
    """The mean number of words of a row's captions, rounded down; 0 without captions."""
    captions = row["captions"]
    return sum(len(words_of(text)) for text in captions) // len(captions) if captions else 0


class Columns:
    """Collects the columns of rows one row at a time, in about 25 bytes a row."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, int]] = {name: {"": 0} for name in _FACETS}
        self._facets = {name: array("H") for name in _FACETS}
        self._origins = array("B")
        self._words = array("H")
        self._identities = array("I")
        self._anchors = array("I")

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row."""
        values = _facet_values(row)
        for name, known in self._values.items():
            value = values.get(name, "")
            if value not in known and len(known) > _LARGEST:
                value = ""
            self._facets[name].append(known.setdefault(value, len(known)))
        self._origins.append(sum(1 << _ORIGINS.index(one) for one in set(row["caption_origins"])))
        self._words.append(min(_mean_words(row), _LARGEST))
        self._identities.append(min(row["id"], 0xFFFFFFFF))
        contrast = row.get("contrast")
        self._anchors.append((number_in(contrast["anchor"]) or 0) if contrast else 0)

    def details(self) -> dict[str, Any]:
        """All columns, packed; facets without any value are omitted.

        Numbers are little-endian, as JavaScript typed arrays read them on all common platforms.
        """
        return {
            "facets": [self._facet(name) for name in _FACETS if len(self._values[name]) > 1],
            "origins": {"values": list(_ORIGINS), "data": _packed(self._origins, "u1")},
            "words": _packed(self._words, "<u2"),
            "identities": _packed(self._identities, "<u4"),
            "anchors": _packed(self._anchors, "<u4") if any(self._anchors) else None,
        }

    def _facet(self, name: str) -> dict[str, Any]:
        met = list(self._values[name])
        values = in_order(name, met)
        place = {value: code for code, value in enumerate(values)}
        codes = np.array([place[value] for value in met])[self._facets[name]]
        wide = len(values) > 256
        return {
            "name": name,
            "title": _FACETS[name],
            "values": values,
            "wide": wide,
            "data": _packed(codes, "<u2" if wide else "u1"),
        }


def _packed(values: ArrayLike, kind: str) -> str:
    return packed(np.asarray(values).astype(kind).tobytes())
