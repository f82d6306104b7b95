"""Associate detections with tracks, frame by frame (FairMOT, section 3.5)."""

import base64
import io
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.models.tracking import kalman
from loupe.models.tracking.detector import Detections, Frame, PersonDetector
from loupe.models.tracking.kalman import ROWS, gate_distances
from loupe.schemas.chat import ModelRef
from loupe.schemas.errors import ModelError, UsageError
from loupe.schemas.tracking import AssociationSettings

# Overlap of boxes as in FairMOT: corners are pixels, and both belong to the box.

Boxes = NDArray[np.float64]
"""An array of shape (n, 4): left, top, right, bottom."""


def overlaps(first: Boxes, second: Boxes) -> NDArray[np.float64]:
    """Return the intersection over union of every pair of boxes, of shape (n, m), in [0, 1].

    A side is right - left + 1 pixels long.
    """
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    sides = np.minimum(first[:, None, 2:], second[None, :, 2:])
    sides -= low
    sides += 1
    np.maximum(sides, 0, out=sides)
    shared: NDArray[np.float64] = sides[..., 0] * sides[..., 1]
    shared /= _areas(first)[:, None] + _areas(second) - shared
    return shared


def _areas(boxes: Boxes) -> NDArray[np.float64]:
    width, height = (boxes[:, 2:] - boxes[:, :2] + 1).T
    areas: NDArray[np.float64] = width * height
    return areas


# Matches detections and tracks: the cheapest partial matching of rows and columns.


class Pairs(NamedTuple):
    """Matched rows, in increasing order, and the column of each."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]


def cheapest_pairs(cost: NDArray[np.floating[Any]], limit: float) -> Pairs:
    """Return the partial matching of least cost; an unmatched row or column costs `limit` / 2.

    A pair is worth its cost only below `limit`, because leaving both unmatched costs as much; and
    two pairs can be replaced by a single one. This equals a full assignment with all costs clipped
    at `limit`: a pair at the limit then represents two unmatched elements.

    Args:
        cost: of shape (n, m); infinite for forbidden pairs.
        limit: cost that a pair must stay below, above 0.
    """
    from scipy.optimize import linear_sum_assignment

    if not cost.size:
        none = np.empty(0, np.intp)
        return Pairs(none, none)
    rows, columns = linear_sum_assignment(np.minimum(cost, limit))
    worth = cost[rows, columns] < limit
    return Pairs(rows[worth], columns[worth])


# Embeddings as text: little-endian float16 in base64, as records carry them.


def packed(embedding: NDArray[np.floating]) -> str:
    """Encode `embedding`, of shape (d,), as text; precise to about three decimal digits."""
    return base64.b64encode(embedding.astype("<f2").tobytes()).decode("ascii")


def unpacked(text: str) -> NDArray[np.float32]:
    """Decode the embedding in `text`, of shape (d,), normalized to unit length."""
    vector = np.frombuffer(base64.b64decode(text), "<f2").astype(np.float64)
    length = float(np.linalg.norm(vector))
    return (vector / (length or 1.0)).astype(np.float32)


# States as bytes: named arrays in NumPy's own format, without pickles.

Arrays = dict[str, NDArray[Any]]


def as_bytes(arrays: Arrays) -> bytes:
    """Serialize the arrays; the same arrays result in the same bytes."""
    file = io.BytesIO()
    named: dict[str, Any] = arrays
    np.savez(file, **named)
    return file.getvalue()


def from_bytes(state: bytes, *wanted: str) -> Arrays:
    """Return the `wanted` ones of the arrays that were passed to `as_bytes`."""
    with np.load(io.BytesIO(state), allow_pickle=False) as file:
        return {name: file[name] for name in wanted}


# The detections of one frame as an association needs them.


class PersonDetections(NamedTuple):
    """Detections that can be followed, in the detector's order.

    Attributes:
        boxes_xyxy: (m, 4): left, top, right, bottom.
        boxes_xyah: (m, 4): centre, width / height, and height.
        scores: (m,) in [0, 1].
        embeddings: (m, d) of unit length; d is 0 if the detector provides none.
        sure: (m,): whether the score is above the confidence threshold.
    """

    boxes_xyxy: NDArray[np.float64]
    boxes_xyah: NDArray[np.float64]
    scores: NDArray[np.float32]
    embeddings: NDArray[np.float32]
    sure: NDArray[np.bool_]

    def only(self, rows: NDArray[np.intp]) -> "PersonDetections":
        """Return the detections at the indexes `rows`."""
        return PersonDetections._make(part[rows] for part in self)


def sightings(detections: Detections, settings: AssociationSettings) -> PersonDetections:
    """Return the detections that can be followed: boxes with width and height, scored high enough.

    Those that only get a second chance are included only if there are no embeddings.

    Raises:
        ModelError: an array has another shape than expected, or a number is not finite.
    """
    least = settings.confidence_threshold
    embeddings = detections.embeddings
    if embeddings is None:
        least = min(least, settings.second_chance_threshold)
        embeddings = np.empty((len(detections.scores), 0), np.float32)
    _check(detections.boxes_xyxy, detections.scores, embeddings)
    boxes = detections.boxes_xyxy.astype(np.float64)
    sides = boxes[:, 2:] - boxes[:, :2]
    keep = np.flatnonzero((detections.scores > least) & (sides > 0).all(axis=1))
    boxes = boxes[keep]
    sides = sides[keep]
    scores = detections.scores[keep]
    return PersonDetections(
        boxes_xyxy=boxes,
        boxes_xyah=np.column_stack(
            (boxes[:, :2] + sides / 2, sides[:, 0] / sides[:, 1], sides[:, 1])
        ),
        scores=scores,
        embeddings=embeddings[keep],
        sure=scores > settings.confidence_threshold,
    )


def _check(
    boxes: NDArray[np.floating[Any]],
    scores: NDArray[np.floating[Any]],
    embeddings: NDArray[np.floating[Any]],
) -> None:
    count = len(scores)
    wanted = ((count, 4), (count,), (count, embeddings.shape[-1]))
    names = ("boxes", "scores", "embeddings")
    for name, part, shape in zip(names, (boxes, scores, embeddings), wanted, strict=True):
        if part.shape != shape:
            raise ModelError(
                f"the {name} of {count} detections must be of shape {shape}; got {part.shape}"
            )
        if not np.isfinite(part).all():
            raise ModelError(f"the {name} of {count} detections must all be finite numbers")


# The results of a tracker for one frame.


class TrackedPerson(NamedTuple):
    """A person in a frame.

    Attributes:
        number: the tracker's number for the person, from 1, unique in the video.
        box_xyxy: (4,) float64: left, top, right, bottom in pixels of the frame, not clipped.
        score: confidence of the detector, in [0, 1].
        embedding: (d,) float32 of unit length, of this frame alone; None if the detector provides
            none.
    """

    number: int
    box_xyxy: NDArray[np.float64]
    score: float
    embedding: NDArray[np.float32] | None


class TrackedFrame(NamedTuple):
    """The people in one frame.

    `alive` are the numbers that can still come back in a later frame; `boxes_xyxy`, (n, 4), are all
    detections, including those that are not followed.
    """

    people: tuple[TrackedPerson, ...]
    alive: frozenset[int]
    boxes_xyxy: Boxes


# The state of an association: a table with a row for each track.

Tracks = NDArray[np.void]
"""A table of `track_type`: first the tracked ones, then the lost ones, each in FairMOT's order."""

