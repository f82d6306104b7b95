"""How tracks go on, begin, are lost, come back and are forgotten, from frame to frame."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.tracking import kalman
from models.tracking.overlap import overlaps
from models.tracking.sightings import Sightings
from models.tracking.tracks import ALONE, Tracks, boxes_xyxy, joined


def predict(tracks: Tracks) -> None:
    """Moves the confirmed tracks one frame on; lost ones no longer grow or shrink."""
    confirmed = np.flatnonzero(tracks["confirmed"])
    motions = tracks["motion"][confirmed]
    motions[tracks["lost"][confirmed], 1, 3] = 0
    tracks["motion"][confirmed] = kalman.predicted(motions)


def correct(tracks: Tracks, found: Sightings, frame: int, memory: float) -> None:
    """Tells the tracks what was seen of them in `frame`.

    `memory` is the share of the old look in the smoothed one. Whoever comes back keeps the old
    score, as published.
    """
    rows = np.flatnonzero(tracks["detection"] != ALONE)
    seen = tracks["detection"][rows]
    tracks["motion"][rows] = kalman.corrected(tracks["motion"][rows], found.boxes_xyah[seen])
    if found.looks.shape[1]:
        tracks["look"][rows] = smoothed(tracks["look"][rows], found.looks[seen], memory)
    tracks["seen"][rows] = frame
    tracks["confirmed"][rows] = True
    followed = ~tracks["lost"][rows]
    tracks["score"][rows[followed]] = found.scores[seen[followed]]


def smoothed(
    old: NDArray[np.float32], new: NDArray[np.float32], memory: float
) -> NDArray[np.float32]:
    """Looks of shape (n, d) that take in new ones, of unit length."""
    looks = memory * old + (1 - memory) * new
    lengths = np.sqrt(np.einsum("nd,nd->n", looks, looks))[:, None]
    looks /= np.where(lengths > 0, lengths, 1)
    return looks


def begun(
    kind: np.dtype[Any], found: Sightings, rows: NDArray[np.intp], frame: int, first_number: int
) -> Tracks:
    """Tracks that begin with the sightings `rows` in `frame`; those of frame 1 are confirmed."""
    tracks = np.zeros(len(rows), kind)
    tracks["number"] = np.arange(first_number, first_number + len(rows))
    tracks["started"] = tracks["seen"] = frame
    tracks["detection"] = rows
    tracks["score"] = found.scores[rows]
    tracks["motion"] = kalman.started(found.boxes_xyah[rows])
    tracks["look"] = found.looks[rows]
    tracks["confirmed"] = frame == 1
    return tracks


def after(tracks: Tracks, new: Tracks, frame: int, remembered_frames: int) -> Tracks:
    """The tracks after `frame`: followed, new and returned ones, then the lost ones.

    Unconfirmed tracks without a detection are gone, and so are expired ones. Those that expire in
    this frame have one more to come back in, as published.
    """
    is_seen = tracks["detection"] != ALONE
    was_lost = tracks["lost"].copy()
    stays = ~is_seen & tracks["confirmed"] & ~tracks["expired"]
    tracks["lost"] = ~is_seen
    tracks["expired"] |= was_lost & (frame - tracks["seen"] > remembered_frames)
    followed, returned = is_seen & ~was_lost, is_seen & was_lost
    still_lost, newly_lost = stays & was_lost, stays & ~was_lost
    first, *others = (np.flatnonzero(part) for part in (followed, returned, still_lost, newly_lost))
    return joined(tracks.take(first), new, tracks.take(np.concatenate(others)))


def without_doubles(tracks: Tracks, limit: float) -> Tracks:
    """The tracks without those that lie on another: of a followed and a lost one the younger goes.

    They lie on each other where 1 - overlap is below `limit`. Of equal age the lost one stays.
    """
    lost, followed = np.flatnonzero(tracks["lost"]), np.flatnonzero(~tracks["lost"])
    if not (len(lost) and len(followed)):
        return tracks
    boxes = boxes_xyxy(tracks)
    pairs = np.nonzero(1 - overlaps(boxes[followed], boxes[lost]) < limit)
    followed, lost = followed[pairs[0]], lost[pairs[1]]
    life = tracks["seen"] - tracks["started"]
    younger = np.where(life[followed] > life[lost], lost, followed)
    return np.delete(tracks, younger) if len(younger) else tracks
