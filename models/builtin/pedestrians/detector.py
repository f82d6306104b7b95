"""`BuiltinPedestrianDetector`: finds people without weights, by shape and by motion."""

from typing import Final, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from models.builtin.pedestrians.appearance import embeddings_of
from models.builtin.pedestrians.background import Background, Mask, View
from models.builtin.pedestrians.blobs import Blobs, blobs_in, is_ghost
from models.builtin.pedestrians.boxes import Boxes, overlaps
from models.builtin.pedestrians.hog import NOTHING, Hog, Sights
from models.builtin.pedestrians.people import People, people_of
from models.tracking.detector import Detections
from models.tracking.frame import Frame, Pixels
from models.tracking.states import as_bytes, from_bytes
from schemas.chat import ModelRef
from schemas.tracking import BuiltinDetector

_SCAN_EVERY_STILL: Final = 25
_SCAN_EVERY_MOVING: Final = 3
_LEAST_HEIGHT_PX: Final = 24.0
_LEAST_HEIGHT_STILL: Final = 0.1
_LEAST_HEIGHT_MOVING: Final = 0.15
_LEAST_MARGIN: Final = -0.3
_SCAN_MARGIN: Final = 0.6
_LEAST_SCORE: Final = 0.2
_KNOWN_SCORE: Final = 0.5
_MOST_MOVING: Final = 0.35
_COVERED: Final = 0.5
_ROOM_PX: Final = np.array([-2, -2, 2, 2])
_MARGIN_AROUND_PEOPLE: Final = 0.15


class BuiltinPedestrianDetector:
    """A `PersonDetector` for machines without weights.

    Frames are scaled down to the working height. Where the camera is still (or shakes: the frame is
    laid on the background first) people are looked for in what moves and where they were before; a
    scan of the whole frame now and then finds those who have stood there from the start. Where the
    camera moves, scans and the places of the last frame must do. No frame is looked at twice, and
    the same frames give the same detections, bit for bit.
    """

    def __init__(self, spec: BuiltinDetector) -> None:
        self._spec = spec
        self._hog = Hog()
        self._background: Background | None = None
        self._known: Boxes = np.zeros((0, 4), np.float32)
        self._since_scan = 0

    @property
    def ref(self) -> ModelRef:
        """Name and revision."""
        return self._spec.ref

    def detect(self, frame: Frame) -> Detections:
        """The people in `frame`, the next one of the video."""
        scale = min(1.0, self._spec.working_height_px / frame.pixels.shape[0])
        pixels = _scaled(frame.pixels, scale)
        view = self._background.view(pixels) if self._background is not None else None
        people = self._moving(pixels) if view is None else self._still(view)
        self._known = people.boxes[people.scores >= _KNOWN_SCORE]
        shown = people.scores >= _LEAST_SCORE
        boxes, scores = people.boxes[shown], people.scores[shown]
        embeddings = embeddings_of(view.pixels if view is not None else pixels, boxes)
        if view is not None:
            boxes = boxes + np.array(view.shift * 2, np.float32)
        return Detections((boxes / np.float32(scale)).astype(np.float32), scores, embeddings)

    def state(self) -> bytes:
        """Background, places of the people, and when the last scan was."""
        pixels = self._background.pixels if self._background else np.zeros((0, 0, 3), np.float32)
        since_scan = np.array(self._since_scan)
        return as_bytes({"background": pixels, "known": self._known, "since_scan": since_scan})

    def restore(self, state: bytes) -> None:
        """Goes on as the detector whose state it is.

        Raises:
            IntegrityError: it is the state of nothing that this could be.
        """
        parts = from_bytes(state, "background", "known", "since_scan")
        pixels = parts["background"]
        self._background = Background(pixels) if pixels.size else None
        self._known = parts["known"]
        self._since_scan = int(parts["since_scan"])

    def _moving(self, pixels: Pixels) -> People:
        """People by shape alone; the frame becomes the background of those after it."""
        is_first = self._background is None
        self._background = Background.of(pixels)
        every = 1 if is_first else _SCAN_EVERY_MOVING
        least = _LEAST_HEIGHT_STILL if is_first else _LEAST_HEIGHT_MOVING
        return people_of(self._sights(pixels, self._known, every, least), None)

    def _still(self, view: View) -> People:
        """People by shape and motion."""
        background = self._background
        assert background is not None  # noqa: S101 - there is no view without a background
        differs = background.difference(view.pixels)
        blobs = self._without_ghosts(view.pixels, blobs_in(differs), background)
        known = self._known
        if len(known) and len(blobs.boxes):
            known = known[overlaps(known, blobs.boxes).max(axis=1) < _COVERED]
        places = np.concatenate([blobs.boxes, known])
        sights = self._sights(view.pixels, places, _SCAN_EVERY_STILL, _LEAST_HEIGHT_STILL)
        people = people_of(sights, blobs)
        found = people.boxes[people.scores >= _KNOWN_SCORE]
        background.learn(view.pixels, differs, _painted(found, differs.shape))
        return people

    def _without_ghosts(self, pixels: Pixels, blobs: Blobs, background: Background) -> Blobs:
        usual = cv2.convertScaleAbs(background.pixels)
        ghosts: NDArray[np.uint8] = np.zeros(blobs.mask.shape, np.uint8)
        for number, box in enumerate(blobs.boxes.astype(int), start=1):
            left, top, right, bottom = np.clip(box + _ROOM_PX, 0, None)
            part = np.s_[top:bottom, left:right]
            own = ((blobs.labels[part] == number) * 255).astype(np.uint8)
            if is_ghost(pixels[part], usual[part], own):
                ghosts[part] |= own
        if not ghosts.any():
            return blobs
        background.forget(pixels, ghosts)
        return blobs_in(cv2.subtract(blobs.mask, ghosts))

    def _sights(
        self, pixels: Pixels, places: Boxes, scan_every: int, least_height: float
    ) -> Sights:
        found = [self._hog.around(pixels, box, _LEAST_MARGIN) for box in places]
        self._since_scan += 1
        if self._since_scan >= scan_every:
            self._since_scan = 0
            least = max(_LEAST_HEIGHT_PX, least_height * pixels.shape[0])
            found.append(self._hog.everywhere(pixels, least, _SCAN_MARGIN))
        if not found:
            return NOTHING
        boxes, margins = zip(*found, strict=True)
        return Sights(np.concatenate(boxes), np.concatenate(margins))


def _scaled(pixels: Pixels, scale: float) -> Pixels:
    if scale == 1:
        return pixels
    size = (round(pixels.shape[1] * scale), round(pixels.shape[0] * scale))
    return cast("Pixels", cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))


def _painted(boxes: Boxes, shape: tuple[int, ...]) -> Mask:
    """Boxes with some room around them, filled."""
    mask: NDArray[np.uint8] = np.zeros(shape, np.uint8)
    room = (boxes[:, 2:] - boxes[:, :2]) * np.float32(_MARGIN_AROUND_PEOPLE)
    grown = np.concatenate([boxes[:, :2] - room, boxes[:, 2:] + room], axis=1)
    for left, top, right, bottom in np.clip(np.round(grown), 0, None).astype(int):
        mask[top:bottom, left:right] = 255
    return mask
