"""Small encoded images, valid and hostile, for the tests of this folder."""

import io
import struct
import zlib
from typing import Any

from PIL import Image


def encoded(format: str = "JPEG", size: tuple[int, int] = (24, 48), **options: Any) -> bytes:  # noqa: A002
    """An encoded image of four coloured quarters; all its rotations and mirrorings differ."""
    return encode(quarters(size), format, **options)


def quarters(size: tuple[int, int] = (24, 48)) -> Image.Image:
    """An image of four quarters: red and green above blue and white."""
    small = Image.new("RGB", (2, 2))
    small.putdata([(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)])
    return small.resize(size, Image.Resampling.NEAREST)


def encode(picture: Image.Image, format: str, **options: Any) -> bytes:  # noqa: A002
    """Encode `picture` in a format of Pillow."""
    buffer = io.BytesIO()
    picture.save(buffer, format, **options)
    return buffer.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG of about a hundred bytes whose header claims the given size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\x00" * 1000))
        + chunk(b"IEND", b"")
    )


def chunk(name: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    checksum = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", checksum)


def jpeg_of_scans(size: tuple[int, int], scans: int) -> bytes:
    """A JPEG whose last scan, which has no effect, is repeated until there are `scans` scans."""
    data = encode(Image.new("RGB", size, (120, 40, 200)), "JPEG", progressive=True)
    last, end = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    more = scans - data.count(b"\xff\xda")
    return data[:end] + data[last:end] * more + data[end:]
