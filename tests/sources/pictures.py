"""Small encoded pictures, sound and hostile, for the tests of this folder."""

import io
import struct
import zlib
from typing import Any

from PIL import Image


def encoded(format: str = "JPEG", size: tuple[int, int] = (24, 48), **options: Any) -> bytes:  # noqa: A002
    """A picture of four coloured quarters: no turn or mirroring of it looks like another."""
    return encode(quarters(size), format, **options)


def quarters(size: tuple[int, int] = (24, 48)) -> Image.Image:
    """Red, green above blue, white."""
    small = Image.new("RGB", (2, 2))
    small.putdata([(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)])
    return small.resize(size, Image.Resampling.NEAREST)


def encode(picture: Image.Image, format: str, **options: Any) -> bytes:  # noqa: A002
    """`picture` in a format."""
    buffer = io.BytesIO()
    picture.save(buffer, format, **options)
    return buffer.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG of some hundred bytes whose header promises more."""
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
    """A JPEG whose last scan, which changes nothing, is repeated until there are so many."""
    data = encode(Image.new("RGB", size, (120, 40, 200)), "JPEG", progressive=True)
    last, end = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    more = scans - data.count(b"\xff\xda")
    return data[:end] + data[last:end] * more + data[end:]
