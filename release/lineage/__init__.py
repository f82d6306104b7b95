"""`lineage/` of a release: the published provenance and its tables."""

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from loupe.release.format.files import DigestingFile
from loupe.release.format.parquet import TYPES, WRITING
from loupe.release.format.publishable import published_name, published_text, published_values
from loupe.schemas.base import canonical_json
from loupe.schemas.grouping import batches
from loupe.schemas.provenance import PROMOTE, WITHHELD_WHOLE
from loupe.schemas.release import ReleasedFile

# The part of the store's provenance that may be published.
#
# Left out is everything that could reveal a machine or its users: paths, addresses, devices and
# names of keys; messages between people (but not the texts they made); requests to models and their
# responses; the tracker's observations, whose embeddings identify people; and of withdrawn entities
# everything but the id. Fields left out of a payload are named next to it.

_WITHDRAWN = "withdrawn"

_TEXTS = frozenset({"caption", "rewrite", "prompt"})
"""Kinds whose texts are released unchanged."""
_NAMES = frozenset({"author", "embedder", "model"})
"""Fields of any kind that name a model, a tracker or a person."""
_POLICY = tomllib.loads(files("loupe.release.lineage").joinpath("policy.toml").read_text("utf-8"))
WHOLE = frozenset(_POLICY["whole"])
"""Kinds without omitted fields."""
WITHHELD: dict[str, list[str]] = _POLICY["withheld"]
"""Omitted fields of other kinds; kinds that are in neither table have no payload at all."""
_SETTINGS = frozenset(_POLICY["settings"])
"""The names in a plan's configuration that are published."""
_PATH = re.compile(r"(?<=[\s\"'`=:@({,;|<>\[])/|[A-Za-z]:/|\.\./")
_HINTS = (
    *("\\", "~", "=", "://", "bearer", "password", "passwd", "authorization"),
    *("api_key", "api-key", "apikey", "accesstoken", "access_token", "access-token"),
    *("sk-", "hf_", "ghp_", "github_pat_", "akia", "aiza"),
)
"""Every payload with something to remove contains one of these, or a path."""

_RELATIVE = frozenset({"file_path"})
"""Paths relative to the root of a source, which are part of the rows."""
_ABSOLUTE = re.compile(
    r"[\\/~]|[A-Za-z]:[\\/]|\.\.[\\/]|[A-Za-z+.-]+://|(?:file|folder|local-dir):"
)

_HOW = r"settled by an adjudicator|[0-9]+ people answered"
_SAID = re.compile(rf"(?:(?P<how>{_HOW})(?:: |$))?(?P<choice>[^:\n@]*)(?::.*)?", re.DOTALL)
"""The kind of decision, the choices on the page, and comments of the person."""


def published_payload(
    kind: str, state: str, payload: str, own: Collection[str] = ()
) -> tuple[str | None, tuple[str, ...]]:
    """The released payload of an entity, and the fields left out of it.

    None if it is left out as a whole: withdrawn entities and unknown kinds. Records of the `own`
    kinds of a dataset are released as they are, like the rows that have them.
    """
    if kind in own and state != _WITHDRAWN:
        return payload, ()
    if state == _WITHDRAWN or (kind not in WHOLE and kind not in WITHHELD):
        return None, (WITHHELD_WHOLE,)
    fields = WITHHELD.get(kind, [])
    if not (fields or kind == "settings" or _is_suspect(kind, payload)):
        return payload, ()
    values: dict[str, Any] = json.loads(payload)
    left_out = [field for field in fields if _remove_field(values, field.split("."))]
    for name, value in values.items():
        details = _published_field(kind, name, value)
        if details != value:
            values[name] = details
            left_out.append(name)
    if not left_out:
        return payload, ()
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False), tuple(left_out)


def _is_suspect(kind: str, payload: str) -> bool:
    """Whether a payload needs a close look; fast, because few payloads of a million do."""
    if kind in _TEXTS:  # all other payloads are released unchanged
        payload = payload[max(payload.rfind('"author"'), 0) :]
    lower = payload.lower()
    return any(hint in lower for hint in _HINTS) or ("/" in lower and bool(_PATH.search(payload)))


def _published_field(kind: str, name: str, value: Any) -> Any:
    """A field of a record; of texts, only the author may be renamed."""
    if kind in _TEXTS and name not in _NAMES:
        return value
    if kind == "settings" and name == "values":
        return published_values(value)
    return _without_places(value, name)


