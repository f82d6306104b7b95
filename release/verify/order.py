"""Whether the rows of a release are in order, each identity under one id."""

import hashlib
from typing import Any, NamedTuple

from release.findings import Findings
from release.ordering import SPLITS, RowKey


class _Anchor(NamedTuple):
    """The last image that was not contrastive."""

    file_path: str
    split: str
    key: RowKey


class OrderChecks:
    """Follows rows of Parquet; `has_groups` where they may be contrastive.

    In such a release each image has an id of its own, and contrastive images follow their anchor.
    """

    def __init__(self, findings: Findings, *, has_groups: bool) -> None:
        self._findings = findings
        self._has_groups = has_groups
        self._id_of: dict[bytes, int] = {}
        self._last_id = 0
        self._last: tuple[RowKey, tuple[Any, ...]] | None = None
        self._anchor: _Anchor | None = None

    def check(self, file: str, number: int, row: dict[str, Any]) -> bool:
        """Whether the row is the first of its identity."""
        is_new = self._check_id(file, number, row)
        if row["split"] not in SPLITS:
            return is_new
        place = self._place(file, number, row)
        if self._last is not None and place <= self._last:
            fault = "row_duplicated" if place == self._last else "row_out_of_order"
            what = "shows the image of the row before" if place == self._last else "is misplaced"
            details = f"{what} ({row['source']}, {row['source_file_path']!r})"
            self._report(fault, details, file, number)
        self._last = place
        return is_new

    def _check_id(self, file: str, number: int, row: dict[str, Any]) -> bool:
        if self._has_groups:
            wanted, is_new, rule = self._last_id + 1, True, "each image has its own id"
        else:
            name = f"{row['source']}/{row['identity']}".encode()
            digest = hashlib.blake2b(name, digest_size=12).digest()
            is_new, rule = digest not in self._id_of, "one identity, one id"
            wanted = self._id_of.get(digest, self._last_id + 1)
            self._id_of[digest] = row["id"]
        self._last_id = row["id"]
        if row["id"] != wanted:
            what = (
                f"gives {row['source']}/{row['identity']} the id {row['id']}; "
                f"wanted {wanted}: {rule}, counted from 1"
            )
            self._report("id_wrong", what, file, number)
        return is_new

    def _place(self, file: str, number: int, row: dict[str, Any]) -> tuple[RowKey, tuple[Any, ...]]:
        """What a row is ordered by: its own key, or its anchor's and then its own."""
        key = RowKey.of(row["split"], row["source"], row["identity"], row["source_file_path"])
        contrast = row.get("contrast")
        if contrast is None:
            self._anchor = _Anchor(row["file_path"], row["split"], key)
            return key, ()
        anchor = self._anchor
        if anchor is None or contrast["anchor"] != anchor.file_path:
            what = f"differs from {contrast['anchor']!r}, which is not the anchor that it follows"
            self._report("anchor_missing", what, file, number)
            return key, ()
        if anchor.split != row["split"]:
            what = f"is in the split {row['split']!r}, its anchor in {anchor.split!r}"
            self._report("anchor_in_other_split", what, file, number)
        return anchor.key, key

    def _report(self, fault: str, what: str, file: str, number: int) -> None:
        self._findings.add(fault, f"{file}: row {number} {what}", file, number)
