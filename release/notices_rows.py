"""Finds in the folder of a release the rows that a withdrawal takes back."""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from release.parquet_rows import COLUMNS, read_parquet_rows, shards_among
from release.reading import read_listed
from schemas.errors import IntegrityError
from schemas.withdrawal import WithdrawnRow

_NUMBER = re.compile(r"images/(?:[0-9]+_)?([1-9][0-9]*)\.[a-z]+")
_TEXTS = ("caption_entity_ids", "coarse_caption_entity_ids")
_COLUMNS = [
    name
    for name in COLUMNS
    if name in ("id", "source", "identity", "file_path", "image_entity_id", *_TEXTS, "translations")
]


def withdrawn_rows(folder: Path, entity_ids: AbstractSet[str]) -> tuple[WithdrawnRow, ...]:
    """The rows of a release whose image, or some of whose texts, are among `entity_ids`.

    Images are found in the manifest, texts in the Parquet shards; in those that an earlier
    withdrawal erased no text can be found.

    Raises:
        UsageError: there is no release in `folder`.
        IntegrityError: the manifest, or a shard that is there, cannot be read.
    """
    _, listed = read_listed(folder)
    found = [
        _row(file.path, file.entity_id)
        for file in listed.values()
        if file.entity_id is not None and file.entity_id in entity_ids
    ]
    for shard in shards_among(listed):
        for row in entity_rows(folder / shard) if (folder / shard).exists() else ():
            texts = tuple(text for text in texts_of(row) if text in entity_ids)
            if texts and row["image_entity_id"] not in entity_ids:
                found.append(_row(row["file_path"], row["image_entity_id"], texts))
    return tuple(sorted(found, key=lambda row: row.number))


def _row(file_path: str, entity_id: str, texts: tuple[str, ...] = ()) -> WithdrawnRow:
    number = number_in(file_path)
    return WithdrawnRow(number=number, file_path=file_path, entity_id=entity_id, texts=texts)


def entity_rows(shard: Path) -> Iterator[dict[str, Any]]:
    """The rows of a shard, of which only file, person and entity ids are read.

    Raises:
        IntegrityError: it cannot be read.
    """
    try:
        yield from read_parquet_rows(shard, columns=_COLUMNS)
    except ValueError as error:
        raise IntegrityError(f"{shard}: {error}") from error


def texts_of(row: dict[str, Any]) -> tuple[str, ...]:
    """The entity ids of all texts of a row: captions, coarse ones, translations."""
    translations = (one["entity_id"] for one in row.get("translations") or ())
    return (*(text for name in _TEXTS for text in row.get(name) or ()), *translations)


def number_in(file_path: str) -> int:
    """The number of the row whose image is called so.

    Raises:
        IntegrityError: no image of a release is.
    """
    match = _NUMBER.fullmatch(file_path)
    if match is None:
        raise IntegrityError(f"{file_path!r} is no image of a release; wanted 'images/NUMBER.jpg'")
    return int(match[1])
