"""WebDataset: tar files whose members with one key are a sample, and what img2dataset writes."""

import contextlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from loupe.schemas.json_stream import unique_fields
from loupe.sources.annotations import FieldError, bad_row
from loupe.sources.columns import UNREAD, Found, Shards, folded, split_of
from loupe.sources.files import files_of, name_below
from loupe.sources.image_folder import ImageFolderImporter
from loupe.sources.parquet import ParquetImporter
from loupe.sources.records import BadRow, ReadOptions

_IMAGES: Final = ("jpg", "jpeg", "png", "webp", "bmp")
_TEXTS: Final = ("txt", "text", "caption", "cap")
_MOST_BYTES: Final = 100 * 1024 * 1024
_COLUMN: Final = "image"


class TarImporter(Shards):
    """Reads tar shards: an image, and texts (`.txt`, `.cap`) and columns (`.json`) beside it.

    Other members are not opened, so that nothing in a shard is run. The fields of a sample are its
    image (`image`), its texts by their suffix, and the columns of its `.json`.
    """

    suffixes: tuple[str, ...] = (".tar", ".tar.gz", ".tgz")

    def records(self, path: Path, options: ReadOptions) -> Iterator[Found | BadRow]:
        """Yield the samples of all shards; a shard that is cut off ends in one bad row.

        Raises:
            FormatError: the only file is no tar archive.
        """
        files = files_of(path, self.suffixes)
        for file in files:
            name, number = name_below(path, file), 0
            split = split_of(path, file)
            try:
                for number, sample in enumerate(_samples(file, options), start=1):
                    yield sample.found(name, number - 1, split)
                if number == 0 and len(files) == 1:
                    raise self.stranger(path, ": it is an archive without files")
            except (tarfile.TarError, OSError, EOFError) as fault:
                if number == 0 and len(files) == 1:
                    raise self.stranger(path, f": {fault}") from fault
                what = (
                    f"{name} breaks after {number:,} samples: {fault}; the samples before it are "
                    f"kept, nothing after it was read, and the other files are"
                )
                yield bad_row(FieldError("", "unreadable_shard", what), name, number, "", "file")


class _Sample:
    """The members of a shard with one key."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.fields: dict[str, Any] = {}
        self.fault: FieldError | None = None

    def add(self, name: str, suffix: str, data: bytes | object) -> None:
        """Add a member; a second one of the same suffix, or one that cannot be read, is a fault."""
        column = _COLUMN if suffix in _IMAGES else suffix
        if column in self.fields:
            detail = f"{name} repeats {self.key}, wanted one image and one text of a name for a key"
            self.fault = FieldError(suffix, "duplicate_member", detail)
        elif not isinstance(data, bytes) or suffix in _IMAGES:
            self.fields[column] = data
        elif suffix in _TEXTS:
            self.fields[column] = data.decode("utf-8", "surrogateescape").strip("\ufeff \r\n\t")
        else:
            self._add_columns(name, data)

    def _add_columns(self, name: str, data: bytes) -> None:
        try:
            values = json.loads(data, object_pairs_hook=unique_fields)
            if not isinstance(values, dict):
                raise TypeError("it is no object")  # noqa: TRY301 - as other JSON that is none
        except (ValueError, TypeError, RecursionError) as fault:
            self.fault = FieldError(
                "json", "malformed_json", f"{name} cannot be read as JSON: {fault}"
            )
            return
        self.fields = folded(values) | self.fields

    def found(self, file: str, index: int, split: str | None) -> Found | BadRow:
        """Return the sample as a record."""
        if self.fault is not None:
            return bad_row(self.fault, file, index, {"key": self.key})
        return Found(file, index, self.fields, name=self.key, split=split)


def _samples(file: Path, options: ReadOptions) -> Iterator[_Sample]:
    """Yield the samples of a shard, whose members follow each other."""
    sample: _Sample | None = None
    with tarfile.open(file, "r|*") as archive:
        for member in archive:
            archive.members.clear()  # type: ignore[attr-defined] # which would be kept in memory
            folder, _, name = member.name.rpartition("/")
            base, _, suffix = name.partition(".")
            suffix = suffix.casefold()
            if not member.isfile() or not base or suffix not in (*_IMAGES, *_TEXTS, "json"):
                continue
            key = f"{folder}/{base}" if folder else base
            if sample is None or sample.key != key:
                if sample is not None:
                    yield sample
                sample = _Sample(key)
            if suffix in _IMAGES and not options.images:
                sample.add(member.name, suffix, UNREAD)
                continue
            if member.size > _MOST_BYTES:
                what = f"{member.name} has {member.size:,} bytes, wanted at most {_MOST_BYTES:,}"
                sample.fault = FieldError(suffix, "too_many_bytes", what)
                continue
            content = archive.extractfile(member)
            sample.add(member.name, suffix, b"" if content is None else content.read())
    if sample is not None:
        yield sample


class Img2DatasetImporter(TarImporter):
    """Reads a folder that img2dataset wrote: as tar shards, Parquet files, or plain files.

    What it could not download, or was not asked to keep, is quarantined with its reason.
    """

    def records(self, path: Path, options: ReadOptions) -> Iterator[Found | BadRow]:
        """Yield the samples, then what could not be downloaded, by the lists of each shard.

        Raises:
            FormatError: the folder holds nothing that img2dataset writes.
        """
        if not path.is_dir():
            raise self.stranger(path, ": name the folder that img2dataset wrote")
        tables = [one for one in sorted(path.glob("*.parquet")) if one.is_file()]
        if any(path.glob("*.tar")):
            yield from super().records(path, options)
        elif any(map(_holds_images, tables)):
            yield from ParquetImporter(**self.model_dump(exclude={"suffixes"})).records(
                path, options
            )
            return
        else:
            yield from ImageFolderImporter(**self.model_dump(exclude={"suffixes"})).records(
                path, options
            )
        for table in tables:
            yield from _failures(table)


def _holds_images(table: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with contextlib.suppress(pa.ArrowInvalid, OSError):
        return not set(_IMAGES).isdisjoint(pq.read_schema(table).names)
    return False


def _failures(table: Path) -> Iterator[BadRow]:
    """Yield one bad row for each image of a list that was not downloaded."""
    import pyarrow.parquet as pq

    wanted = {"key", "status", "error_message"}
    with pq.ParquetFile(table) as opened:
        if not wanted.issubset(opened.schema_arrow.names):
            return
        index = -1
        for batch in opened.iter_batches(columns=sorted(wanted)):
            for row in batch.to_pylist():
                index += 1
                if row["status"] != "success":
                    said = row["error_message"] or "without a message"
                    what = f"{row['key']} was not downloaded ({row['status']}: {said})"
                    fault = FieldError("status", "not_downloaded", what)
                    yield bad_row(fault, table.name, index, row)
