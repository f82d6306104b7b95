"""The formats that a release can be exported in."""

import hashlib
import os
import shutil
import tarfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple, Protocol, Self

import orjson
from pydantic import ValidationError

from release.card import CARD
from release.files import OF_FILE_MANAGERS, DigestingFile, digest_of_file
from release.findings import Findings, TooManyProblemsError
from release.folder import Workspace
from release.json_rows import CCD_LINES
from release.manifest import MANIFEST, file_entry, read_files, read_values
from release.notices_files import erasure_of, read_mark
from release.parquet_rows import RowBatch, read_parquet_batches, shards_among
from release.rows import RowFaults
from release.scratch import Scratch
from release.threads import DEFAULT_THREADS, batches, ordered_map, read_ahead
from release.verify.documents import verify_manifest
from release.verify.files import verify_files
from schemas.base import Record, canonical_json
from schemas.errors import IntegrityError, UsageError
from schemas.licences import spdx_page
from schemas.release import Count, DatasetName, HexSha256, Manifest, ReleasedFile, Version

# `export.json`: what an export is made of, and the digest of every file of it.

_EXPORT = "export.json"


class ExportedSource(Record):
    """A collection that rows come from, with its terms."""

    name: str
    licence: str
    citation: str
    homepage: str | None


class ExportedSplit(Record):
    """What one split holds."""

    split: str
    images: Count
    captions: Count


