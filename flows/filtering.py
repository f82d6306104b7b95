"""Filters tracks, and proposes what is left of them as tracklets: nothing is decoded again."""

from collections.abc import Sequence
from dataclasses import dataclass

from db.crop_origins import CROP_OF
from db.entities import NewEntity, StoredEntity, find_in_groups, new_entity
from db.store import Store
from db.work import Pending, WorkResult
from flows.context import RunContext
from flows.keypoints import KeypointCounter, PoseModelMaker
from flows.report import StageReport
from flows.runner import Stage, run_stage
from flows.single import store_entity
from flows.tracking import TrackingPlan
from models.pose import build_pose_model
from schemas.base import digest_of
from schemas.build import VideoSourceSpec
from schemas.proposals import Tracklet
from schemas.tracked_video import StageSettings
from schemas.tracking import FilterSettings
from schemas.video import FilterReport, Track, Video
from stages.tracklets import PART_OF, REPORT_OF, filter_track, propose_tracklets

FILTERED_WITH = "filtered_with"


@dataclass(frozen=True)
class FilterPlan:
    """The thresholds that tracks are filtered with, and the entity that says so."""

    settings: FilterSettings
    entity: NewEntity

    def group(self, tracks: str) -> str:
        """The group of the reports and tracklets that the plan makes of a group of tracks."""
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
    """Proposes the tracklets of every video of a source, once all of its tracks are filtered."""
    stage = Stage(
        name=propose_tracklets.STAGE,
        version=propose_tracklets.VERSION,
        dataset=dataset,
        configuration={"tracking": tracking.entity.id, "filter": plan.entity.id},
        chunk_size=4,
        label=f"propose {spec.name}",
    )

    def work(videos: Sequence[StoredEntity]) -> list[WorkResult]:
        return [
            WorkResult(video.seq, _tracklets(context.store, video, tracking.group(video.id), plan))
            for video in videos
        ]

    pending = Pending(dataset, Video.kind, ("proposed",), spec.name)
    return run_stage(context, stage, pending, work)


def _filtered(track: StoredEntity, plan: FilterPlan, keypoints: KeypointCounter) -> WorkResult:
    counted = keypoints.counted(track.record(Track))
    report, rejection = filter_track.filter_track(counted, plan.settings)
    entity = new_entity(
        report,
        track.dataset,
        parents=[(REPORT_OF, track.id), (FILTERED_WITH, plan.entity.id)],
        group=plan.group(str(track.group)),
    )
    return WorkResult(track.seq, entities=(entity,), rejection=rejection)


def _tracklets(
    store: Store, video: StoredEntity, tracks_group: str, plan: FilterPlan
) -> tuple[NewEntity, ...]:
    group = plan.group(tracks_group)
    tracks = find_in_groups(store, video.dataset, Track.kind, [tracks_group])
    reports = {
        report.record(FilterReport).track: report
        for report in find_in_groups(store, video.dataset, FilterReport.kind, [group])
    }
    filtered = [
        (track, reports[track.number].record(FilterReport))
        for track in (one.record(Track) for one in tracks)
    ]
    made: list[NewEntity] = []

    def id_of(tracklet: Tracklet) -> str:
        parents = [(PART_OF, reports[tracklet.track].id), (CROP_OF, video.id)]
        made.append(new_entity(tracklet, video.dataset, parents=parents, group=group))
        return made[-1].id

    propose_tracklets.propose_tracklets(filtered, plan.settings, id_of)
    return tuple(made)
