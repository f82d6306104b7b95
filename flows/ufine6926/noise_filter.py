"""The noise filter: filters tracks and proposes the remaining parts as tracklets."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from loupe.db.entities import (
    LIVE,
    SHORTEST_PREFIX,
    AgentRef,
    NewEntity,
    StoredEntity,
    WorkResult,
    children_of,
    fetch,
    fetch_children,
    find,
    find_containing,
    find_in_groups,
    new_entity,
    parents_of,
)
from loupe.db.lineage import find_entity_id, trace
from loupe.db.store import Store
from loupe.db.withdrawals import withdrawn_digests
from loupe.db.work import Pending
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.report import Deferred, StageReport, StageResult
from loupe.flows.engine.runner import Stage, run_each, run_stage, store_settings
from loupe.flows.ufine6926.crops import with_bodies
from loupe.flows.ufine6926.noise_rules import (
    SWITCH,
    TOO_FEW,
    Measurement,
    embeddings_of,
    judge_crops,
    judge_duplicates,
    judge_number,
    judge_outliers,
    judge_surplus,
    judge_switches,
    rounded,
)
from loupe.flows.ufine6926.tracking import PoseModelMaker, StagePlan, TrackingPlan, body_measurer
from loupe.models.registry import build_pose_model
from loupe.schemas.build import VideoSourceSpec
from loupe.schemas.errors import UsageError
from loupe.schemas.grouping import grouped
from loupe.schemas.proposals import OtherTracklet, Tracklet, TrackletFrame
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image, Rejection
from loupe.schemas.tracking import FilterSettings
from loupe.schemas.video import (
    Body,
    FilterReport,
    Finding,
    Observation,
    StageSettings,
    Track,
    TrackedVideo,
    Video,
)

# The rules are applied in this order: all image rules on all crops; changes from one person to
# another (`identity_switch`) among the crops that are left; then, in each piece between switches,
# outliers, near-duplicates, the minimum number of images, and the choice of the images to keep.
# Every frame of a track is either in one part of its report or has a finding that drops it.

FILTER_TRACK_VERSION = "2"
FILTER_TRACK_STAGE = "filter_tracks"


class Judgement(NamedTuple):
    """All measurements of a track by the filter, including those that passed.

    `parts` and `switches` are those of `FilterReport`.
    """

    measurements: tuple[Measurement, ...]
    parts: tuple[tuple[int, ...], ...]
    switches: tuple[int, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings against frames, or against the whole track."""
        found = (measurement.finding for measurement in self.measurements)
        return tuple(finding for finding in found if finding is not None)


def filter_track(track: Track, settings: FilterSettings) -> tuple[FilterReport, Rejection | None]:
    """Return the report on a track, and a rejection if nothing is left of it."""
    judgement = judge_track(track, settings)
    report = FilterReport(
        source=track.source,
        track=track.number,
        findings=judgement.findings,
        parts=judgement.parts,
        switches=judgement.switches,
        bodies={
            one.frame: Body.model_validate(one.measures, from_attributes=True)
            for one in track.observations
            if one.measures.keypoints is not None
        },
    )
    return report, None if report.parts else _rejection(track, report)


def judge_track(track: Track, settings: FilterSettings) -> Judgement:
    """Apply all rules to a track."""
    measurements: list[Measurement] = []
    suspicions: Counter[int | None] = Counter()

    def left(
        observations: Sequence[Observation], judged: Iterable[Measurement]
    ) -> list[Observation]:
        """Record the measurements of a rule; return the observations that it does not drop."""
        found = list(judged)
        measurements.extend(found)
        suspicions.update(one.frame for one in found if one.outcome == "suspected")
        dropped = {one.frame for one in found if one.outcome == "dropped"}
        return [one for one in observations if one.frame not in dropped]

    usable = left(track.observations, judge_crops(track, settings))
    pieces, switches = judge_switches(usable, settings)
    measurements += switches
    parts: list[tuple[int, ...]] = []
    most_left = 0
    for piece in pieces:
        inliers = left(piece, judge_outliers(piece, settings))
        distinct = left(inliers, judge_duplicates(inliers, settings))
        most_left = max(most_left, len(distinct))
        enough = left(distinct, judge_number(distinct, settings))
        if kept := left(enough, judge_surplus(enough, suspicions, settings)):
            parts.append(tuple(one.frame for one in kept))
    if not parts:
        measurements.append(TOO_FEW.judge(None, most_left, settings))
    begins = [one.frame for one in switches if one.frame is not None and one.outcome == "suspected"]
    return Judgement(tuple(measurements), tuple(parts), tuple(begins))


