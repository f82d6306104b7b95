"""`Association`: who in this frame is who in the frames before."""

import math

import numpy as np
from numpy.typing import NDArray

from models.tracking import lifecycle
from models.tracking.detector import Detections
from models.tracking.matching import match
from models.tracking.sightings import Sightings, sightings
from models.tracking.states import as_bytes, from_bytes
from models.tracking.tracked import TrackedPerson
from models.tracking.tracks import Tracks, boxes_xyxy, track_type
from schemas.errors import ModelError, UsageError
from schemas.tracking import AssociationSettings


class Association:
    """Follows people through the frames of one video by their detections alone.

    This is the association of FairMOT (Zhang et al. 2021), of its published code; with its
    settings it gives the same numbers in the same order, and the same boxes. Nothing is shared
    between associations; in each, numbers count from 1.

    Where detections have no embeddings, overlap stands in for the look, detections that the
    detector was unsure of get a second chance (see `models.tracking.matching`), and the boxes
    given out are the detections' own.

    `frame_rate` is that of the frames given, in 1/s: it says how long a lost person is remembered.
    """

    def __init__(self, settings: AssociationSettings, frame_rate: float) -> None:
        if not (math.isfinite(frame_rate) and frame_rate > 0):
            raise UsageError(f"a frame rate must be a number above 0; got {frame_rate!r}")
        self._settings = settings
        self._remembered_frames = int(frame_rate / 30 * settings.buffer_frames)
        self._frame = 0
        self._next_number = 1
        self._tracks: Tracks = np.empty(0, track_type(0))

    @property
    def tracks(self) -> Tracks:
        """A copy of all that is followed or remembered; see `models.tracking.tracks`."""
        return self._tracks.copy()

    @property
    def alive(self) -> frozenset[int]:
        """The numbers that can still come back."""
        return frozenset(self._tracks["number"].tolist())

    def update(self, detections: Detections) -> tuple[TrackedPerson, ...]:
        """The people of the next frame, in the order they came in or came back.

        Raises:
            ModelError: the detections are not what `Detections` says.
        """
        found = self._like_before(sightings(detections, self._settings))
        self._frame += 1
        tracks = self._tracks
        lifecycle.predict(tracks)
        match(tracks, found, self._settings)
        lifecycle.correct(tracks, found, self._frame, self._settings.feature_memory)
        tracks = lifecycle.after(tracks, self._begun(found), self._frame, self._remembered_frames)
        self._tracks = lifecycle.without_doubles(tracks, self._settings.double_limit)
        return self._given_out(found)

    def _like_before(self, found: Sightings) -> Sightings:
        """`found`, whose embeddings are as long as those of the tracks."""
        length, known = found.looks.shape[1], self._tracks["look"].shape[1]
        if length == known:
            return found
        if not len(found.scores):
            return found._replace(looks=np.empty((0, known), np.float32))
        if len(self._tracks):
            raise ModelError(f"embeddings were of length {known} before; got {length}")
        self._tracks = np.empty(0, track_type(length))
        return found

    def _begun(self, found: Sightings) -> Tracks:
        """Tracks for the sure sightings that nobody took."""
        is_left = found.sure.copy()
        taken = self._tracks["detection"]
        is_left[taken[taken >= 0]] = False
        rows = np.flatnonzero(is_left)
        kind = self._tracks.dtype
        new = lifecycle.begun(kind, found, rows, self._frame, self._next_number)
        self._next_number += len(new)
        return new

    def _given_out(self, found: Sightings) -> tuple[TrackedPerson, ...]:
        """Those confirmed and seen in this frame whose boxes are neither tiny nor too wide."""
        tracks = self._tracks
        rows = np.flatnonzero(tracks["confirmed"] & ~tracks["lost"])
        seen = tracks["detection"][rows]
        boxes = (
            boxes_xyxy(tracks.take(rows)) if self._gives_filtered_boxes else found.boxes_xyxy[seen]
        )
        fit = np.flatnonzero(self._fits(boxes))
        rows, looks = rows[fit], found.looks[seen[fit]]
        numbers, scores = (tracks[name][rows].tolist() for name in ("number", "score"))
        embeddings = looks if looks.shape[1] else [None] * len(rows)
        return tuple(map(TrackedPerson, numbers, boxes[fit], scores, embeddings))

    @property
    def _gives_filtered_boxes(self) -> bool:
        return self._settings.filtered_boxes and self._tracks["look"].shape[1] > 0

    def _fits(self, boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
        width, height = (boxes[:, 2:] - boxes[:, :2]).T
        is_large = width * height > self._settings.least_area_px2
        fits: NDArray[np.bool_] = is_large & (width <= self._settings.widest_aspect * height)
        return fits

    def state(self) -> bytes:
        """All that is remembered."""
        columns = {name: self._tracks[name] for name in _columns(self._tracks)}
        return as_bytes({"counts": np.array([self._frame, self._next_number]), **columns})

    def restore(self, state: bytes) -> None:
        """Goes on, bit for bit, as the association of the same settings that `state` is of.

        Raises:
            IntegrityError: `state` is not that of an association.
        """
        parts = from_bytes(state, "counts", *_columns(self._tracks))
        tracks = np.zeros(len(parts["look"]), track_type(parts["look"].shape[1]))
        for name in _columns(tracks):
            tracks[name] = parts[name]
        self._tracks = tracks
        self._frame, self._next_number = parts["counts"].tolist()


def _columns(tracks: Tracks) -> tuple[str, ...]:
    return tracks.dtype.names or ()