class ExportRecord(Record):
    """An export in one record; its files are listed in `export.json` under `files`.

    `release` is the id of the release. `options` are those of the format, which change its bytes.
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
    splits: tuple[ExportedSplit, ...]
    sources: tuple[ExportedSource, ...]

    @classmethod
    def of(cls, manifest: Manifest, name: str, options: dict[str, int]) -> "ExportRecord":
        """The record of an export of this release in the format called `name`."""
        return cls(
            release=manifest.id,
            dataset=manifest.dataset,
            version=manifest.version,
            format=name,
            options=options,
            demonstration=manifest.demonstration,
            unreviewed=manifest.unreviewed,
            images=manifest.statistics.images,
            captions=manifest.statistics.captions,
            splits=tuple(
                ExportedSplit(split=one.split, images=one.images, captions=one.captions)
                for one in manifest.statistics.splits
            ),
            sources=tuple(
                ExportedSource(
                    name=one.name,
                    licence=one.licence,
                    citation=one.citation,
                    homepage=one.homepage,
                )
                for one in manifest.sources
            ),
        )


def write_export(folder: Path, record: ExportRecord, files: Iterable[bytes]) -> None:
    """Writes `export.json` into `folder`; `files` are entries as JSON."""
    target = DigestingFile(folder / _EXPORT)
    try:
        target.write(b"{\n")
        for key, value in record.model_dump(mode="json").items():
            target.write(f'"{key}": {canonical_json(value)},\n'.encode())
        target.write(b'"files": [')
        for index, file in enumerate(files):
            target.write((b",\n" if index else b"\n") + file)
        target.write(b"\n]\n}\n")
    finally:
        target.close()


def read_export(folder: Path) -> ExportRecord:
    """The record of the export in `folder`.

    Raises:
        OSError: there is none.
        ValueError: it is not one.
    """
    return ExportRecord.model_validate(read_values(folder / _EXPORT))


def _export_faults(folder: Path) -> Iterator[str]:
    """What is wrong with the files of the export in `folder`, a sentence's words each.

    What file managers leave behind is not.

    Raises:
        ValueError: its `export.json` is not one.
    """
    count = 0
    for fault in ordered_map(lambda file: _fault(folder, file), read_files(folder / _EXPORT)):
        count += 1
        if fault is not None:
            yield fault
    if sum(1 for _ in _files_in(folder)) != count + 1:
        listed = {_EXPORT, *(file.path for file in read_files(folder / _EXPORT))}
        for path in _files_in(folder):
            if path not in listed:
                yield f"{path!r} does not belong to it"


def _files_in(folder: Path) -> Iterator[str]:
    """The paths of all that lies in an export but folders and what file managers leave behind."""
    for path in folder.rglob("*"):
        if path.name not in OF_FILE_MANAGERS and (path.is_symlink() or not path.is_dir()):
            yield path.relative_to(folder).as_posix()


def _fault(folder: Path, file: ReleasedFile) -> str | None:
    try:
        sha256 = digest_of_file(folder / file.path)
    except OSError as error:
        return f"{file.path} cannot be read ({error.strerror})"
    if sha256 != file.sha256:
        return f"{file.path} is damaged or was changed"
    return None


def is_there(out: Path, wanted: ExportRecord) -> bool:
    """Whether the very export lies at `out`; False where there is nothing, or an empty folder.

    Raises:
        UsageError: something else is there, or the export is damaged.
    """
    if not (out.exists() or out.is_symlink()) or (out.is_dir() and not any(out.iterdir())):
        return False
    try:
        found = read_export(out)
        if found == wanted:
            fault = next(_export_faults(out), None)
            if fault is None:
                return True
            raise UsageError(f"{out} is this export, but {fault}; remove it and export again")
    except (OSError, ValidationError, ValueError) as error:
        raise UsageError(
            f"{out} exists and is not an export; choose a folder that does not exist"
        ) from error
    what = f"{found.dataset} {found.version} ({found.release[:12]}) as {found.format}"
    options = "".join(f", {name} {value:,}" for name, value in found.options.items())
    raise UsageError(
        f"{out} is another export: {what}{options}; choose a folder that does not exist"
    )


# Large files of an export: one thread makes the bytes, one digests and another writes them.

_Piece = bytes | memoryview

_PIPED_PIECE_BYTES: Final = 2 << 20
_IN_FLIGHT: Final = 4
_AT_ONCE: Final = 512  # pieces; systems take 1024


class PipedFile:
    """A new file, appended to piece by piece; faults of writing are raised a little later.

    What is not written yet is held, at most 10 MiB and a piece. Nothing is flushed to disk: an
    export does that for all of its files at once.
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._sha256 = hashlib.sha256()
        self._digester, self._writer = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._in_flight: deque[tuple[Future[None], Future[None]]] = deque()
        self._pieces: list[_Piece] = []
        self._waiting = 0
        self._is_closed = False
        self.size = 0
        """Bytes so far, those included that are not written yet."""

    def write(self, *pieces: _Piece) -> None:
        """Appends `pieces`, which must not change any more.

        Raises:
            OSError: something before them could not be written.
        """
        self._pieces += pieces
        added = sum(map(len, pieces))
        self._waiting += added
        self.size += added
        if self._waiting >= _PIPED_PIECE_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        if len(self._in_flight) == _IN_FLIGHT:
            self._await_oldest()
        pieces, self._pieces, self._waiting = self._pieces, [], 0
        digested = self._digester.submit(self._digest, pieces)
        self._in_flight.append((digested, self._writer.submit(self._write, pieces)))

    def _await_oldest(self) -> None:
        for done in self._in_flight.popleft():
            done.result()

    def _digest(self, pieces: Sequence[_Piece]) -> None:
        for piece in pieces:
            self._sha256.update(piece)

    def _write(self, pieces: Sequence[_Piece]) -> None:
        for some in batches(pieces, _AT_ONCE):
            size = sum(map(len, some))
            written = os.writev(self._handle, some)
            rest = memoryview(b"".join(some) if written < size else b"")[written:]
            while rest:
                rest = rest[os.write(self._handle, rest) :]

    def finish(self, path: str) -> ReleasedFile:
        """Writes the rest; the file under the path that the export knows it by.

        Raises:
            OSError: something could not be written.
        """
        self._hand_over()
        while self._in_flight:
            self._await_oldest()
        self.close()
        return ReleasedFile(path=path, sha256=self._sha256.hexdigest(), size_bytes=self.size)

    def close(self) -> None:
        """Lets go of the file, whole or not. Closing twice is fine."""
        if not self._is_closed:
            self._is_closed = True
            for thread in (self._digester, self._writer):
                thread.shutdown(cancel_futures=True)
            os.close(self._handle)


