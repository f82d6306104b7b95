"""PNGs and WebPs with nothing in them but pixels and colours, copied chunk by chunk."""

from typing import Final

_PNG_BEGIN: Final = b"\x89PNG\r\n\x1a\n"
_PNG_FRAME_BYTES: Final = 12  # length, name and checksum of a chunk
_PIXELS, _END = b"IDAT", b"IEND"
_UNLIMITED: Final = 2**31 - 1
# What is kept, and the most bytes that it may have: nothing else fits into these.
_PNG_KEPT: Final = {
    b"IHDR": 13,
    b"PLTE": 768,
    _PIXELS: _UNLIMITED,
    _END: 0,
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


def bare_png(data: bytes) -> bytes | None:
    """`data` without texts, EXIF, times, animations, chunks of others and what is behind its end.

    Kept are pixels, palette, transparency, and what says what the colours mean and how large a
    pixel is. Nothing is decoded. `data` itself where nothing else is in it.

    Returns:
        None where its chunks do not lead to its end, or its pixels are in several places.
    """
    parts, at, pixels_end = [_PNG_BEGIN], len(_PNG_BEGIN), 0
    while len(data) - at >= _PNG_FRAME_BYTES:
        size = int.from_bytes(data[at : at + 4], "big")
        name = data[at + 4 : at + 8]
        end = at + _PNG_FRAME_BYTES + size
        if end > len(data):
            return None
        if name == _PIXELS:
            if pixels_end not in (0, at):
                return None
            pixels_end = end
        if size <= _PNG_KEPT.get(name, -1):
            parts.append(data[at:end])
        elif name[:1].isupper():  # what decoders must know
            return None
        if name == _END:
            bare = b"".join(parts)
            return data if bare == data else bare
        at = end
    return None


def bare_webp(data: bytes) -> bytes | None:
    """`data` without EXIF, XMP, chunks of others and what is behind its end.

    Kept are pixels, transparency and the colour profile. Nothing is decoded. `data` itself where
    nothing else is in it.

    Returns:
        None where its chunks do not lead to its end, or are not those of one still picture.
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
    """The header of the chunks, which says of those that are kept only whether they are there."""
    return chunk[:8] + bytes([chunk[8] & _WEBP_ICC_AND_ALPHA, 0, 0, 0]) + chunk[12:]
