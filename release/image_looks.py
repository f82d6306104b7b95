"""Looks at image files for what they are compared by: the bytes, and what they show."""

from pathlib import Path
from typing import NamedTuple

from schemas.base import sha256_of
from schemas.decoders import decode_limited
from schemas.limited import LimitExceededError
from schemas.spectrum import UnusablePictureError, look_hash


class Look(NamedTuple):
    """What is known of an image file; `fault` says why less than all is."""

    sha256: str
    perceptual_hash: int | None
    fault: str | None = None


def look_at(data: bytes) -> Look:
    """The digest and the perceptual hash of an encoded image, decoded in a limited worker."""
    digest = sha256_of(data)
    try:
        look = decode_limited(look_hash, data)
    except UnusablePictureError as fault:
        return Look(digest, None, str(fault))
    except LimitExceededError as fault:
        return Look(digest, None, f"cannot be decoded: it {fault}")
    return Look(digest, look)


def look_at_file(path: Path) -> Look:
    """As `look_at`, of a file; without a digest where it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return Look("", None, f"cannot be read ({error.strerror or error})")
    return look_at(data)
