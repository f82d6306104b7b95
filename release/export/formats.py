"""The formats in which a release can be exported."""

import shutil
import tarfile
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing
from io import BytesIO
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, cast

import orjson

from loupe.release.export.content import (
    EXPORT,
    ExportedRow,
    ExportFormat,
    ReleaseSource,
    copied,
    written_image,
)
from loupe.release.export.tables import write_csv, write_fiftyone
from loupe.release.format.files import (
    CARD,
    DigestingFile,
    digest_of_file,
)
from loupe.release.format.row_files import (
    CCD_LINES,
    shards_among,
)
from loupe.release.format.rows import CAPTION_COLUMNS, captions_in
from loupe.schemas.errors import UsageError
from loupe.schemas.licences import spdx_page
from loupe.schemas.plugins import foreign_plugins, load_plugin, plugins
from loupe.schemas.release import Manifest, ReleasedFile

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
                yield written_image(source, row, folder)
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
    ExportFormat("csv", write_csv),
    ExportFormat("fiftyone", write_fiftyone),
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
