"""`build-ufine6926`: from street video to described identities (UFineBench, section 3)."""

from collections.abc import Callable, Iterable

from annotate.projects import Desks
from annotate.queues import Queue, parse_policy
from db.entities import LIVE, StoredEntity, count_entities, find
from flows.engine.build_files import demonstration_video_build, load_video_build
from flows.engine.building import PipelineSpec, run_pipeline
from flows.engine.context import RunContext
from flows.engine.gates import declared_queues, review
from flows.engine.invalidation import reconcile_superseded
from flows.engine.releasing import release
from flows.engine.report import BuildReport
from flows.ufine6926.describing import draft_descriptions, offer_drafts
from flows.ufine6926.identities import form_identities
from flows.ufine6926.noise_filter import FilterPlan, filter_tracks, plan_filter, propose
from flows.ufine6926.tracking import DetectorMaker, TrackingPlan, plan_tracking, track_videos
from flows.ufine6926.video_import import import_videos, take_videos
from models.detectors import build_detector
from schemas.build import UFine6926Build
from schemas.errors import ConfigurationError
from schemas.leaks import SplitSettings
from schemas.profile import Profile
from schemas.proposals import Tracklet
from schemas.records import Image, Sample, Source
from schemas.video import Video


def run_build(
    context: RunContext, config: str | None, profile: str | None, *, wait: bool = False
) -> BuildReport:
    """Builds what `config` says (None: the demonstration) by `profile` (None: the setting).

    Raises:
        LoupeError: see `build_dataset`.
    """
    recipe = PipelineSpec(
        load=load_video_build,
        demonstrate=demonstration_video_build,
        announcement="the sources are videos of the demonstration street, drawn once",
        build_dataset=build_dataset,
    )
    return run_pipeline(recipe, context, config, profile, wait=wait)


def build_dataset(
    context: RunContext,
    build: UFine6926Build,
    profile: Profile,
    open_desks: Callable[[], Desks],
    *,
    wait: bool = False,
    make_detector: DetectorMaker = build_detector,
) -> BuildReport:
    """Does what can be done now: imports, tracks, filters, asks people, forms identities, releases.

    Every step goes on from what is stored, so running it again costs only what is missing. People
    are asked twice: which tracklets are good, then what the images of their people show. Each time
    what they need is pushed to the desk and the run ends (with `wait`: waits).

    Raises:
        UsageError: the build, a source or the profile cannot be used.
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: a model could not be loaded, or its server is gone.
        ServiceError: the review desk is gone.
    """
    _require_own_dataset(context, build.dataset)
    declared = declared_queues(context.settings)
    tracklets = declared.queue(build.dataset, "tracklets", parse_policy(build.tracklets_gate))
    descriptions = declared.queue(
        build.dataset, "descriptions", parse_policy(build.descriptions_gate)
    )
    report = BuildReport(build.dataset)
    groups = _propose_tracklets(context, build, profile, report, make_detector)
    report.waiting = _review(context, tracklets, open_desks, wait=wait)
    if report.waiting:
        return report
    _form_identities(context, build, groups, report)
    if asks_people := descriptions.policy.policy != "auto":
        report.stages += offer_drafts(context, descriptions, profile.describe, wanted=build.drafts)
    report.waiting = _review(context, descriptions, open_desks, wait=wait)
    if report.waiting:
        return report
    if descriptions.policy.policy != "required":
        report.stages += draft_descriptions(
            context, descriptions, profile.describe, offered=build.drafts and asks_people
        )
    report.count_costs(context.store)
    release(context, report, build, build.version)
    return report


def _review(
    context: RunContext, queue: Queue, open_desks: Callable[[], Desks], *, wait: bool
) -> int:
    waiting = review(context, queue, open_desks, wait=wait)
    if waiting:
        context.progress.say(f"queue {queue.name} waits for people")
    return waiting


def _require_own_dataset(context: RunContext, dataset: str) -> None:
    """What is built from videos is built from nothing else."""
    for kind in (Source.kind, Sample.kind):
        if next(find(context.store, dataset, kind), None) is not None:
            raise ConfigurationError(
                f"dataset {dataset!r} holds what is not built from videos; "
                f"build under another dataset name"
            )


def _propose_tracklets(
    context: RunContext,
    build: UFine6926Build,
    profile: Profile,
    report: BuildReport,
    make_detector: DetectorMaker,
) -> frozenset[str]:
    """Imports, tracks, filters and proposes; gives the groups of the tracklets that count now."""
    plans: dict[str, TrackingPlan] = {}
    for spec in build.sources:
        source, imported = import_videos(context, spec)
        report.stages += [imported, take_videos(context, build.dataset, source)]
        plan = plan_tracking(context, build.dataset, profile.tracking, spec.every_nth_frame)
        report.stages.append(track_videos(context, build.dataset, spec, plan, make_detector))
        plans[spec.name] = plan
    _require_videos(context, build)
    filtering = plan_filter(context, build.dataset, profile.filter)
    report.stages.append(filter_tracks(context, build.dataset, filtering))
    for spec in build.sources:
        proposed = propose(context, build.dataset, spec, plans[spec.name], filtering)
        report.stages.append(proposed)
    videos = find(context.store, build.dataset, Video.kind)
    groups = frozenset(_groups(videos, plans, filtering))
    reconcile_superseded(context, build.dataset, Tracklet.kind, lambda one: one.group in groups)
    return groups


def _groups(
    videos: Iterable[StoredEntity], plans: dict[str, TrackingPlan], filtering: FilterPlan
) -> Iterable[str]:
    """The groups of the tracklets of all videos whose source is in the build."""
    for video in videos:
        if plan := plans.get(str(video.group)):
            yield filtering.group(plan.group(video.id))


def _require_videos(context: RunContext, build: UFine6926Build) -> None:
    if not count_entities(context.store, build.dataset, Video.kind):
        names = " ".join(spec.name for spec in build.sources)
        raise ConfigurationError(
            f"the sources of {build.dataset!r} have no usable video; "
            f"look at: loupe quarantine {names}"
        )


def _form_identities(
    context: RunContext, build: UFine6926Build, groups: frozenset[str], report: BuildReport
) -> None:
    settings = SplitSettings(test_share=build.test_share, seed=build.seed)
    report.stages.append(form_identities(context, build.dataset, groups, settings))
    if not count_entities(context.store, build.dataset, Image.kind, states=LIVE):
        raise ConfigurationError(
            f"no tracklet of {build.dataset!r} was accepted, or none with an image that counts, "
            f"so that there is nobody to describe; look at: loupe quarantine {build.dataset}"
        )
