"""Data as scripts, which a page opened from disk can load piece by piece."""

import json
import re
import sqlite3
import unicodedata
from array import array
from base64 import b64encode
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from db.lineage import EntityNode, Lineage, TracedEntity
from release.lineage.reading import ReleasedLineage, summarize
from release.rows import CaptionOrigin, number_in, text_entity_ids
from release.statistics import words_of
from schemas.base import Split
from schemas.errors import IntegrityError
from schemas.taxonomy import TIERS, DifferenceType, RetrievalTask

_RECEIVER = "loupeReport"
"""The function of the page that receives the data of a script."""
_DATA = "data"
"""The folder of scripts, relative to the report."""

_UNSAFE = {
    ord(character): f"\\u{ord(character):04x}"
    for character in ("<", ">", "&", "\u2028", "\u2029", "\ufeff")
}


def script_json(value: Any) -> str:
    """`value` as JSON that is safe in a script, including scripts inside HTML.

    The result cannot end a script or begin a comment. Characters that end a line in JavaScript, but
    not in JSON, are escaped.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_UNSAFE)


def script_text(name: str, value: Any) -> str:
    """A script that passes `value` to the page under `name`."""
    return f"{_RECEIVER}({script_json(name)},{script_json(value)});\n"


def packed(values: bytes | bytearray) -> str:
    """Bytes as base64."""
    return b64encode(values).decode("ascii")


class ScriptWriter:
    """Writes rows to numbered scripts `data/<kind>/<number>.js`.

    A script holds `size` rows; the first has the positions 0 to `size` − 1.
    """

    def __init__(self, folder: Path, kind: str, size: int) -> None:
        self.size = size
        self.written = 0
        self._folder = folder
        self._kind = kind
        self._rows: list[Any] = []

    def add(self, row: Any) -> None:
        """Append a row; a full script is written immediately."""
        self._rows.append(row)
        if len(self._rows) == self.size:
            self.finish()

    def finish(self) -> None:
        """Write the remaining rows."""
        if self._rows:
            self.write(self._rows)
            self._rows = []

    def write(self, value: Sequence[Any] | dict[str, Any]) -> None:
        """Write the next script with any value."""
        write_script(self._folder, f"{self._kind}/{self.written}", value)
        self.written += 1


def write_script(folder: Path, name: str, value: Any) -> None:
    """Write the script called `name` below `folder`."""
    path = folder / _DATA / f"{name}.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script_text(name, value), encoding="utf-8", newline="\n")


_MAX_CHARACTERS = 40
"""Words are truncated to this length."""
_ENTITY = "id:"
"""Prefix of index entries that are ids of images instead of words."""
_ENTITY_CHARACTERS = 16
"""This many characters of an id distinguish it from all others."""
_SCRIPT_BYTES = 150_000

_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(f"[{_IDEOGRAPH}]|(?:(?![{_IDEOGRAPH}])[^\\W_])+")


def search_words(text: str) -> list[str]:
    """Split a text into the words of the search index.

    Words are runs of letters and digits, lower-cased and NFKC-normalised. Chinese and Japanese,
    which have no spaces between words, are split into characters.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return [word[:_MAX_CHARACTERS] for word in _WORD.findall(text.lower())]


class SearchIndex:
    """Collects the words of rows in a database in the new file `file`."""

    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file)
        self._database.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; CREATE TABLE found (word, place)"
        )

    def add(self, place: int, words: Iterable[str]) -> None:
        """Add the words of the row at `place` (from 0)."""
        found = ((sort_key(word), place) for word in set(words))
        self._database.executemany("INSERT INTO found VALUES (?, ?)", found)

    def write(self, writer: ScriptWriter, script_bytes: int = _SCRIPT_BYTES) -> list[str]:
        """Write all words; returns the first word of each script, in order."""
        firsts, words, rows, size = list[str](), list[str](), list[str](), 0
        with closing(self._database) as database:
            found = database.execute("SELECT word, place FROM found ORDER BY word, place")
            for key, places in groupby(found, key=itemgetter(0)):
                word, data = key.decode("utf-16-be"), _differences(place for _, place in places)
                if words and size + len(data) > script_bytes:
                    writer.write({"words": words, "rows": rows})
                    words, rows, size = [], [], 0
                if not words:
                    firsts.append(word)
                words.append(word)
                rows.append(packed(data))
                size += len(data) + len(word)
        if words:
            writer.write({"words": words, "rows": rows})
        return firsts


def _differences(places: Iterable[int]) -> bytes:
    """Delta-encode ascending positions."""
    data, last = bytearray(), 0
    for place in places:
        data += variable_bytes(place - last)
        last = place
    return bytes(data)


def sort_key(word: str) -> bytes:
    """A key that sorts words as JavaScript does."""
    return word.encode("utf-16-be", "replace")


def variable_bytes(number: int) -> bytes:
    """Encode an integer ≥ 0 as a variable-length quantity: seven bits a byte, lowest first."""
    if number < 0x80:
        return bytes((number,))
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def index_words(row: dict[str, Any], texts: Iterable[str]) -> Iterator[str]:
    """All index entries of a row: the words of its texts and the id of its image."""
    for text in texts:
        yield from search_words(text)
    yield _ENTITY + row["image_entity_id"][:_ENTITY_CHARACTERS]


# The lineage of all rows as scripts, with as many rows in each as in `data/rows`.
#
# Entities that many rows share (sources, prompts, settings, videos), activities and agents are
# stored once in `data/lineage/shared.js`; everything else is in the script of the rows that derive
# from it. An entity is a list of kind, id, summary, state, activity, call, parents and decisions.
# Parents are pairs of role and reference: a reference ≥ 0 is an entity of the same script, −1 the
# first shared entity, −2 the second.

