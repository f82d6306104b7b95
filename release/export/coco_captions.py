"""COCO captions: `annotations/captions_<split>.json`, the images beside it in `images/`.

An image's id is the number of its row, an annotation is one fine caption. Every other column stands
in the image's record, and what is told of each caption in the annotation's, under its own name;
readers of COCO ignore what they do not know.
"""

import shutil
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, BinaryIO

import orjson

from release.export.files import written
from release.export.source import ExportedRow, ReleaseSource
from release.export.target import ExportTarget
from release.files import DigestingFile
from schemas.errors import IntegrityError
from schemas.licence_expressions import spdx_page
from schemas.release import Manifest, ReleasedFile

_CAPTION_COLUMNS = {
    "caption_entity_ids": "entity_id",
    "caption_authors": "author",
    "caption_origins": "origin",
    "caption_reviewed": "reviewed",
}
_RENAMED = {"id": "identity_id", "width_px": "width", "height_px": "height"}
_ELSEWHERE = {"captions", "file_path", *_CAPTION_COLUMNS}


class CocoCaptions:
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
        told = zip(*(columns[name] for name in _CAPTION_COLUMNS), strict=True)
        for caption, of_caption in zip(columns["captions"], told, strict=True):
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


COCO = CocoCaptions()
"""Captions and images as the COCO API and its many readers take them."""
