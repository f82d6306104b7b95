"""`BuiltinPedestrianDetector`: finds people by shape and motion, without weights."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, cast

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray

from loupe.models.adapter import Adapter
from loupe.models.builtin.pedestrians.background import (
    Background,
    Blobs,
    Boxes,
    Mask,
    View,
    best_apart,
    blobs_in,
    is_ghost,
    overlaps,
    places_in,
)
from loupe.models.tracking.association import as_bytes, from_bytes
from loupe.models.tracking.detector import Detections, Frame, Pixels
from loupe.schemas.tracking import BuiltinDetector

# OpenCV's pedestrian detector (HOG and a linear SVM), with boxes that fit people.

_WINDOW_PX: Final = (64, 128)
_PERSON_PX: Final = 92.0
"""Height of a person in the detector's window of 64×128 pixels."""

_WIDTH_SHARE: Final = 0.5
_HEIGHT_SHARE: Final = _PERSON_PX / _WINDOW_PX[1]
_SLACK: Final = 0.22
_LARGEST_ZOOM: Final = 1.16
_STRIDE: Final = (8, 8)
_NEAR_ZOOMS: Final = [1.12**level for level in range(4)]
_FAR_ZOOMS: Final = [1.2**level for level in range(64)]
"""The factors by which each searched size is smaller than the first."""


class Sights(NamedTuple):
    """Detections: boxes (n, 4) xyxy in pixels of the frame, and SVM margins (n,)."""

    boxes: NDArray[np.float32]
    margins: NDArray[np.float32]


NOTHING: Final = Sights(np.zeros((0, 4), np.float32), np.zeros(0, np.float32))


class Hog:
    """Searches for people; has no state between two calls."""

    def __init__(self) -> None:
        self._descriptor = cv2.HOGDescriptor()
        people = np.array(cv2.HOGDescriptor.getDefaultPeopleDetector(), np.float32)
        self._descriptor.setSVMDetector(people)

    def around(self, frame: Pixels, box: NDArray[np.float32], least_margin: float) -> Sights:
        """Find people in and around `box`, about as high as it is."""
        left, top, right, bottom = (float(side) for side in box)
        height = max(bottom - top, 8.0)
        zoom = _PERSON_PX / height * _LARGEST_ZOOM
        side_room = (_WINDOW_PX[0] / _PERSON_PX * (1 + _SLACK) * height) / 2
        end_room = (_WINDOW_PX[1] / _PERSON_PX * (1 + _SLACK) * height - height) / 2
        middle = (left + right) / 2
        area = (
            min(left, middle - side_room),
            top - end_room,
            max(right, middle + side_room),
            bottom + end_room,
        )
        crop, origin = _cut(frame, area)
        size = (
            max(_WINDOW_PX[0], round(crop.shape[1] * zoom)),
            max(_WINDOW_PX[1], round(crop.shape[0] * zoom)),
        )
        scale = np.array([crop.shape[1] / size[0], crop.shape[0] / size[1]], np.float32)
        large = cv2.resize(crop, size, interpolation=cv2.INTER_LINEAR)
        return self._looked(large, scale, origin, least_margin, _NEAR_ZOOMS)

    def everywhere(self, frame: Pixels, least_height_px: float, least_margin: float) -> Sights:
        """Find people of at least `least_height_px` in the whole frame."""
        zoom = _PERSON_PX / least_height_px
        height, width = frame.shape[:2]
        size = (max(_WINDOW_PX[0], round(width * zoom)), max(_WINDOW_PX[1], round(height * zoom)))
        scale = np.array([width / size[0], height / size[1]], np.float32)
        large = cv2.resize(frame, size, interpolation=cv2.INTER_LINEAR)
        return self._looked(large, scale, (0, 0), least_margin, _FAR_ZOOMS)

    def _looked(
        self,
        picture: MatLike,
        scale: NDArray[np.float32],
        origin: tuple[int, int],
        least_margin: float,
        zooms: Iterable[float],
    ) -> Sights:
        """Return the detections in `picture` scaled down by `zooms`, in pixels of the frame.

        OpenCV's own search over sizes runs in threads that append windows and margins separately,
        so that occasionally a window gets the margin of another (HOGInvoker in objdetect's
        hog.cpp). Sizes are therefore searched one after the other.
        """
        windows, weights = [np.zeros((0, 4), np.float32)], [np.zeros(0, np.float32)]
        for zoom in zooms:
            size = (round(picture.shape[1] / zoom), round(picture.shape[0] / zoom))
            if size[0] < _WINDOW_PX[0] or size[1] < _WINDOW_PX[1]:
                break
            smaller = cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR_EXACT)
            corners, margins = self._descriptor.detect(
                smaller, hitThreshold=least_margin, winStride=_STRIDE
            )
            at = np.rint(np.asarray(corners, np.float32).reshape(-1, 2) * zoom)
            sides = np.broadcast_to(np.rint(np.array(_WINDOW_PX) * zoom), at.shape)
            windows.append(np.concatenate([at, sides], axis=1).astype(np.float32))
            weights.append(np.asarray(margins, np.float32).reshape(-1))
        return _sights(np.concatenate(windows), np.concatenate(weights), scale, origin)


