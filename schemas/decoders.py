"""Limits on decoding untrusted images, errors of Pillow's decoders, and small JPEGs."""

import os
import re
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from loupe.schemas.limited import (
    LimitExceededError,
    PackedError,
    iterate_limited,
    packed_error,
    run_limited,
    unpacked_error,
)
from loupe.schemas.processes import processors

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
E = TypeVar("E", bound=Exception)
FORMATS: Final = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
"""Allowed formats of released images. Pillow knows formats that start other programs."""
MOST_PIXELS: Final = 50_000_000
MOST_SCANS: Final = 100
"""Scans of a JPEG; encoders write 10, at most about 25.

Each scan visits all pixels again, and one that changes nothing needs 75 bytes.
"""
_SECONDS: Final = 60.0
"""CPU seconds per image, against unforeseen cases.

The largest admitted image needs a few seconds, or half a minute if it is encoded again.
"""
_BYTES: Final = 1 << 29
_BYTES_PER_PIXEL: Final = 32
_LONGEST_RATIO: Final = 50

DECODER_FAULTS: Final = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    AssertionError,
    EOFError,
    MemoryError,
    struct.error,
    Warning,
)
"""Found by the fuzz test of `loupe.sources.images`, which maintains the list."""

_START_OF_SCAN: Final = b"\xff\xda"
_SCAN, _ENDS = 0xDA, 0xD9
_WITHOUT_LENGTH: Final = frozenset({0x00, 0x01, *range(0xD0, 0xD9), 0xFF})
JPEG_MARKER: Final = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
"""A marker after a scan, in whose data FF precedes 00 (a byte FF), FF (padding) and D0 to D7."""


_turns = threading.BoundedSemaphore(processors())  # more decoders would not be faster


def _renew_turns() -> None:
    global _turns  # a forked process does not have the threads that hold them
    _turns = threading.BoundedSemaphore(processors())


os.register_at_fork(after_in_child=_renew_turns)


def decode_limited(function: Callable[..., T], *args: Any, max_pixels: int = MOST_PIXELS) -> T:
    """Return `function(*args)`, which decodes one untrusted image, from a limited worker.

    Raises:
        LimitExceededError: it took more time, or more memory than images of `max_pixels` need, or
            it crashed; the message continues «cannot be decoded: it …».
    """
    with _turns:
        return run_limited(function, *args, seconds=_SECONDS, memory=_memory(max_pixels))


class _Refused(NamedTuple):
    error: PackedError


def _unpacked(result: Any) -> Any:
    return unpacked_error(result.error) if isinstance(result, _Refused) else result


def decode_each_limited(
    function: Callable[..., T],
    images: Sequence[bytes],
    *args: Any,
    refusal: type[E],
    max_pixels: int = MOST_PIXELS,
) -> list[T | E | LimitExceededError]:
    """Return `function(image, *args)` of each untrusted image, as `decode_limited`, by few calls.

    An exception is returned in place of a result if it is a `refusal`, or a `LimitExceededError`;
    then another worker decodes the images that follow.
    """
    memory = _memory(max_pixels)
    results: list[T | E | LimitExceededError] = []
    while rest := images[len(results) :]:
        call = (_each, function, rest, args, refusal)
        try:
            with _turns:
                for one in iterate_limited(*call, seconds=_SECONDS, memory=memory):
                    results.append(_unpacked(one))  # noqa: PERF401 - kept if the next one fails
        except LimitExceededError as fault:
            results.append(fault)
    return results


def _each(
    function: Callable[..., T],
    images: Sequence[bytes],
    args: tuple[Any, ...],
    refusal: type[Exception],
) -> Iterator[T | _Refused]:
    for image in images:
        try:
            yield function(image, *args)
        except refusal as error:
            yield _Refused(packed_error(error))


def _memory(max_pixels: int) -> int:
    return _BYTES + _BYTES_PER_PIXEL * max_pixels


def too_many_scans(data: bytes) -> str | None:
    """Return what is wrong with a JPEG with too many scans; None if nothing is.

    Scans are counted as decoders process them; those of thumbnails, or of data appended after the
    end, do not count. Nothing is decoded.
    """
    if not data.startswith(b"\xff\xd8") or data.count(_START_OF_SCAN) <= MOST_SCANS:
        return None
    at = scans = 0
    while found := JPEG_MARKER.search(data, at):
        marker, at = data[found.start() + 1], found.end()
        if marker == _ENDS and scans:
            return None
        if marker == _SCAN:
            scans += 1
            if scans > MOST_SCANS:
                return f"is a JPEG of more than {MOST_SCANS} scans, which is not decoded"
        if marker not in _WITHOUT_LENGTH:
            at += max(2, int.from_bytes(data[at : at + 2], "big"))
    return None


def as_rgb(picture: "Image") -> "Image":
    """Convert an image to RGB as viewers show it: transparent pixels become white.

    Pillow would show the hidden colours of transparent pixels, and clip grey of 16 bits instead of
    scaling it, so that nearly every such image becomes white.
    """
    if picture.has_transparency_data:
        from PIL import Image

        layer = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    elif picture.mode.startswith("I;16"):
        picture = picture.convert("I").point(lambda value: value / 256).convert("L")
    return picture.convert("RGB")


def plain_picture(image: "Image") -> "Image":
    """Return `image` in RGB; of an image more than 50 times as long as wide, the middle part.

    Networks scale the shorter side to some hundred pixels, so a narrow strip would fill the memory.
    """
    width, height = image.size
    if max(width, height) > _LONGEST_RATIO * min(width, height):
        longest = _LONGEST_RATIO * min(width, height)
        left, top = max(0, (width - longest) // 2), max(0, (height - longest) // 2)
        image = image.crop((left, top, left + min(width, longest), top + min(height, longest)))
    return as_rgb(image)


_QUALITY: Final = 78
_KEPT_BYTES: Final = 12_000
_KEPT_PX: Final = 200
"""A JPEG of up to 12 kB is kept at 200 pixels a side, one of four times as much at twice that."""


def small_jpeg(data: bytes, side_px: int) -> bytes | None:
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
            upright = as_rgb(ImageOps.exif_transpose(opened))
            upright.thumbnail((side_px, side_px), Image.Resampling.BICUBIC, reducing_gap=2.0)
            file = BytesIO()
            upright.save(file, "JPEG", quality=_QUALITY)
    except (*DECODER_FAULTS, Image.DecompressionBombError):
        return None
    return file.getvalue()


def _is_small(image: "Image", size_bytes: int, side_px: int) -> bool:
    return (
        image.format == "JPEG"
        and image.mode in ("RGB", "L")
        and max(image.size) <= side_px
        and size_bytes <= _KEPT_BYTES * max(1, side_px // _KEPT_PX) ** 2
        and not image.getexif().get(0x0112, 1) > 1
    )