_SHARED = "lineage/shared"
_SHARED_KINDS = frozenset({"source", "prompt", "settings", "sample", "video"})


class LineageScripts:
    """Writes the lineage of rows one row at a time, `size` rows a script."""

    def __init__(self, folder: Path, lineage: ReleasedLineage, size: int) -> None:
        self._folder = folder
        self._lineage = lineage
        self._size = size
        self._writer = ScriptWriter(folder, "lineage", size)
        self._rows: list[list[str]] = []
        self._entities = _Numbered()
        self._activities = _Numbered()
        self._agents = _Numbered()

    def add(self, row: Mapping[str, Any], *, known: bool = True) -> None:
        """Append a row; its lineage is empty unless it is `known`."""
        self._rows.append([row["image_entity_id"], *text_entity_ids(row)] if known else [])
        if len(self._rows) == self._size:
            self._write()

    def finish(self) -> None:
        """Write the remaining rows and the shared entities."""
        if self._rows:
            self._write()
        shared = {
            "entities": self._entities.listed,
            "activities": self._activities.listed,
            "agents": self._agents.listed,
        }
        write_script(self._folder, _SHARED, shared)

    def _write(self) -> None:
        own = _Numbered()
        rows: list[list[int]] = [[] for _ in self._rows]
        if wanted := list(dict.fromkeys(one for row in self._rows for one in row)):
            traced = self._lineage.trace_page(wanted)
            rows = [[self._reference(traced, own, one) for one in row] for row in self._rows]
        self._writer.write({"rows": rows, "entities": own.listed})
        self._rows = []

    def _reference(self, traced: Lineage, own: "_Numbered", entity_id: str) -> int:
        """The reference of an entity, which is added with its ancestors if it is missing.

        Parents come first. Iterative, because a lineage may be deeper than the recursion limit.

        Raises:
            IntegrityError: if an entity derives from itself.
        """
        known = ChainMap(own.numbers, self._entities.numbers)
        waiting, started = [entity_id], set[str]()
        while waiting:
            one = waiting[-1]
            if one in known:
                waiting.pop()
                continue
            parents = traced.entities[one].parents
            missing = [parent for _, parent in parents if parent not in known]
            if missing and one in started:
                raise IntegrityError(f"the lineage of {one} leads back to it")
            started.add(one)
            if missing:
                waiting += missing
            else:
                self._add(traced, own, one)
        return self._number(own, entity_id)

    def _number(self, own: "_Numbered", entity_id: str) -> int:
        if entity_id in own.numbers:
            return own.numbers[entity_id]
        return -1 - self._entities.numbers[entity_id]

    def _add(self, traced: Lineage, own: "_Numbered", entity_id: str) -> None:
        node = traced.entities[entity_id]
        details = [
            node.entity.kind,
            entity_id,
            _gist_of(node.entity),
            node.entity.state,
            self._activity(traced, node.activity_id),
            self._call(traced, node),
            [[role, self._number(own, parent)] for role, parent in node.parents],
            [
                [one.verdict, self._agent(traced, one.agent_id), one.reason or ""]
                for one in traced.decisions.get(entity_id, ())
            ],
        ]
        is_shared = node.entity.kind in _SHARED_KINDS and not any(
            parent in own.numbers for _, parent in node.parents
        )
        (self._entities if is_shared else own).number(entity_id, lambda: details)

    def _activity(self, traced: Lineage, activity_id: str) -> int:
        def details() -> list[Any]:
            activity = traced.activities[activity_id]
            agents = [self._agent(traced, one) for one in activity.agent_ids]
            return [activity.stage, activity.version, agents]

        return self._activities.number(activity_id, details)

    def _agent(self, traced: Lineage, agent_id: str) -> int:
        agent = traced.agents[agent_id]
        details = [agent.kind, agent.name, agent.revision or ""]
        return self._agents.number(agent_id, lambda: details)

    def _call(self, traced: Lineage, node: EntityNode) -> Sequence[Any] | int:
        call = traced.calls.get(node.model_call_key or "")
        if call is None:
            return 0
        agent = self._agent(traced, call.agent_id)
        return [agent, call.tokens_in, call.tokens_out, call.cost, call.currency]


class _Numbered:
    """Numbers items in the order in which they are first requested."""

    def __init__(self) -> None:
        self.listed: list[Any] = []
        self.numbers: dict[str, int] = {}

    def number(self, key: str, details: Callable[[], Any]) -> int:
        """The number of `key`; a new key is listed with the value of `details`."""
        if key not in self.numbers:
            made = details()
            self.numbers[key] = len(self.listed)
            self.listed.append(made)
        return self.numbers[key]


_GIST_CHARACTERS = 160


def _gist_of(entity: TracedEntity) -> str:
    """A summary of an entity's payload on one line."""
    shown = summarize(entity.kind, entity.payload, 4 * _GIST_CHARACTERS)
    return shown if len(shown) <= _GIST_CHARACTERS else f"{shown[: _GIST_CHARACTERS - 1]}…"


_SNIPPET_CHARACTERS = 140
_SAFE_URL = re.compile(r"https?://[^\s]+\Z", re.IGNORECASE)
_CROP = ("video", "frame", "time_seconds", "box_xyxy", "score")
_CONTRAST = ("difference", "detail", "plan", "method")
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
    "method": "Made by",
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
        if contrast and contrast["method"]:
            values["method"] = contrast["method"]
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
