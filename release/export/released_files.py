"""Formats that a release holds already: its own files, under the same names, and no others.

They are copied byte for byte, and each copy is held against its digest.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

from release.card import CARD
from release.export.files import copied
from release.export.record import EXPORT
from release.export.source import ReleaseSource
from release.export.target import ExportTarget
from release.parquet_rows import shards_among
from release.published_ccd import CCD_LINES
from schemas.errors import IntegrityError, UsageError
from schemas.release import Manifest

Wanted = Callable[[str, Manifest], bool]
"""Whether the file at this path of a release belongs to a format."""


class ReleasedFiles(NamedTuple):
    """Those files of a release that are `wanted`."""

    name: str
    wanted: Wanted

    @property
    def options(self) -> dict[str, int]:
        """There are none."""
        return {}

    def write(self, source: ReleaseSource, target: ExportTarget) -> None:
        """Copies one file after the other; they are listed by path.

        Threads would wait for each other: of small files little is done outside of Python.

        Raises:
            UsageError: one of them is called like the list of what was exported.
            IntegrityError: one of them is not as it was released.
        """
        folders: set[str] = set()
        for file in source.files():
            if self.wanted(file.path, source.manifest):
                if file.path == EXPORT:
                    raise UsageError(
                        f"{EXPORT} is what an export lists its files in; "
                        f"the release of a dataset called so cannot be exported as {self.name}"
                    )
                folder = file.path.rpartition("/")[0]
                if folder not in folders:
                    _make_folder(source, target, folder)
                    folders.add(folder)
                target.add(copied(source.folder, file, target.folder))


def _make_folder(source: ReleaseSource, target: ExportTarget, folder: str) -> None:
    """Makes a folder of the export as there is one in the release."""
    place = f"{source.folder}/{folder}"
    if not os.path.isdir(place):  # noqa: PTH112 - `Path` raises where a name is too long for one
        raise IntegrityError(f"{source.folder}: {folder!r} is no folder")
    (target.folder / folder).mkdir(parents=True, exist_ok=True)


def _is_shard(path: str, _: Manifest) -> bool:
    return bool(shards_among([path]))


def _is_for_datasets(path: str, manifest: Manifest) -> bool:
    return path == CARD or _is_shard(path, manifest)


def _is_published(path: str, manifest: Manifest) -> bool:
    return path.startswith("images/") or path in (f"{manifest.dataset}.json", CCD_LINES)


PARQUET = ReleasedFiles("parquet", _is_shard)
"""Parquet files alone, for pandas, Polars, DuckDB and Spark."""

HF = ReleasedFiles("hf", _is_for_datasets)
"""Parquet files, which tell `datasets` their features, and the card that tells where they are."""

PUBLISHED = ReleasedFiles("published", _is_published)
"""Images, and the JSON layout of the paper whose dataset it is like."""
