"""What must hold of a row before it becomes names of files or records: whoever made the release.

Digests tell that a release is the one that its maker named, not that its maker meant well.
`release.verify` says all that is wrong with rows; here the first fault is enough, and cheap.
"""

import re
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from release.manifest import MANIFEST

_NAME = re.compile(
    r"images/(?:[1-9][0-9]{0,17}_)?([1-9][0-9]{0,17})\.(?!(?:json|txt)\Z)[a-z]{1,15}"
)
"""Short enough for every format; what formats write beside an image is called `json` and `txt`."""
_MAY_BE_ABSENT = {"crop", "task", "tier", "contrast", "creator", "source_url"}
_OF_CAPTIONS = (
    "captions",
    "caption_entity_ids",
    "caption_authors",
    "caption_origins",
    "caption_reviewed",
)
_OF_COARSE = ("coarse_captions", "coarse_caption_entity_ids")
_SHOWN_CHARACTERS = 120


class RowFaults:
    """Holds the rows of one Parquet file, `data/<split>-…`, against its name and the manifest."""

    def __init__(self, shard: str, sources: frozenset[str]) -> None:
        self._split = shard.rpartition("/")[2].partition("-")[0]
        self._sources = sources
        self._needed: Callable[[Mapping[str, Any]], tuple[Any, ...]] | None = None

    def first(self, number: int, columns: Mapping[str, Any]) -> str | None:
        """What is wrong with the row of this number, of which all columns but the image are given.

        None where nothing is; else words that follow "row 12".
        """
        if self._needed is None:
            self._needed = itemgetter(*(name for name in columns if name not in _MAY_BE_ABSENT))
        if None in self._needed(columns):
            return f"has no {', '.join(name for name in columns if columns[name] is None)}"
        name = _NAME.fullmatch(columns["file_path"])
        if name is None or int(name[1]) != number:
            return f"calls its image {_shown(columns['file_path'])}; wanted 'images/{number}.jpg'"
        if columns["split"] != self._split:
            return f"says it is in the split {_shown(columns['split'])}"
        if columns["source"] not in self._sources:
            return f"is from {_shown(columns['source'])}, of which {MANIFEST} states no licence"
        return _fault_of_texts(columns) or _fault_of_structs(columns)


def _fault_of_texts(columns: Mapping[str, Any]) -> str | None:
    """Lists beside each other have the same length, and nothing is missing from any."""
    for names in (_OF_CAPTIONS, _OF_COARSE) if "coarse_captions" in columns else (_OF_CAPTIONS,):
        count = len(columns[names[0]])
        for name in names:
            texts = columns[name]
            if len(texts) != count:
                return f"has {count:,} {names[0]} and {len(texts):,} {name}"
            if None in texts:
                return f"has {name} of which one is missing"
    return None


def _fault_of_structs(columns: Mapping[str, Any]) -> str | None:
    crop, contrast = columns["crop"], columns.get("contrast")
    if crop and None in crop.values():
        return "has a crop that is not complete"
    if contrast and any(value is None for name, value in contrast.items() if name != "way"):
        return "has a contrast that is not complete"
    if any(one is None or None in one.values() for one in columns.get("translations") or ()):
        return "has a translation that is not complete"
    return None


def _shown(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"
