"""The images of an identity: the crops of its tracklets, each with what it was cut from."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.nearness import ComparedImage
from schemas.proposals import TrackletFrame
from schemas.records import Image, Split
from stages.identities.merging import AcceptedTracklet, Identity

_SUFFIXES = {"image/jpeg": ".jpg", "image/png": ".png", "image/webp": ".webp"}


class CroppedImage(NamedTuple):
    """An image, and the ids of the tracklet (`selected_in`) and digest of the video behind it."""

    record: Image
    tracklet_id: str
    video_sha256: str


def crop_images(identity: Identity, split: Split) -> list[CroppedImage]:
    """The images of a person, in order of time.

    Each is stored with the parents (`crop_of`, its video) and (`selected_in`, its tracklet); where
    and when it was seen is read from the tracklet, by the digest of the crop.
    """
    return [
        CroppedImage(
            _image(identity.name, split, tracklet, frame),
            tracklet.id,
            tracklet.record.video_sha256,
        )
        for tracklet in identity.tracklets
        for frame in tracklet.record.frames
    ]


def compared_images(
    identity: Identity,
    hash_of: Callable[[str], int],
    embedding_of: Callable[[str], tuple[str, NDArray[np.floating]] | None],
) -> list[ComparedImage]:
    """The images of a person as `assign_splits` holds them against others'.

    Args:
        identity: the person.
        hash_of: for the digest of a crop, `schemas.nearness.perceptual_hash` of its stored bytes.
        embedding_of: for the digest of a crop, its embedding and the model (`name@revision`) that
            made it; None where there is none.
    """
    compared = []
    for tracklet in identity.tracklets:
        for frame in tracklet.record.frames:
            digest = frame.crop.sha256
            embedder, embedding = embedding_of(digest) or ("", None)
            compared.append(
                ComparedImage(
                    name=_file_path(tracklet, frame),
                    identity=identity.name,
                    sha256=digest,
                    perceptual_hash=hash_of(digest),
                    video_sha256=tracklet.record.video_sha256,
                    embedding=embedding,
                    embedder=embedder,
                )
            )
    return compared


def _image(name: str, split: Split, tracklet: AcceptedTracklet, frame: TrackletFrame) -> Image:
    crop = frame.crop
    return Image(
        source=tracklet.record.source,
        identity=name,
        split=split,
        file_path=_file_path(tracklet, frame),
        sha256=crop.sha256,
        source_sha256=crop.sha256,
        media_type=crop.media_type,
        width_px=crop.width_px,
        height_px=crop.height_px,
    )


def _file_path(tracklet: AcceptedTracklet, frame: TrackletFrame) -> str:
    """Where a crop would lie in its collection: `<video>/<track>-<frame>.jpg`."""
    suffix = _SUFFIXES.get(frame.crop.media_type, "")
    return f"{tracklet.record.video}/{tracklet.record.track}-{frame.frame}{suffix}"