# Files of an export: written with their digest, and made to last all together.
#
# Flushing each of ten thousand images takes a hundred times as long as flushing them at once.

_PIECE_BYTES = 1 << 20


def written(folder: Path, path: str, data: bytes | memoryview) -> ReleasedFile:
    """A new file with these bytes at `path` below `folder`, whose folders are there already."""
    # not `open` and paths, which take as long as the rest
    handle = os.open(f"{folder}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)
    return ReleasedFile(path=path, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def copied(source: Path, released: ReleasedFile, folder: Path) -> ReleasedFile:
    """Copies a file of the release in `source` to the same path below `folder`.

    The folders below `folder` are there already.

    Raises:
        IntegrityError: its bytes are not those that were released.
    """
    try:
        handle = os.open(f"{source}/{released.path}", os.O_RDONLY)
    except FileNotFoundError as error:
        raise IntegrityError(f"{source}: {released.path} is missing") from error
    except (OSError, ValueError) as error:  # the latter for names that no file can have
        details = error.strerror if isinstance(error, OSError) else error
        raise IntegrityError(f"{source}: {released.path!r} cannot be read ({details})") from error
    try:
        copy = _copied_at_once if released.size_bytes < _PIECE_BYTES else _copied_in_pieces
        made = copy(handle, released.path, folder)
    finally:
        os.close(handle)
    if made.sha256 != released.sha256:
        raise IntegrityError(
            f"{source}: {released.path} is damaged or was changed: its SHA-256 is "
            f"{made.sha256}; wanted {released.sha256}"
        )
    return released


def _copied_at_once(handle: int, path: str, folder: Path) -> ReleasedFile:
    return written(folder, path, os.read(handle, _PIECE_BYTES))


def _copied_in_pieces(handle: int, path: str, folder: Path) -> ReleasedFile:
    target = PipedFile(folder / path)
    try:
        while piece := os.read(handle, _PIECE_BYTES):
            target.write(piece)
        return target.finish(path)
    finally:
        target.close()


# The folder that an export is written into, and the list of what was written.


class ExportTarget:
    """Takes files; their names, sizes and digests are kept on disk. To be used in a `with`."""

    def __init__(self, workspace: Workspace) -> None:
        self.folder = workspace.content
        self._scratch = workspace.home
        self._list = (workspace.home / "files").open("w+b")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._list.close()

    def scratch_file(self, name: str) -> Path:
        """Where something may be kept that is no part of the export."""
        return self._scratch / name

    def add(self, file: ReleasedFile) -> None:
        """Lists a file that is written; files are listed in the order of these calls."""
        self._list.write(file_entry(file) + b"\n")

    def listed(self) -> Iterator[bytes]:
        """The files that were added, each as canonical JSON."""
        self._list.seek(0)
        for line in self._list:
            yield line.rstrip(b"\n")


# A release as exports read it: checked against its manifest first, then row by row.

Progress = Callable[[int, int], None]
"""Called with the rows written so far and their total."""

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


# What a format of exports is.


class ExportFormat(Protocol):
    """Writes a release in the layout that others load; a value without state."""

    @property
    def name(self) -> str:
        """What the user calls it by."""

    @property
    def options(self) -> dict[str, int]:
        """What was chosen and changes the bytes."""

    def write(self, source: ReleaseSource, target: ExportTarget) -> None:
        """Writes all rows into `target.folder`, holding a few in memory, and lists every file.

        The same release gives the same bytes.

        Raises:
            IntegrityError: the release turns out not to be as it was released.
        """


# Formats that a release holds already: its own files, under the same names, and no others.
#
# They are copied byte for byte, and each copy is checked against its digest.

_Wanted = Callable[[str, Manifest], bool]
"""Whether the file at this path of a release belongs to a format."""


class _ReleasedFiles(NamedTuple):
    """Those files of a release that are `wanted`."""

    name: str
    wanted: _Wanted

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
                if file.path == _EXPORT:
                    raise UsageError(
                        f"{_EXPORT} is what an export lists its files in; "
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


PARQUET = _ReleasedFiles("parquet", _is_shard)
"""Parquet files alone, for pandas, Polars, DuckDB and Spark."""

HF = _ReleasedFiles("hf", _is_for_datasets)
"""Parquet files, which tell `datasets` their features, and the card that tells where they are."""

_PUBLISHED = _ReleasedFiles("published", _is_published)
"""Images, and the JSON layout of the paper whose dataset it is like."""


# COCO captions: `annotations/captions_<split>.json`, the images beside it in `images/`.
#
# An image's id is the number of its row, an annotation is one fine caption. Every other column
# is in the image's record, and those of each caption in the annotation's, under their own names;
# readers of COCO ignore what they do not know.

_CAPTION_COLUMNS = {
    "caption_entity_ids": "entity_id",
    "caption_authors": "author",
    "caption_origins": "origin",
    "caption_reviewed": "reviewed",
}
_RENAMED = {"id": "identity_id", "width_px": "width", "height_px": "height"}
_ELSEWHERE = {"captions", "file_path", *_CAPTION_COLUMNS}


class _CocoCaptions:
    """Annotations are gathered in a file of their own until all images of a split are listed."""

    name = "coco"

    @property
    def options(self) -> dict[str, int]:
        """There are none."""
        return {}

    def write(self, source: ReleaseSource, target: ExportTarget) -> None:
        """Writes one split after the other."""
        licences = _Licences(source.manifest)
        annotations: _Annotations | None = None
        try:
            for row, image in _written_images(source, target):
                target.add(image)
                split = row.columns["split"]
                if annotations is None or annotations.split != split:
                    written = annotations.finish(target) if annotations else 0
                    annotations = _Annotations(source.manifest, target, split, licences, written)
                annotations.add(row)
            if annotations:
                annotations.finish(target)
        finally:
            if annotations:
                annotations.close()


def _written_images(
    source: ReleaseSource, target: ExportTarget
) -> Iterator[tuple[ExportedRow, ReleasedFile]]:
    (target.folder / "images").mkdir()
    for row in source.rows():
        image = written(target.folder, f"images/{row.name}", row.image)
        if image.sha256 != row.columns["sha256"]:
            raise IntegrityError(
                f"{source.folder}: the Parquet row of {row.columns['file_path']} holds another "
                f"image than its sha256 says; `loupe release verify` tells what else is wrong"
            )
        yield row, image


class _Licences:
    """The licences of images, numbered from 1 as they come, through all splits."""

    def __init__(self, manifest: Manifest) -> None:
        self._of_source = {one.name: one.licence for one in manifest.sources}
        self._ids: dict[str, int] = {}

    def of(self, columns: dict[str, Any]) -> int:
        """The number of a row's licence: its own, else that of its source."""
        licence = columns.get("licence") or self._of_source[columns["source"]]
        return self._ids.setdefault(licence, len(self._ids) + 1)

    def listed(self, numbers: AbstractSet[int]) -> list[dict[str, Any]]:
        """Those of these numbers, as COCO lists them; the address is empty where none is known."""
        return [
            {"id": id_, "name": name, "url": spdx_page(name) or ""}
            for name, id_ in self._ids.items()
            if id_ in numbers
        ]


class _Annotations:
    """The file of one split; annotations are numbered on from `written`."""

    def __init__(
        self,
        manifest: Manifest,
        target: ExportTarget,
        split: str,
        licences: _Licences,
        written: int,
    ) -> None:
        self.split = split
        self._path = f"annotations/captions_{split}.json"
        self._licences = licences
        self._licensed: set[int] = set()
        self._file = DigestingFile(target.folder / self._path)
        self._spool_path = target.scratch_file(f"captions_{split}")
        self._spool: BinaryIO = self._spool_path.open("xb")
        self._written = self._before = written
        info = {
            "description": f"{manifest.dataset} {manifest.version}",
            "version": manifest.version,
            "release": manifest.id,
            "split": split,
        }
        self._file.write(b'{"info": ' + _json(info) + b',\n"images": [')
        self._comma = b"\n"

    def add(self, row: ExportedRow) -> None:
        """Appends an image and its captions."""
        columns, licence = row.columns, self._licences.of(row.columns)
        self._licensed.add(licence)
        image = {"id": row.number, "file_name": row.name, "license": licence}
        image |= {
            _RENAMED.get(name, name): value
            for name, value in columns.items()
            if name not in _ELSEWHERE
        }
        self._file.write(self._comma + _json(image))
        self._comma = b",\n"
        details = zip(*(columns[name] for name in _CAPTION_COLUMNS), strict=True)
        for caption, of_caption in zip(columns["captions"], details, strict=True):
            comma = b",\n" if self._written > self._before else b"\n"
            self._written += 1
            annotation = {"id": self._written, "image_id": row.number, "caption": caption}
            annotation |= zip(_CAPTION_COLUMNS.values(), of_caption, strict=True)
            self._spool.write(comma + _json(annotation))

    def finish(self, target: ExportTarget) -> int:
        """Ends the file; gives how many annotations there are by now."""
        self._file.write(b'\n],\n"annotations": [')
        self._spool.close()
        with self._spool_path.open("rb") as spool:
            shutil.copyfileobj(spool, self._file, 1 << 20)
        self._spool_path.unlink()
        licences = self._licences.listed(self._licensed)
        self._file.write(b'\n],\n"licenses": ' + _json(licences) + b"}\n")
        self.close()
        target.add(self._file.as_released(self._path))
        return self._written

    def close(self) -> None:
        """Lets go of both files."""
        self._spool.close()
        self._file.close()


def _json(value: Any) -> bytes:
    return orjson.dumps(value)


_COCO = _CocoCaptions()
"""Captions and images as the COCO API and its many readers take them."""


# WebDataset: tar files of samples, `<split>-<number>.tar`, to be read from the first to the last.
#
# A sample is an image (`12.jpg`), all its columns (`12.json`) and its first caption (`12.txt`,
# empty where it has none). Members have no time, owner or order of their own, so that the same rows
# give the same bytes; none is a pickle.

_SHARD_BYTES = 500_000_000
_PADDING = [bytes(-size % tarfile.BLOCKSIZE) for size in range(tarfile.BLOCKSIZE)]
_NAME_BYTES, _SIZE, _SUM = 100, slice(124, 135), slice(148, 155)
_HEADER = tarfile.TarInfo("").tobuf(tarfile.USTAR_FORMAT)
"""Of an empty file without a name: owner, group and time are 0, the mode is 0644."""
_HEADER_SUM = int(_HEADER[_SUM].rstrip(b"\0"), 8)
_FORM = b"".join(
    (
        b"%b",
        _HEADER[_NAME_BYTES : _SIZE.start],
        b"%b",
        _HEADER[_SIZE.stop : _SUM.start],
        b"%06o\0",
        _HEADER[_SUM.stop :],
    )
)
"""What a header consists of beside name, size and sum, which holds no percent sign."""


class WebDatasetShards(NamedTuple):
    """Shards are closed as soon as they have `shard_bytes`; none holds rows of two splits."""

    shard_bytes: int = _SHARD_BYTES

    @property
    def name(self) -> str:
        """What the user calls it by."""
        return "webdataset"

    @property
    def options(self) -> dict[str, int]:
        """What was chosen and changes the bytes."""
        return {"shard_bytes": self.shard_bytes}

    def write(self, source: ReleaseSource, target: ExportTarget) -> None:
        """Writes one shard after the other."""
        shard: _Shard | None = None
        split, number = "", 0
        try:
            for row in source.rows():
                if shard and (shard.size >= self.shard_bytes or row.columns["split"] != split):
                    shard.finish(target)
                    shard = None
                if row.columns["split"] != split:
                    split, number = row.columns["split"], 0
                if shard is None:
                    shard = _Shard(target, f"{split}-{number:06d}.tar")
                    number += 1
                shard.add_sample(row)
            if shard:
                shard.finish(target)
        finally:
            if shard:
                shard.close()


class _Shard:
    """One tar file, in the form that POSIX.1-1988 calls ustar."""

    def __init__(self, target: ExportTarget, name: str) -> None:
        self._name = name
        self._file = PipedFile(target.folder / name)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.size

    def add_sample(self, row: ExportedRow) -> None:
        """Appends the files of a row, all called by its key."""
        name, captions = row.name, row.columns["captions"]
        key = name.rpartition(".")[0]
        texts = (
            _padding(row.image),
            *_member(f"{key}.json", orjson.dumps(row.columns)),
            *_member(f"{key}.txt", captions[0].encode() if captions else b""),
        )
        self._file.write(tar_header(name, len(row.image)), row.image, b"".join(texts))

    def finish(self, target: ExportTarget) -> None:
        """Ends the file with two empty blocks, filled up to a whole record."""
        self._file.write(bytes(2 * tarfile.BLOCKSIZE))
        self._file.write(bytes(-self.size % tarfile.RECORDSIZE))
        target.add(self._file.finish(self._name))

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()


def _member(name: str, data: bytes) -> tuple[bytes, bytes, bytes]:
    return tar_header(name, len(data)), data, _padding(data)


def _padding(data: bytes | memoryview) -> bytes:
    """What fills the last block up."""
    return _PADDING[len(data) % tarfile.BLOCKSIZE]


def tar_header(name: str, size_bytes: int) -> bytes:
    """The header of a file, as `tarfile` makes it, in a fiftieth of the time.

    Raises:
        ValueError: the name or the size is too large for it.
    """
    field, size = name.encode("ascii"), b"%011o" % size_bytes
    if len(field) > _NAME_BYTES or len(size) > _SIZE.stop - _SIZE.start:
        raise ValueError(f"a tar header holds no file {name!r} of {size_bytes:,} bytes")
    total = _HEADER_SUM + sum(field) + sum(size) - len(size) * ord("0")
    return _FORM % (field.ljust(_NAME_BYTES, b"\0"), size, total)


# The formats that a release can be exported in.

_KNOWN: Final[tuple[ExportFormat, ...]] = (
    WebDatasetShards(),
    HF,
    _COCO,
    PARQUET,
    _PUBLISHED,
)
FORMATS: Final[dict[str, ExportFormat]] = {one.name: one for one in _KNOWN}


def format_called(name: str, shard_bytes: int | None = None) -> ExportFormat:
    """The format called `name`; with `shard_bytes`, of shards of about that size.

    Raises:
        UsageError: there is none of that name, or its shards have no size to choose.
    """
    if name not in FORMATS:
        raise UsageError(f"the format must be one of {', '.join(FORMATS)}; got {name!r}")
    if shard_bytes is None:
        return FORMATS[name]
    if name != "webdataset":
        raise UsageError(f"only webdataset has shards whose size can be chosen; got {name!r}")
    if shard_bytes < 1:
        raise UsageError(f"shards must have at least 1 byte; got {shard_bytes:,}")
    return WebDatasetShards(shard_bytes)
