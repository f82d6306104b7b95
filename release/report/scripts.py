"""Values as scripts: what a page that was opened from the disk can load bit by bit."""

import base64
import heapq
import json
import re
import unicodedata
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from db.lineage import EntityNode, Lineage, TracedEntity
from release.lineage.reading import ReleasedLineage, summarize
from schemas.errors import IntegrityError

_RECEIVER = "loupeReport"
"""The function of the page that is handed what a script holds."""
_DATA = "data"
"""The folder of scripts, below that of the report."""

_UNSAFE = {
    ord(character): f"\\u{ord(character):04x}"
    for character in ("<", ">", "&", "\u2028", "\u2029", "\ufeff")
}


def script_json(value: Any) -> str:
    """`value` as JSON that is safe in a script, also inside HTML.

    Nothing in it can end a script or begin a comment, and no character ends a line in JavaScript
    that does not in JSON.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_UNSAFE)


def script_text(name: str, value: Any) -> str:
    """A script that hands `value` to the page as what it asked for by `name`."""
    return f"{_RECEIVER}({script_json(name)},{script_json(value)});\n"


def packed(values: bytes | bytearray) -> str:
    """Bytes as base64."""
    return b64encode(values).decode("ascii")


class ScriptWriter:
    """Writes `data/<kind>/<number>.js` one after the other, each with some rows.

    `size` is how many rows a script holds; the first holds those with the places 0 to `size` − 1.
    """

    def __init__(self, folder: Path, kind: str, size: int) -> None:
        self.size = size
        self.written = 0
        self._folder = folder
        self._kind = kind
        self._rows: list[Any] = []

    def add(self, row: Any) -> None:
        """Appends a row; a script is written as soon as it is full."""
        self._rows.append(row)
        if len(self._rows) == self.size:
            self.finish()

    def finish(self) -> None:
        """Writes what is left."""
        if self._rows:
            self.write(self._rows)
            self._rows = []

    def write(self, value: Sequence[Any] | dict[str, Any]) -> None:
        """Writes the next script with a value of any form."""
        write_script(self._folder, f"{self._kind}/{self.written}", value)
        self.written += 1


def write_script(folder: Path, name: str, value: Any) -> None:
    """Writes the script that is asked for by `name` below `folder`."""
    path = folder / _DATA / f"{name}.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script_text(name, value), encoding="utf-8", newline="\n")


_MAX_CHARACTERS = 40
"""Words are known by so many characters."""
_ENTITY = "id:"
"""What the words begin with that are no words but ids of images."""
_ENTITY_CHARACTERS = 16
"""So many characters of an id are enough to tell it from all others."""
_SCRIPT_BYTES = 150_000
_PIECE_BYTES = 8_000_000

_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(f"[{_IDEOGRAPH}]|(?:(?![{_IDEOGRAPH}])[^\\W_])+")
_COST = 60  # bytes that a new word needs in memory beside its rows


def search_words(text: str) -> list[str]:
    """The words of a text as they are searched for.

    Runs of letters and digits, compatible forms and letter case aside; of Chinese and Japanese,
    which do not part words, single characters.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return [word[:_MAX_CHARACTERS] for word in _WORD.findall(text.lower())]


def _entity_word(entity_id: str) -> str:
    """What an entity is found by."""
    return _ENTITY + entity_id[:_ENTITY_CHARACTERS]


class _Rows:
    """The places of rows that a word occurs in, as differences to the one before."""

    __slots__ = ("data", "first", "last")

    def __init__(self, place: int) -> None:
        self.first = self.last = place
        self.data = bytearray()

    def add(self, place: int) -> int:
        before = len(self.data)
        self.data += variable_bytes(place - self.last)
        self.last = place
        return len(self.data) - before


class _Posting(NamedTuple):
    """The rows of a word in one piece; `key` is what words are sorted by."""

    key: bytes
    first: int
    last: int
    data: bytes