def _cut(
    frame: MatLike, area: tuple[float, float, float, float]
) -> tuple[MatLike, tuple[int, int]]:
    """Return the part of `frame` in `area`; outside the frame its border is repeated."""
    height, width = frame.shape[:2]
    left, top = int(np.floor(area[0])), int(np.floor(area[1]))
    right, bottom = int(np.ceil(area[2])), int(np.ceil(area[3]))
    inside = frame[max(0, top) : min(height, bottom), max(0, left) : min(width, right)]
    beyond = (max(0, -top), max(0, bottom - height), max(0, -left), max(0, right - width))
    if any(beyond):
        inside = cv2.copyMakeBorder(inside, *beyond, borderType=cv2.BORDER_REPLICATE)
    return inside, (left, top)


def _sights(
    windows: NDArray[np.float32],
    margins: NDArray[np.float32],
    scale: NDArray[np.float32],
    origin: tuple[int, int],
) -> Sights:
    """Convert windows (left, top, width, height) to people in the frame, most confident first."""
    order = np.lexsort((*windows.T, -margins))
    windows, margins = windows[order], margins[order]
    centres = windows[:, :2] + windows[:, 2:] / 2
    halves = windows[:, 2:] * np.array([_WIDTH_SHARE, _HEIGHT_SHARE], np.float32) / 2
    shift = np.array(origin, np.float32)
    corners = [(centres - halves) * scale + shift, (centres + halves) * scale + shift]
    return Sights(np.concatenate(corners, axis=1).astype(np.float32), margins)


# Combines HOG detections and motion: one tight, scored box a person.

_MOST_OVERLAP: Final = 0.4
_MOST_INSIDE: Final = 0.7
_REACH: Final = 0.2
_ENOUGH_FILL: Final = 0.3
_LEAST_PIXELS: Final = 30
_ASPECTS: Final = (0.2, 0.75)
_UNSEEN_MARGIN: Final = -1.6
_MARGINS: Final = (-1.6, 3.0)

# Logistic regression of "is a person" on the two measures. A walking person leaves a good quarter
# of the box free, at the head and between the limbs. Larger shares come from changes of light, or
# from the street behind a turning camera, so the share is capped. A blob without a HOG detection
# stays uncertain: if it were certain, the background would wait for it and differ there
# permanently.
_FULLEST: Final = 0.75
_MARGIN_WEIGHT: Final = 1.3
_FILL_WEIGHT: Final = 4.0
_BIAS: Final = -1.6
_STILL: Final = 0.1
_STILL_WEIGHT: Final = -1.6


def people_of(sights: Sights, blobs: Blobs | None) -> Detections:
    """Return the people in `sights` and `blobs`; without blobs, only those in the sights."""
    kept = best_apart(sights.boxes, sights.margins, _MOST_OVERLAP, _MOST_INSIDE)
    boxes, margins = sights.boxes[kept], sights.margins[kept]
    fills = None
    if blobs is not None:
        boxes = _fitted(boxes, blobs)
        lonely = _without_sight(boxes, blobs)
        boxes = np.concatenate([boxes, lonely])
        margins = np.concatenate([margins, np.full(len(lonely), _UNSEEN_MARGIN, np.float32)])
        fills = np.array([fill(box, blobs.mask) for box in boxes], np.float32)
    scores = score(margins, fills)
    order = best_apart(boxes, scores, _MOST_OVERLAP, _MOST_INSIDE)
    return Detections(boxes[order], scores[order], None)


