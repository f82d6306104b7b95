"""Differences between two JSON values, and the lowest version that they permit a release.

Rows that were changed, removed or moved between splits require a new first number (major), added
rows a new second number (minor), everything else a new third number (patch). Withdrawn rows only
require a patch, so that withdrawals are never delayed for the sake of a number. If the first number
has another meaning, the second takes its place: before 1.0.0, when nothing is stable yet (Semantic
Versioning 2.0.0, section 4), and for benchmarks in tiers, where it is the tier.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Literal

from pydantic import Field

from loupe.schemas.base import Count, DatasetName, HexSha256, Record, Version, canonical_json
from loupe.schemas.taxonomy import Tier
from loupe.schemas.withdrawal import version_numbers

_NAMES = (
    *(("name",), ("name", "revision"), ("name", "revision", "parameters")),
    *(("prompt_id",), ("prompt_id", "version"), ("source", "file_path"), ("split",)),
    *(("splits", "measure"), ("direction", "tester"), ("queue",), ("difference",)),
    *(("measure",), ("granularity",), ("task",), ("tier",), ("licence",), ("model",)),
)
"""Keys that identify entries of lists in manifests: the first that is unique is used."""
_PAIR = 2


class FieldChange(Record):
    """A value of a row or of the manifest on both sides; None if a side has none.

    `field` is its name, with parts after a dot (`crop.frame`, `sources.coco.licence`).
    """

    field: str
    before: Any
    after: Any


def value_changes(name: str, before: Any, after: Any) -> Iterator[FieldChange]:
    """The differences of two JSON values, down to the smallest named parts.

    Entries of lists are identified by their names; if that is not possible, lists are compared as a
    whole.
    """
    if before == after:
        return
    parts = _parts(before, after)
    if parts is None:
        yield FieldChange(field=name, before=before, after=after)
        return
    old, new = parts
    for key in sorted(old.keys() | new.keys()):
        part = f"{name}.{key}" if name else key
        yield from value_changes(part, old.get(key), new.get(key))


def _parts(before: Any, after: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The named parts of two values; None if they have none, or none in common."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return dict(before), dict(after)
    if not _is_list(before) or not _is_list(after):
        return None
    if all(_is_pair(entry) for entry in (*before, *after)):
        old, new = ({entry[0]: entry[1] for entry in value} for value in (before, after))
        return (old, new) if (len(old), len(new)) == (len(before), len(after)) else None
    for names in _NAMES:
        if all(_has(entry, names) for entry in (*before, *after)):
            old, new = ({_name(entry, names): entry for entry in side} for side in (before, after))
            if (len(old), len(new)) == (len(before), len(after)):
                return old, new
    return None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_pair(entry: Any) -> bool:
    """Whether a value is a pair of a name and its value."""
    return _is_list(entry) and len(entry) == _PAIR and isinstance(entry[0], str)


def _has(entry: Any, names: tuple[str, ...]) -> bool:
    return isinstance(entry, Mapping) and entry.keys() >= set(names)


def _name(entry: Mapping[str, Any], names: tuple[str, ...]) -> str:
    values = (entry[name] for name in names)
    return "/".join(one if isinstance(one, str) else canonical_json(one) for one in values)


RowKind = Literal["added", "removed", "withdrawn", "changed", "moved", "restated"]
"""`withdrawn`: removed in whole or in part, as stated by the later release. `moved`: moved to
another split, regardless of other changes. `restated`: image, captions and terms are the same,
only their stated source differs.
"""
TextKind = Literal["added", "removed", "withdrawn", "edited", "restated", "reordered"]
"""`withdrawn`: removed, as stated by the later release. `edited`: similar to a removed text.
`restated`: the same words with another entity, author or origin. `reordered`: only its position
among the others changed.
"""


class PlacedText(Record):
    """A text of a row: its index in the list, from 0, and its values (`text`, `entity_id`, …)."""

    place: Count
    values: dict[str, Any]


class TextChange(Record):
    """A change of a text in the list `field`: captions, coarse captions or translations."""

    kind: TextKind
    field: str
    before: PlacedText | None
    after: PlacedText | None


class RowPlace(Record):
    """The position of a row in one of the releases, which is not a difference by itself."""

    id: int
    file_path: str
    split: str
    entity_id: str


class RowDifference(Record):
    """The difference of one image; `before` is None if it was added, `after` if it was removed.

    `row` has all compared values of an added or removed row: `fields` by name and the lists of
    `texts`.
    """

    kind: RowKind
    source: str
    source_file_path: str
    before: RowPlace | None
    after: RowPlace | None
    fields: tuple[FieldChange, ...] = ()
    texts: tuple[TextChange, ...] = ()
    row: dict[str, Any] | None = None


class RowCounts(Record):
    """The number of rows of each kind; each row is counted once."""

    same: Count = 0
    added: Count = 0
    removed: Count = 0
    withdrawn: Count = 0
    changed: Count = 0
    moved: Count = 0
    restated: Count = 0


class ComparedRelease(Record):
    """One of the two compared releases."""

    dataset: DatasetName
    version: Version
    tier: Tier | None
    id: HexSha256
    folder: str


class Difference(Record):
    """All differences of two releases as counts, with examples.

    Attributes:
        before: the release that rows are removed from.
        after: the release that rows are added to.
        rows: the number of rows of each kind.
        fields: the number of rows with another value by field, without added and removed rows.
        texts: the number of texts of each kind, as (field, kind, count).
        splits: rows that moved, as (from, to, count).
        metadata: differences in the manifest, the columns and the lineage, except version and id,
            which always differ.
        examples: the first rows of each kind.
    """

    before: ComparedRelease
    after: ComparedRelease
    rows: RowCounts
    fields: dict[str, Count] = Field(default_factory=dict)
    texts: tuple[tuple[str, TextKind, Count], ...] = ()
    splits: tuple[tuple[str, str, Count], ...] = ()
    metadata: tuple[FieldChange, ...] = ()
    examples: tuple[RowDifference, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the two are equal except for version and id."""
        return not self.metadata and self.rows == RowCounts(same=self.rows.same)


