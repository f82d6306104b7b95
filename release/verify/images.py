"""Checks the images in Parquet rows: that they are the listed ones, and decode."""

import hashlib
import io
from collections.abc import Mapping
from typing import Any, NamedTuple

from PIL import Image

from release.manifest import MANIFEST
from release.parquet_rows import RowBatch
from retrieval.similarity.distances import perceptual_hash
from retrieval.similarity.spectrum import UnusablePictureError, look_hash
from schemas.decoders import (
    DECODER_FAULTS,
    FORMATS,
    MOST_PIXELS,
    decode_limited,
    too_many_scans,
)
from schemas.limited import LimitExceededError
from schemas.release import ReleasedFile

_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEGMENTS = frozenset(range(0xC0, 0xFF)) - frozenset(range(0xD0, 0xDB))
"""Markers that are followed by a length, and after which the header may continue."""


def jpeg_size(data: bytes | memoryview) -> tuple[int, int] | None:
    """Width and height in pixels; None if it is not a JPEG, or needs a full parser.

    Takes a tenth of the time of opening the image with Pillow. The image data are not checked.
    """
    at, end = 2, len(data) - 9
    if end < at or data[0] != 0xFF or data[1] != 0xD8:
        return None
    while at <= end and data[at] == 0xFF:
        kind, length = data[at + 1], data[at + 2] << 8 | data[at + 3]
        if kind in _START_OF_FRAME:
            return data[at + 7] << 8 | data[at + 8], data[at + 5] << 8 | data[at + 6]
        if kind not in _SEGMENTS:
            return None
        at += 2 + length
    return None


class DecodingOptions(NamedTuple):
    """What to compute of images besides their size: decoding, or one of two hashes.

    `look` is the hash for comparisons with other datasets.
    """

    decode: bool
    hash: bool
    look: bool


class ImageCheck(NamedTuple):
    """The problem with the image of a row, if any, and its hashes if they are needed.

    `listed` is the manifest's entry of the image's file; None if it has none.
    """

    listed: ReleasedFile | None
    problem: str | None
    perceptual_hash: int | None = None
    look: int | None = None


def check_images(
    batch: RowBatch, listed: Mapping[str, ReleasedFile], wanted: DecodingOptions
) -> list[ImageCheck]:
    """Compare embedded images with the digests that the manifest lists; thread-safe.

    Images are decoded if something is `wanted` of them, else only their header is read.
    """
    return [
        _check(row, path, image, listed.get(row["file_path"]), wanted)
        for row, path, image in zip(batch.rows, batch.paths, batch.images, strict=True)
    ]


def _check(
    row: dict[str, Any],
    path: str | None,
    image: memoryview | None,
    listed: ReleasedFile | None,
    wanted: DecodingOptions,
) -> ImageCheck:
    if not image:
        return ImageCheck(listed, "holds no image")
    size = row["width_px"], row["height_px"]
    problem = _other_image(row, path, image, listed)
    if problem or (not any(wanted) and jpeg_size(image) == size):
        return ImageCheck(listed, problem)
    try:
        return ImageCheck(listed, *decode_limited(_decoded, bytes(image), size, wanted))
    except LimitExceededError as fault:
        return ImageCheck(listed, f"has an image that does not decode (it {fault})")


def _decoded(
    data: bytes, size: tuple[int, int], wanted: DecodingOptions
) -> tuple[str | None, int | None, int | None]:
    """The problem with an image that should have `size`, its perceptual hash, and its look."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            if picture.size != size:
                problem = f"says its image has {size} pixels; the image has {picture.size}"
                return problem, None, None
            if (pixels := size[0] * size[1]) > MOST_PIXELS:
                problem = f"has an image of {pixels:,} pixels; {MOST_PIXELS:,} are allowed"
                return problem, None, None
            if what := too_many_scans(data):
                return f"has an image that {what}", None, None
            if wanted.decode:
                picture.load()
        hashed = perceptual_hash(data) if wanted.hash else None
        look = look_hash(data) if wanted.look else None
    except UnusablePictureError as fault:
        return f"has an image that {fault}", None, None
    except (*DECODER_FAULTS, Image.DecompressionBombError) as error:
        return f"has an image that does not decode ({error})", None, None
    return None, hashed, look


def _other_image(
    row: dict[str, Any], path: str | None, data: memoryview, listed: ReleasedFile | None
) -> str | None:
    if path != row["file_path"]:
        return f"calls its image {path!r}; expected {row['file_path']!r}"
    if listed is None:
        return f"shows {path}, which {MANIFEST} does not list"
    if hashlib.sha256(data).hexdigest() != listed.sha256:
        return f"holds other bytes than {path}"
    if row["sha256"] != listed.sha256:
        return f"says that {path} has the SHA-256 {row['sha256']}; {MANIFEST} lists {listed.sha256}"
    return None
