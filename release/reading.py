"""Reads a release from its folder alone, for users of its content.

Everything read is checked against the manifest first, and reading stops at the first fault.
`release.verify` checks all of a release and lists every problem.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from release.files import content_fault
from release.manifest import MANIFEST, named, read_files, read_manifest
from release.notices_files import erasure_of
from release.parquet_rows import read_parquet_rows, shards_among
from release.rows import BESIDE_IMAGES, ReleaseRow
from release.threads import ordered_map
from schemas.errors import IntegrityError, UsageError
from schemas.faults import fault_of
from schemas.records import Split
from schemas.release import Manifest, ReleasedFile

_ADVICE = "run `loupe release verify` for all problems"


class ReadRelease(NamedTuple):
    """One split of a release, with its rows in order."""

    folder: Path
    manifest: Manifest
    split: Split
    rows: tuple[ReleaseRow, ...]


def read_release(
    folder: Path,
    split: str | None = None,
    *,
    check_images: bool = True,
) -> ReadRelease:
    """Read the rows of one split of the release in `folder`.

    Args:
        folder: the release.
        split: the name of the split; None for test, or for the only one.
        check_images: check the digest of every image; otherwise only its size.

    Raises:
        UsageError: if `folder` is not a release, or has no such split.
        IntegrityError: if the manifest or a needed file was changed.
    """
    manifest, listed = read_listed(folder)
    split = chosen_split(manifest, split)
    shards = [path for path in shards_among(listed) if path.startswith(f"data/{split}-")]
    _check_files(folder, [listed[path] for path in shards])
    rows = tuple(row for shard in shards for row in _rows(folder, shard))
    unlisted = next((row.file_path for row in rows if row.file_path not in listed), None)
    if unlisted is not None:
        raise IntegrityError(f"{folder}: {unlisted} is in no file list of {MANIFEST}; {_ADVICE}")
    _check_files(folder, [listed[row.file_path] for row in rows], digests=check_images)
    return ReadRelease(folder, manifest, split, rows)


def read_all_rows(folder: Path) -> Iterator[ReleaseRow]:
    """Read the rows of all splits of the release in `folder`, in order, without images.

    Raises:
        UsageError: if `folder` is not a release.
        IntegrityError: if the manifest or a needed file was changed.
    """
    _, listed = read_listed(folder)
    shards = shards_among(listed)
    _check_files(folder, [listed[path] for path in shards])
    for shard in shards:
        yield from _rows(folder, shard)


def chosen_split(manifest: Manifest, wanted: str | None) -> Split:
    """The selected split: `wanted`, or test, or the only one.

    Raises:
        UsageError: if the release has no such split, or the choice is ambiguous.
    """
    splits = {one.split: one.split for one in manifest.statistics.splits}
    name = f"{manifest.dataset} {manifest.version}"
    if wanted is not None and wanted not in splits:
        raise UsageError(f"{name} has no split {wanted!r}; it has {', '.join(splits)}")
    if wanted is None and "test" not in splits and len(splits) != 1:
        raise UsageError(f"{name} has no split 'test'; say which of {', '.join(splits)} is meant")
    return splits[wanted or ("test" if "test" in splits else next(iter(splits)))]  # type: ignore[index]


def read_listed(folder: Path) -> tuple[Manifest, dict[str, ReleasedFile]]:
    """The manifest of the release in `folder`, and its files by path.

    Raises:
        UsageError: if `folder` is not a release.
        IntegrityError: if its manifest cannot be read, or does not match its id.
    """
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"there is no release in {folder}: it holds no {MANIFEST}")
    try:
        manifest = read_manifest(folder)
        files = list(read_files(folder / MANIFEST))
    except (ValidationError, ValueError, OSError) as error:
        raise IntegrityError(
            f"{folder / MANIFEST} cannot be read ({fault_of(error)}); {_ADVICE}"
        ) from error
    if (right := named(manifest, files).id) != manifest.id:
        raise IntegrityError(
            f"{folder / MANIFEST} was changed after it was written: its id is {manifest.id[:12]}, "
            f"its content makes {right[:12]}"
        )
    return manifest, {file.path: file for file in files}


def _rows(folder: Path, shard: str) -> Iterator[ReleaseRow]:
    try:
        yield from map(ReleaseRow.of, read_parquet_rows(folder / shard, columns=BESIDE_IMAGES))
    except (ValueError, TypeError) as error:
        raise IntegrityError(f"{folder / shard}: {error}") from error


def _check_files(folder: Path, files: Iterable[ReleasedFile], *, digests: bool = True) -> None:
    for _ in ordered_map(lambda file: check_file(folder, file, digest=digests), files):
        pass


def check_file(folder: Path, file: ReleasedFile, *, digest: bool = True) -> None:
    """Check a file of the release in `folder` against its size and digest in the manifest.

    Raises:
        IntegrityError: if it was changed.
    """
    try:
        fault = content_fault(folder, file, digest=digest)
        what = fault and f"{file.path} {fault}"
    except OSError as error:
        what = erasure_of(folder, file.path) or f"{file.path} cannot be read ({error.strerror})"
    if what is not None:
        raise IntegrityError(f"{folder}: {what}; {_ADVICE}")