def _rejection(track: Track, report: FilterReport) -> Rejection:
    """Return the rejection of a track without a part: what is left, and why not more."""
    dropped = Counter(
        rule
        for rule, _ in {
            (finding.rule, finding.frame)
            for finding in report.findings
            if finding.outcome == "dropped" and finding.frame is not None
        }
    )
    counts = dict(sorted(dropped.items(), key=lambda item: (-item[1], item[0])))
    others = [f"{rule} {count}" for rule, count in counts.items() if rule != TOO_FEW.name]
    left = next(one for one in report.findings if one.rule == TOO_FEW.name and one.frame is None)
    detail = (
        f"Track {track.number} of {track.video!r} has {left.value:,.0f} usable images"
        f"{' in one piece' if report.switches else ''}, of {len(track.observations):,}; needed are "
        f"{left.threshold:,.0f} (least_images)."
    )
    if others:
        detail += f" Other rules dropped: {', '.join(others)}."
    about = {"file": track.video, "index": track.number, "dropped": counts}
    return Rejection.of(FILTER_TRACK_STAGE, TOO_FEW.name, detail, **about)


# Tracklets that may show one person are proposed for merging: they look similar and are never in
# the same frame. Each names only those that begin earlier in the video, so that every pair is asked
# about once. Annotators decide.

_PROPOSE_TRACKLETS_VERSION = "1"
_PROPOSE_TRACKLETS_STAGE = "propose_tracklets"
FRAMES_OF_OTHERS = 4
"""Number of frames of another tracklet that are shown next to one, spread over its duration."""


class _Part(NamedTuple):
    """A part of a report: its images, the frames it may show in, and its mean embedding.

    The frames are those of the whole track if it was not split, because the person was also
    followed in frames that were not kept. At a switch, a part ends with its last kept frame.
    """

    track: Track
    report: FilterReport
    observations: tuple[Observation, ...]
    first_frame: int
    last_frame: int
    direction: NDArray[np.float64] | None


def propose_tracklets(
    filtered: Sequence[tuple[Track, FilterReport]],
    settings: FilterSettings,
    id_of: Callable[[Tracklet], str],
) -> list[Tracklet]:
    """Return the tracklets of one video, ordered by their beginning (then by track).

    Args:
        filtered: the tracks of the video with their reports, in any order.
        settings: the thresholds of the filter.
        id_of: returns the id of a tracklet; called once for each, in the order of the result.
    """
    parts = [part for track, report in filtered for part in _parts(track, report)]
    parts.sort(key=lambda part: (part.observations[0].frame, part.track.number))
    known: list[tuple[str, Tracklet, _Part]] = []
    for part in parts:
        tracklet = _tracklet(part, _others(part, known, settings))
        known.append((id_of(tracklet), tracklet, part))
    return [tracklet for _, tracklet, _ in known]


def _parts(track: Track, report: FilterReport) -> Iterator[_Part]:
    by_frame = {observation.frame: observation for observation in track.observations}
    for frames in report.parts:
        observations = tuple(by_frame[frame] for frame in frames)
        is_head = not any(switch <= frames[0] for switch in report.switches)
        is_tail = not any(switch > frames[-1] for switch in report.switches)
        first = track.first_frame if is_head else frames[0]
        last = track.last_frame if is_tail else frames[-1]
        direction = None
        if (vectors := embeddings_of(observations)) is not None:
            mean = vectors.mean(axis=0, dtype=np.float64)
            direction = mean / (float(np.linalg.norm(mean)) or 1.0)
        yield _Part(track, report, observations, first, last, direction)


def _others(
    part: _Part, known: Sequence[tuple[str, Tracklet, _Part]], settings: FilterSettings
) -> tuple[OtherTracklet, ...]:
    """Return the earlier tracklets that may show the same person, the most likely first."""
    similar = []
    for id_, tracklet, other in known:
        show_together = (
            part.first_frame <= other.last_frame and other.first_frame <= part.last_frame
        )
        similarity = -1.0
        if part.direction is not None and other.direction is not None:
            similarity = max(-1.0, min(1.0, rounded(float(part.direction @ other.direction))))
        if similarity >= settings.merge_similarity and not show_together:
            similar.append((similarity, id_, tracklet.frames))
    similar.sort(key=lambda one: -one[0])  # stable: of equals the earlier tracklet
    return tuple(
        OtherTracklet(tracklet_id=id_, similarity=similarity, frames=_spread(frames))
        for similarity, id_, frames in similar[: settings.most_merge_proposals]
    )


