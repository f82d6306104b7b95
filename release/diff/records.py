"""What two releases differ in, as records."""

from typing import Any, Literal

from pydantic import Field

from release.changes import FieldChange
from schemas.base import Record
from schemas.release import Count, DatasetName, HexSha256, Version
from schemas.retrieval_task import Tier

RowKind = Literal["added", "removed", "withdrawn", "changed", "moved", "restated"]
"""`withdrawn`: removed as a whole or in part, as the later release tells. `moved`: into another
split, whatever else changed. `restated`: image, captions and terms are the same, only their
stated source differs."""
TextKind = Literal["added", "removed", "withdrawn", "edited", "restated", "reordered"]
"""`withdrawn`: removed, as the later release tells. `edited`: says nearly the same as one that is
gone. `restated`: the same words with another entity, author or origin. `reordered`: nothing but its
place among the others changed."""


class PlacedText(Record):
    """A text of a row: its place in the list, from 0, and its values (`text`, `entity_id`, …)."""

    place: Count
    values: dict[str, Any]


class TextChange(Record):
    """How a text of a row changed, in the list `field`: captions, coarse ones, translations."""

    kind: TextKind
    field: str
    before: PlacedText | None
    after: PlacedText | None


class RowPlace(Record):
    """The place of a row in one of the releases; none of this is a change by itself."""

    id: int
    file_path: str
    split: str
    entity_id: str


class RowDifference(Record):
    """What one image differs in; `before` is None where it was added, `after` where removed.

    `row` holds all that is compared of a row that was added or is gone: `fields` by name and the
    lists of `texts`.
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
    """How many rows are of which kind; each is counted once."""

    same: Count = 0
    added: Count = 0
    removed: Count = 0
    withdrawn: Count = 0
    changed: Count = 0
    moved: Count = 0
    restated: Count = 0


class ComparedRelease(Record):
    """One of the two releases that are compared."""

    dataset: DatasetName
    version: Version
    tier: Tier | None
    id: HexSha256
    folder: str


class Difference(Record):
    """All that two releases differ in, counted, with examples.

    Attributes:
        before: the release that rows are removed from.
        after: the release that rows are added to.
        rows: how many rows are of which kind.
        fields: how many rows have another value in a field; rows of one side only do not count.
        texts: the number of texts of each kind, as (field, kind, count).
        splits: rows that moved, as (from, to, count).
        metadata: what differs in the manifest, the card and other documents. Version and id are
            left out: they always differ.
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
        """Whether the two are the same, version and id aside."""
        return not self.metadata and self.rows == RowCounts(same=self.rows.same)
