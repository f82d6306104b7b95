"""A file that somebody sent: known by its digest, and by its look where the bytes are others."""

from pathlib import Path
from typing import NamedTuple

from db.withdrawal_bytes import Blob, stored_images
from db.withdrawal_targets import WithdrawalTarget
from flows.context import RunContext
from schemas.base import sha256_of
from schemas.decoders import DECODER_FAULTS, decode_limited
from schemas.errors import IntegrityError, UsageError
from schemas.limited import LimitExceededError
from schemas.nearness import perceptual_hash

_LIMIT_BITS = 10
"""Further apart than where images count as the same: a person looks at what is found."""


class Lookalike(NamedTuple):
    """An image that may show the same as a file, though its bytes are others.

    `distance` is how many of the 64 bits of their perceptual hashes differ.
    """

    entity_id: str
    dataset: str
    file_path: str
    distance: int


def target_of_file(path: Path, also: tuple[str, ...] = ()) -> WithdrawalTarget:
    """What is asked for with a file: its digest, and images that somebody found to be the same.

    Raises:
        UsageError: the file cannot be read.
    """
    return WithdrawalTarget(sort="file", name=sha256_of(_read(path)), also=tuple(sorted(also)))


def lookalikes(context: RunContext, path: Path) -> list[Lookalike] | None:
    """The images whose look is like that of a file, and whose bytes are others; nearest first.

    Every picture in the blob store is looked at, which takes a second for some hundreds. None where
    the file is no picture that can be looked at, such as a video: it has no look to compare.

    Raises:
        UsageError: the file cannot be read.
    """
    data = _read(path)
    try:
        wanted = decode_limited(perceptual_hash, data)
    except (*DECODER_FAULTS, LimitExceededError):
        return None
    digest, seen = sha256_of(data), dict[str, int | None]()
    found = []
    for one in stored_images(context.store):
        if digest in one.digests:
            continue
        if one.blob.sha256 not in seen:
            seen[one.blob.sha256] = _distance(context, one.blob, wanted)
        distance = seen[one.blob.sha256]
        if distance is not None and distance <= _LIMIT_BITS:
            found.append(Lookalike(one.entity_id, one.dataset, one.file_path, distance))
    return sorted(found, key=lambda one: (one.distance, one.dataset, one.entity_id))


def _distance(context: RunContext, blob: Blob, wanted: int) -> int | None:
    """In how many bits a stored picture differs; None where it cannot be looked at."""
    try:
        data = context.blobs.read(blob.sha256, blob.media_type)
        found = decode_limited(perceptual_hash, data)
    except (*DECODER_FAULTS, LimitExceededError, IntegrityError):
        return None
    return (found ^ wanted).bit_count()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
