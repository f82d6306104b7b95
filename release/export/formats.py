"""The formats in which a release can be exported."""

import hashlib
import shutil
import tarfile
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing
from io import BytesIO
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, Literal, NamedTuple, cast

import orjson

from loupe.release.format.files import (
    CARD,
    DigestingFile,
    Progress,
    digest_of_file,
    found_at,
    is_disk_full,
    place_file,
)
from loupe.release.format.manifest import MANIFEST, read_files, read_values
from loupe.release.format.row_files import (
    CCD_LINES,
    ListedRelease,
    RowBatch,
    read_parquet_batches,
    shards_among,
)
from loupe.release.format.rows import CAPTION_COLUMNS, RowFaults, captions_in
from loupe.release.format.scratch import Scratch
from loupe.release.verify.files import files_fault
from loupe.release.withdrawn.files import erasure_of, read_mark
from loupe.schemas.base import Count, DatasetName, HexSha256, Record, Version
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.licences import spdx_page
from loupe.schemas.plugins import foreign_plugins, load_plugin, plugins
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


# Formats that consist of files of the release, under the same names.
#
# The files are copied byte for byte, and each copy is checked against its digest.


def _copies(name: str, is_wanted: Callable[[str, Manifest], bool]) -> ExportFormat:
    """A format that copies the files of a release for which `is_wanted` holds."""

    def write(source: ReleaseSource, folder: Path) -> Iterator[ReleasedFile]:
        """Copy the files one by one, by path.

        Threads would not help, because most of the time for small files is spent in Python.

        Raises:
            UsageError: if a file is called `export.json`.
            IntegrityError: if a file is damaged or was changed.
        """
        for file in source.listed.listed():
            if not is_wanted(file.path, source.manifest):
                continue
            if file.path == EXPORT:
                raise UsageError(
                    f"{EXPORT} is the list of files of an export; "
                    f"a release with a file of this name cannot be exported as {name}"
                )
            yield copied(source.folder, file, folder)

    return ExportFormat(name, write)


def is_shard(path: str, _: Manifest) -> bool:
    """Whether a file belongs to `parquet`: Parquet files, for pandas, Polars, DuckDB and Spark."""
    return bool(shards_among([path]))


def is_for_datasets(path: str, manifest: Manifest) -> bool:
    """Whether a file belongs to `hf`: the Parquet files, and the card, which lists them."""
    return path == CARD or is_shard(path, manifest)


def _is_published(path: str, manifest: Manifest) -> bool:
    """Whether a file is an image, or the annotations in the layout of the paper."""
    return path.startswith("images/") or path in (f"{manifest.dataset}.json", CCD_LINES)


# COCO captions: `annotations/captions_<split>.json`, with the images in `images/`.
#
# The id of an image is its row number, and an annotation is one fine caption. All other columns of
# a row are in the record of its image, those of each caption in its annotation, under their own
# names; readers of COCO ignore unknown keys.

_ANNOTATION = ("caption", "entity_id", "author", "origin", "reviewed")
"""The keys of annotations for the values in `CAPTION_COLUMNS`."""
_RENAMED = {"id": "identity_id", "width_px": "width", "height_px": "height"}
_ELSEWHERE = {"file_path", *CAPTION_COLUMNS.values()}


def _write_coco(source: ReleaseSource, folder: Path) -> Iterator[ReleasedFile]:
    """Write one split after the other; its annotations wait in a temporary file."""
    licences, number = _Licences(source.manifest), 0
    for split, rows in groupby(source.images(), key=lambda row: str(row.columns["split"])):
        path, used = f"annotations/captions_{split}.json", set[int]()
        file = DigestingFile(folder / path)
        with closing(file), TemporaryFile(dir=folder.parent) as annotations:
            file.write(b'{"info": ' + orjson.dumps(_info(source.manifest, split)))
            file.write(b',\n"images": [')
            for place, row in enumerate(rows):
                yield _written_image(source, row, folder)
                licence = licences.of(row.columns)
                file.write((b",\n" if place else b"\n") + _coco_image(row, licence))
                used.add(licence)
                for values in captions_in(row.columns, CAPTION_COLUMNS):
                    comma = b",\n" if annotations.tell() else b"\n"
                    number += 1
                    annotation = {"id": number, "image_id": row.number}
                    annotation |= zip(_ANNOTATION, values, strict=True)
                    annotations.write(comma + orjson.dumps(annotation))
            file.write(b'\n],\n"annotations": [')
            annotations.seek(0)
            shutil.copyfileobj(annotations, file)
            file.write(b'\n],\n"licenses": ' + orjson.dumps(licences.listed(used)) + b"}\n")
        yield file.as_released(path)


def _info(manifest: Manifest, split: str) -> dict[str, str]:
    return {
        "description": manifest.name,
        "version": manifest.version,
        "release": manifest.id,
        "split": split,
    }


def _coco_image(row: ExportedRow, licence: int) -> bytes:
    image = {"id": row.number, "file_name": row.name, "license": licence}
    image |= {
        _RENAMED.get(name, name): value
        for name, value in row.columns.items()
        if name not in _ELSEWHERE
    }
    return orjson.dumps(image)


