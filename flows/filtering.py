"""Filters tracks, and proposes what is left of them as tracklets: nothing is decoded again.

Thresholds are no part of who a report or a tracklet is: where other thresholds give the same, it
stays what it was, with all that people decided on it. Which thresholds gave it is said by links
beside, of which it may have several.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from annotate.items import EDITED_FROM
from db.crop_origins import CROP_OF
from db.entities import (
    NewEntity,
    StoredEntity,
    children_of,
    fetch,
    find,
    find_in_groups,
    new_entity,
    parents_of,
)
from db.groups import move_to_groups
from db.store import Store
from db.work import Pending, WorkResult
from flows.context import RunContext
from flows.keypoints import KeypointCounter, PoseModelMaker
from flows.report import Deferred, StageReport, StageResult
from flows.runner import Stage, run_stage, run_stream
from flows.single import store_entity
from flows.tracking import TRACKED_WITH, TrackingPlan
from models.pose import build_pose_model
from schemas.base import digest_of
from schemas.build import VideoSourceSpec
from schemas.proposals import Tracklet
from schemas.tracked_video import StageSettings, TrackedVideo
from schemas.tracking import FilterSettings
from schemas.video import FilterReport, Track, Video
from stages.tracklets import PART_OF, REPORT_OF, filter_track, propose_tracklets

FILTERED_WITH = "filtered_with"
"""A filter report to each of the thresholds that give it."""
PROPOSED_WITH = "proposed_with"
"""A tracklet to each of the thresholds that give it."""


@dataclass(frozen=True)
class FilterPlan:
    """The thresholds that tracks are filtered with, and the entity that says so."""

    settings: FilterSettings
    entity: NewEntity

    def group(self, tracks: str) -> str:
        """The group of the tracklets that the plan makes of a group of tracks."""
        return digest_of(tracks, self.entity.id)


def plan_filter(context: RunContext, dataset: str, settings: FilterSettings) -> FilterPlan:
    """The plan by the profile's thresholds."""
    record = StageSettings(
        stage=filter_track.STAGE,
        version=filter_track.VERSION,
        values=settings.model_dump(mode="json"),
    )
    return FilterPlan(settings, store_entity(context, record, dataset))


def filter_tracks(
    context: RunContext,
    dataset: str,
    plan: FilterPlan,
    make_pose_model: PoseModelMaker = build_pose_model,
) -> StageReport:
    """Gives every track of `dataset` a report; a track of which nothing is left is rejected.

    Raises:
        MissingExtraError: the extra that the pose model needs is not installed.
        ModelError: the pose model could not be loaded.
    """
    keypoints = KeypointCounter(context.blobs, plan.settings.pose_model, make_pose_model)
    stage = Stage(
        name=filter_track.STAGE,
        version=filter_track.VERSION,
        dataset=dataset,
        configuration={"settings": plan.settings.model_dump(mode="json")},
        agents=keypoints.agents,
        label="filter tracks",
    )

    def work(tracks: Sequence[StoredEntity]) -> list[WorkResult]:
        return [_filtered(track, plan, keypoints) for track in tracks]

    return run_stage(context, stage, Pending(dataset, Track.kind, ("proposed",)), work)


def propose(
    context: RunContext,
    dataset: str,
    spec: VideoSourceSpec,
    tracking: TrackingPlan,
    plan: FilterPlan,
) -> StageReport:
    """Proposes the tracklets of every video of a source that was followed to its end.

    What other thresholds proposed before stays what it was, and joins the plan's group.
    """
    stage = Stage(
        name=propose_tracklets.STAGE,
        version=propose_tracklets.VERSION,
        dataset=dataset,
        configuration={"tracking": tracking.entity.id, "filter": plan.entity.id},
        chunk_size=4,
        label=f"propose {spec.name}",
    )

    def work(videos: Sequence[tuple[int, StoredEntity]]) -> list[StageResult]:
        return [_proposed(context.store, video, tracking, plan) for _, video in videos]

    videos = list(_tracked(context.store, dataset, spec, tracking))
    report = run_stream(context, stage, ((one.seq, one) for one in videos), work)
    groups = {video.id: plan.group(tracking.group(video.id)) for video in videos}
    move_to_groups(context.store, _groups_of_tracklets(context.store, groups, tracking, plan))
    return report