_ALONE = -1
"""Instead of the row of a detection: the track has none."""


def track_type(embedding_length: int) -> np.dtype[np.void]:
    """Return the columns of a table of tracks.

    number: counts from 1.
    started, seen: the frames of the first and of the last detection, from 1.
    detection: the row of its detection in the last frame, or `_ALONE`.
    score: of the last detection, except one with which the track returned.
    confirmed: seen again in the next frame, or started in the first frame.
    lost: not found in the last frame.
    expired: was lost for longer than the limit. A lost one is removed after one more frame;
        one that returned in that frame is removed as soon as it is lost again.
    motion: see `loupe.models.tracking.kalman`.
    look: the embedding, smoothed over time; of length 0 if the detector provides none.
    """
    columns: list[tuple[Any, ...]] = [
        ("number", np.int64),
        ("started", np.int64),
        ("seen", np.int64),
        ("detection", np.intp),
        ("score", np.float64),
        ("motion", np.float64, (ROWS, 4)),
        ("look", np.float32, (embedding_length,)),
        ("confirmed", np.bool_),
        ("lost", np.bool_),
        ("expired", np.bool_),
    ]
    return np.dtype(columns, align=True)


def joined(*tables: Tracks) -> Tracks:
    """Concatenate tables of one type.

    They are copied as bytes, because NumPy copies field by field, ten times as slowly.
    """
    kind = tables[0].dtype
    as_bytes = np.dtype((np.void, kind.itemsize))
    return np.concatenate([table.view(as_bytes) for table in tables]).view(kind)


