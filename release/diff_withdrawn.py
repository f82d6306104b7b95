"""What a later release tells to be withdrawn from earlier ones of its dataset."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from release.diff_reading import OpenedRelease
from release.diff_records import RowPlace, TextChange
from release.notices_files import WITHDRAWALS, read_notices


class Withdrawn(NamedTuple):
    """Entity ids of images that were withdrawn, and of texts of images that were not."""

    images: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    def takes_row(self, place: RowPlace, texts: Mapping[str, Iterable[Mapping[str, Any]]]) -> bool:
        """Whether a row is gone with its image, or because all that it was captioned with is."""
        captions = [one["entity_id"] for one in texts.get("captions", ())]
        return place.entity_id in self.images or bool(captions and self.texts.issuperset(captions))

    def told(self, change: TextChange) -> TextChange:
        """The change of a text; one that is gone because it was withdrawn as such."""
        gone = change.before if change.kind == "removed" else None
        if gone is None or gone.values["entity_id"] not in self.texts:
            return change
        return change.model_copy(update={"kind": "withdrawn"})


NOTHING_WITHDRAWN = Withdrawn()
"""Of a release that tells of no withdrawal."""


def told_withdrawn(release: OpenedRelease) -> Withdrawn:
    """What a release tells to be withdrawn from any earlier one.

    Raises:
        IntegrityError: its list of withdrawals cannot be read.
    """
    if WITHDRAWALS not in release.files:
        return NOTHING_WITHDRAWN
    notices = read_notices(release.folder / WITHDRAWALS).notices
    rows = [row for notice in notices for row in notice.rows]
    return Withdrawn(
        frozenset(row.entity_id for row in rows if row.is_whole),
        frozenset(text for row in rows for text in row.texts),
    )
