"""An encoded image as 32 x 32 grey values, decoded no larger than it needs to be.

JPEG holds blocks of 8 x 8 frequencies, so a decoder can give the picture at a half, a quarter or an
eighth of its size for a part of the work, and its brightness without its colours.
"""

import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from schemas.decoders import DECODER_FAULTS, MOST_PIXELS, too_many_scans
from schemas.spectrum import SIDE_PX, Grey, look_of

if TYPE_CHECKING:
    from PIL import Image

_DRAFT_PX = 45
"""A draft is no smaller than this on either side: 1.4 times what is used. With less, a picture and
the same picture cropped by a few pixels grow apart; with more, they do not come nearer."""
_ORIENTATION = 0x0112
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")


class SmallPicture(NamedTuple):
    """A picture in small, and the width and height in pixels that its bytes state."""

    size: tuple[int, int]
    grey: Grey


class UnusablePictureError(ValueError):
    """Bytes that are no picture that can be used; `reason` is a word, the text follows its name."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason


def small_picture(data: bytes) -> SmallPicture:
    """The picture, upright, in 32 x 32 grey values; what is transparent lies on white.

    Safe in threads. Of one that moves the first picture counts.

    Raises:
        UnusablePictureError: `undecodable_image` (it is none that we read, or is damaged or cut
            off), `too_many_pixels` (by its header) or `too_many_scans`; of both nothing is decoded.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            size = image.size  # a draft has another
            _refuse_costly(data, size)
            return SmallPicture(size, _small_grey(image))
    except UnusablePictureError:
        raise
    except Image.DecompressionBombError as fault:
        raise UnusablePictureError("too_many_pixels", f"has too many pixels: {fault}") from fault
    except DECODER_FAULTS as fault:
        what = " ".join(str(fault).split()) or type(fault).__name__
        raise UnusablePictureError("undecodable_image", f"cannot be decoded: {what}") from fault


def look_hash(data: bytes) -> int | None:
    """The perceptual hash that fingerprints hold; None for a picture with nothing on it.

    Raises:
        UnusablePictureError: as `small_picture`.
    """
    look = look_of(small_picture(data).grey)
    return look and look.perceptual_hash


def _refuse_costly(data: bytes, size: tuple[int, int]) -> None:
    if scans := too_many_scans(data):
        raise UnusablePictureError("too_many_scans", scans)
    if size[0] * size[1] > MOST_PIXELS:
        what = f"has {size[0]:,} x {size[1]:,} pixels, wanted {MOST_PIXELS:,} at most"
        raise UnusablePictureError("too_many_pixels", what)


def _small_grey(image: "Image.Image") -> Grey:
    from PIL import Image

    image.draft("L", (_DRAFT_PX, _DRAFT_PX))
    if image.has_transparency_data:
        ground = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(ground, image.convert("RGBA"))
    grey = image.convert("L").resize((SIDE_PX, SIDE_PX), Image.Resampling.BILINEAR)
    turn = _turn(image)
    return np.asarray(grey if turn is None else grey.transpose(turn), np.float64)


def _turn(image: "Image.Image") -> "Image.Transpose | None":
    """What makes the picture upright by its metadata; damaged metadata says nothing."""
    from PIL import Image

    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
    if not image.info.get("exif"):
        return None
    try:
        return turns.get(image.getexif().get(_ORIENTATION, 1))
    except DECODER_FAULTS:
        return None
