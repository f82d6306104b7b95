"""Data as scripts, which a page opened from disk can load piece by piece."""

import json
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, get_args

from loupe.db.lineage import EntityNode, Lineage
from loupe.release.card.statistics import words_of
from loupe.release.format.rows import CaptionOrigin, number_in
from loupe.release.lineage.summaries import summarize
from loupe.schemas.base import Split
from loupe.schemas.processes import scratch_database
from loupe.schemas.taxonomy import TIERS, DifferenceType, RetrievalTask
from loupe.schemas.wording import shortened

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


class ScriptWriter:
    """Writes rows to numbered scripts `data/<kind>/<number>.js`.

    A script holds `size` rows, which `pack` converts; the first has the positions 0 to `size` − 1.
    """

    def __init__(
        self, folder: Path, kind: str, size: int, pack: Callable[[list[Any]], Any] = list
    ) -> None:
        self.written = 0
        self._size = size
        self._folder = folder
        self._kind = kind
        self._pack = pack
        self._rows: list[Any] = []

    def add(self, row: Any) -> None:
        """Append a row; a full script is written immediately."""
        self._rows.append(row)
        if len(self._rows) == self._size:
            self.finish()

    def finish(self) -> None:
        """Write the remaining rows."""
        if self._rows:
            self.write(self._pack(self._rows))
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
_SCRIPT_ROWS = 75_000
"""The number of positions in a script of the index, unless a word has more."""

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
        self._database = scratch_database("CREATE TABLE found (word, place)", file)

    def add(self, place: int, words: Iterable[str]) -> None:
        """Add the words of the row at `place` (from 0)."""
        found = ((sort_key(word), place) for word in set(words))
        self._database.executemany("INSERT INTO found VALUES (?, ?)", found)

    def write(self, writer: ScriptWriter, script_rows: int = _SCRIPT_ROWS) -> list[str]:
        """Write all words; returns the first word of each script, in order.

        The rows of a word are the position of the first, and the steps from each to the next.
        """
        firsts, words, rows, size = list[str](), list[str](), list[list[int]](), 0
        with closing(self._database) as database:
            found = database.execute("SELECT word, place FROM found ORDER BY word, place")
            for key, places in groupby(found, key=itemgetter(0)):
                word, steps = key.decode("utf-16-be"), _steps(place for _, place in places)
                if words and size + len(steps) > script_rows:
                    writer.write({"words": words, "rows": rows})
                    words, rows, size = [], [], 0
                if not words:
                    firsts.append(word)
                words.append(word)
                rows.append(steps)
                size += len(steps)
        if words:
            writer.write({"words": words, "rows": rows})
        return firsts


def _steps(places: Iterable[int]) -> list[int]:
    """The first of ascending positions, and the differences of the others."""
    return [place - before for before, place in pairwise(chain((0,), places))]


def sort_key(word: str) -> bytes:
    """A key that sorts words as JavaScript does."""
    return word.encode("utf-16-be", "replace")


def index_words(row: dict[str, Any], texts: Iterable[str]) -> Iterator[str]:
    """All index entries of a row: the words of its texts and the id of its image."""
    for text in texts:
        yield from search_words(text)
    yield _ENTITY + row["image_entity_id"][:_ENTITY_CHARACTERS]


# The lineage of all rows as scripts, with as many rows in each as in `data/rows`.
#
# An entity is a list of kind, id, summary, state, activity, call, parents and decisions. Parents
# are pairs of role and entity. Entities, activities and agents are named by their positions in the
# script.


_SUMMARY_CHARACTERS = 160


class Traceable(Protocol):
    """A lineage that can be read, as `loupe.release.lineage.reading` opens it."""

    def trace_page(self, entity_ids: Sequence[str]) -> Lineage:
        """The lineage of several entities at once."""


