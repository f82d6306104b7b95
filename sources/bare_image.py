"""Encoded images with nothing in them but pixels and colours.

What may stay is listed, not what has to go: a place is in EXIF (also by a second block of it),
XMP (in parts, in UTF-16), IPTC, comments, texts, and by files that hang behind the picture, such as
the video of a moving photograph. A colour profile stays as it is.
"""

import struct
from typing import Final

from sources.bare_chunks import bare_png, bare_webp
from sources.bare_jpeg import bare_jpeg

_BMP_FILE_HEADER_BYTES: Final = 14
_BMP_HEADER: Final = struct.Struct("<2sI4xIIiiHHIIiiII")  # file header and BITMAPINFOHEADER
_BMP_INFO_BYTES: Final = 40
_PALETTE_BITS: Final = 8


def bare_image(data: bytes) -> bytes | None:
    """An image's bytes without all else, recognised by content; its pixels stay the same.

    Nothing is decoded, and damage that decoders forgive stays in. `data` itself where there is
    nothing to take out.

    Args:
        data: a JPEG, PNG, WebP or BMP that decodes.

    Returns:
        None where it is not built in a way that can be copied: it has to be encoded again.
    """
    if data.startswith(b"\xff\xd8\xff"):
        return bare_jpeg(data)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return bare_png(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return bare_webp(data)
    return data if _is_bare_bmp(data) else None


def _is_bare_bmp(data: bytes) -> bool:
    """Whether it is header, palette and rows of pixels, uncompressed, with no gap between them."""
    if len(data) < _BMP_HEADER.size:
        return False
    magic, file_bytes, pixels_at, info_bytes, width, height, _, bits, compression, *rest = (
        _BMP_HEADER.unpack_from(data)
    )
    colours = (rest[3] or 1 << bits) if bits <= _PALETTE_BITS else 0
    row_bytes = (width * bits + 31) // 32 * 4
    return (
        (magic, info_bytes, compression) == (b"BM", _BMP_INFO_BYTES, 0)
        and colours <= 1 << _PALETTE_BITS
        and pixels_at == _BMP_FILE_HEADER_BYTES + info_bytes + 4 * colours
        and len(data) == file_bytes == pixels_at + row_bytes * abs(height)
    )
