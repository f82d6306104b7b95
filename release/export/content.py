"""A release as exports read it, and what an export says about itself."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

from loupe.release.format.files import (
    Progress,
    digest_of_file,
    found_at,
    is_disk_full,
    place_file,
)
from loupe.release.format.manifest import MANIFEST, read_files, read_values
from loupe.release.format.row_files import (
    ListedRelease,
    RowBatch,
    read_parquet_batches,
)
from loupe.release.format.rows import RowFaults
from loupe.release.format.scratch import Scratch
from loupe.release.verify.files import files_fault
from loupe.release.withdrawn.files import erasure_of, read_mark
from loupe.schemas.base import Count, DatasetName, HexSha256, Record, Version
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.processes import read_ahead
from loupe.schemas.release import Manifest, ReleasedFile

# `export.json`: the contents of an export, with the digest of each of its files.

EXPORT = "export.json"
"""The list of the files of an export."""


_OF_RELEASE = {"dataset", "version", "demonstration", "unreviewed"}
_OF_SPLITS = {"split", "images", "captions"}
_OF_SOURCES = {"name", "licence", "citation", "homepage"}


class ExportRecord(Record):
    """The record of an export; its files are listed in `export.json` under `files`.

    `release` is the id of the release. `options` are those of the format that change its bytes.
    `splits` are counts, `sources` the collections that rows come from, with their terms.
    """

    schema_version: Literal[1] = 1
    release: HexSha256
    dataset: DatasetName
    version: Version
    format: str
    options: dict[str, int]
    demonstration: bool
    unreviewed: bool
    images: Count
    captions: Count
    splits: tuple[dict[str, str | int], ...]
    sources: tuple[dict[str, str | None], ...]

    @classmethod
    def of(cls, manifest: Manifest, name: str, options: dict[str, int]) -> "ExportRecord":
        """The record of an export of this release in the format called `name`."""
        return cls(
            release=manifest.id,
            format=name,
            options=options,
            images=manifest.statistics.images,
            captions=manifest.statistics.captions,
            splits=tuple(
                one.model_dump(mode="json", include=_OF_SPLITS)
                for one in manifest.statistics.splits
            ),
            sources=tuple(
                one.model_dump(mode="json", include=_OF_SOURCES) for one in manifest.sources
            ),
            **manifest.model_dump(include=_OF_RELEASE),
        )


def is_there(out: Path, wanted: ExportRecord) -> bool:
    """Whether exactly this export is at `out`; False if `out` is missing or an empty folder.

    Raises:
        UsageError: if `out` is something else, or the export is damaged.
    """
    found = found_at(
        out, lambda folder: ExportRecord.model_validate(read_values(folder / EXPORT)), "an export"
    )
    if found is None:
        return False
    if found == wanted:
        with closing(Scratch()) as scratch:
            scratch.add_all_listed(read_files(out / EXPORT))
            if fault := files_fault(out, scratch, beside=(EXPORT,)):
                raise UsageError(f"{out} is this export, but {fault}; remove it and export again")
        return True
    what = f"{found.dataset} {found.version} ({found.release[:12]}) as {found.format}"
    options = "".join(f", {name} {value:,}" for name, value in found.options.items())
    raise UsageError(
        f"{out} is another export: {what}{options}; choose a folder that does not exist"
    )


# Files of an export are written with their digest and flushed to disk at the end.


def copied(source: Path, released: ReleasedFile, folder: Path) -> ReleasedFile:
    """Copy a file of the release in `source` to the same path below `folder`.

    Raises:
        IntegrityError: if its bytes are not those of the release.
    """
    copy = folder / released.path
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(f"{source}/{released.path}", copy)
    except FileNotFoundError as error:
        raise IntegrityError(f"{source}: {released.path} is missing") from error
    except (OSError, ValueError) as error:  # ValueError for names that no file can have
        if is_disk_full(error):
            raise
        details = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise IntegrityError(f"{source}: {released.path!r} cannot be read ({details})") from error
    if (sha256 := digest_of_file(copy)) != released.sha256:
        raise IntegrityError(
            f"{source}: {released.path} is damaged or was changed: its SHA-256 is "
            f"{sha256}; expected {released.sha256}"
        )
    return released


# A release as exports read it: the manifest is checked first, then the rows are read.


class ExportedRow(NamedTuple):
    """A row of a release; `number` is its position, starting at 1.

    `image` is a view of the bytes of the image file. `columns` are all other columns of the
    release's Parquet files, in their order.
    """

    number: int
    image: memoryview
    columns: dict[str, Any]

    @property
    def name(self) -> str:
        """The file name of the image: `12.jpg`, or `12_13.jpg` for a contrastive image."""
        return str(self.columns["file_path"]).rpartition("/")[2]


class ReleaseSource(ListedRelease):
    """A release from which nothing was erased."""

    def __init__(self, folder: Path, on_progress: Progress = lambda _done, _total: None) -> None:
        """Read the manifest; `on_progress` is called while images are read.

        Raises:
            UsageError: if `folder` is not a release.
            IntegrityError: if its manifest is not as it was written, or withdrawn items were
                erased from it.
        """
        super().__init__(folder)
        self._on_progress = on_progress
        if (mark := read_mark(folder)) and mark.erased:
            raise IntegrityError(f"{folder}: {erasure_of(folder, mark.erased[0])}")

    def verify(self) -> None:
        """Check every file against its digest; missing and additional files are errors.

        Raises:
            IntegrityError: if the release is damaged or was changed.
        """
        if fault := files_fault(self.folder, self.listed):
            raise self._wrong(fault)

    def images(self) -> Iterator[ExportedRow]:
        """All rows in order, with few in memory at a time.

        Rows with a name, split or source that the release does not have raise an error.

        Raises:
            IntegrityError: if a Parquet file cannot be read, a row is not one of this release, or
                their number differs from the manifest.
        """
        number, total = 0, self.manifest.statistics.images
        sources = frozenset(one.name for one in self.manifest.sources)
        for shard in self.shards():
            faults = RowFaults(shard, sources)
            for batch in self._batches(shard):
                for columns, image in zip(batch.rows, batch.images, strict=True):
                    number += 1
                    fault = "holds no image" if image is None else faults.first(number, columns)
                    if image is None or fault is not None:
                        raise self._wrong(f"{shard}: row {number} {fault}")
                    if number > total:
                        raise self._wrong(f"it holds more rows than the {total:,} of {MANIFEST}")
                    yield ExportedRow(number, image, columns)
                self._on_progress(number, total)
        if number != total:
            raise self._wrong(f"it holds {number:,} rows; {MANIFEST} says {total:,}")

    def _batches(self, shard: str) -> Iterator[RowBatch]:
        try:
            yield from read_ahead(read_parquet_batches(self.folder / shard))
        except ValueError as error:
            raise self._wrong(f"{shard}: {error}") from error


def written_image(
    source: ReleaseSource, row: ExportedRow, folder: Path, place: str = "images"
) -> ReleasedFile:
    """Write the image of a row below `folder`.

    Raises:
        IntegrityError: its bytes are not those of the release.
    """
    path, sha256 = f"{place}/{row.name}", row.columns["sha256"]
    place_file(folder, path, row.image)
    if hashlib.sha256(row.image).hexdigest() != sha256:
        raise IntegrityError(
            f"{source.folder}: the Parquet row of {row.columns['file_path']} holds another "
            f"image than its sha256 says; run `loupe release verify` for all problems"
        )
    return ReleasedFile(path=path, sha256=sha256, size_bytes=len(row.image))


# Interface of an export format.


class ExportFormat(NamedTuple):
    """A format that other tools load.

    Attributes:
        name: the name of the format.
        write: writes all rows into a folder with few in memory, and yields every file. The same
            release gives the same bytes. Raises IntegrityError if the release is damaged.
        options: options that change the bytes.
    """

    name: str
    write: Callable[[ReleaseSource, Path], Iterator[ReleasedFile]]
    options: dict[str, int] = {}  # noqa: RUF012 - never modified
