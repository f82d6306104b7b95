"""The noise filter: filters tracks and proposes what is left of them as tracklets."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from db.entities import (
    NewEntity,
    StoredEntity,
    children_of,
    fetch,
    find,
    find_containing,
    find_in_groups,
    move_to_groups,
    new_entity,
    parents_of,
)
from db.lineage import EntityNode, find_entity_id, trace
from db.pending import Pending
from db.store import Store
from db.work import WorkResult
from flows.engine.context import RunContext
from flows.engine.report import Deferred, StageReport, StageResult
from flows.engine.runner import Stage, get_or_create_entity, run_stage, run_stream
from flows.ufine6926.crops import with_bodies
from flows.ufine6926.noise_rules import (
    SWITCH,
    TOO_FEW,
    Measurement,
    Piece,
    cut_at_switches,
    embeddings_of,
    judge_crops,
    judge_duplicates,
    judge_number,
    judge_outliers,
    judge_surplus,
    outcome_of,
    rounded,
)
from flows.ufine6926.tracking import BodyMeasurer, PoseModelMaker, TrackingPlan
from models.pose import build_pose_model
from schemas.base import digest_of
from schemas.build import VideoSourceSpec
from schemas.errors import UsageError
from schemas.proposals import OtherTracklet, Tracklet, TrackletFrame
from schemas.provenance import Role
from schemas.records import Rejection
from schemas.tracking import FilterSettings
from schemas.video import Body, FilterReport, Observation, StageSettings, Track, TrackedVideo, Video

# The rules are applied in this order: all image rules on all crops; where one person passes to
# another (`identity_switch`) among the crops that are left; then, in each piece between switches,
# outliers, near-duplicates, whether enough is left, and which images are kept. Every frame of a
# track is either in one part of its report or has a finding that drops it.

FILTER_TRACK_VERSION = "2"
FILTER_TRACK_STAGE = "filter_tracks"

Observations = Sequence[Observation]


class Judgement(NamedTuple):
    """All that the filter measured of a track, what passed included.

    `parts` and `switches` are those of `FilterReport`.
    """

    measurements: tuple[Measurement, ...]
    parts: tuple[tuple[int, ...], ...]
    switches: tuple[int, ...]


def filter_track(track: Track, settings: FilterSettings) -> tuple[FilterReport, Rejection | None]:
    """The report on a track, and a rejection where nothing is left of it."""
    judgement = judge_track(track, settings)
    findings = (measurement.finding for measurement in judgement.measurements)
    report = FilterReport(
        source=track.source,
        track=track.number,
        findings=tuple(finding for finding in findings if finding is not None),
        parts=judgement.parts,
        switches=judgement.switches,
        bodies={
            one.frame: Body(
                keypoints=one.measures.keypoints,
                person=one.measures.person,
                person_share=one.measures.person_share,
            )
            for one in track.observations
            if one.measures.keypoints is not None
        },
    )
    return report, None if report.parts else _rejection(track, report)


def judge_track(track: Track, settings: FilterSettings) -> Judgement:
    """Holds a track against all rules."""
    trial = _Trial(settings)
    usable = trial.hear(track.observations, judge_crops(track, settings))
    parts = []
    best = 0
    for piece in trial.pieces(usable):
        left, part = trial.try_piece(piece)
        best = max(best, left)
        if part:
            parts.append(part)
    if not parts:
        trial.add(
            Measurement(
                TOO_FEW.name, TOO_FEW.setting, None, best, float(settings.least_images), "dropped"
            )
        )
    return Judgement(tuple(trial.measurements), tuple(parts), tuple(trial.switches))


class _Trial:
    """One track before the rules: what was measured so far."""

    def __init__(self, settings: FilterSettings) -> None:
        self.measurements: list[Measurement] = []
        self.switches: list[int] = []
        self._settings = settings
        self._suspicions: Counter[int] = Counter()

    def add(self, *measurements: Measurement) -> None:
        """Takes measurements to the record."""
        self.measurements += measurements

    def hear(
        self, observations: Observations, measured: Iterable[Measurement]
    ) -> list[Observation]:
        """Takes what rules say of observations; gives those that none of them drops."""
        dropped = set()
        for measurement in measured:
            self.add(measurement)
            if measurement.frame is None:
                continue
            if measurement.outcome == "dropped":
                dropped.add(measurement.frame)
            self._suspicions[measurement.frame] += measurement.outcome == "suspected"
        return [one for one in observations if one.frame not in dropped]

    def pieces(self, observations: Observations) -> list[Observations]:
        """The observations between identity switches; suspected switches are noted."""
        vectors = embeddings_of(observations)
        if vectors is None:
            return [observations] if observations else []
        cuts = cut_at_switches(vectors, self._settings.switch_distance)
        for piece in cuts:
            self.add(*self._switches_of(piece, observations))
        return [observations[piece.begin : piece.end] for piece in cuts]

    def try_piece(self, observations: Observations) -> tuple[int, tuple[int, ...]]:
        """Applies the rules to a piece: how many images were left, and those that are kept."""
        settings = self._settings
        inliers = self.hear(observations, judge_outliers(observations, settings))
        distinct = self.hear(inliers, judge_duplicates(inliers, settings))
        enough = self.hear(distinct, judge_number(distinct, settings))
        kept = self.hear(enough, judge_surplus(enough, self._suspicions, settings))
        return len(distinct), tuple(one.frame for one in kept)

    def _switches_of(self, piece: Piece, observations: Observations) -> Iterator[Measurement]:
        """What is measured of a piece: the switch that it begins with, and the likeliest in it."""
        if piece.cut_distance is not None:
            yield self._switch(observations, piece.begin, piece.cut_distance, is_sure=True)
        if piece.odd is None:
            return
        borders = {piece.odd.begin, piece.odd.end} - {piece.begin, piece.end}
        for border in sorted(borders):
            yield self._switch(observations, border, piece.odd.distance)

    def _switch(
        self, observations: Observations, place: int, distance: float, *, is_sure: bool = False
    ) -> Measurement:
        limit = self._settings.switch_distance
        before, frame = observations[place - 1].frame, observations[place].frame
        outcome = "suspected" if is_sure else outcome_of(distance, limit, "at most")
        if outcome == "suspected":
            self.switches.append(frame)
        return Measurement(SWITCH.name, SWITCH.setting, frame, distance, limit, outcome, before)


def _rejection(track: Track, report: FilterReport) -> Rejection:
    """Why nothing is left: the rules, each with the number of frames that it dropped."""
    dropped = Counter(
        rule
        for rule, _ in {
            (finding.rule, finding.frame)
            for finding in report.findings
            if finding.outcome == "dropped" and finding.frame is not None
        }
    )
    counts = dict(sorted(dropped.items(), key=lambda item: (-item[1], item[0])))
    why = ", ".join(f"{rule} {count}" for rule, count in counts.items())
    return Rejection(
        stage=FILTER_TRACK_STAGE,
        reason=TOO_FEW.name,
        detail=(
            f"Track {track.number} of {track.video!r} has too few usable images among its "
            f"{len(track.observations)}; frames dropped by rule: {why}."
        ),
        context={"file": track.video, "index": track.number, "dropped": counts},
    )


# Tracklets that may show one person are proposed to be merged: they look similar, and are never in
# one frame. Each names only those that begin earlier in the video, so that a pair is asked about
# once. People decide.

PROPOSE_TRACKLETS_VERSION = "1"
PROPOSE_TRACKLETS_STAGE = "propose_tracklets"
FRAMES_OF_OTHERS = 4
"""How many frames of another tracklet are shown beside one, spread over its time."""


class _Part(NamedTuple):
    """A part of a report: its images, the frames it may show in, and its mean embedding."""

    track: Track
    report: FilterReport
    observations: tuple[Observation, ...]
    first_frame: int
    last_frame: int
    direction: NDArray[np.float64] | None


class _Known(NamedTuple):
    """A part that is a tracklet already."""

    id: str
    tracklet: Tracklet
    part: _Part


def propose_tracklets(
    filtered: Sequence[tuple[Track, FilterReport]],
    settings: FilterSettings,
    id_of: Callable[[Tracklet], str],
) -> list[Tracklet]:
    """The tracklets of one video, in the order in which they begin (then by track).

    Args:
        filtered: the tracks of the video with their reports, in any order.
        settings: the thresholds of the filter.
        id_of: the id of a tracklet; asked once for each, in the order of the result, before any
            later tracklet names it. `video_sha256` and `track` tell which track it is from.
    """
    parts = [part for track, report in filtered for part in _parts(track, report)]
    parts.sort(key=lambda part: (part.observations[0].frame, part.track.number))
    known: list[_Known] = []
    for part in parts:
        tracklet = _tracklet(part, tuple(_others(part, known, settings)))
        known.append(_Known(id_of(tracklet), tracklet, part))
    return [one.tracklet for one in known]


def _parts(track: Track, report: FilterReport) -> Iterator[_Part]:
    by_frame = {observation.frame: observation for observation in track.observations}
    for frames in report.parts:
        observations = tuple(by_frame[frame] for frame in frames)
        first, last = _extent(track, report, frames)
        yield _Part(track, report, observations, first, last, _direction(observations))


def _extent(track: Track, report: FilterReport, frames: Sequence[int]) -> tuple[int, int]:
    """The first and last frame in which a part may show.

    That is the whole track where it was not split: the person was followed in frames that were not
    kept, too. At a switch a part ends with what was kept of it.
    """
    is_head = not any(switch <= frames[0] for switch in report.switches)
    is_tail = not any(switch > frames[-1] for switch in report.switches)
    first = track.first_frame if is_head else frames[0]
    return first, track.last_frame if is_tail else frames[-1]


def _direction(observations: Sequence[Observation]) -> NDArray[np.float64] | None:
    vectors = embeddings_of(observations)
    if vectors is None:
        return None
    mean = vectors.mean(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(mean))
    direction: NDArray[np.float64] = mean / length if length else mean
    return direction


def _others(part: _Part, known: Sequence[_Known], settings: FilterSettings) -> list[OtherTracklet]:
    """The earlier tracklets that may show the same person, the likeliest first."""
    similar = [
        (similarity, one)
        for one in known
        if not _show_together(part, one.part)
        and (similarity := _similarity(part, one.part)) >= settings.merge_similarity
    ]
    similar.sort(key=lambda pair: -pair[0])  # stable: of equals the earlier tracklet
    return [
        OtherTracklet(
            tracklet_id=one.id, similarity=similarity, frames=_spread(one.tracklet.frames)
        )
        for similarity, one in similar[: settings.most_merge_proposals]
    ]


def _show_together(one: _Part, other: _Part) -> bool:
    return one.first_frame <= other.last_frame and other.first_frame <= one.last_frame


def _similarity(one: _Part, other: _Part) -> float:
    """The cosine of two parts' mean embeddings; -1 where one has none."""
    if one.direction is None or other.direction is None:
        return -1.0
    return max(-1.0, min(1.0, rounded(float(one.direction @ other.direction))))