class SearchIndex:
    """Collects the words of rows in their order. `scratch` is a folder for pieces."""

    def __init__(self, scratch: Path, piece_bytes: int = _PIECE_BYTES) -> None:
        self._scratch = scratch
        self._piece_bytes = piece_bytes
        self._pieces: list[Path] = []
        self._words: dict[str, _Rows] = {}
        self._size = 0

    def add(self, place: int, words: Iterable[str]) -> None:
        """Remembers that the row at `place`, from 0, has these words."""
        for word in set(words):
            rows = self._words.get(word)
            if rows is None:
                self._words[word] = _Rows(place)
                self._size += _COST + len(word)
            else:
                self._size += rows.add(place)
        if self._size >= self._piece_bytes:
            self._end_piece()

    def write(self, writer: ScriptWriter, script_bytes: int = _SCRIPT_BYTES) -> list[str]:
        """Writes all words; gives the first word of each script, in their order."""
        self._end_piece()
        firsts, words, rows, size = list[str](), list[str](), list[str](), 0
        for word, data in self._merged():
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

    def _end_piece(self) -> None:
        if not self._words:
            return
        path = self._scratch / f"words-{len(self._pieces)}"
        with path.open("w", encoding="ascii") as file:
            for key, word in sorted((sort_key(word), word) for word in self._words):
                rows = self._words[word]
                data = base64.b64encode(rows.data).decode()
                file.write(f"{key.hex()} {rows.first} {rows.last} {data}\n")
        self._pieces.append(path)
        self._words, self._size = {}, 0

    def _merged(self) -> Iterator[tuple[str, bytes]]:
        pieces = [_read(path) for path in self._pieces]
        merged = heapq.merge(*pieces, key=lambda one: (one.key, one.first))
        for key, postings in groupby(merged, key=lambda one: one.key):
            data, last = bytearray(), -1
            for one in postings:
                data += variable_bytes(one.first - last - 1 if last < 0 else one.first - last)
                data += one.data
                last = one.last
            yield key.decode("utf-16-be"), bytes(data)


def _read(path: Path) -> Iterator[_Posting]:
    with path.open(encoding="ascii") as file:
        for line in file:
            key, first, last, data = line.rstrip("\n").split(" ")
            yield _Posting(bytes.fromhex(key), int(first), int(last), base64.b64decode(data))


def sort_key(word: str) -> bytes:
    """Sorts words as JavaScript does."""
    return word.encode("utf-16-be", "replace")


def variable_bytes(number: int) -> bytes:
    """A whole number from 0 on in as few bytes as it needs: seven bits each, the lowest first."""
    if number < 0x80:
        return bytes((number,))
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def index_words(row: dict[str, Any], texts: Iterable[str]) -> Iterator[str]:
    """All that a row is found by: the words of its texts, and the id of its image."""
    for text in texts:
        yield from search_words(text)
    yield _entity_word(row["image_entity_id"])


# The lineage of all rows as scripts: as many rows in each as in `data/rows`.
#
# What many rows come from (sources, prompts, settings, videos), activities and agents are once in
# `data/lineage/shared.js`; everything else is in the script of the rows that come from it. An
# entity is a list of kind, id, gist, state, activity, call, parents and decisions. Parents are
# pairs of role and reference: from 0 on an entity of the same script, below 0 a shared one, −1 the
# first.

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
    """Writes the lineage of rows as they come, `size` rows a script."""

    def __init__(self, folder: Path, lineage: ReleasedLineage, size: int) -> None:
        self._folder = folder
        self._lineage = lineage
        self._size = size
        self._writer = ScriptWriter(folder, "lineage", size)
        self._rows: list[list[str]] = []
        self._shared = _Shared()

    def add(self, row: Mapping[str, Any], *, known: bool = True) -> None:
        """Appends a row; of one that is not to be `known`, nothing is shown."""
        self._rows.append(_row_entities(row) if known else [])
        if len(self._rows) == self._size:
            self._write()

    def finish(self) -> None:
        """Writes what is left, and what is shared."""
        if self._rows:
            self._write()
        write_script(self._folder, _SHARED, self._shared.details())

    def _write(self) -> None:
        wanted = list(dict.fromkeys(one for row in self._rows for one in row))
        rows: list[list[int]] = [[] for _ in self._rows]
        details: list[Any] = []
        if wanted:
            page = _Page(self._lineage.trace_page(wanted), self._shared)
            rows = [[page.reference(one) for one in row] for row in self._rows]
            details = page.details()
        self._writer.write({"rows": rows, "entities": details})
        self._rows = []


