"""The order of a release's rows: by content, the same on every machine and database."""

import re
from functools import lru_cache
from typing import NamedTuple

from schemas.records import Split

SPLITS: tuple[Split, ...] = ("train", "val", "test")

_DIGITS = re.compile(rb"[0-9]+")


class RowKey(NamedTuple):
    """Where a row stands: by split, source, identity, and where the image lay in its source."""

    split: int
    source: bytes
    identity: bytes
    file_path: bytes

    @classmethod
    def of(cls, split: Split, source: str, identity: str, file_path: str) -> "RowKey":
        """The key of an image; no two rows of a release have the same."""
        return cls(
            SPLITS.index(split),
            natural_key(source),
            natural_key(identity),
            natural_key(file_path),
        )


@lru_cache(maxsize=4096)  # sources and identities repeat from row to row
def natural_key(text: str) -> bytes:
    """Bytes that sort as people sort: 9 before 10, `a9` before `a10`; different for every text."""
    data = text.encode()
    return _DIGITS.sub(_number, data) + b"\0\0" + data  # the text itself tells 01 from 1


def _number(digits: re.Match[bytes]) -> bytes:
    significant = digits[0].lstrip(b"0")
    return b"\0\1" + len(significant).to_bytes(4, "big") + significant