def _spread(frames: Sequence[TrackletFrame]) -> tuple[TrackletFrame, ...]:
    places = np.linspace(0, len(frames) - 1, min(len(frames), FRAMES_OF_OTHERS)).round().astype(int)
    return tuple(frames[place] for place in places)


def _tracklet(part: _Part, others: tuple[OtherTracklet, ...]) -> Tracklet:
    track = part.track
    suspicions = _suspicions(part.report)
    frames = tuple(_frame(one, suspicions.get(one.frame, ())) for one in part.observations)
    return Tracklet(
        source=track.source,
        video=track.video,
        video_sha256=track.video_sha256,
        track=track.number,
        frames=frames,
        switches=_switches(part),
        others=others,
        author=track.author,
    )


def _suspicions(report: FilterReport) -> Mapping[int, tuple[str, ...]]:
    """The rules that suspect each frame, but for the switches, which are reported separately."""
    rules: dict[int, dict[str, None]] = defaultdict(dict)
    for finding in report.findings:
        if finding.frame is None or finding.rule == SWITCH.name:
            continue
        if finding.outcome == "suspected":
            rules[finding.frame][finding.rule] = None
    return {frame: tuple(names) for frame, names in rules.items()}


def _switches(part: _Part) -> tuple[int, ...]:
    """The first kept frame from each switch on that is suspected inside a part."""
    frames = [one.frame for one in part.observations]
    inside = {
        next(frame for frame in frames if frame >= switch)
        for switch in part.report.switches
        if frames[0] < switch <= frames[-1]
    }
    return tuple(sorted(inside))


