"""Encoded images that contain only pixels and colours.

The parts to keep are listed instead of the parts to remove, because a place may be stated in EXIF
(also in a second block of it), XMP (in parts, in UTF-16), IPTC, comments, texts, and files appended
to the image, such as the video of a motion photo. A colour profile is kept unchanged.
"""

from typing import Final

from loupe.schemas.decoders import JPEG_MARKER


def bare_image(data: bytes) -> bytes | None:
    """Remove everything but pixels and colours from an image's bytes; the pixels do not change.

    The format is recognized by content. Nothing is decoded, and damage that decoders tolerate is
    kept. Returns `data` itself if there is nothing to remove.

    Args:
        data: an image that decodes.

    Returns:
        None if it has to be encoded again: a BMP, or an image whose structure cannot be copied.
    """
    if data.startswith(b"\xff\xd8\xff"):
        return _bare_jpeg(data)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _bare_png(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _bare_webp(data)
    return None


# JPEGs, copied segment by segment.

_JPEG_BEGIN: Final = b"\xff\xd8"
_JPEG_SCAN: Final = 0xDA
_JPEG_BEGINS_AGAIN: Final = 0xD8
_JPEG_ENDS: Final = 0xD9
# Frames (C0 to CF, except C8, which no decoder reads), Huffman (C4) and arithmetic (CC) tables,
# quantization tables, restart interval, scans.
_JPEG_KEPT: Final = frozenset({*range(0xC0, 0xD0), 0xDB, 0xDD, _JPEG_SCAN}) - {0xC8}
_JPEG_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD8)})
_APP0, _APP2, _APP14 = 0xE0, 0xE2, 0xEE
_JFIF: Final = b"JFIF\x00"
_JFIF_BYTES: Final = 16  # with its length, without a thumbnail
_NO_THUMBNAIL: Final = b"\x00\x00"
_ICC: Final = b"ICC_PROFILE\x00"
_ADOBE: Final = b"Adobe"
_ADOBE_BYTES: Final = 14


def _bare_jpeg(data: bytes) -> bytes | None:
    """Remove metadata, thumbnails and everything between segments or after the end of a JPEG.

    Tables, frames, scans, JFIF and Adobe headers (which define the colours) and colour profiles are
    kept. Nothing is decoded. Returns `data` itself if it contains nothing else.

    Returns:
        None if its segments do not lead to its end, as in a file that is cut off.
    """
    parts, at, scans = [_JPEG_BEGIN], len(_JPEG_BEGIN), 0
    while (begin := data.find(b"\xff", at)) >= 0:
        at = begin + 1
        while data[at : at + 1] == b"\xff":
            at += 1
        marker = data[at] if at < len(data) else 0
        at += 1
        if marker == _JPEG_ENDS:
            bare = b"".join([*parts, data[begin:at]])
            return (data if bare == data else bare) if scans else None
        if marker == 0 or marker in _JPEG_WITHOUT_LENGTH:
            continue
        size = int.from_bytes(data[at : at + 2], "big")
        end = at + size
        if marker == _JPEG_BEGINS_AGAIN or size < 2 or end > len(data):
            return None
        if marker == _JPEG_SCAN:
            behind = JPEG_MARKER.search(data, end)
            if behind is None:
                return None
            end, scans = behind.start(), scans + 1
        if marker in _JPEG_KEPT:
            parts.append(data[begin:end])
        else:
            parts.append(_jpeg_colours(marker, data[begin:at], data[at:end]))
        at = end
    return None


def _jpeg_colours(marker: int, head: bytes, segment: bytes) -> bytes:
    """Return the part of a segment that defines colours; empty if there is none.

    Args:
        marker: the type of the segment.
        head: the marker as it is in the file.
        segment: its length, two bytes, and its contents.
    """
    holds = segment[2:]
    if marker == _APP2 and holds.startswith(_ICC):
        return head + segment
    if marker == _APP0 and holds.startswith(_JFIF) and len(segment) >= _JFIF_BYTES:
        return head + _JFIF_BYTES.to_bytes(2, "big") + segment[2 : _JFIF_BYTES - 2] + _NO_THUMBNAIL
    if marker == _APP14 and holds.startswith(_ADOBE) and len(segment) >= _ADOBE_BYTES:
        return head + _ADOBE_BYTES.to_bytes(2, "big") + segment[2:_ADOBE_BYTES]
    return b""


