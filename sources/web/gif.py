"""Whether a GIF moves. Its blocks are walked through; nothing is decoded."""

from typing import Final

_HEADER_BYTES: Final = 13
_EXTENSION: Final = 0x21
_PICTURE: Final = 0x2C


def moves(gif: bytes) -> bool:
    """Whether a second picture begins before the GIF ends or breaks off."""
    try:
        at = _HEADER_BYTES + _table_bytes(gif[10])
        pictures = 0
        while pictures < 2:
            if gif[at] == _EXTENSION:
                at = _behind_blocks(gif, at + 2)
            elif gif[at] == _PICTURE:
                pictures += 1
                at = _behind_blocks(gif, at + 11 + _table_bytes(gif[at + 9]))
            else:
                return False
    except IndexError:
        return False
    return True


def _table_bytes(flags: int) -> int:
    """The length of the colour table that the flags announce."""
    return 3 * 2 ** ((flags & 0b111) + 1) if flags & 0b1000_0000 else 0


def _behind_blocks(gif: bytes, at: int) -> int:
    """Where a chain of data blocks, each behind its length, has ended."""
    while length := gif[at]:
        at += 1 + length
    return at + 1
