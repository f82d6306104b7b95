"""Notices of rows of a small release."""

from pathlib import Path
from typing import Any

from release.manifest import read_manifest
from release.notices import withdrawn_rows
from release.parquet_rows import read_parquet_rows
from schemas.withdrawal import Ground, WithdrawalNotice

SHARD = "data/test-00000-of-00001.parquet"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of a release with one shard."""
    return list(read_parquet_rows(folder / SHARD))


def notice_of(
    folder: Path, *numbers: int, withdrawal: str = "a" * 32, ground: Ground = "privacy"
) -> WithdrawalNotice:
    """A notice of the rows with these numbers of the release in `folder`."""
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
