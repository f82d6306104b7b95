"""Tracks with their filter reports, found in the store by any id that people have at hand."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from db.entities import StoredEntity, children_of, fetch, find, find_containing
from db.lineage import EntityNode, find_entity_id, trace
from db.store import Store
from schemas.errors import UsageError
from schemas.tracked_video import StageSettings
from schemas.tracking import FilterSettings
from schemas.video import FilterReport, Observation, Track
from stages.tracklets import REPORT_OF
from stages.tracklets.filter_track import STAGE
from stages.tracklets.pool import with_keypoints

_SHORTEST_PREFIX = 6


class Thresholds(NamedTuple):
    """Settings of the filter, and where they are from, in words."""

    settings: FilterSettings
    origin: str


class FilteredTrack(NamedTuple):
    """A track, the report that was asked for (or the newest), and the frames that were asked for.

    `report` is None where the track was not filtered yet; `frames` are those whose crop was asked
    for, none where it was the whole track.
    """

    entity: StoredEntity
    track: Track
    report: StoredEntity | None
    frames: tuple[int, ...] = ()


def find_track(store: Store, name: str) -> FilteredTrack:
    """The track that `name` belongs to.

    Args:
        store: where it is looked for.
        name: the id of a track, a filter report or a tracklet, or the digest of a crop; or the
            first digits of one, if there is no other.

    Raises:
        UsageError: there is none, or several, or what there is does not come from a track.
    """
    try:
        entity_id = find_entity_id(store, name)
    except UsageError:
        found = list(_with_crop(store, name))
        if not found:
            raise
        return _only(name, found)
    return _track_of(store, entity_id)


def _track_of(store: Store, entity_id: str) -> FilteredTrack:
    traced = trace(store, entity_id)
    kinds: dict[str, list[str]] = {}
    for id_, node in traced.entities.items():
        kinds.setdefault(node.entity.kind, []).append(id_)
    asked = traced.entities[entity_id].entity
    tracks = kinds.get("track", [])
    if asked.kind not in ("track", "filter_report", "tracklet") or len(tracks) != 1:
        raise UsageError(
            f"{asked.kind} {entity_id[:12]} cannot be explained: the id must be that of a track, "
            f"a filter report or a tracklet, or the digest of a crop"
        )
    reports = kinds.get("filter_report", [])
    stored = fetch(store, [*tracks, *reports])
    (track,) = (stored[id_] for id_ in tracks)
    report = stored[reports[0]] if reports else _newest_report(store, track.id)
    return FilteredTrack(track, track.record(Track), report)


def newest_reports(store: Store, track_ids: Sequence[str]) -> dict[str, StoredEntity]:
    """The report of each track that was stored last, by the id of the track."""
    reports = children_of(store, track_ids, REPORT_OF)
    stored = fetch(store, (one for many in reports.values() for one in many))
    return {
        track: max((stored[one] for one in many), key=lambda report: report.seq)
        for track, many in reports.items()
    }


def _newest_report(store: Store, track_id: str) -> StoredEntity | None:
    return newest_reports(store, [track_id]).get(track_id)


def _with_crop(store: Store, prefix: str) -> Iterator[FilteredTrack]:
    """The tracks with a crop whose digest starts so."""
    if len(prefix) < _SHORTEST_PREFIX or not prefix.isalnum():
        return
    start = prefix.lower()
    for entity in find_containing(store, "track", f'"crop":{{"sha256":"{start}'):
        track = entity.record(Track)
        frames = tuple(one.frame for one in track.observations if _shows(one, start))
        yield FilteredTrack(entity, track, _newest_report(store, entity.id), frames)


def _shows(observation: Observation, start: str) -> bool:
    return observation.crop.sha256.startswith(start)


def _only(name: str, found: list[FilteredTrack]) -> FilteredTrack:
    digests = {
        one.crop.sha256
        for track in found
        for one in track.track.observations
        if one.frame in track.frames
    }
    if len(digests) > 1:
        raise UsageError(f"several crops have a digest that starts with {name!r}; give more of it")
    if len(found) > 1:
        ids = ", ".join(track.entity.id[:12] for track in found)
        raise UsageError(f"crop {name!r} is of several tracks; give the id of one: {ids}")
    return found[0]


def as_filtered(track: Track, report: StoredEntity | None) -> Track:
    """The track as the filter saw it: with the keypoints that were counted for its report."""
    counted = report.record(FilterReport).keypoints if report else {}
    return with_keypoints(track, counted) if counted else track


def newest_report(store: Store, dataset: str) -> StoredEntity | None:
    """The filter report of a dataset that was stored last."""
    newest = None
    for report in find(store, dataset, "filter_report"):
        newest = report
    return newest


def thresholds_of(store: Store, report: StoredEntity | None, profile: str) -> Thresholds:
    """The thresholds that a report was made with; those of the profile where nobody knows.

    They are an entity that the report derives from, or part of the plan that the store keeps.
    """
    from profiles.loader import load_profile

    if report is not None:
        traced = trace(store, report.id)
        plan = traced.activities[traced.entities[report.id].activity_id]
        recorded = [plan.configuration.get("settings"), *map(_recorded, traced.entities.values())]
        for values in recorded:
            if (settings := _read_settings(values)) is not None:
                return Thresholds(settings, f"report {report.id[:12]}")
    return Thresholds(load_profile(profile).filter, f"profile {profile!r}")


def _recorded(node: EntityNode) -> dict[str, Any] | None:
    """The settings that an entity records, if it records those of the filter."""
    if node.entity.kind != StageSettings.kind:
        return None
    recorded = node.entity.record(StageSettings)
    return recorded.values if recorded.stage == STAGE else None


def _read_settings(values: Any) -> FilterSettings | None:
    try:
        return FilterSettings.model_validate(values)
    except ValidationError:
        return None
