"""A store with tracks, their filter reports and tracklets, and crops in the blob store."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from loupe.db.blobs import BlobStore
from loupe.db.entities import ActivityRecord, NewEntity, WorkResult, new_entity
from loupe.db.store import Store
from loupe.db.work import commit_chunk, register_plan
from loupe.flows.cropping import Crop, encode
from loupe.flows.ufine6926.noise_filter import (
    FILTER_TRACK_STAGE,
    FILTER_TRACK_VERSION,
    filter_track,
    propose_tracklets,
)
from loupe.schemas.proposals import Tracklet
from loupe.schemas.provenance import Role
from loupe.schemas.tracking import FilterSettings
from loupe.schemas.video import Observation, Track

DATASET = "street"


class FilterWorld(NamedTuple):
    """Ids of the stored tracks, reports and tracklets by the number of the track."""

    tracks: dict[int, str]
    reports: dict[int, str]
    tracklets: dict[int, list[str]]


def figure(seed: int) -> Crop:
    """Draw a crop of a person that differs for every seed."""
    chance = np.random.default_rng(seed)
    pixels = np.full((160, 60, 3), chance.integers(150, 230, 3), np.uint8)
    colours = chance.integers(0, 255, (3, 3)).tolist()
    cv2.circle(pixels, (30, 20), 11, (190, 150, 120), -1)
    cv2.rectangle(pixels, (15, 34), (45, 90), colours[0], -1)
    cv2.rectangle(pixels, (19, 90), (41, 150), colours[1], -1)
    cv2.line(pixels, (20, 40), (44, 84), colours[2], 3)
    return encode(pixels)


def with_crops(observations: Sequence[Observation], blobs: BlobStore) -> list[Observation]:
    """Return the observations, each with a crop stored in `blobs`."""
    crops = [figure(one.frame) for one in observations]
    for crop in crops:
        blobs.put(crop.data, crop.picture.media_type)
    return [
        one.model_copy(update={"crop": crop.picture})
        for one, crop in zip(observations, crops, strict=True)
    ]


def store_tracks(
    store: Store,
    tracks: Sequence[Track],
    settings: FilterSettings | None = None,
    withdrawn: Collection[int] = (),
) -> FilterWorld:
    """Store tracks and, with `settings`, their filter reports and tracklets.

    The filter does not see the frames `withdrawn`.
    """
    entities = {track.number: new_entity(track, DATASET) for track in tracks}
    _store(store, "track", {}, list(entities.values()))
    world = FilterWorld({number: one.id for number, one in entities.items()}, {}, {})
    if settings is None:
        return world
    seen = [[one for one in track.observations if one.frame not in withdrawn] for track in tracks]
    left = [
        track.model_copy(update={"observations": tuple(ones)})
        for track, ones in zip(tracks, seen, strict=True)
    ]
    filtered = [(track, filter_track(track, settings)[0]) for track in left]
    reports = {
        track.number: new_entity(
            report, DATASET, parents=[(Role.REPORT_OF, entities[track.number].id)]
        )
        for track, report in filtered
    }
    configuration = {"settings": settings.model_dump(mode="json")}
    _store(store, FILTER_TRACK_STAGE, configuration, list(reports.values()))
    tracklets: list[NewEntity] = []

    def id_of(tracklet: Tracklet) -> str:
        parent = (Role.PART_OF, reports[tracklet.track].id)
        tracklets.append(new_entity(tracklet, DATASET, parents=[parent]))
        world.tracklets.setdefault(tracklet.track, []).append(tracklets[-1].id)
        return tracklets[-1].id

    propose_tracklets(filtered, settings, id_of)
    _store(store, "propose", {}, tracklets)
    world.reports.update({number: one.id for number, one in reports.items()})
    return world


def _store(
    store: Store, stage: str, configuration: dict[str, Any], entities: list[NewEntity]
) -> None:
    plan = register_plan(store, stage, FILTER_TRACK_VERSION, configuration)
    activity = ActivityRecord(plan, DATASET, "revision", "run", datetime.now(UTC))
    commit_chunk(store, activity, [WorkResult(int(one.id[:8], 16), (one,)) for one in entities])


def blobs_of(home: Path) -> BlobStore:
    """The blob store of an installation."""
    return BlobStore(str(home / "blobs"))