# PNGs and WebPs, copied chunk by chunk.

_PNG_BEGIN: Final = b"\x89PNG\r\n\x1a\n"
_PNG_FRAME_BYTES: Final = 12  # length, name and checksum of a chunk
_PNG_PIXELS, _PNG_END = b"IDAT", b"IEND"
_UNLIMITED: Final = 2**31 - 1
# Chunks to keep, and their maximum number of bytes, so that they cannot hold other data.
_PNG_KEPT: Final = {
    b"IHDR": 13,
    b"PLTE": 768,
    _PNG_PIXELS: _UNLIMITED,
    _PNG_END: 0,
    b"tRNS": 256,
    b"bKGD": 6,
    b"sBIT": 4,
    b"pHYs": 9,
    b"gAMA": 4,
    b"cHRM": 32,
    b"sRGB": 1,
    b"cICP": 4,
    b"iCCP": _UNLIMITED,
}
_WEBP_HEAD_BYTES: Final = 12
_WEBP_PIXELS: Final = frozenset({b"VP8 ", b"VP8L"})
_WEBP_KEPT: Final = _WEBP_PIXELS | {b"VP8X", b"ALPH", b"ICCP"}
_WEBP_ANIMATION: Final = frozenset({b"ANIM", b"ANMF"})
_WEBP_EXTENDED_BYTES: Final = 10
_WEBP_ICC_AND_ALPHA: Final = 0x30


def _bare_png(data: bytes) -> bytes | None:
    """Remove texts, EXIF, times, animations, private chunks and data after the end of a PNG.

    Pixels, palette, transparency, and the chunks that define the colours and the size of a pixel
    are kept. Nothing is decoded. Returns `data` itself if it contains nothing else.

    Returns:
        None if its chunks do not lead to its end, or its pixels are in several places.
    """
    parts, at, pixels_end = [_PNG_BEGIN], len(_PNG_BEGIN), 0
    while len(data) - at >= _PNG_FRAME_BYTES:
        size = int.from_bytes(data[at : at + 4], "big")
        name = data[at + 4 : at + 8]
        end = at + _PNG_FRAME_BYTES + size
        if end > len(data):
            return None
        if name == _PNG_PIXELS:
            if pixels_end not in (0, at):
                return None
            pixels_end = end
        if size <= _PNG_KEPT.get(name, -1):
            parts.append(data[at:end])
        elif name[:1].isupper():  # critical chunks
            return None
        if name == _PNG_END:
            bare = b"".join(parts)
            return data if bare == data else bare
        at = end
    return None


def _bare_webp(data: bytes) -> bytes | None:
    """Remove EXIF, XMP, private chunks and data after the end of a WebP.

    Pixels, transparency and the colour profile are kept. Nothing is decoded. Returns `data` itself
    if it contains nothing else.

    Returns:
        None if its chunks do not lead to its end, or are not those of one still image.
    """
    parts, at, names = [b"WEBP"], _WEBP_HEAD_BYTES, []
    riff_end = 8 + int.from_bytes(data[4:8], "little")
    if riff_end > len(data):
        return None
    while at + 8 <= riff_end:
        name = data[at : at + 4]
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        end = at + 8 + size
        extended = name == b"VP8X"
        if end > riff_end or name in _WEBP_ANIMATION or (extended and size != _WEBP_EXTENDED_BYTES):
            return None
        if name in _WEBP_KEPT:
            names.append(name)
            parts.append(_without_other_flags(data[at:end]) if extended else data[at:end])
            parts.append(b"\x00" * (size % 2))
        at = end + size % 2
    if len(names) != len(set(names)) or len(_WEBP_PIXELS.intersection(names)) != 1:
        return None
    body = b"".join(parts)
    bare = b"RIFF" + len(body).to_bytes(4, "little") + body
    return data if bare == data else bare


def _without_other_flags(chunk: bytes) -> bytes:
    """Return the header of the chunks, with flags only for the chunks that are kept."""
    return chunk[:8] + bytes([chunk[8] & _WEBP_ICC_AND_ALPHA, 0, 0, 0]) + chunk[12:]