def boxes_xyxy(tracks: Tracks) -> NDArray[np.float64]:
    """Return the boxes of the tracks: (n, 4), left, top, right, bottom."""
    x, y, aspect, height = tracks["motion"][:, 0].T
    half_width = aspect * height / 2
    half_height = height / 2
    corners = (x - half_width, y - half_height, x + half_width, y + half_height)
    return np.stack(corners, axis=1)


# Matches tracks with the detections of a frame, in rounds.
#
# With embeddings these are FairMOT's three rounds. Without them they are ours:
#
# 1. Tracks followed until the last frame take detections that cover their predicted box almost
#    completely: a returning person must not take the number of one who is clearly still there.
# 2. All others, including lost ones, take detections that overlap their predicted box at all, in a
#    place that the filter considers possible. This is how lost tracks return.
# 3. New, unconfirmed tracks: as published.
# 4. Uncertain detections can continue a followed track, but cannot start one or bring a lost one
#    back (the second chance of ByteTrack, Zhang et al. 2022).

Mask = NDArray[np.bool_]
Costs = NDArray[np.float64]


class Round(NamedTuple):
    """A round of matching: some of the tracks and some of the detections not yet taken."""

    tracks: Mask
    sightings: Mask
    cost: Callable[[Tracks, PersonDetections, AssociationSettings], Costs]
    limit: float


def match(tracks: Tracks, found: PersonDetections, settings: AssociationSettings) -> None:
    """Set `detection` of each track to the row of its detection, or to `_ALONE`.

    The motions of the confirmed tracks, and of no others, must have been predicted for this frame.
    """
    rounds = _published_rounds if found.embeddings.shape[1] else _motion_rounds
    tracks["detection"] = _ALONE
    is_free = np.ones(len(found.scores), np.bool_)
    for each in rounds(tracks, found, settings):
        rows = np.flatnonzero(each.tracks & (tracks["detection"] == _ALONE))
        columns = np.flatnonzero(each.sightings & is_free)
        if len(rows) and len(columns):
            cost = each.cost(tracks.take(rows), found.only(columns), settings)
            pairs = cheapest_pairs(cost, each.limit)
            taken = columns[pairs.columns]
            tracks["detection"][rows[pairs.rows]] = taken
            is_free[taken] = False


def _published_rounds(
    tracks: Tracks, found: PersonDetections, settings: AssociationSettings
) -> Iterator[Round]:
    confirmed = tracks["confirmed"]
    followed = confirmed & ~tracks["lost"]
    yield Round(confirmed, found.sure, look_and_place, settings.appearance_limit)
    yield Round(followed, found.sure, distance, settings.overlap_limit)
    yield Round(~confirmed, found.sure, distance, settings.unconfirmed_limit)


def _motion_rounds(
    tracks: Tracks, found: PersonDetections, settings: AssociationSettings
) -> Iterator[Round]:
    confirmed = tracks["confirmed"]
    followed = confirmed & ~tracks["lost"]
    yield Round(followed, found.sure, distance, settings.plain_limit)
    yield Round(confirmed, found.sure, _distance_and_place, settings.motion_limit)
    yield Round(~confirmed, found.sure, distance, settings.unconfirmed_limit)
    yield Round(followed, ~found.sure, distance, settings.overlap_limit)


def distance(tracks: Tracks, found: PersonDetections, _: AssociationSettings) -> Costs:
    """Return 1 - overlap, of shape (n, m)."""
    return 1 - overlaps(boxes_xyxy(tracks), found.boxes_xyxy)


def look_and_place(tracks: Tracks, found: PersonDetections, settings: AssociationSettings) -> Costs:
    """Return weighted cosine distance and gate distance; infinite outside the gate."""
    cosine = np.maximum(1 - tracks["look"] @ found.embeddings.T, 0)
    return _with_place(cosine, tracks, found, settings)


def _distance_and_place(
    tracks: Tracks, found: PersonDetections, settings: AssociationSettings
) -> Costs:
    """Return weighted 1 - overlap and gate distance; infinite outside the gate."""
    return _with_place(distance(tracks, found, settings), tracks, found, settings)


def _with_place(
    cost: NDArray[np.floating],
    tracks: Tracks,
    found: PersonDetections,
    settings: AssociationSettings,
) -> Costs:
    place = gate_distances(tracks["motion"], found.boxes_xyah)
    fused = (1 - settings.motion_weight) * cost + settings.motion_weight * place
    fused[place > settings.gate] = np.inf
    return fused


# The life cycle of tracks from frame to frame: continue, start, get lost, return, expire.


