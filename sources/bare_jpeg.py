"""JPEGs with nothing in them but pixels and colours, copied segment by segment."""

import re
from typing import Final

_BEGIN: Final = b"\xff\xd8"
_END: Final = b"\xff\xd9"
_SCAN: Final = 0xDA
_BEGINS_AGAIN: Final = 0xD8
_ENDS: Final = 0xD9
# Frames (C0 to CF, but for C8, which no decoder reads), Huffman (C4) and arithmetic (CC) tables,
# quantisation tables, restart interval, scans.
_PIXELS: Final = frozenset({*range(0xC0, 0xD0), 0xDB, 0xDD, _SCAN}) - {0xC8}
_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD8)})
_APP0, _APP2, _APP14 = 0xE0, 0xE2, 0xEE
_JFIF: Final = b"JFIF\x00"
_JFIF_BYTES: Final = 16  # with its length, without a thumbnail
_NO_THUMBNAIL: Final = b"\x00\x00"
_ICC: Final = b"ICC_PROFILE\x00"
_ADOBE: Final = b"Adobe"
_ADOBE_BYTES: Final = 14
# In entropy-coded data FF stands before 00 (a byte FF), FF (filling) and D0 to D7 (restarts).
_BEHIND_A_SCAN: Final = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")


def bare_jpeg(data: bytes) -> bytes | None:
    """`data` without metadata, thumbnails and whatever stands between segments or behind the end.

    Kept are tables, frames, scans, JFIF and Adobe headers (which say what the colours mean) and
    colour profiles. Nothing is decoded. `data` itself where nothing else is in it.

    Returns:
        None where its segments do not lead to its end, as in a file that is cut off.
    """
    parts, at, scans = [_BEGIN], len(_BEGIN), 0
    while (begin := data.find(b"\xff", at)) >= 0:
        at = begin + 1
        while data[at : at + 1] == b"\xff":
            at += 1
        marker = data[at] if at < len(data) else 0
        at += 1
        if marker == _ENDS:
            bare = b"".join([*parts, data[begin:at]])
            return (data if bare == data else bare) if scans else None
        if marker == 0 or marker in _WITHOUT_LENGTH:
            continue
        size = int.from_bytes(data[at : at + 2], "big")
        end = at + size
        if marker == _BEGINS_AGAIN or size < 2 or end > len(data):
            return None
        if marker == _SCAN:
            behind = _BEHIND_A_SCAN.search(data, end)
            if behind is None:
                return None
            end, scans = behind.start(), scans + 1
        if marker in _PIXELS:
            parts.append(data[begin:end])
        else:
            parts.append(_colours(marker, data[begin:at], data[at:end]))
        at = end
    return None


def _colours(marker: int, head: bytes, segment: bytes) -> bytes:
    """What a segment beside the pixels says of colours; empty where that is nothing.

    Args:
        marker: which segment it is.
        head: the marker as it is in the file.
        segment: its length, two bytes, and what it holds.
    """
    holds = segment[2:]
    if marker == _APP2 and holds.startswith(_ICC):
        return head + segment
    if marker == _APP0 and holds.startswith(_JFIF) and len(segment) >= _JFIF_BYTES:
        return head + _JFIF_BYTES.to_bytes(2, "big") + segment[2 : _JFIF_BYTES - 2] + _NO_THUMBNAIL
    if marker == _APP14 and holds.startswith(_ADOBE) and len(segment) >= _ADOBE_BYTES:
        return head + _ADOBE_BYTES.to_bytes(2, "big") + segment[2:_ADOBE_BYTES]
    return b""