def _frame(observation: Observation, suspicions: tuple[str, ...]) -> TrackletFrame:
    return TrackletFrame(
        frame=observation.frame,
        time_seconds=observation.time_seconds,
        crop=observation.crop,
        box_xyxy=observation.box_xyxy,
        score=observation.score,
        suspicions=suspicions,
    )


# Thresholds are not part of the id of a report or tracklet: where other thresholds give the same,
# it stays the same entity, with all that people decided on it. Links name the thresholds that gave
# it.


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
        stage=FILTER_TRACK_STAGE,
        version=FILTER_TRACK_VERSION,
        values=settings.model_dump(mode="json"),
    )
    return FilterPlan(settings, get_or_create_entity(context, record, dataset))


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
    bodies = BodyMeasurer(context.blobs.read, plan.settings.pose_model, make_pose_model)
    stage = Stage(
        name=FILTER_TRACK_STAGE,
        version=FILTER_TRACK_VERSION,
        dataset=dataset,
        configuration={"settings": plan.settings.model_dump(mode="json")},
        agents=bodies.agents,
        label="filter tracks",
    )

    def work(tracks: Sequence[StoredEntity]) -> list[WorkResult]:
        return [_filtered(track, plan, bodies) for track in tracks]

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
        name=PROPOSE_TRACKLETS_STAGE,
        version=PROPOSE_TRACKLETS_VERSION,
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
    proposed = set(children_of(store, [plan.entity.id], Role.PROPOSED_WITH).get(plan.entity.id, ()))
    proposed &= set(
        children_of(store, [tracking.entity.id], Role.TRACKED_WITH).get(tracking.entity.id, ())
    )
    moved = {
        tracklet: groups[video]
        for tracklet, (video, *_) in parents_of(store, proposed, Role.CROP_OF).items()
        if video in groups
    }
    edits = children_of(store, moved, Role.EDITED_FROM)
    while edits:
        new = {edit: moved[one] for one, many in edits.items() for edit in many}
        moved |= new
        edits = children_of(store, new, Role.EDITED_FROM)
    return moved