def score(margins: NDArray[np.float32], fills: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Return the probability of a person, (n,), from SVM margin and share of moving pixels.

    `fills` is None if the camera moves, because motion is then unknown.
    """
    evidence = _MARGIN_WEIGHT * np.clip(margins, *_MARGINS) + _BIAS
    if fills is not None:
        moving = _FILL_WEIGHT * np.minimum(fills, _FULLEST)
        evidence = evidence + moving + _STILL_WEIGHT * (fills < _STILL)
    likely: NDArray[np.float32] = (1 / (1 + np.exp(-evidence))).astype(np.float32)
    return likely


def _fitted(boxes: Boxes, blobs: Blobs) -> Boxes:
    """Fit each box tightly around the motion in it.

    A box that is alone in a blob of a person's shape becomes the blob's box; several in one blob
    divide its pixels, each taking those that are nearer to it than to the others.
    """
    if not len(boxes):
        return boxes
    fitted = boxes.copy()
    homes = np.array([_home(box, blobs) for box in boxes])
    rows, columns = places_in((blobs.labels > 0).astype(np.uint8))
    distance = _distances(boxes, rows, columns)
    nearest = distance.argmin(axis=0)
    for index, home in enumerate(homes):
        if home is None or fill(boxes[index], blobs.mask) < _ENOUGH_FILL:
            continue
        if np.count_nonzero(homes == home) == 1 and _has_shape(blobs.boxes[home][None])[0]:
            fitted[index] = blobs.boxes[home]
            continue
        mine = (nearest == index) & (distance[index] <= 1 + _REACH)
        if np.count_nonzero(mine) >= _LEAST_PIXELS:
            fitted[index] = _around(rows[mine], columns[mine])
    return fitted


def _home(box: Boxes, blobs: Blobs) -> int | None:
    """Return the index of the blob that most moving pixels of `box` belong to."""
    labels = _part(box, blobs.labels)
    counts = np.bincount(labels.ravel(), minlength=1)
    counts[0] = 0
    return int(counts.argmax()) - 1 if counts.any() else None


def _has_shape(boxes: Boxes) -> NDArray[np.bool_]:
    """Return which boxes have the aspect ratio of a walking person."""
    wide, high = (boxes[:, 2:] - boxes[:, :2]).T
    aspect = wide / np.maximum(high, 1)
    shaped: NDArray[np.bool_] = (aspect >= _ASPECTS[0]) & (aspect <= _ASPECTS[1])
    return shaped


def _distances(boxes: Boxes, rows: MatLike, columns: MatLike) -> NDArray[np.float32]:
    """Return the distance of pixels from the centres of boxes, (n, pixels); 1 is the border."""
    middles, halves = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 2
    across = np.abs(columns[None] - middles[:, :1]) / np.maximum(halves[:, :1], 1)
    down = np.abs(rows[None] - middles[:, 1:]) / np.maximum(halves[:, 1:], 1)
    return np.maximum(across * 0.7, down).astype(np.float32)


def _around(rows: MatLike, columns: MatLike) -> Boxes:
    """Return the box of nearly all of the pixels: single outliers are noise."""
    left, right = np.percentile(columns, (1, 99))
    top, bottom = np.percentile(rows, (0.5, 99.5))
    return np.array([left, top, right + 1, bottom + 1], np.float32)


def _without_sight(boxes: Boxes, blobs: Blobs) -> Boxes:
    """Return the blobs of a person's shape without a box."""
    shaped = _has_shape(blobs.boxes)
    if len(boxes):
        shaped &= overlaps(blobs.boxes, boxes).max(axis=1) < _MOST_OVERLAP
    return blobs.boxes[shaped]


def fill(box: Boxes, mask: MatLike) -> float:
    """Return the share of the pixels in `box` that are in `mask`."""
    inside = _part(box, mask)
    return float(np.count_nonzero(inside)) / inside.size if inside.size else 0.0


def _part(box: Boxes, picture: MatLike) -> MatLike:
    """Return the part inside `box`."""
    left, top, right, bottom = np.clip(np.round(box), 0, None).astype(int)
    return picture[top:bottom, left:right]


# Appearance of a person as a vector: lightness and tint of six stripes from head to shoes.
#
# Each stripe has a histogram of lightness and one of tint (CIELAB a*, b*). They are soft-binned, so
# that noise or jitter changes them little, and in square roots (the dot product of two is then
# their Bhattacharyya coefficient). The pixels near the vertical centre line count more than those
# at the sides, where the street is visible. Changes of light of the whole frame are compensated
# before.
#
# Most people wear dark and grey, so that all these vectors point in about the same direction.
# `MEAN` is subtracted, which leaves the differences. The cosine of two different people is then
# around 0 to 0.5, that of one person in two frames above 0.9.

_STRIPES: Final = 6
_LIGHT_BINS: Final = 8
_TINT_BINS: Final = 5
_STRIPE_PX: Final = 10
_WIDTH_PX: Final = 24
_MEAN_LUMA: Final = 118.0
_TINT_SCALE: Final = 18.0
_TINT_SHARE: Final = 0.6
DIMENSIONS: Final = _STRIPES * (_LIGHT_BINS + _TINT_BINS**2)


_ACROSS = np.linspace(-1, 1, _WIDTH_PX, dtype=np.float32)
_COLUMNS: Final[NDArray[np.float32]] = np.exp(-((_ACROSS / np.float32(0.55)) ** 2))
"""The weights of pixels, (columns,); smallest at the sides."""

_DOWN = (np.arange(_STRIPES * _STRIPE_PX, dtype=np.float32) + 0.5) / _STRIPE_PX - 0.5
_AWAY = np.abs(_DOWN[None] - np.arange(_STRIPES, dtype=np.float32)[:, None])
_ROWS: Final = np.clip(1.25 - _AWAY, 0, 1).astype(np.float32)
"""How much a row belongs to a stripe, (stripes, rows); neighbouring rows do slightly."""

MEAN: Final[NDArray[np.float32]] = np.load(Path(__file__).with_name("appearance_mean.npy"))
"""(d,): the mean of `signatures` over people of the demonstration street, each counted once."""


def embeddings_of(frame: Pixels, boxes: Boxes) -> NDArray[np.float32]:
    """Return (n, d) vectors of unit length: one for each of `boxes`, (n, 4) xyxy, in `frame`."""
    centred = signatures(frame, boxes) - MEAN
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit: NDArray[np.float32] = (centred / np.maximum(lengths, np.float32(1e-6))).astype(np.float32)
    return unit


def signatures(frame: Pixels, boxes: Boxes) -> NDArray[np.float32]:
    """Return (n, d) vectors of unit length: histograms in square roots, before the subtraction."""
    if not len(boxes):
        return np.zeros((0, DIMENSIONS), np.float32)
    gain = _MEAN_LUMA / max(1.0, float(frame[::8, ::8].mean()))
    crops = np.stack([_crop(frame, box) for box in boxes]).astype(np.float32)
    light, tint = _light_and_tint(np.clip(crops * np.float32(gain / 255), 0, 1))
    lights = _histograms(_soft(light * (_LIGHT_BINS - 1), _LIGHT_BINS))
    across, along = (_soft(tint[..., axis], _TINT_BINS) for axis in (0, 1))
    both = (across[..., :, None] * along[..., None, :]).reshape(*light.shape, _TINT_BINS**2)
    tints = _histograms(both)
    joined = np.concatenate([lights * (1 - _TINT_SHARE), tints * _TINT_SHARE], axis=2)
    roots: NDArray[np.float32] = np.sqrt(joined / _STRIPES).reshape(len(boxes), DIMENSIONS)
    return roots.astype(np.float32)


def _crop(frame: Pixels, box: Boxes) -> MatLike:
    """Return the contents of `box` in a fixed size; at least one pixel of the frame."""
    height, width = frame.shape[:2]
    left, right = (int(np.clip(round(float(side)), 0, width)) for side in box[::2])
    top, bottom = (int(np.clip(round(float(side)), 0, height)) for side in box[1::2])
    left, top = min(left, width - 1), min(top, height - 1)
    inside = frame[top : max(bottom, top + 1), left : max(right, left + 1)]
    size = (_WIDTH_PX, _STRIPES * _STRIPE_PX)
    return cv2.resize(inside, size, interpolation=cv2.INTER_AREA)


def _light_and_tint(crops: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return lightness in [0, 1], and tint as (…, 2) in [0, bins - 1], finer near grey."""
    flat = crops.reshape(-1, crops.shape[2], 3)
    lab = cv2.cvtColor(flat, cv2.COLOR_RGB2LAB).reshape(crops.shape)
    half = (_TINT_BINS - 1) / 2
    light: NDArray[np.float32] = (lab[..., 0] / 100).astype(np.float32)
    tint: NDArray[np.float32] = (np.tanh(lab[..., 1:] / _TINT_SCALE) + 1).astype(np.float32)
    return light, tint * np.float32(half)


def _soft(values: NDArray[np.float32], bins: int) -> NDArray[np.float32]:
    """Divide each value in [0, bins - 1] between the two bins next to it, (…, bins)."""
    distance = np.abs(values[..., None] - np.arange(bins, dtype=np.float32))
    shares: NDArray[np.float32] = np.clip(1 - distance, 0, 1).astype(np.float32)
    return shares


def _histograms(shares: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return histograms of each stripe, (n, stripes, bins), of (n, rows, columns, bins); sum 1."""
    stripes = _ROWS @ (_COLUMNS @ shares)
    total: NDArray[np.float32] = stripes / np.maximum(stripes.sum(axis=2, keepdims=True), 1e-6)
    return total


# `BuiltinPedestrianDetector`: finds people by shape and by motion, without weights.

_SCAN_EVERY_STILL: Final = 25
_SCAN_EVERY_MOVING: Final = 3
_LEAST_HEIGHT_PX: Final = 24.0
_LEAST_HEIGHT_STILL: Final = 0.1
_LEAST_HEIGHT_MOVING: Final = 0.15
_LEAST_MARGIN: Final = -0.3
_SCAN_MARGIN: Final = 0.6
_LEAST_SCORE: Final = 0.2
_KNOWN_SCORE: Final = 0.5
_COVERED: Final = 0.5
_ROOM_PX: Final = np.array([-2, -2, 2, 2])
_MARGIN_AROUND_PEOPLE: Final = 0.15


class BuiltinPedestrianDetector(Adapter[BuiltinDetector]):
    """A `PersonDetector` for machines without weights.

    Frames are scaled down to the working height. If the camera is still (or shakes: the frame is
    aligned with the background first) people are searched for in moving regions and at their last
    positions; an occasional scan of the whole frame finds those who have stood there from the
    start. If the camera moves, only scans and the last positions are used. No frame is processed
    twice, and the same frames result in the same detections, bit for bit.
    """

    def __init__(self, spec: BuiltinDetector) -> None:
        super().__init__(spec)
        self._hog = Hog()
        self.reset()

    def reset(self) -> None:
        """Forget all frames."""
        self._background: Background | None = None
        self._known: Boxes = np.zeros((0, 4), np.float32)
        self._since_scan = 0

    def detect(self, frame: Frame) -> Detections:
        """Return the people in `frame`, the next one of the video."""
        scale = min(1.0, self._spec.working_height_px / frame.pixels.shape[0])
        pixels = _scaled(frame.pixels, scale)
        view = self._background.view(pixels) if self._background is not None else None
        people = self._moving(pixels) if view is None else self._still(view)
        self._known = people.boxes_xyxy[people.scores >= _KNOWN_SCORE]
        shown = people.scores >= _LEAST_SCORE
        boxes, scores = people.boxes_xyxy[shown], people.scores[shown]
        embeddings = embeddings_of(view.pixels if view is not None else pixels, boxes)
        if view is not None:
            boxes = boxes + np.array(view.shift * 2, np.float32)
        return Detections((boxes / np.float32(scale)).astype(np.float32), scores, embeddings)

    def state(self) -> bytes:
        """Return the background, the positions of the people, and the time of the last scan."""
        pixels = self._background.pixels if self._background else np.zeros((0, 0, 3), np.float32)
        since_scan = np.array(self._since_scan)
        return as_bytes({"background": pixels, "known": self._known, "since_scan": since_scan})

    def restore(self, state: bytes) -> None:
        """Continue as the detector whose state it is.

        Raises:
            IntegrityError: it is not the state of such a detector.
        """
        parts = from_bytes(state, "background", "known", "since_scan")
        pixels = parts["background"]
        self._background = Background(pixels) if pixels.size else None
        self._known = parts["known"]
        self._since_scan = int(parts["since_scan"])

    def _moving(self, pixels: Pixels) -> Detections:
        """Find people by shape only; the frame becomes the background of those after it."""
        is_first = self._background is None
        self._background = Background(pixels.astype(np.float32))
        every = 1 if is_first else _SCAN_EVERY_MOVING
        least = _LEAST_HEIGHT_STILL if is_first else _LEAST_HEIGHT_MOVING
        return people_of(self._sights(pixels, self._known, every, least), None)

    def _still(self, view: View) -> Detections:
        """Find people by shape and motion."""
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
        found = people.boxes_xyxy[people.scores >= _KNOWN_SCORE]
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
    """Return boxes with some margin, filled."""
    mask: NDArray[np.uint8] = np.zeros(shape, np.uint8)
    room = (boxes[:, 2:] - boxes[:, :2]) * np.float32(_MARGIN_AROUND_PEOPLE)
    grown = np.concatenate([boxes[:, :2] - room, boxes[:, 2:] + room], axis=1)
    for left, top, right, bottom in np.clip(np.round(grown), 0, None).astype(int):
        mask[top:bottom, left:right] = 255
    return mask