def lineage_page(
    lineage: Traceable, gone: frozenset[str], rows: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """The lineage of rows, given the entities of each.

    Rows with an ancestor that is `gone`, as a similar image may have, are shown without lineage.
    """
    wanted = list(dict.fromkeys(chain.from_iterable(rows)))
    if not wanted:
        return {"rows": rows, "entities": [], "activities": [], "agents": []}
    traced = lineage.trace_page(wanted)
    if not gone.isdisjoint(traced.entities):
        left = []
        for row in rows:
            is_kept = row and gone.isdisjoint(lineage.trace_page(row).entities)
            left.append(row if is_kept else ())
        return lineage_page(lineage, gone, left)
    entities = _places(traced.entities)
    activities = _places(traced.activities)
    agents = _places(traced.agents)

    def details(node: EntityNode) -> list[Any]:
        call = traced.calls.get(node.model_call_key or "")
        summary = summarize(node.entity.kind, node.entity.payload, 4 * _SUMMARY_CHARACTERS)
        return [
            node.entity.kind,
            node.entity.id,
            shortened(summary, _SUMMARY_CHARACTERS),
            node.entity.state,
            activities[node.activity_id],
            [agents[call.agent_id], call.tokens_in, call.tokens_out, call.cost, call.currency]
            if call
            else 0,
            [[role, entities[parent]] for role, parent in node.parents],
            [
                [one.verdict, agents[one.agent_id], one.reason or ""]
                for one in traced.decisions.get(node.entity.id, ())
            ],
        ]

    return {
        "rows": [[entities[one] for one in row] for row in rows],
        "entities": list(map(details, traced.entities.values())),
        "activities": [
            [one.stage, one.version, [agents[agent] for agent in one.agent_ids]]
            for one in traced.activities.values()
        ],
        "agents": [[one.kind, one.name, one.revision or ""] for one in traced.agents.values()],
    }


def _places(ids: Iterable[str]) -> dict[str, int]:
    return {id_: place for place, id_ in enumerate(ids)}


_SNIPPET_CHARACTERS = 140


def row_tile(row: Mapping[str, Any], shown: bool) -> list[Any]:
    """The beginning of the first text of a row, followed by 1 if the row has no picture."""
    if row.get("withdrawn"):
        return ["withdrawn", 1]
    contrast = row.get("contrast")
    text = row["captions"][0] if row["captions"] else (contrast["plan"] if contrast else "")
    short = shortened(text, _SNIPPET_CHARACTERS)
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
    """Collects the columns of rows one row at a time, as numbers."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, int]] = {name: {"": 0} for name in _FACETS}
        self._facets = {name: array("I") for name in _FACETS}
        self._origins = array("B")
        self._words = array("I")
        self._identities = array("q")
        self._anchors = array("q")

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row."""
        values = _facet_values(row)
        for name, known in self._values.items():
            self._facets[name].append(known.setdefault(values.get(name, ""), len(known)))
        self._origins.append(sum(1 << _ORIGINS.index(one) for one in set(row["caption_origins"])))
        self._words.append(_mean_words(row))
        self._identities.append(row["id"])
        contrast = row.get("contrast")
        self._anchors.append((number_in(contrast["anchor"]) or 0) if contrast else 0)

    def details(self) -> dict[str, Any]:
        """All columns; facets without any value are omitted."""
        return {
            "facets": [self._facet(name) for name in _FACETS if len(self._values[name]) > 1],
            "origins": {"values": _ORIGINS, "codes": self._origins.tolist()},
            "words": self._words.tolist(),
            "identities": self._identities.tolist(),
            "anchors": self._anchors.tolist() if any(self._anchors) else None,
        }

    def _facet(self, name: str) -> dict[str, Any]:
        met = list(self._values[name])
        values = in_order(name, met)
        place = {value: number for number, value in enumerate(values)}
        codes = [place[met[code]] for code in self._facets[name]]
        return {"name": name, "title": _FACETS[name], "values": values, "codes": codes}