def _spread(frames: Sequence[TrackletFrame]) -> tuple[TrackletFrame, ...]:
    places = np.linspace(0, len(frames) - 1, min(len(frames), FRAMES_OF_OTHERS)).round().astype(int)
    return tuple(frames[place] for place in places)


def _tracklet(part: _Part, others: tuple[OtherTracklet, ...]) -> Tracklet:
    """Return the part as a tracklet, with the rules that suspect each frame.

    Suspected switches inside it are listed separately, each by the first kept frame from there on.
    """
    track = part.track
    suspicions: dict[int | None, dict[str, None]] = defaultdict(dict)
    for finding in part.report.findings:
        if finding.outcome == "suspected" and finding.rule != SWITCH.name:
            suspicions[finding.frame][finding.rule] = None
    frames = [one.frame for one in part.observations]
    switches = {
        next(frame for frame in frames if frame >= switch)
        for switch in part.report.switches
        if frames[0] < switch <= frames[-1]
    }
    return Tracklet(
        source=track.source,
        video=track.video,
        video_sha256=track.video_sha256,
        track=track.number,
        frames=tuple(
            TrackletFrame.model_validate(one, from_attributes=True).model_copy(
                update={"suspicions": tuple(suspicions[one.frame])}
            )
            for one in part.observations
        ),
        switches=tuple(sorted(switches)),
        others=others,
        author=track.author,
    )


# Thresholds are not part of the id of a report or tracklet. If other thresholds lead to the same
# result, it stays the same entity and keeps the decisions on it. Links name the thresholds.


FilterPlan = StagePlan[FilterSettings]
"""The thresholds that tracks are filtered with."""


def plan_filter(context: RunContext, dataset: str, settings: FilterSettings) -> FilterPlan:
    """Return the plan for the profile's thresholds."""
    values = settings.model_dump(mode="json")
    stored = store_settings(context, dataset, FILTER_TRACK_STAGE, FILTER_TRACK_VERSION, values)
    return FilterPlan(settings, stored)


def filter_tracks(
    context: RunContext,
    dataset: str,
    plan: FilterPlan,
    make_pose_model: PoseModelMaker = build_pose_model,
) -> StageReport:
    """Give every track of `dataset` a report; reject tracks of which nothing is left.

    Withdrawn crops are left out.

    Raises:
        MissingExtraError: the extra that the pose model needs is not installed.
        ModelError: the pose model could not be loaded.
    """
    pose_model = plan.settings.pose_model
    with_bodies_of = body_measurer(context.blobs.read, pose_model, make_pose_model)
    withdrawn = withdrawn_digests(context.store, dataset)
    stage = Stage(
        FILTER_TRACK_STAGE,
        FILTER_TRACK_VERSION,
        dataset,
        {"settings": plan.settings.model_dump(mode="json")},
        agents=(AgentRef.of_model(pose_model.ref),) if pose_model else (),
        label="filter tracks",
    )

    def filtered(track: StoredEntity) -> WorkResult:
        record = track.record(Track)
        seen = tuple(one for one in record.observations if one.crop.sha256 not in withdrawn)
        record = record.model_copy(update={"observations": seen})
        report, rejection = filter_track(with_bodies_of(record), plan.settings)
        parents = [(Role.REPORT_OF, track.id)]
        entity = new_entity(report, track.dataset, parents=parents, group=track.group)
        entity = entity.linked((Role.FILTERED_WITH, plan.entity.id))
        return WorkResult(track.seq, entities=(entity,), rejection=rejection)

    pending = Pending(dataset, Track.kind, ("proposed",))
    return run_stage(context, stage, pending, lambda tracks: list(map(filtered, tracks)))


def propose(
    context: RunContext,
    dataset: str,
    spec: VideoSourceSpec,
    tracking: TrackingPlan,
    plan: FilterPlan,
) -> StageReport:
    """Propose the tracklets of every completely tracked video of a source.

    Tracklets that were proposed with other thresholds before stay the same entities.
    """
    stage = Stage(
        _PROPOSE_TRACKLETS_STAGE,
        _PROPOSE_TRACKLETS_VERSION,
        dataset,
        {"tracking": tracking.entity.id, "filter": plan.entity.id},
        chunk_size=4,
        label=f"propose {spec.name}",
    )

    finished = {one.group for one in find(context.store, dataset, TrackedVideo.kind)}
    videos = [
        (video.seq, video)
        for video in find(context.store, dataset, Video.kind, states=("proposed",))
        if video.group == spec.name and tracking.group(video.id) in finished
    ]
    return run_each(
        context, stage, videos, lambda _, video: _proposed(context.store, video, tracking, plan)
    )


