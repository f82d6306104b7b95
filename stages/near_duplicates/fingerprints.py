"""The fingerprint of an encoded image, decoded no larger than it needs to be.

JPEG holds blocks of 8 x 8 frequencies, so a decoder can give the picture at a half, a quarter or an
eighth of its size for a part of the work, and its brightness without its colours.
"""

import io
import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from schemas.base import sha256_of
from schemas.near_duplicates import ImageFingerprint
from schemas.records import Rejection
from stages.near_duplicates.spectrum import SIDE_PX, Grey, look_of

if TYPE_CHECKING:
    from PIL import Image

STAGE = "fingerprint_images"
VERSION = "1"

MOST_PIXELS = 50_000_000
_DRAFT_PX = 45
"""A draft is no smaller than this on either side: 1.4 times what is used. With less, a picture and
the same picture cropped by a few pixels grow apart; with more, they do not come nearer."""
_ORIENTATION = 0x0112
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
_DECODER_FAULTS: Final = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    EOFError,
    MemoryError,
    struct.error,
    Warning,
)


def fingerprint(data: bytes, name: str) -> ImageFingerprint | Rejection:
    """What the image in `data` looks like, or why it cannot be used.

    Reasons: `undecodable_image` (it is none that we read, or is damaged or cut off) and
    `too_many_pixels` (by its header; nothing is decoded then). Safe in threads.

    Args:
        data: an encoded image. Of one that moves the first picture counts.
        name: what to call it in a rejection.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            size = image.size
            if size[0] * size[1] > MOST_PIXELS:
                what = f"has {size[0]:,} x {size[1]:,} pixels, wanted {MOST_PIXELS:,} at most"
                return _rejected(name, "too_many_pixels", what)
            look = look_of(_small_grey(image))
    except Image.DecompressionBombError as fault:
        return _rejected(name, "too_many_pixels", f"has too many pixels: {fault}")
    except _DECODER_FAULTS as fault:
        what = " ".join(str(fault).split()) or type(fault).__name__
        return _rejected(name, "undecodable_image", f"cannot be decoded: {what}")
    return ImageFingerprint(
        sha256=sha256_of(data),
        width_px=size[0],
        height_px=size[1],
        perceptual_hash=look and f"{look.perceptual_hash:016x}",
        mirrored_hash=look and f"{look.mirrored_hash:016x}",
        spectrum=look.spectrum.tobytes().hex() if look else "",
    )


def _small_grey(image: "Image.Image") -> Grey:
    """The picture, upright, in 32 x 32 grey values; what is transparent lies on white."""
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
    except _DECODER_FAULTS:
        return None


def _rejected(name: str, reason: str, what: str) -> Rejection:
    return Rejection(
        stage=STAGE, reason=reason, detail=f"image {name!r} {what}", context={"file": name}
    )