def published_configuration(stage: str, configuration: dict[str, Any]) -> str:
    """The configuration of a plan as canonical JSON; that of a promotion is published whole."""
    if stage == PROMOTE:
        return canonical_json(configuration)
    known = {name: value for name, value in configuration.items() if name in _SETTINGS}
    return canonical_json(published_values(known))


def published_reason(verdict: str, agent_kind: str, reason: str, *, answered: bool) -> str:
    """The reason of a decision without what people wrote.

    Args:
        verdict: the decision; reasons of withdrawals are not released.
        agent_kind: the kind of agent; reasons of gates and checks are released.
        reason: the stated reason.
        answered: whether the decision follows from an answer on a page. Reasons that flows derive
            from such a decision are released.
    """
    if verdict == "withdraw":
        return ""
    if agent_kind != "person" or not answered:
        return published_text(reason)
    if (said := _SAID.fullmatch(reason)) is None:
        return ""
    return ": ".join(part for part in (said["how"], said["choice"].strip()) if part)


def _remove_field(values: Any, path: list[str]) -> bool:
    """Remove a field; False if it does not exist or is empty."""
    *above, field = path
    for name in above:
        values = values.get(name) if isinstance(values, dict) else None
    return isinstance(values, dict) and bool(values.pop(field, None))


def _without_places(values: Any, name: str) -> Any:
    if isinstance(values, dict):
        return {key: _without_places(value, key) for key, value in values.items()}
    if isinstance(values, list):
        return [_without_places(value, name) for value in values]
    if not isinstance(values, str) or (name in _RELATIVE and not _ABSOLUTE.match(values)):
        return values
    if name in _NAMES:
        return published_name(values)
    text = published_text(values)
    return text.partition("?")[0] if name == "image_url" else text


# The tables of `lineage/`: W3C PROV restricted to a release, for DuckDB and `loupe lineage`.
#
# Each table is sorted by its first columns, so that the rows of an id are in one or two row groups,
# which the statistics of the file identify. The tables do not state when or where anything was
# stored: activities state what was done by which agents, but not in which run.

FOLDER = "lineage"


class CallUse(StrEnum):
    """The use of a model call in a lineage, which determines if the manifest counts it."""

    RELEASED = "released"
    """A text or strategy in the lineage; counted."""
    LEFT_OUT = "left_out"
    """Texts of released images that are not in the release themselves; counted."""
    OTHER = "other"
    """Anything else in the lineage; not counted."""


class LineageTable(NamedTuple):
    """A table of `lineage/`, as declared in `tables.toml`; its file is `lineage/<name>.parquet`."""

    name: str
    schema: pa.Schema
    keys: int
    repeating: Sequence[str]
    group_rows: int
    nullable: Sequence[str] = ()
    references: Mapping[str, str] = MappingProxyType({})

    @property
    def path(self) -> str:
        """The path of the table in a release."""
        return f"{FOLDER}/{self.name}.parquet"

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns by which the table is sorted."""
        return tuple(self.schema.names[: self.keys])


def _declared() -> Iterator[LineageTable]:
    text = files("loupe.release.lineage").joinpath("tables.toml").read_text("utf-8")
    for name, table in tomllib.loads(text).items():
        columns = [(one, TYPES[type_]) for one, type_ in table.pop("columns").items()]
        yield LineageTable(name, pa.schema(columns), **table)


TABLES = tuple(_declared())
"""All tables, in the order in which they are written."""
ENTITIES, DERIVATIONS, DECISIONS, CALLS, ACTIVITIES, AGENTS = TABLES


def write_table(
    folder: Path, table: LineageTable, rows: Iterable[Sequence[Any]]
) -> tuple[ReleasedFile, int]:
    """Write a table with these sorted rows; returns its file and their number.

    One row group is in memory at a time.
    """
    count = 0
    with (
        closing(DigestingFile(folder / table.path)) as file,
        pq.ParquetWriter(pa.PythonFile(file, "w"), table.schema, **_settings(table)) as writer,
    ):
        for page in batches(rows, table.group_rows):
            count += len(page)
            values = zip(zip(*page, strict=True), table.schema.types, strict=True)
            columns = [pa.array(column, type_) for column, type_ in values]
            group = pa.Table.from_arrays(columns, schema=table.schema)
            writer.write_table(group, row_group_size=len(page))
    return file.as_released(table.path), count


def _settings(table: LineageTable) -> dict[str, Any]:
    return {
        **WRITING,
        "compression": "ZSTD",
        "compression_level": 3,
        "use_dictionary": table.repeating,
        "write_statistics": True,
        "sorting_columns": [pq.SortingColumn(place) for place in range(table.keys)],
    }
