"""Short videos of a street, and a detector that returns their ground truth."""

import hashlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loupe.demo.worlds.street import (
    StreetWorld,
    TrueVideo,
    load_street_truth,
    write_street_world,
)
from loupe.models.tracking.detector import Detections, Frame, PersonDetector, Pixels
from loupe.schemas.chat import ModelRef
from loupe.schemas.tracking import DetectorSpec
from loupe.sources.video.reader import open_video

_WIDTH = 32
_LEAST_VISIBLE = 0.3


def write_short_street(folder: Path, *, videos: int = 2, seconds: float = 5) -> StreetWorld:
    """Write a few short videos with three people each."""
    return write_street_world(
        folder, 5, videos, seconds, people=3, size_px=(480, 270), frame_rate=10, copy_first=False
    )


class KnownStreet:
    """Create detectors that return every visible person of a frame, recognised by its pixels.

    Attributes:
        videos: ground truth of the videos.
        frames_seen: number of frames shown to the detectors.
        detectors: number of detectors created.
    """

    def __init__(self, world: StreetWorld) -> None:
        self.videos: tuple[TrueVideo, ...] = load_street_truth(world.folder)
        self._frames = _frames(world.folder)
        self.frames_seen = self.detectors = 0

    def detector(self, _spec: DetectorSpec) -> PersonDetector:
        self.detectors += 1
        return _KnowingDetector(self)

    def detect(self, frame: Frame) -> Detections:
        self.frames_seen += 1
        video, number = self._frames[_digest(frame.pixels)]
        seen = [
            one for one in video.sightings if one.frame == number and one.visible > _LEAST_VISIBLE
        ]
        boxes = [one.box_xyxy for one in seen]
        embeddings = [_embedding(video.identities[one.visit]) for one in seen]
        return Detections(
            np.array(boxes, np.float32).reshape(-1, 4),
            np.full(len(seen), 0.9, np.float32),
            np.array(embeddings, np.float32).reshape(-1, _WIDTH),
        )


class _KnowingDetector:
    def __init__(self, street: KnownStreet) -> None:
        self._street = street

    @property
    def ref(self) -> ModelRef:
        return ModelRef(name="truth", revision="1")

    def detect(self, frame: Frame) -> Detections:
        return self._street.detect(frame)


@cache
def _frames(folder: Path) -> dict[str, tuple[TrueVideo, int]]:
    """Return the video and frame number by digest of the pixels; decodes the videos once."""
    found: dict[str, tuple[TrueVideo, int]] = {}
    for video in load_street_truth(folder):
        with open_video(folder / video.file_path) as reader:
            found.update((_digest(one.pixels), (video, one.number)) for one in reader.frames())
    return found


def _digest(pixels: Pixels) -> str:
    return hashlib.blake2b(np.ascontiguousarray(pixels).tobytes()).hexdigest()


def _embedding(identity: int) -> NDArray[np.float32]:
    """Return a person's unit vector of shape (32,), the same in every frame."""
    vector = np.random.default_rng(identity).standard_normal(_WIDTH).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))
