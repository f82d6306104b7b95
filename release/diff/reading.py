"""Opens a release to be compared: its manifest, and its rows without the images."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pydantic import ValidationError

from release.diff.form import ComparableRow, comparable_row
from release.manifest import MANIFEST, named, read_files, read_manifest
from release.notices_files import erasure_of
from release.parquet_bounds import opened_parquet
from release.parquet_rows import COLUMNS, read_parquet_rows, shards_among
from schemas.errors import IntegrityError, UsageError
from schemas.faults import fault_of
from schemas.release import Manifest, ReleasedFile

_LOOK = "`loupe release verify` tells what else is wrong"
_COLUMNS = [name for name in COLUMNS if name != "image"]
_IMAGES = "images/"


class OpenedRelease(NamedTuple):
    """A release whose manifest is what its id says; `files` are all but images, by path."""

    folder: Path
    manifest: Manifest
    files: dict[str, ReleasedFile]
    columns: tuple[str, ...]

    def digest(self, path: str) -> str | None:
        """The SHA-256 of a file; None where the release has no such file."""
        file = self.files.get(path)
        return None if file is None else file.sha256

    def rows(self) -> Iterator[ComparableRow]:
        """Its rows as they are compared, a few in memory at a time.

        Raises:
            IntegrityError: they cannot be read.
        """
        licences = {source.name: source.licence for source in self.manifest.sources}
        for shard in shards_among(self.files):
            try:
                for row in read_parquet_rows(self.folder / shard, columns=_COLUMNS):
                    yield comparable_row(row, licences)
            except (ValueError, TypeError, KeyError) as error:
                raise IntegrityError(f"{self.folder / shard}: {error}; {_LOOK}") from error


def open_release(folder: Path) -> OpenedRelease:
    """The release in `folder`.

    Its manifest is checked against its id, and its files but the images against the sizes that are
    listed; bytes are for `release.verify`.

    Raises:
        UsageError: there is no release in `folder`.
        IntegrityError: the manifest, or a file that is needed, is not as it was released.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(f"there is no release in {folder}: it holds no {MANIFEST}")
    files: dict[str, ReleasedFile] = {}
    try:
        manifest = read_manifest(folder)
        right = named(manifest, _listed(path, files)).id
    except (ValidationError, ValueError, OSError) as error:
        raise IntegrityError(f"{path} cannot be read ({fault_of(error)}); {_LOOK}") from error
    if right != manifest.id:
        raise IntegrityError(
            f"{path} was changed after it was written: its id is {manifest.id[:12]}, "
            f"its content makes {right[:12]}"
        )
    for file in files.values():
        _check_size(folder, file)
    return OpenedRelease(folder, manifest, files, _columns(folder, files))


def _listed(path: Path, kept: dict[str, ReleasedFile]) -> Iterator[ReleasedFile]:
    for file in read_files(path):
        if not file.path.startswith(_IMAGES):
            kept[file.path] = file
        yield file


def _check_size(folder: Path, file: ReleasedFile) -> None:
    try:
        size = (folder / file.path).stat().st_size
    except OSError as error:
        details = erasure_of(folder, file.path) or f"{file.path} cannot be read ({error.strerror})"
        raise IntegrityError(f"{folder}: {details}; {_LOOK}") from error
    if size != file.size_bytes:
        raise IntegrityError(
            f"{folder}: {file.path} has {size:,} bytes; wanted {file.size_bytes:,}; {_LOOK}"
        )


def _columns(folder: Path, files: dict[str, ReleasedFile]) -> tuple[str, ...]:
    shards = shards_among(files)
    if not shards:
        return ()
    try:
        with opened_parquet(folder / shards[0]) as file:
            return tuple(file.schema_arrow.names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IntegrityError(f"{folder / shards[0]}: it cannot be read as Parquet") from error
