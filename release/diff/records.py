"""The differences of two releases, as records."""

from typing import Any, Literal

from pydantic import Field

from release.changes import FieldChange
from schemas.base import Record
from schemas.release import Count, DatasetName, HexSha256, Version
from schemas.retrieval_task import Tier

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
        metadata: differences in the manifest, the card and other documents, except version and id,
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