class _Numbered:
    """Things with numbers in the order in which they were first named."""

    def __init__(self) -> None:
        self.listed: list[Any] = []
        self._numbers: dict[str, int] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._numbers

    def __getitem__(self, key: str) -> int:
        return self._numbers[key]

    def add(self, key: str, value: Any) -> int:
        self._numbers[key] = len(self.listed)
        self.listed.append(value)
        return len(self.listed) - 1


class _Shared:
    """What several rows share."""

    def __init__(self) -> None:
        self.entities = _Numbered()
        self._activities = _Numbered()
        self._agents = _Numbered()

    def details(self) -> dict[str, Any]:
        return {
            "entities": self.entities.listed,
            "activities": self._activities.listed,
            "agents": self._agents.listed,
        }

    def agent(self, traced: Lineage, agent_id: str) -> int:
        if agent_id in self._agents:
            return self._agents[agent_id]
        agent = traced.agents[agent_id]
        return self._agents.add(agent_id, [agent.kind, agent.name, agent.revision or ""])

    def activity(self, traced: Lineage, activity_id: str) -> int:
        if activity_id in self._activities:
            return self._activities[activity_id]
        activity = traced.activities[activity_id]
        agents = [self.agent(traced, one) for one in activity.agent_ids]
        return self._activities.add(activity_id, [activity.stage, activity.version, agents])


class _Page:
    """The entities of one script."""

    def __init__(self, traced: Lineage, shared: _Shared) -> None:
        self._traced = traced
        self._shared = shared
        self._own = _Numbered()

    def details(self) -> list[Any]:
        return self._own.listed

    def reference(self, entity_id: str) -> int:
        """The number of an entity, which is added with its ancestors if it was not yet.

        Parents first: a lineage may be deep, so that nothing here calls itself.

        Raises:
            IntegrityError: an entity comes from itself.
        """
        waiting, started = [entity_id], set[str]()
        while waiting:
            one = waiting[-1]
            if one in self:
                waiting.pop()
                continue
            node = self._traced.entities[one]
            missing = [parent for _, parent in node.parents if parent not in self]
            if missing and one in started:
                raise IntegrityError(f"the lineage of {one} leads back to it")
            started.add(one)
            if missing:
                waiting += missing
            else:
                self._add(one, node)
        return self._number(entity_id)

    def __contains__(self, entity_id: str) -> bool:
        return entity_id in self._own or entity_id in self._shared.entities

    def _number(self, entity_id: str) -> int:
        if entity_id in self._own:
            return self._own[entity_id]
        return -1 - self._shared.entities[entity_id]

    def _add(self, entity_id: str, node: EntityNode) -> None:
        parents = [[role, self._number(parent)] for role, parent in node.parents]
        details = [
            node.entity.kind,
            entity_id,
            _gist_of(node.entity),
            node.entity.state,
            self._shared.activity(self._traced, node.activity_id),
            self._call(node),
            parents,
            self._decisions(entity_id),
        ]
        is_shared = node.entity.kind in _SHARED_KINDS and not any(
            parent in self._own for _, parent in node.parents
        )
        (self._shared.entities if is_shared else self._own).add(entity_id, details)

    def _call(self, node: EntityNode) -> Sequence[Any] | int:
        call = self._traced.calls.get(node.model_call_key or "")
        if call is None:
            return 0
        agent = self._shared.agent(self._traced, call.agent_id)
        return [agent, call.tokens_in, call.tokens_out, call.cost, call.currency]

    def _decisions(self, entity_id: str) -> list[list[Any]]:
        return [
            [one.verdict, self._shared.agent(self._traced, one.agent_id), one.reason or ""]
            for one in self._traced.decisions.get(entity_id, ())
        ]


_GIST_CHARACTERS = 160


def _gist_of(entity: TracedEntity) -> str:
    """What a person wants to see of what an entity holds, on one line."""
    shown = summarize(entity.kind, entity.payload, 4 * _GIST_CHARACTERS)
    return shown if len(shown) <= _GIST_CHARACTERS else f"{shown[: _GIST_CHARACTERS - 1]}…"
