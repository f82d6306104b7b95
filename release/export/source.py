"""A release as exports read it: held against its manifest first, then row by row."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from release.export.row_faults import RowFaults
from release.findings import Findings, TooManyProblemsError
from release.manifest import MANIFEST
from release.notices_files import erasure_of, read_mark
from release.parquet_rows import RowBatch, read_parquet_batches, shards_among
from release.scratch import Scratch
from release.threads import DEFAULT_THREADS, read_ahead
from release.verify_files import verify_files
from release.verify_manifest import verify_manifest
from schemas.errors import IntegrityError, UsageError
from schemas.release import Manifest, ReleasedFile

Progress = Callable[[int, int], None]
"""Told how many rows are written, and of how many."""

_LOOK = "`loupe release verify` tells all that is wrong"


class ExportedRow(NamedTuple):
    """A row of a release; `number` is its place in it, from 1.

    `image` is a view of the bytes of the image file, `columns` are all other columns of the
    release's Parquet files, in their order.
    """

    number: int
    image: memoryview
    columns: dict[str, Any]

    @property
    def name(self) -> str:
        """The image's file name: `12.jpg`, or `12_13.jpg` for a contrastive image."""
        return str(self.columns["file_path"]).rpartition("/")[2]


class ReleaseSource:
    """The release in `folder`, whose listed files are in `scratch`."""

    def __init__(
        self, folder: Path, manifest: Manifest, scratch: Scratch, on_progress: Progress
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self._scratch = scratch
        self._on_progress = on_progress

    def verify(self, threads: int = DEFAULT_THREADS) -> None:
        """Holds every file against its digest; none may be missing or extra.

        Raises:
            IntegrityError: the release is not as it was released.
        """
        findings = Findings()
        with suppress(TooManyProblemsError):
            verify_files(self.folder, self._scratch, findings, threads)
        if found := findings.problems:
            raise IntegrityError(f"{self.folder}: {found[0].message}; {_LOOK}")

    def files(self) -> Iterator[ReleasedFile]:
        """What the manifest lists, by path."""
        return self._scratch.listed()

    def file(self, path: str) -> ReleasedFile | None:
        """What the manifest lists of this file; None where it does not."""
        return self._scratch.listed_file(path)

    def shards(self) -> list[ReleasedFile]:
        """The Parquet files, in the order of their rows."""
        listed = {one.path: one for one in self._scratch.listed_in("data")}
        return [listed[path] for path in shards_among(listed)]

    def rows(self) -> Iterator[ExportedRow]:
        """All rows in their order, a few in memory at a time.

        Rows of a name, a split or a source that the release cannot have are never given.

        Raises:
            IntegrityError: a Parquet file cannot be read, a row is none of this release, or there
                are not as many as the manifest states.
        """
        number, total = 0, self.manifest.statistics.images
        sources = frozenset(one.name for one in self.manifest.sources)
        for shard in self.shards():
            faults = RowFaults(shard.path, sources)
            for batch in self._batches(shard.path):
                for columns, image in zip(batch.rows, batch.images, strict=True):
                    number += 1
                    fault = "holds no image" if image is None else faults.first(number, columns)
                    if image is None or fault is not None:
                        raise self._wrong(f"{shard.path}: row {number} {fault}")
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

    def _wrong(self, what: str) -> IntegrityError:
        return IntegrityError(f"{self.folder}: {what}; {_LOOK}")


@contextmanager
def opened_release(folder: Path, on_progress: Progress) -> Iterator[ReleaseSource]:
    """The release in `folder`; only its manifest was checked, the rest may be verified.

    Raises:
        UsageError: there is no release in `folder`.
        IntegrityError: its manifest cannot be read, its content is not what its id says, or what
            was withdrawn from it was erased.
    """
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"there is no release in {folder}: it holds no {MANIFEST}")
    if (mark := read_mark(folder)) and mark.erased:
        raise IntegrityError(f"{folder}: {erasure_of(folder, mark.erased[0])}")
    scratch = Scratch()
    try:
        yield ReleaseSource(folder, _sound_manifest(folder, scratch), scratch, on_progress)
    finally:
        scratch.close()


def _sound_manifest(folder: Path, scratch: Scratch) -> Manifest:
    findings = Findings()
    verified = None
    with suppress(TooManyProblemsError):
        verified = verify_manifest(folder, None, scratch, findings)
    if verified is None or findings.problems:
        raise IntegrityError(f"{folder}: {findings.problems[0].message}; {_LOOK}")
    return verified.manifest
