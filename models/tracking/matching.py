"""Which track takes which detection of a frame, in rounds.

With embeddings these are FairMOT's three rounds. Without them they are ours:

1. Whoever was followed until the last frame takes what covers its predicted box almost wholly:
   somebody who has been away must not take the number of somebody who is plainly still there.
2. All others, lost ones included, take what overlaps their predicted box at all, at a place that
   the filter thinks possible. This is how lost ones come back.
3. New, unconfirmed tracks: as published.
4. Detections that the detector was unsure of can keep a followed track going, but neither begin one
   nor bring one back (the second chance of ByteTrack, Zhang et al. 2022).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.tracking.assignment import cheapest_pairs
from models.tracking.kalman import gate_distances
from models.tracking.overlap import overlaps
from models.tracking.sightings import Sightings
from models.tracking.tracks import ALONE, Tracks, boxes_xyxy
from schemas.tracking import AssociationSettings

Mask = NDArray[np.bool_]
Costs = NDArray[np.float64]


class Round(NamedTuple):
    """Some of the tracks choose among some of the sightings, those already taken left out."""

    tracks: Mask
    sightings: Mask
    cost: Callable[[Tracks, Sightings, AssociationSettings], Costs]
    limit: float


def match(tracks: Tracks, found: Sightings, settings: AssociationSettings) -> None:
    """Sets `detection` of each track to the row of the sighting it takes, or to `ALONE`.

    The motions of confirmed tracks must have been predicted for this frame, and no others.
    """
    rounds = _published_rounds if found.looks.shape[1] else _motion_rounds
    tracks["detection"] = ALONE
    is_free = np.ones(len(found.scores), np.bool_)
    for each in rounds(tracks, found, settings):
        rows = np.flatnonzero(each.tracks & (tracks["detection"] == ALONE))
        columns = np.flatnonzero(each.sightings & is_free)
        if len(rows) and len(columns):
            cost = each.cost(tracks.take(rows), found.only(columns), settings)
            pairs = cheapest_pairs(cost, each.limit)
            taken = columns[pairs.columns]
            tracks["detection"][rows[pairs.rows]] = taken
            is_free[taken] = False


def _published_rounds(
    tracks: Tracks, found: Sightings, settings: AssociationSettings
) -> Iterator[Round]:
    confirmed = tracks["confirmed"]
    followed = confirmed & ~tracks["lost"]
    yield Round(confirmed, found.sure, look_and_place, settings.appearance_limit)
    yield Round(followed, found.sure, distance, settings.overlap_limit)
    yield Round(~confirmed, found.sure, distance, settings.unconfirmed_limit)


def _motion_rounds(
    tracks: Tracks, found: Sightings, settings: AssociationSettings
) -> Iterator[Round]:
    confirmed = tracks["confirmed"]
    followed = confirmed & ~tracks["lost"]
    yield Round(followed, found.sure, distance, settings.plain_limit)
    yield Round(confirmed, found.sure, distance_and_place, settings.motion_limit)
    yield Round(~confirmed, found.sure, distance, settings.unconfirmed_limit)
    yield Round(followed, ~found.sure, distance, settings.overlap_limit)


def distance(tracks: Tracks, found: Sightings, _: AssociationSettings) -> Costs:
    """1 - overlap, of shape (n, m)."""
    return 1 - overlaps(boxes_xyxy(tracks), found.boxes_xyxy)


def look_and_place(tracks: Tracks, found: Sightings, settings: AssociationSettings) -> Costs:
    """Cosine distance of the looks and gate distance, weighted; infinite outside the gate."""
    cosine = np.maximum(1 - tracks["look"] @ found.looks.T, 0)
    return _with_place(cosine, tracks, found, settings)


def distance_and_place(tracks: Tracks, found: Sightings, settings: AssociationSettings) -> Costs:
    """1 - overlap and gate distance, weighted; infinite outside the gate."""
    return _with_place(distance(tracks, found, settings), tracks, found, settings)


def _with_place(
    cost: NDArray[np.floating], tracks: Tracks, found: Sightings, settings: AssociationSettings
) -> Costs:
    place = gate_distances(tracks["motion"], found.boxes_xyah)
    fused = (1 - settings.motion_weight) * cost + settings.motion_weight * place
    fused[place > settings.gate] = np.inf
    return fused
