"""Asserts, as a release is built, that its rows have the form and the order of a release."""

from collections.abc import Iterator, Mapping
from typing import Any

from loupe.release.format.rows import ReleaseRow, RowFaults, RowKey
from loupe.schemas.errors import IntegrityError
from loupe.schemas.taxonomy import CANDIDATES, Tier, tiers_within


class BuiltRows:
    """Checks the rows of a build one after the other.

    With `has_groups` each image has its own id, and contrastive images follow their anchor, or in a
    `neutral` order stand anywhere beside it; in other releases an id is that of an identity.
    """

    def __init__(
        self, *, has_groups: bool, tier: Tier | None = None, neutral: bool = False
    ) -> None:
        self._has_groups = has_groups
        self._neutral = neutral
        self._seen: set[str] = set()
        self._group = ""
        self._tiers: tuple[Tier | None, ...] = tiers_within(tier) if tier else (None,)
        self._ids: dict[tuple[str, str], int] = {}
        self._number = 0
        self._last_id = 0
        self._last: tuple[RowKey, ...] = ()
        self._anchor: ReleaseRow | None = None

    def check(self, row: ReleaseRow, columns: Mapping[str, Any]) -> None:
        """Check the next row, which has these columns.

        Raises:
            IntegrityError: if no release may have such a row at this place.
        """
        self._number += 1
        faults = RowFaults(f"data/{row.split}-", frozenset([row.source]), self._tiers)
        known = faults.first(self._number, columns)
        if what := known or next(self._faults(row), None):
            raise IntegrityError(
                f"row {self._number} ({row.source}, {row.source_file_path!r}) {what}; "
                f"nothing is released"
            )

    def _faults(self, row: ReleaseRow) -> Iterator[str]:
        if not row.captions and row.tier != CANDIDATES:
            yield "has no captions"
        if not all(one.text.strip() for one in row.captions):
            yield "has an empty caption"
        if row.id != (wanted := self._wanted_id(row)):
            yield f"has the id {row.id}; expected {wanted}"
        self._last_id = row.id
        if self._neutral and self._has_groups:
            yield from self._faults_of_group(row)
        else:
            yield from self._faults_of_place(row)

    def _wanted_id(self, row: ReleaseRow) -> int:
        if self._has_groups:
            return self._last_id + 1
        return self._ids.setdefault((row.source, row.identity), len(self._ids) + 1)

    def _faults_of_group(self, row: ReleaseRow) -> Iterator[str]:
        """Faults of a row in a neutral order: a group is in one place, whatever its order."""
        group = row.contrast.anchor if row.contrast else row.file_path
        if group == self._group:
            return
        if group in self._seen:
            yield f"is apart from the group of {group}"
        self._seen.add(group)
        self._group = group

    def _faults_of_place(self, row: ReleaseRow) -> Iterator[str]:
        place: tuple[RowKey, ...] = (self._key_of(row),)
        if row.contrast is None:
            self._anchor = row
        elif self._anchor is None or row.contrast.anchor != self._anchor.file_path:
            yield f"does not follow its anchor, {row.contrast.anchor}"
        elif self._anchor.split != row.split:
            yield f"is in the split {row.split!r}, its anchor in {self._anchor.split!r}"
        else:
            place = (self._key_of(self._anchor), self._key_of(row))
        if place <= self._last:
            yield "is out of order, or there twice"
        self._last = place

    def _key_of(self, row: ReleaseRow) -> RowKey:
        key = RowKey.of(row.split, row.source, row.identity, row.source_file_path)
        return key.neutral() if self._neutral else key
