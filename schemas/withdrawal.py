"""Withdrawals, and the order of versions of releases."""

from typing import Literal

from pydantic import Field

from loupe.schemas.base import (
    IF_ANY,
    Count,
    DatasetName,
    EntityId,
    HexSha256,
    NonBlank,
    Record,
    Version,
)

# The order of versions of releases.


def version_numbers(version: str) -> tuple[int, int, int]:
    """Return the numbers of a version such as 1.10.0, by which versions are ordered."""
    major, minor, patch = map(int, version.split("."))
    return major, minor, patch


# Withdrawals: the withdrawn items, the ground, and the notices to holders of old releases.

Ground = Literal["privacy", "copyright", "law", "consent", "quality", "other"]
"""The ground of a withdrawal.

`privacy`: a person asks for erasure; `copyright`: the owner objects, or the licence was wrong;
`law`: an order; `consent`: an annotator withdraws the work; `quality`: it is wrong; `other`.
"""
ERASING: frozenset[Ground] = frozenset({"privacy", "copyright", "law"})
"""The grounds on which the bytes must be erased, not only the rows."""


class WithdrawnRow(Record):
    """A row of a release that must not be used any more, as a whole or in some of its texts.

    Attributes:
        number: the number of the row in the release, from 1.
        file_path: the path of its image in the release.
        entity_id: the entity id of its image.
        texts: the entity ids of its withdrawn texts; empty if the whole row is withdrawn.
    """

    number: int = Field(ge=1)
    file_path: str = Field(min_length=1)
    entity_id: EntityId
    texts: tuple[EntityId, ...] = IF_ANY

    @property
    def is_whole(self) -> bool:
        """Whether the image must be removed, and not only texts that describe it."""
        return not self.texts


class WithdrawalNotice(Record):
    """The notice of one withdrawal to the holders of one release.

    Attributes:
        withdrawal: the key of the withdrawal, the same in every store that it was decided in.
        ground: the reason category; what the person who requested it wrote stays in the store.
        release: the id of the release of the rows.
        dataset: its dataset.
        version: its version.
        rows: the rows that must not be used any more, by number.
        superseded_by: the version to use instead; None if nothing is left to release.
    """

    withdrawal: NonBlank
    ground: Ground
    release: HexSha256
    dataset: DatasetName
    version: Version
    rows: tuple[WithdrawnRow, ...]
    superseded_by: Version | None


class NoticeList(Record):
    """A file of notices: `WITHDRAWN.json` beside a manifest, `withdrawals.json` in later releases.

    `erased` are the files of the release beside it whose bytes are erased on purpose.
    """

    schema_version: Literal[1] = 1
    notices: tuple[WithdrawalNotice, ...]
    erased: tuple[str, ...] = IF_ANY


class WithdrawalCount(Record):
    """The number of entities that a withdrawal removes, by dataset and kind."""

    dataset: str
    kind: str
    entities: Count
