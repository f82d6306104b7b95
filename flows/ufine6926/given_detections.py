"""Boxes of people that a source brings with its videos, instead of a detector's."""

from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np

from loupe.models.tracking.appearance import embeddings_of
from loupe.models.tracking.detector import Detections, Frame
from loupe.schemas.base import digest_of, sha256_of
from loupe.schemas.chat import ModelRef
from loupe.schemas.errors import ConfigurationError, FormatError
from loupe.schemas.tracking import GivenDetections
from loupe.sources.motchallenge import Boxes, read_boxes
from loupe.sources.video.reader import VideoRefusedError
from loupe.sources.video.sequence import is_pattern

NOBODY: Final = Detections(np.empty((0, 4), np.float32), np.empty(0, np.float32), None)


def as_detections(boxes: Boxes) -> Detections:
    """Return the boxes of one frame, the most certain first, without embeddings."""
    order = np.argsort(-boxes.scores, kind="stable")
    corners = boxes.boxes_tlwh[order]
    corners[:, 2:] += corners[:, :2]
    scores = boxes.scores[order].astype(np.float32)
    return Detections(corners.astype(np.float32), scores, None)


def given_detections(folder: Path) -> GivenDetections:
    """Return the specification of the files in `folder`; its revision is their digest.

    Raises:
        ConfigurationError: the folder has no such files, or they cannot be read.
    """
    parts: list[str] = []
    try:
        for path in sorted(folder.rglob("*.txt")):
            parts += [path.relative_to(folder).as_posix(), sha256_of(path.read_bytes())]
    except OSError as fault:
        raise ConfigurationError(f"{folder} cannot be read: {fault.strerror}") from fault
    if not parts:
        raise ConfigurationError(
            f"detections: {folder} must be a folder with a MOTChallenge file for each video, named "
            f"like it (street.mp4: street.txt); it has no .txt file"
        )
    return GivenDetections(revision=digest_of(*parts)[:12], folder=folder)


class GivenDetector:
    """A `PersonDetector` for one video: the boxes of its file, with embeddings of their colours.

    Boxes with scores beyond 0 to 1 all count as certain.

    Attributes:
        bad_lines: the lines that were left out.
    """

    def __init__(self, spec: GivenDetections, video: str) -> None:
        self._spec = spec
        path = spec.folder / _file_of(video)
        try:
            boxes, self.bad_lines = read_boxes(path)
        except FormatError as fault:
            what = f"has no detections: {fault}"
            raise VideoRefusedError(video, "no_detections", what) from fault
        if not boxes.are_shares:
            boxes = boxes._replace(scores=np.ones_like(boxes.scores))
        self._by_frame = dict(boxes.by_frame())

    @property
    def ref(self) -> ModelRef:
        """The files, for provenance."""
        return self._spec.ref

    def detect(self, frame: Frame) -> Detections:
        """Return the boxes of `frame`, the most certain first; files count frames from 1."""
        boxes = self._by_frame.get(frame.number + 1)
        found = NOBODY if boxes is None else as_detections(boxes)
        return found._replace(embeddings=embeddings_of(frame.pixels, found.boxes_xyxy))


def _file_of(video: str) -> str:
    """Return the path of the file for a video, or for an image sequence (`img1/%d.jpg`: `img1`)."""
    path = PurePosixPath(video)
    if is_pattern(video):
        return f"{path.parent}.txt"
    return path.with_suffix(".txt").as_posix()
