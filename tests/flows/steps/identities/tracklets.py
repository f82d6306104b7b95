"""Tracklets for tests of identities."""

from loupe.flows.ufine6926.identities import AcceptedTracklet
from loupe.schemas.base import sha256_of
from loupe.schemas.proposals import Tracklet, TrackletFrame
from loupe.schemas.records import Picture


def tracklet(
    name: str,
    frames: range,
    *,
    video: str = "street.mp4",
    track: int = 1,
    same: tuple[str, ...] = (),
) -> AcceptedTracklet:
    """Return an accepted tracklet with the id `name` in `frames` of a video."""
    record = Tracklet(
        source="LUPerson-NL",
        video=video,
        video_sha256=sha256_of(video.encode()),
        track=track,
        frames=tuple(_frame(name, number) for number in frames),
        same_person_as=same,
        author="annotator-1",
    )
    return AcceptedTracklet(name, record)


def _frame(name: str, number: int) -> TrackletFrame:
    return TrackletFrame(
        frame=number,
        time_seconds=number / 25,
        crop=Picture(
            sha256=sha256_of(f"{name} {number}".encode()),
            media_type="image/jpeg",
            width_px=60,
            height_px=160,
        ),
        box_xyxy=(0, 0, 60, 160),
        score=0.9,
    )