def _predict(tracks: Tracks) -> None:
    """Predict the confirmed tracks for the next frame; lost ones no longer grow or shrink."""
    confirmed = np.flatnonzero(tracks["confirmed"])
    motions = tracks["motion"][confirmed]
    motions[tracks["lost"][confirmed], 1, 3] = 0
    tracks["motion"][confirmed] = kalman.predicted(motions)


def correct(tracks: Tracks, found: PersonDetections, frame: int, memory: float) -> None:
    """Update the tracks with their detections in `frame`.

    `memory` is the share of the old embedding in the smoothed one. A track that returns keeps its
    old score, as published.
    """
    rows = np.flatnonzero(tracks["detection"] != _ALONE)
    seen = tracks["detection"][rows]
    tracks["motion"][rows] = kalman.corrected(tracks["motion"][rows], found.boxes_xyah[seen])
    if found.embeddings.shape[1]:
        tracks["look"][rows] = smoothed(tracks["look"][rows], found.embeddings[seen], memory)
    tracks["seen"][rows] = frame
    tracks["confirmed"][rows] = True
    followed = ~tracks["lost"][rows]
    tracks["score"][rows[followed]] = found.scores[seen[followed]]


def smoothed(
    old: NDArray[np.float32], new: NDArray[np.float32], memory: float
) -> NDArray[np.float32]:
    """Smooth embeddings of shape (n, d) with new ones; return them with unit length."""
    embeddings = memory * old + (1 - memory) * new
    lengths = np.sqrt(np.einsum("nd,nd->n", embeddings, embeddings))[:, None]
    embeddings /= np.where(lengths > 0, lengths, 1)
    return embeddings


def after(tracks: Tracks, new: Tracks, frame: int, remembered_frames: int) -> Tracks:
    """Return the tracks after `frame`: followed, new and returned ones, then the lost ones.

    Unconfirmed tracks without a detection are removed, and so are expired ones. Those that expire
    in this frame can still return in the next one, as published.
    """
    is_seen = tracks["detection"] != _ALONE
    was_lost = tracks["lost"].copy()
    stays = ~is_seen & tracks["confirmed"] & ~tracks["expired"]
    tracks["lost"] = ~is_seen
    tracks["expired"] |= was_lost & (frame - tracks["seen"] > remembered_frames)
    followed = is_seen & ~was_lost
    returned = is_seen & was_lost
    still_lost = stays & was_lost
    newly_lost = stays & ~was_lost
    first, *others = (np.flatnonzero(part) for part in (followed, returned, still_lost, newly_lost))
    return joined(tracks.take(first), new, tracks.take(np.concatenate(others)))


def _remove_duplicate_tracks(tracks: Tracks, limit: float) -> Tracks:
    """Remove tracks that overlap another: of a followed and a lost one, the younger.

    Tracks overlap if 1 - overlap is below `limit`. If both have the same age, the lost one is kept.
    """
    lost = np.flatnonzero(tracks["lost"])
    followed = np.flatnonzero(~tracks["lost"])
    if not (len(lost) and len(followed)):
        return tracks
    boxes = boxes_xyxy(tracks)
    pairs = np.nonzero(1 - overlaps(boxes[followed], boxes[lost]) < limit)
    followed = followed[pairs[0]]
    lost = lost[pairs[1]]
    life = tracks["seen"] - tracks["started"]
    younger = np.where(life[followed] > life[lost], lost, followed)
    return np.delete(tracks, younger) if len(younger) else tracks


# `Association`: matches the people in a frame with those of earlier frames.