def _written_image(source: ReleaseSource, row: ExportedRow, folder: Path) -> ReleasedFile:
    path, sha256 = f"images/{row.name}", row.columns["sha256"]
    place_file(folder, path, row.image)
    if hashlib.sha256(row.image).hexdigest() != sha256:
        raise IntegrityError(
            f"{source.folder}: the Parquet row of {row.columns['file_path']} holds another "
            f"image than its sha256 says; run `loupe release verify` for all problems"
        )
    return ReleasedFile(path=path, sha256=sha256, size_bytes=len(row.image))


class _Licences:
    """The licences of images, numbered from 1 in order of appearance across all splits."""

    def __init__(self, manifest: Manifest) -> None:
        self._of_source = {one.name: one.licence for one in manifest.sources}
        self._ids: dict[str, int] = {}

    def of(self, columns: dict[str, Any]) -> int:
        """The number of a row's licence, which is its own or else that of its source."""
        licence = columns.get("licence") or self._of_source[columns["source"]]
        return self._ids.setdefault(licence, len(self._ids) + 1)

    def listed(self, numbers: AbstractSet[int]) -> list[dict[str, Any]]:
        """The licences with these numbers in COCO's form; `url` is empty if unknown."""
        return [
            {"id": id_, "name": name, "url": spdx_page(name) or ""}
            for name, id_ in self._ids.items()
            if id_ in numbers
        ]


# WebDataset: tar files of samples, `<split>-<number>.tar`, to be read in sequence.
#
# A sample is an image (`12.jpg`), its columns (`12.json`) and its first caption (`12.txt`, empty
# without captions). Images of all types are called `.jpg`, because readers ask for one name, and
# decode by content. Members have fixed times, owners and order, so that the same rows give the same
# bytes. There are no pickles.

_SHARD_BYTES = 500_000_000


def _web_dataset(shard_bytes: int = _SHARD_BYTES) -> ExportFormat:
    """A shard is closed when it reaches `shard_bytes`, and never holds rows of two splits."""

    def write(source: ReleaseSource, folder: Path) -> Iterator[ReleasedFile]:
        """Write one shard after the other."""
        rows, last, number = source.images(), "", 0
        row = next(rows, None)
        while row is not None:
            split = row.columns["split"]
            number = number + 1 if split == last else 0
            last, name = split, f"{split}-{number:06d}.tar"
            with closing(DigestingFile(folder / name)) as file:
                stream = cast("IO[bytes]", file)  # tar files are written sequentially
                tar = tarfile.TarFile(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT)
                while row and row.columns["split"] == split and file.tell() < shard_bytes:
                    _add_sample(tar, row)
                    row = next(rows, None)
                tar.close()  # with two empty blocks, padded to a full record
            yield file.as_released(name)

    return ExportFormat("webdataset", write, {"shard_bytes": shard_bytes})


def _add_sample(tar: tarfile.TarFile, row: ExportedRow) -> None:
    """Append the files of a row, named after its key."""
    captions, key = row.columns["captions"], row.name.rpartition(".")[0]
    for name, data in (
        (f"{key}.jpg", row.image),
        (f"{key}.json", orjson.dumps(row.columns)),
        (f"{key}.txt", captions[0].encode() if captions else b""),
    ):
        member = tarfile.TarInfo(name)
        member.size = len(data)
        tar.addfile(member, BytesIO(data))
        tar.getmembers().clear()  # which would be kept in memory


# The formats in which a release can be exported.

_KNOWN = (
    _web_dataset(),
    _copies("hf", is_for_datasets),
    ExportFormat("coco", _write_coco),
    _copies("parquet", is_shard),
    _copies("published", _is_published),
)
FORMATS: Final = {one.name: one for one in _KNOWN}


def _of_plugin(name: str) -> ExportFormat:
    """A format that a plugin adds: a function of the rows, with their images, and a folder."""
    write_rows = load_plugin("exports", name)

    def write(source: ReleaseSource, folder: Path) -> Iterator[ReleasedFile]:
        write_rows(({**row.columns, "image": bytes(row.image)} for row in source.images()), folder)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                place = path.relative_to(folder).as_posix()
                yield ReleasedFile(place, digest_of_file(path), path.stat().st_size)

    package = "".join(f" of {one.named}" for one in foreign_plugins("exports", [name]))
    return ExportFormat(f"{name}{package}", write)


def format_called(name: str, shard_bytes: int | None = None) -> ExportFormat:
    """The format called `name`; `shard_bytes` is the approximate size of its shards.

    Raises:
        UsageError: if there is no such format, or the size of its shards cannot be chosen.
    """
    if name in plugins("exports") and shard_bytes is None:
        return _of_plugin(name)
    if name not in FORMATS:
        known = ", ".join((*FORMATS, *plugins("exports")))
        raise UsageError(f"the format must be one of {known}; got {name!r}")
    if shard_bytes is None:
        return FORMATS[name]
    if name != "webdataset":
        raise UsageError(f"only webdataset has shards whose size can be chosen; got {name!r}")
    if shard_bytes < 1:
        raise UsageError(f"shards must have at least 1 byte; got {shard_bytes:,}")
    return _web_dataset(shard_bytes)
