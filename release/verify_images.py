"""The images that stand in the rows of Parquet: whether they are the listed ones, and pictures."""

import hashlib
import io
from collections.abc import Mapping
from typing import Any, NamedTuple

from PIL import Image

from release.image_looks import look_at
from release.jpeg_size import jpeg_size
from release.manifest import MANIFEST
from release.parquet_rows import RowBatch
from release.scratch import ListedImage
from schemas.nearness import perceptual_hash

_MAX_PIXELS = 50_000_000
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")


class ImageCheck(NamedTuple):
    """What is wrong with the image of a row, if anything, and its hash where one is needed.

    `listed` is what the manifest says of the image's file; None where it lists no such file. `look`
    is the hash that it is held against other datasets by.
    """

    problem: str | None = None
    perceptual_hash: int | None = None
    listed: ListedImage | None = None
    look: int | None = None


NO_IMAGE = ImageCheck()
"""Of a row that holds no image, as those of JSON."""


class ImageChecks:
    """Holds embedded bytes against the digests that the manifest lists for the files beside them.

    With `decode` every image is decoded in full, otherwise only its header is read; with
    `needs_hashes`, or `needs_looks`, decoded images are hashed too.
    """

    def __init__(self, *, decode: bool, needs_hashes: bool, needs_looks: bool = False) -> None:
        self._decode = decode
        self._needs_hashes = needs_hashes
        self._needs_looks = needs_looks

    def check(self, batch: RowBatch, listed: Mapping[str, ListedImage]) -> list[ImageCheck]:
        """One check a row; may run in any thread."""
        return [
            self._check(row, path, image, listed.get(row["file_path"]))
            for row, path, image in zip(batch.rows, batch.paths, batch.images, strict=True)
        ]

    def _check(
        self,
        row: dict[str, Any],
        path: str | None,
        image: memoryview | None,
        listed: ListedImage | None,
    ) -> ImageCheck:
        if not image:
            return ImageCheck("holds no image", None, listed)
        problem = _other_image(row, path, image, listed) or self._no_picture(row, image)
        if problem or not (self._needs_hashes or self._needs_looks):
            return ImageCheck(problem, None, listed)
        image_bytes = bytes(image)
        hashed = perceptual_hash(image_bytes) if self._needs_hashes else None
        look = look_at(image_bytes).perceptual_hash if self._needs_looks else None
        return ImageCheck(None, hashed, listed, look)

    def _no_picture(self, row: dict[str, Any], data: memoryview) -> str | None:
        size = row["width_px"], row["height_px"]
        if not self._decode and jpeg_size(data) == size:
            return None  # else Pillow says what is wrong
        try:
            with Image.open(io.BytesIO(data), formats=_FORMATS) as picture:
                if picture.size != size:
                    return f"says its image has {size} pixels; the image has {picture.size}"
                if (pixels := size[0] * size[1]) > _MAX_PIXELS:
                    return f"has an image of {pixels:,} pixels; {_MAX_PIXELS:,} are allowed"
                if self._decode:
                    picture.load()
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Warning) as error:
            return f"has an image that does not decode ({error})"
        return None


def _other_image(
    row: dict[str, Any], path: str | None, data: memoryview, listed: ListedImage | None
) -> str | None:
    if path != row["file_path"]:
        return f"calls its image {path!r}; wanted {row['file_path']!r}"
    if listed is None:
        return f"shows {path}, which {MANIFEST} does not list"
    if hashlib.sha256(data).hexdigest() != listed.sha256:
        return f"holds other bytes than {path}"
    if row["sha256"] != listed.sha256:
        return f"says that {path} has the SHA-256 {row['sha256']}; {MANIFEST} lists {listed.sha256}"
    return None
