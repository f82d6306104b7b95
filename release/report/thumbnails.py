"""Thumbnails of released images, a thousand a folder."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.decoders import (
    DECODER_FAULTS,
    FORMATS,
    MOST_PIXELS,
    decode_limited,
    too_many_scans,
)
from schemas.limited import LimitExceededError

if TYPE_CHECKING:
    from PIL.Image import Image

THUMBNAILS = "thumbs"
_PREVIEWS = "previews"
THUMBNAIL_PX = 200
_PREVIEW_PX = 800
FOLDER_IMAGES = 1_000

_QUALITY = 78
_KEPT_BYTES = 12_000
_PAPER = (255, 255, 255)


def picture_path(kind: str, number: int) -> str:
    """The path of the thumbnail of a row, relative to the report."""
    return f"{kind}/{(number - 1) // FOLDER_IMAGES}/{number}.jpg"


def smaller(data: bytes, side_px: int) -> bytes | None:
    """Scale an encoded image down to a JPEG whose longer side is at most `side_px`.

    Images are never enlarged, and a small JPEG is kept as it is. Returns None if the image cannot
    be decoded.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(BytesIO(data), formats=FORMATS) as opened:
            if opened.width * opened.height > MOST_PIXELS or too_many_scans(data):
                return None
            if _is_small(opened, len(data), side_px):
                opened.load()
                return data
            # JPEGs are decoded at a half, a quarter or an eighth of their size if that is enough
            opened.draft("RGB", (2 * side_px, 2 * side_px))
            upright = ImageOps.exif_transpose(opened)
            upright.thumbnail((side_px, side_px), Image.Resampling.BICUBIC, reducing_gap=2.0)
            file = BytesIO()
            _opaque(upright).save(file, "JPEG", quality=_QUALITY)
    except (*DECODER_FAULTS, Image.DecompressionBombError):
        return None
    return file.getvalue()


def _is_small(image: "Image", size_bytes: int, side_px: int) -> bool:
    return (
        image.format == "JPEG"
        and image.mode in ("RGB", "L")
        and max(image.size) <= side_px
        and size_bytes <= _KEPT_BYTES * max(1, side_px // THUMBNAIL_PX) ** 2
        and not image.getexif().get(0x0112, 1) > 1
    )


def _opaque(image: "Image") -> "Image":
    """Replace transparency by white."""
    from PIL import Image

    if image.mode not in ("RGBA", "LA", "PA") and "transparency" not in image.info:
        return image.convert("RGB")
    layered = image.convert("RGBA")
    paper = Image.new("RGBA", layered.size, (*_PAPER, 255))
    return Image.alpha_composite(paper, layered).convert("RGB")


class PictureFolder:
    """Writes the thumbnails of rows; may be called from several threads."""

    def __init__(self, folder: Path, rows: int, *, previews: bool) -> None:
        self._folder = folder
        self._kinds = [(THUMBNAILS, THUMBNAIL_PX)]
        if previews:
            self._kinds.append((_PREVIEWS, _PREVIEW_PX))
        for kind, _ in self._kinds:
            for first in range(1, rows + 1, FOLDER_IMAGES):
                (folder / picture_path(kind, first)).parent.mkdir(parents=True, exist_ok=True)

    def add(self, number: int, data: bytes) -> bool:
        """Write the pictures of a row; returns False if its image cannot be decoded."""
        for kind, side_px in self._kinds:
            try:
                small = decode_limited(smaller, data, side_px)
            except LimitExceededError:
                small = None
            if small is None:
                return False
            (self._folder / picture_path(kind, number)).write_bytes(small)
        return True
