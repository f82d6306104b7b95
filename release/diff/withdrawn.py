"""What a later release tells to be withdrawn from earlier ones of its dataset."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from release.diff.reading import OpenedRelease
from release.diff.records import PlacedText, RowDifference, RowPlace, TextChange
from release.notices_files import WITHDRAWALS, read_mark, read_notices
from schemas.withdrawal import WithdrawalNotice

WITHHELD = "(withdrawn)"
"""Replaces the words of a text that was withdrawn."""


class Withdrawn(NamedTuple):
    """Entity ids of images that were withdrawn, and of texts of images that were not."""

    images: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    def takes_row(self, place: RowPlace, texts: Mapping[str, Iterable[Mapping[str, Any]]]) -> bool:
        """Whether a row is gone with its image, or because all that it was captioned with is."""
        captions = [one["entity_id"] for one in texts.get("captions", ())]
        return place.entity_id in self.images or bool(captions and self.texts.issuperset(captions))

    def details(self, change: TextChange) -> TextChange:
        """The change of a text; one that is gone because it was withdrawn as such."""
        gone = change.before if change.kind == "removed" else None
        if gone is None or gone.values["entity_id"] not in self.texts:
            return change
        return change.model_copy(update={"kind": "withdrawn"})

    def withheld(self, difference: RowDifference) -> RowDifference:
        """The difference without what a row that was withdrawn holds, and without such texts."""
        places = [one for one in (difference.before, difference.after) if one is not None]
        gone = any(one.entity_id in self.images for one in places)
        shown = [self._shown(one, whole=gone) for one in difference.texts]
        update: dict[str, Any] = {"texts": tuple(shown)}
        if gone:
            update["fields"] = ()
        if difference.row is not None:
            update["row"] = self._row(difference.row, whole=gone)
        return difference.model_copy(update=update)

    def _shown(self, change: TextChange, *, whole: bool) -> TextChange:
        def details(text: PlacedText | None) -> PlacedText | None:
            if text is None:
                return None
            return text.model_copy(update={"values": self._text(text.values, whole=whole)})

        return change.model_copy(
            update={"before": details(change.before), "after": details(change.after)}
        )

    def _row(self, row: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
        texts = {
            field: [self._text(one, whole=whole) for one in many]
            for field, many in row["texts"].items()
        }
        return {**row, "fields": {} if whole else row["fields"], "texts": texts}

    def _text(self, values: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
        if whole or values["entity_id"] in self.texts:
            return {**values, "text": WITHHELD}
        return dict(values)


NOTHING_WITHDRAWN = Withdrawn()
"""Of a release that states no withdrawal."""


def stated_withdrawals(release: OpenedRelease) -> Withdrawn:
    """What a release tells to be withdrawn from any earlier one.

    Raises:
        IntegrityError: its list of withdrawals cannot be read.
    """
    if WITHDRAWALS not in release.files:
        return NOTHING_WITHDRAWN
    return _details(read_notices(release.folder / WITHDRAWALS).notices)


def known_withdrawn(
    releases: Iterable[OpenedRelease], notices: Iterable[WithdrawalNotice] = ()
) -> Withdrawn:
    """All that releases tell, the marks in their folders, and notices that are known beside.

    Raises:
        IntegrityError: a list of withdrawals, or a mark, cannot be read.
    """
    found = [_details(notices)]
    for release in releases:
        mark = read_mark(release.folder)
        found += [stated_withdrawals(release), _details(mark.notices if mark else ())]
    return Withdrawn(
        frozenset[str]().union(*(one.images for one in found)),
        frozenset[str]().union(*(one.texts for one in found)),
    )


def _details(notices: Iterable[WithdrawalNotice]) -> Withdrawn:
    rows = [row for notice in notices for row in notice.rows]
    return Withdrawn(
        frozenset(row.entity_id for row in rows if row.is_whole),
        frozenset(text for row in rows for text in row.texts),
    )
