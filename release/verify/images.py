"""Decodes the images in the rows of a release."""

import hashlib
import io
from pathlib import Path
from typing import Any

from PIL import Image

from loupe.release.format.encoding import encoding_fault
from loupe.release.format.findings import Findings
from loupe.release.format.row_files import RowBatch, read_parquet_batches
from loupe.release.format.rows import number_in
from loupe.schemas.decoders import (
    DECODER_FAULTS,
    FORMATS,
    MOST_PIXELS,
    decode_limited,
    too_many_scans,
)
from loupe.schemas.encoding import ImageEncoding
from loupe.schemas.limited import LimitExceededError
from loupe.schemas.processes import ordered_map, read_ahead


def verify_images(
    folder: Path, shards: list[str], encoding: ImageEncoding | None, findings: Findings
) -> None:
    """Report images in the Parquet files that are not those of their rows, or do not decode.

    With an `encoding`, so are those that its encoder does not write. The rows must be sound; images
    are decoded by several limited processes.
    """
    for shard in shards:
        batches = read_ahead(read_parquet_batches(folder / shard))
        for faults in ordered_map(lambda batch: _faults(batch, encoding), batches):
            for number, what in faults:
                findings.add_row("image_wrong", what, shard, number)


def _faults(batch: RowBatch, encoding: ImageEncoding | None) -> list[tuple[int, str]]:
    """The row numbers and faults of the images in a batch; thread-safe."""
    found = []
    for row, path, image in zip(batch.rows, batch.paths, batch.images, strict=True):
        if (what := _fault(row, path, image, encoding)) is not None:
            found.append((number_in(row["file_path"]) or 0, what))
    return found


def _fault(
    row: dict[str, Any],
    path: str | None,
    image: memoryview | None,
    encoding: ImageEncoding | None,
) -> str | None:
    if not image:
        return "holds no image"
    if path != row["file_path"]:
        return f"calls its image {path!r}; expected {row['file_path']!r}"
    if hashlib.sha256(image).hexdigest() != row["sha256"]:
        return f"holds other bytes than {path}"
    try:
        size = (row["width_px"], row["height_px"])
        return decode_limited(_decoding_fault, bytes(image), size, encoding)
    except LimitExceededError as fault:
        return f"has an image that does not decode (it {fault})"


def _decoding_fault(
    data: bytes, size: tuple[int, int], encoding: ImageEncoding | None
) -> str | None:
    """The problem with an image that should have `size` (width, height), if any."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            if picture.size != size:
                return f"says its image has {size} pixels; the image has {picture.size}"
            if (pixels := size[0] * size[1]) > MOST_PIXELS:
                return f"has an image of {pixels:,} pixels; {MOST_PIXELS:,} are allowed"
            if what := too_many_scans(data):
                return f"has an image that {what}"
            if encoding is not None and (what := encoding_fault(picture, encoding)):
                return what
            picture.load()
    except (*DECODER_FAULTS, Image.DecompressionBombError) as error:
        return f"has an image that does not decode ({error})"
    return None