class Association:
    """Follows people through the frames of one video by their detections alone.

    This is the association of FairMOT (Zhang et al. 2021) as in its published code. With the same
    settings it returns the same numbers in the same order, and the same boxes. Associations share
    no state; in each, numbers count from 1.

    If detections have no embeddings, overlap is used instead, uncertain detections get a second
    chance, and the returned boxes are those of the detections.

    `frame_rate` is that of the frames passed in, in 1/s: it determines how long a lost person is
    remembered.
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
        """Return a copy of all tracks; see `Tracks`."""
        return self._tracks.copy()

    @property
    def alive(self) -> frozenset[int]:
        """Return the numbers that can still come back."""
        return frozenset(self._tracks["number"].tolist())

    def update(self, detections: Detections) -> tuple[TrackedPerson, ...]:
        """Return the people of the next frame, in the order they appeared or reappeared.

        Raises:
            ModelError: the detections do not meet the contract of `Detections`.
        """
        found = self._with_same_length(sightings(detections, self._settings))
        self._frame += 1
        tracks = self._tracks
        _predict(tracks)
        match(tracks, found, self._settings)
        correct(tracks, found, self._frame, self._settings.feature_memory)
        tracks = after(tracks, self._started(found), self._frame, self._remembered_frames)
        self._tracks = _remove_duplicate_tracks(tracks, self._settings.double_limit)
        return self._reported_tracks(found)

    def _with_same_length(self, found: PersonDetections) -> PersonDetections:
        """Check that the embeddings of `found` are as long as those of the tracks."""
        length = found.embeddings.shape[1]
        known = self._tracks["look"].shape[1]
        if length == known:
            return found
        if not len(found.scores):
            return found._replace(embeddings=np.empty((0, known), np.float32))
        if len(self._tracks):
            raise ModelError(f"embeddings were of length {known} before; got {length}")
        self._tracks = np.empty(0, track_type(length))
        return found

    def _started(self, found: PersonDetections) -> Tracks:
        """Start tracks for confident detections that no track took; in frame 1 confirmed ones."""
        is_left = found.sure.copy()
        taken = self._tracks["detection"]
        is_left[taken[taken >= 0]] = False
        rows = np.flatnonzero(is_left)
        new = np.zeros(len(rows), self._tracks.dtype)
        new["number"] = np.arange(self._next_number, self._next_number + len(rows))
        new["started"] = new["seen"] = self._frame
        new["detection"] = rows
        new["score"] = found.scores[rows]
        new["motion"] = kalman.started(found.boxes_xyah[rows])
        new["look"] = found.embeddings[rows]
        new["confirmed"] = self._frame == 1
        self._next_number += len(new)
        return new

    def _reported_tracks(self, found: PersonDetections) -> tuple[TrackedPerson, ...]:
        """Return the confirmed tracks of this frame whose boxes are neither tiny nor too wide."""
        tracks = self._tracks
        rows = np.flatnonzero(tracks["confirmed"] & ~tracks["lost"])
        seen = tracks["detection"][rows]
        settings = self._settings
        boxes = found.boxes_xyxy[seen]
        if settings.filtered_boxes and tracks["look"].shape[1]:
            boxes = boxes_xyxy(tracks.take(rows))
        width, height = (boxes[:, 2:] - boxes[:, :2]).T
        is_large = width * height > settings.least_area_px2
        fit = np.flatnonzero(is_large & (width <= settings.widest_aspect * height))
        rows = rows[fit]
        embeddings = found.embeddings[seen[fit]]
        numbers, scores = (tracks[name][rows].tolist() for name in ("number", "score"))
        given = embeddings if embeddings.shape[1] else [None] * len(rows)
        return tuple(map(TrackedPerson, numbers, boxes[fit], scores, given))

    def state(self) -> bytes:
        """Return the complete state."""
        columns = {name: self._tracks[name] for name in _columns(self._tracks)}
        return as_bytes({"counts": np.array([self._frame, self._next_number]), **columns})

    def restore(self, state: bytes) -> None:
        """Continue bit for bit as the association with the same settings that `state` is of."""
        parts = from_bytes(state, "counts", *_columns(self._tracks))
        tracks = np.zeros(len(parts["look"]), track_type(parts["look"].shape[1]))
        for name in _columns(tracks):
            tracks[name] = parts[name]
        self._tracks = tracks
        self._frame, self._next_number = parts["counts"].tolist()


def _columns(tracks: Tracks) -> tuple[str, ...]:
    return tracks.dtype.names or ()


class PersonTracker:
    """Follows the people of one video; every video needs a tracker of its own.

    Its state can be saved after any frame and restored into a new tracker with the same settings,
    which then continues exactly as this one would have.
    """

    def __init__(
        self, detector: PersonDetector, settings: AssociationSettings, frame_rate: float
    ) -> None:
        self._detector = detector
        self._association = Association(settings, frame_rate)

    @property
    def ref(self) -> ModelRef:
        """The detector that people are found with, for provenance."""
        return self._detector.ref

    def follow(self, frame: Frame) -> TrackedFrame:
        """Return the people in the next frame."""
        detections = self._detector.detect(frame)
        people = self._association.update(detections)
        boxes = detections.boxes_xyxy.astype(np.float64)
        return TrackedFrame(people, self._association.alive, boxes)

    def state(self) -> bytes:
        """Return the complete state."""
        return self._association.state()

    def restore(self, state: bytes) -> None:
        """Restore the state of another tracker."""
        self._association.restore(state)
