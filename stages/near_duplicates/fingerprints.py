"""The fingerprint of an encoded image."""

from schemas.base import sha256_of
from schemas.near_duplicates import ImageFingerprint
from schemas.records import Rejection
from schemas.small_picture import UnusablePictureError, small_picture
from schemas.spectrum import look_of

STAGE = "fingerprint_images"
VERSION = "1"


def fingerprint(data: bytes, name: str) -> ImageFingerprint | Rejection:
    """What the image in `data` looks like, or why it cannot be used.

    Reasons: those of `schemas.small_picture.small_picture`. Safe in threads.

    Args:
        data: an encoded image. Of one that moves the first picture counts.
        name: what to call it in a rejection.
    """
    try:
        size, grey = small_picture(data)
    except UnusablePictureError as fault:
        return Rejection(
            stage=STAGE,
            reason=fault.reason,
            detail=f"image {name!r} {fault}",
            context={"file": name},
        )
    look = look_of(grey)
    return ImageFingerprint(
        sha256=sha256_of(data),
        width_px=size[0],
        height_px=size[1],
        perceptual_hash=look and f"{look.perceptual_hash:016x}",
        mirrored_hash=look and f"{look.mirrored_hash:016x}",
        spectrum=look.spectrum.tobytes().hex() if look else "",
    )