def proposed_tracklets(
    store: Store, dataset: str, spec: VideoSourceSpec, tracking: TrackingPlan, plan: FilterPlan
) -> set[str]:
    """Return the tracklets of a source that the plans propose, and their edited versions, by id."""

    def made_by(stage: StagePlan[Any], role: Role) -> set[str]:
        return set(children_of(store, [stage.entity.id], role)[stage.entity.id])

    proposed = made_by(plan, Role.PROPOSED_WITH) & made_by(tracking, Role.TRACKED_WITH)
    videos = {one.id for one in find(store, dataset, Video.kind) if one.group == spec.name}
    cut_from = parents_of(store, proposed, Role.CROP_OF)
    found = new = {one for one, (video, *_) in cut_from.items() if video in videos}
    while new := {
        one for many in children_of(store, new, Role.EDITED_FROM).values() for one in many
    }:
        found = found | new
    return found


def _proposed(
    store: Store, video: StoredEntity, tracking: TrackingPlan, plan: FilterPlan
) -> StageResult:
    """Return the tracklets of a video; it waits while a track has no report of the plan."""
    tracks = find_in_groups(store, video.dataset, Track.kind, [tracking.group(video.id)])
    by_track = fetch_children(store, [one.id for one in tracks], Role.REPORT_OF)
    plans = parents_of(
        store, {one.id for many in by_track.values() for one in many}, Role.FILTERED_WITH
    )
    reports: dict[int, StoredEntity] = {}
    filtered: list[tuple[Track, FilterReport]] = []
    for one in tracks:
        own = [report for report in by_track[one.id] if plan.entity.id in plans[report.id]]
        if not own:
            return Deferred(video.seq, "not_filtered")
        track = one.record(Track)
        reports[track.number] = own[-1]
        filtered.append((track, own[-1].record(FilterReport)))
    group = tracking.group(video.id)
    links = ((Role.PROPOSED_WITH, plan.entity.id), (Role.TRACKED_WITH, tracking.entity.id))
    made: list[NewEntity] = []

    def id_of(tracklet: Tracklet) -> str:
        parents = [(Role.PART_OF, reports[tracklet.track].id), (Role.CROP_OF, video.id)]
        entity = new_entity(tracklet, video.dataset, parents=parents, group=group)
        made.append(entity.linked(*links))
        return entity.id

    propose_tracklets(filtered, plan.settings, id_of)
    return WorkResult(video.seq, tuple(made))


# Find tracks and their filter reports in the store, by any id that a user has at hand.


class Thresholds(NamedTuple):
    """Settings of the filter, and where they come from, in words."""

    settings: FilterSettings
    origin: str


class FilteredTrack(NamedTuple):
    """A track, the requested (or the newest) report, and the requested frames.

    `report` is None if the track was not filtered yet. `frames` are those whose crop was requested,
    empty if the whole track was.
    """

    entity: StoredEntity
    track: Track
    report: StoredEntity | None
    frames: tuple[int, ...] = ()


def find_track(store: Store, name: str) -> FilteredTrack:
    """Find the track that `name` belongs to.

    Args:
        store: the store to search.
        name: the id of a track, a filter report or a tracklet, or the digest of a crop; or the
            first digits of one, if they are unique.

    Raises:
        UsageError: there is none, there are several, or the entity does not come from a track.
    """
    try:
        entity_id = find_entity_id(store, name)
    except UsageError:
        if found := _track_with_crop(store, name):
            return found
        raise
    traced = trace(store, entity_id)
    kinds = grouped((node.entity.kind, id_) for id_, node in traced.entities.items())
    kind = traced.entities[entity_id].entity.kind
    if kind not in ("track", "filter_report", "tracklet") or len(kinds["track"]) != 1:
        raise UsageError(
            f"{kind} {entity_id[:12]} cannot be explained: the id must be that of a track, "
            f"a filter report or a tracklet, or the digest of a crop"
        )
    (track_id,) = kinds["track"]
    stored = fetch(store, [track_id, *kinds["filter_report"]])
    rank = report_rank(store, stored[track_id].dataset)
    report = current_reports(store, rank, [track_id]).get(track_id)
    if kinds["filter_report"]:
        report = stored[kinds["filter_report"][0]]
    return FilteredTrack(stored[track_id], stored[track_id].record(Track), report)