def _filtered(track: StoredEntity, plan: FilterPlan, bodies: BodyMeasurer) -> WorkResult:
    measured = bodies.measured(track.record(Track))
    report, rejection = filter_track(measured, plan.settings)
    parents = [(Role.REPORT_OF, track.id)]
    entity = new_entity(report, track.dataset, parents=parents, group=track.group)
    entity = _linked(entity, (Role.FILTERED_WITH, plan.entity.id))
    return WorkResult(track.seq, entities=(entity,), rejection=rejection)


def _linked(entity: NewEntity, *links: tuple[Role, str]) -> NewEntity:
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
    reports = children_of(store, [one.id for one in tracks], Role.REPORT_OF)
    plans = parents_of(
        store, (one for many in reports.values() for one in many), Role.FILTERED_WITH
    )
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
    links = ((Role.PROPOSED_WITH, plan.entity.id), (Role.TRACKED_WITH, tracking.entity.id))
    filtered = [(one.record(Track), reports[one.id].record(FilterReport)) for one in tracks]
    report_ids = {
        track.number: reports[one.id].id for one, (track, _) in zip(tracks, filtered, strict=True)
    }
    made: list[NewEntity] = []

    def id_of(tracklet: Tracklet) -> str:
        parents = [(Role.PART_OF, report_ids[tracklet.track]), (Role.CROP_OF, video.id)]
        entity = new_entity(tracklet, video.dataset, parents=parents, group=group)
        made.append(_linked(entity, *links))
        return entity.id

    propose_tracklets(filtered, plan.settings, id_of)
    return tuple(made)


# Tracks with their filter reports, found in the store by any id that people have at hand.

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
    reports = children_of(store, track_ids, Role.REPORT_OF)
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
    """The track as the filter saw it: with the bodies that were measured for its report."""
    return with_bodies(track, report.record(FilterReport).bodies) if report else track


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
    from models.profiles.loader import load_profile

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
    return recorded.values if recorded.stage == FILTER_TRACK_STAGE else None


def _read_settings(values: Any) -> FilterSettings | None:
    try:
        return FilterSettings.model_validate(values)
    except ValidationError:
        return None