def _tracked(
    store: Store, dataset: str, spec: VideoSourceSpec, tracking: TrackingPlan
) -> Iterator[StoredEntity]:
    """The videos of a source that were followed to their end."""
    finished = {one.group for one in find(store, dataset, TrackedVideo.kind)}
    for video in find(store, dataset, Video.kind, states=("proposed",)):
        if video.group == spec.name and tracking.group(video.id) in finished:
            yield video


def _groups_of_tracklets(
    store: Store, groups: Mapping[str, str], tracking: TrackingPlan, plan: FilterPlan
) -> dict[str, str]:
    """The group of every tracklet that the plans propose, and of what people made of it.

    `groups` are those of the videos, by id.
    """
    proposed = set(children_of(store, [plan.entity.id], PROPOSED_WITH).get(plan.entity.id, ()))
    proposed &= set(
        children_of(store, [tracking.entity.id], TRACKED_WITH).get(tracking.entity.id, ())
    )
    moved = {
        tracklet: groups[video]
        for tracklet, (video, *_) in parents_of(store, proposed, CROP_OF).items()
        if video in groups
    }
    edits = children_of(store, moved, EDITED_FROM)
    while edits:
        new = {edit: moved[one] for one, many in edits.items() for edit in many}
        moved |= new
        edits = children_of(store, new, EDITED_FROM)
    return moved


def _filtered(track: StoredEntity, plan: FilterPlan, keypoints: KeypointCounter) -> WorkResult:
    counted = keypoints.counted(track.record(Track))
    report, rejection = filter_track.filter_track(counted, plan.settings)
    parents = [(REPORT_OF, track.id)]
    entity = new_entity(report, track.dataset, parents=parents, group=track.group)
    entity = _linked(entity, (FILTERED_WITH, plan.entity.id))
    return WorkResult(track.seq, entities=(entity,), rejection=rejection)


def _linked(entity: NewEntity, *links: tuple[str, str]) -> NewEntity:
    """The entity with more parents, which are no part of its id."""
    return entity._replace(parents=(*entity.parents, *links))


def _proposed(
    store: Store, video: StoredEntity, tracking: TrackingPlan, plan: FilterPlan
) -> StageResult:
    """The tracklets of a video; it waits where a track has no report yet."""
    tracks = find_in_groups(store, video.dataset, Track.kind, [tracking.group(video.id)])
    reports = _reports(store, tracks, plan)
    if reports.keys() != {one.id for one in tracks}:
        return Deferred(video.seq, "not_filtered")
    return WorkResult(video.seq, _tracklets(video, tracks, reports, tracking, plan))


def _reports(
    store: Store, tracks: Sequence[StoredEntity], plan: FilterPlan
) -> dict[str, StoredEntity]:
    """The report that the plan gave each track, by the track's id."""
    reports = children_of(store, [one.id for one in tracks], REPORT_OF)
    plans = parents_of(store, (one for many in reports.values() for one in many), FILTERED_WITH)
    current = {
        track: report
        for track, many in reports.items()
        for report in many
        if plan.entity.id in plans.get(report, ())
    }
    stored = fetch(store, current.values())
    return {track: stored[report] for track, report in current.items()}


def _tracklets(
    video: StoredEntity,
    tracks: Sequence[StoredEntity],
    reports: Mapping[str, StoredEntity],
    tracking: TrackingPlan,
    plan: FilterPlan,
) -> tuple[NewEntity, ...]:
    group = plan.group(tracking.group(video.id))
    links = ((PROPOSED_WITH, plan.entity.id), (TRACKED_WITH, tracking.entity.id))
    filtered = [(one.record(Track), reports[one.id].record(FilterReport)) for one in tracks]
    report_ids = {
        track.number: reports[one.id].id for one, (track, _) in zip(tracks, filtered, strict=True)
    }
    made: list[NewEntity] = []

    def id_of(tracklet: Tracklet) -> str:
        parents = [(PART_OF, report_ids[tracklet.track]), (CROP_OF, video.id)]
        entity = new_entity(tracklet, video.dataset, parents=parents, group=group)
        made.append(_linked(entity, *links))
        return entity.id

    propose_tracklets.propose_tracklets(filtered, plan.settings, id_of)
    return tuple(made)
