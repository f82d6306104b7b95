"""Withdrawal notices for rows of a small release."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from loupe.release.format.manifest import read_manifest
from loupe.release.format.row_files import read_parquet_rows
from loupe.release.format.rows import number_in, text_entity_ids
from loupe.schemas.withdrawal import Ground, WithdrawalNotice, WithdrawnRow

SHARD = "data/test-00000-of-00001.parquet"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of a release with one shard."""
    return list(read_parquet_rows(folder / SHARD))


def withdrawn_rows(folder: Path, entity_ids: Collection[str]) -> tuple[WithdrawnRow, ...]:
    """Rows of a release whose image or texts are among `entity_ids`."""
    found = []
    for row in (
        row for shard in sorted(folder.glob("data/*.parquet")) for row in read_parquet_rows(shard)
    ):
        path, image = row["file_path"], row["image_entity_id"]
        held = set(text_entity_ids(row)).intersection(entity_ids)
        texts = () if image in entity_ids else tuple(held)
        if texts or image in entity_ids:
            number = number_in(path) or 0
            found.append(WithdrawnRow(number=number, file_path=path, entity_id=image, texts=texts))
    return tuple(sorted(found, key=lambda row: row.number))


def notice_of(
    folder: Path, *numbers: int, withdrawal: str = "a" * 32, ground: Ground = "privacy"
) -> WithdrawalNotice:
    """A withdrawal notice for the rows with these numbers of the release in `folder`."""
    manifest = read_manifest(folder)
    rows = rows_of(folder)
    images = {rows[number - 1]["image_entity_id"] for number in numbers}
    return WithdrawalNotice(
        withdrawal=withdrawal,
        ground=ground,
        release=manifest.id,
        dataset=manifest.dataset,
        version=manifest.version,
        rows=withdrawn_rows(folder, images),
        superseded_by="1.0.1",
    )
