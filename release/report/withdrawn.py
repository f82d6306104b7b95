"""What was withdrawn from a release is not shown in a report that is made of it later."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from release.notices import affected_rows, known_of, withdrawn_sentence
from schemas.withdrawal import WithdrawalNotice, WithdrawnRow

_CAPTIONS = (
    *("captions", "caption_entity_ids", "caption_authors", "caption_origins"),
    "caption_reviewed",
)
_COARSE = ("coarse_captions", "coarse_caption_entity_ids")
_TOLD = ("creator", "source_url", "crop")


class Withheld:
    """The rows of the release in `folder` that its mark (`WITHDRAWN.json`) or notices name."""

    def __init__(
        self, folder: Path, release_id: str, notices: Iterable[WithdrawalNotice] = ()
    ) -> None:
        self._notices: Sequence[WithdrawalNotice] = known_of(release_id, folder, notices)
        self._rows = {one.number: one for one in affected_rows(self._notices)}

    def __len__(self) -> int:
        return len(self._rows)

    def sentence(self, images: int) -> str:
        """What was withdrawn from the release, which has so many images; empty if nothing was."""
        return withdrawn_sentence(self._notices, images) if self._rows else ""

    def is_whole(self, number: int) -> bool:
        """Whether nothing of the row with this number may be shown."""
        return number in self._rows and self._rows[number].is_whole

    def shown(self, number: int, row: dict[str, Any]) -> dict[str, Any]:
        """The columns of a row without what was withdrawn of it."""
        withdrawn = self._rows.get(number)
        return row if withdrawn is None else _without(row, withdrawn)


def _without(row: Mapping[str, Any], withdrawn: WithdrawnRow) -> dict[str, Any]:
    left = dict(row)
    gone = set(withdrawn.texts)

    def keep(entity_id: str) -> bool:
        return not withdrawn.is_whole and entity_id not in gone

    for names in (_CAPTIONS, _COARSE):
        if row.get(names[1]) is not None:
            places = [at for at, one in enumerate(row[names[1]]) if keep(one)]
            left |= {name: [row[name][at] for at in places] for name in names}
            if names is _CAPTIONS:
                moved = {at: place for place, at in enumerate(places)}
    if row.get("translations"):
        left["translations"] = [
            {**one, "caption": moved[one["caption"]]}
            for one in row["translations"]
            if keep(one["entity_id"]) and one["caption"] in moved
        ]
    if withdrawn.is_whole:
        left |= {name: None for name in _TOLD if name in row}
        left |= {"source_file_path": "", "identity": ""}
        if row.get("contrast"):
            left["contrast"] = {**row["contrast"], "detail": "", "plan": ""}
    return left
