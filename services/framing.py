"""Draw frames around other people in an image."""

import io
from collections.abc import Sequence
from math import isqrt
from typing import Final

from loupe.schemas.decoders import MOST_PIXELS, as_rgb
from loupe.schemas.errors import IntegrityError

_RED: Final = "#e00030"
_LEAST_HEIGHT_PX: Final = 480
"""Smaller crops are enlarged before boxes are drawn, so that the lines hide little."""
_MOST_ENLARGED_PIXELS: Final = 4_000_000
"""Images are enlarged to at most this size, whatever their shape."""


def with_others_framed(data: bytes, boxes: Sequence[Sequence[float]]) -> bytes:
    """Return an image of the same type with a red frame and a cross on each box.

    Run it with `decode_limited`.

    Raises:
        IntegrityError: the image has too many pixels.
    """
    from PIL import Image, ImageDraw

    try:
        image = Image.open(io.BytesIO(data))
    except Image.DecompressionBombError as error:
        raise IntegrityError(str(error)) from error
    with image as opened:
        media_format, pixels = opened.format, opened.width * opened.height
        if pixels > MOST_PIXELS:
            raise IntegrityError(f"it has {pixels:,} pixels, more than {MOST_PIXELS:,}")
        scale = _scale(opened.width, opened.height)
        width, height = opened.width * scale, opened.height * scale
        drawn = as_rgb(opened).resize((width, height), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(drawn)
    for box in boxes:
        left, top, right, bottom = (round(side * scale) for side in box)
        right, bottom = max(right, left + 8), max(bottom, top + 8)
        draw.rectangle((left, top, right - 1, bottom - 1), outline="white", width=5)
        draw.rectangle((left + 1, top + 1, right - 2, bottom - 2), outline=_RED, width=3)
        # The cross is in the upper corner that is farther from the person who is meant.
        side = min(36, right - left, bottom - top)
        corner = left if left + right < width else right - side
        draw.rectangle((corner, top, corner + side - 1, top + side - 1), fill=_RED)
        near, far, high, low = (
            edge + sign * side // 4
            for edge, sign in ((corner, 1), (corner + side, -1), (top, 1), (top + side, -1))
        )
        draw.line((near, high, far, low), fill="white", width=5)
        draw.line((near, low, far, high), fill="white", width=5)
    buffer = io.BytesIO()
    drawn.save(buffer, media_format, quality=92)
    return buffer.getvalue()


def _scale(width: int, height: int) -> int:
    """Return how many times an image is enlarged."""
    wanted = -(-_LEAST_HEIGHT_PX // height)
    return max(1, min(wanted, isqrt(_MOST_ENLARGED_PIXELS // (width * height))))