def _track_with_crop(store: Store, name: str) -> FilteredTrack | None:
    """Return the track with a crop whose digest starts with `name`, if there is one.

    Raises:
        UsageError: there are several tracks, or several crops.
    """
    if len(name) < SHORTEST_PREFIX or not name.isalnum():
        return None
    start = name.lower()
    found: list[FilteredTrack] = []
    digests: set[str] = set()
    for entity in find_containing(store, "track", f'"crop":{{"sha256":"{start}'):
        track = entity.record(Track)
        shown = [one for one in track.observations if one.crop.sha256.startswith(start)]
        digests.update(one.crop.sha256 for one in shown)
        rank = report_rank(store, entity.dataset)
        report = current_reports(store, rank, [entity.id]).get(entity.id)
        found.append(FilteredTrack(entity, track, report, tuple(one.frame for one in shown)))
    if len(digests) > 1:
        raise UsageError(f"several crops have a digest that starts with {name!r}; give more of it")
    if len(found) > 1:
        ids = ", ".join(track.entity.id[:12] for track in found)
        raise UsageError(f"crop {name!r} is of several tracks; give the id of one: {ids}")
    return found[0] if found else None


ReportRank = Callable[[StoredEntity], tuple[bool, int]]


def current_reports(
    store: Store, rank: ReportRank, track_ids: Sequence[str]
) -> dict[str, StoredEntity]:
    """Map the id of each track to its last report by `rank`."""
    found = fetch_children(store, track_ids, Role.REPORT_OF)
    return {id_: max(many, key=rank) for id_, many in found.items()}


def current_report(store: Store, dataset: str) -> StoredEntity | None:
    """Return a report of a dataset with the current thresholds, or else the newest, if any."""
    return max(
        find(store, dataset, FilterReport.kind), key=report_rank(store, dataset), default=None
    )


def report_rank(store: Store, dataset: str) -> ReportRank:
    """Return a key that orders reports: those with the current thresholds last, by their age."""
    settings = _current_settings(store, dataset)
    made_with = children_of(store, [settings] if settings else [], Role.FILTERED_WITH)
    current = {one for many in made_with.values() for one in many}
    return lambda report: (report.id in current, report.seq)


def _current_settings(store: Store, dataset: str) -> str | None:
    """Return the id of the settings that most tracklets in use were proposed with, if any.

    In use are those that wait for a decision, and those with active images; accepted ones stay
    accepted when the settings change.
    """
    images = [one.id for one in find(store, dataset, Image.kind, states=LIVE)]
    used = {one for many in parents_of(store, images, Role.SELECTED_IN).values() for one in many}
    used.update(one.id for one in find(store, dataset, Tracklet.kind, states=("proposed",)))
    proposed = parents_of(store, used, Role.PROPOSED_WITH)
    counts = Counter(one for many in proposed.values() for one in many)
    return max(counts, key=lambda one: counts[one], default=None)


def as_filtered(track: Track, report: StoredEntity | None) -> Track:
    """Return the track as the filter saw it: with the bodies that were measured for its report."""
    return with_bodies(track, report.record(FilterReport).bodies) if report else track


def thresholds_of(store: Store, report: StoredEntity | None, profile: str) -> Thresholds:
    """Return the thresholds of a report; those of the profile if they are unknown.

    If several led to the same report, the current ones are returned.
    """
    from loupe.models.profiles.loader import load_profile

    if report is not None:
        current = _current_settings(store, report.dataset)
        made_with = parents_of(store, [report.id], Role.FILTERED_WITH).get(report.id, ())
        if current is not None and current in made_with:
            values = fetch(store, [current])[current].record(StageSettings).values
            return Thresholds(FilterSettings.model_validate(values), f"report {report.id[:12]}")
        traced = trace(store, report.id)
        plan = traced.activities[traced.entities[report.id].activity_id]
        with suppress(ValidationError):
            settings = FilterSettings.model_validate(plan.configuration.get("settings"))
            return Thresholds(settings, f"report {report.id[:12]}")
    return Thresholds(load_profile(profile).filter, f"profile {profile!r}")
