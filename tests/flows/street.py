"""A short street on video, and a detector that knows where everybody is."""

import hashlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.tracking.detector import Detections, Frame, PersonDetector, Pixels
from schemas.chat import ModelRef
from schemas.tracking import DetectorSpec
from sources.demonstration.street import (
    StreetTruth,
    StreetWorld,
    TrueVideo,
    load_street_truth,
    write_street_world,
)
from sources.video.reader import open_video

_WIDTH = 32
_LEAST_VISIBLE = 0.3


def write_short_street(folder: Path, *, videos: int = 2, seconds: float = 5) -> StreetWorld:
    """A few people in each of a few short videos."""
    return write_street_world(
        folder, 5, videos, seconds, people=3, size_px=(480, 270), frame_rate=10, copy_first=False
    )


class KnownStreet:
    """Makes detectors that find everybody who can be seen, wherever a frame is from.

    Attributes:
        truth: what is known.
        frames_seen: how many frames its detectors were shown.
        detectors: how many detectors were made.
        videos_begun: how often one of them was reset.
        truth_is_empty: pretends that nobody is there.
    """

    def __init__(self, world: StreetWorld) -> None:
        self.truth: StreetTruth = load_street_truth(world.folder)
        self._frames = _frames(world.folder)
        self.frames_seen = self.detectors = self.videos_begun = 0
        self.truth_is_empty = False

    def detector(self, _spec: DetectorSpec) -> PersonDetector:
        self.detectors += 1
        return _KnowingDetector(self)

    def detect(self, frame: Frame) -> Detections:
        self.frames_seen += 1
        video, number = self._frames[_digest(frame.pixels)]
        seen = [
            one
            for one in video.sightings
            if one.frame == number and one.visible > _LEAST_VISIBLE and not self.truth_is_empty
        ]
        boxes = [one.box_xyxy for one in seen]
        looks = [_look(video.identity_of(one.visit)) for one in seen]
        return Detections(
            np.array(boxes, np.float32).reshape(-1, 4),
            np.full(len(seen), 0.9, np.float32),
            np.array(looks, np.float32).reshape(-1, _WIDTH),
        )


class _KnowingDetector:
    def __init__(self, street: KnownStreet) -> None:
        self._street = street

    @property
    def ref(self) -> ModelRef:
        return ModelRef(name="truth", revision="1")

    def detect(self, frame: Frame) -> Detections:
        return self._street.detect(frame)

    def reset(self) -> None:
        self._street.videos_begun += 1

    def state(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None:
        assert not state


@cache
def _frames(folder: Path) -> dict[str, tuple[TrueVideo, int]]:
    """For the digest of each frame of a street the video and the number; decoded once."""
    found: dict[str, tuple[TrueVideo, int]] = {}
    for video in load_street_truth(folder).videos:
        with open_video(folder / video.file_path) as reader:
            found.update((_digest(one.pixels), (video, one.number)) for one in reader.frames())
    return found


def _digest(pixels: Pixels) -> str:
    return hashlib.blake2b(np.ascontiguousarray(pixels).tobytes()).hexdigest()


def _look(identity: int) -> NDArray[np.float32]:
    """What a person looks like: the same in every frame, and like nobody else."""
    vector = np.random.default_rng(identity).standard_normal(_WIDTH).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))
