"""Data as scripts, which a page opened from disk can load piece by piece."""

import json
import re
import sqlite3
import unicodedata
from base64 import b64encode
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from db.lineage import EntityNode, Lineage, TracedEntity
from release.lineage.reading import ReleasedLineage, summarize
from schemas.errors import IntegrityError

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


def _row_entities(row: Mapping[str, Any]) -> list[str]:
    """The entities of a row whose lineage is drawn: its image, then its texts."""
    return [
        row["image_entity_id"],
        *row["caption_entity_ids"],
        *(row.get("coarse_caption_entity_ids") or ()),
        *(one["entity_id"] for one in row.get("translations") or ()),
    ]


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
        self._rows.append(_row_entities(row) if known else [])
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