class Bump(IntEnum):
    """The number of a version that must increase, ordered by significance."""

    NONE = 0
    PATCH = 1
    MINOR = 2
    MAJOR = 3


_WORDS = {"moved": "moved between splits"}
"""Names of kinds of rows in messages, if they differ from the kind."""
_REQUIRING = {
    Bump.MAJOR: ("removed", "changed", "moved"),
    Bump.MINOR: ("added",),
    Bump.PATCH: ("withdrawn", "restated"),
}


def required_bump(difference: Difference) -> Bump:
    """The number that must increase from the first release to the second."""
    for bump, kinds in _REQUIRING.items():
        if any(getattr(difference.rows, kind) for kind in kinds):
            return bump
    return Bump.NONE if difference.is_empty else Bump.PATCH


def least_version(difference: Difference) -> str:
    """The lowest version of the second release."""
    before = difference.before
    return _raised(before.version, required_bump(difference), in_tier=before.tier is not None)


def is_successor(difference: Difference) -> bool:
    """Whether the releases are of one dataset and tier, so that their versions are comparable."""
    before, after = difference.before, difference.after
    return (before.dataset, before.tier) == (after.dataset, after.tier)


def check_version(difference: Difference, version: str) -> str | None:
    """The problem with a version of the second release: "is 0.1.1, must be at least 0.2.0: …".

    None if it is high enough, or if the releases are of different datasets or tiers.
    """
    wanted = least_version(difference)
    if not is_successor(difference) or not is_earlier(version, wanted):
        return None
    return f"is {version}, must be at least {wanted}: {_reason(difference)}"


def is_earlier(version: str, other: str) -> bool:
    """Whether `version` comes before `other`."""
    return version_numbers(version) < version_numbers(other)


def _raised(version: str, bump: Bump, *, in_tier: bool) -> str:
    major, minor, patch = version_numbers(version)
    if bump is Bump.MAJOR and (in_tier or major == 0):
        bump = Bump.MINOR
    match bump:
        case Bump.NONE:
            return version
        case Bump.PATCH:
            return f"{major}.{minor}.{patch + 1}"
        case Bump.MINOR:
            return f"{major}.{minor + 1}.0"
        case Bump.MAJOR:
            return f"{major + 1}.0.0"


def _reason(difference: Difference) -> str:
    """The reason for a bump: the rows that require it, or other differences."""
    kinds = _REQUIRING.get(required_bump(difference), ())
    counts = [(_WORDS.get(kind, kind), getattr(difference.rows, kind)) for kind in kinds]
    found = [(word, count) for word, count in counts if count]
    if not found:
        if difference.is_empty:
            return "nothing is different"
        count = len(difference.metadata)
        others = "1 other value differs" if count == 1 else f"{count:,} other values differ"
        return f"rows are equal, but {others}"
    rows = f"{found[0][1]:,} {'row was' if found[0][1] == 1 else 'rows were'} {found[0][0]}"
    return ", ".join([rows, *(f"{count:,} {word}" for word, count in found[1:])])
