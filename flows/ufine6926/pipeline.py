"""`build-ufine6926`: from street video to described identities (UFineBench, section 3.2)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from loupe.db.entities import LIVE, count_entities
from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.pipeline import (
    SPLIT,
    Gate,
    PipelineSpec,
    Release,
    Step,
    always,
    demonstration,
)
from loupe.flows.engine.quotas import Missing
from loupe.flows.ufine6926.describing import draft_descriptions, offer_drafts
from loupe.flows.ufine6926.identities import form_identities
from loupe.flows.ufine6926.noise_filter import (
    FilterPlan,
    filter_tracks,
    plan_filter,
    propose,
    proposed_tracklets,
)
from loupe.flows.ufine6926.tracking import DetectorMaker, TrackingPlan, plan_tracking, track_videos
from loupe.flows.ufine6926.video_import import import_videos, take_videos
from loupe.models.registry import build_detector
from loupe.release.card.model_use import is_drawn
from loupe.schemas.build import UFine6926Build
from loupe.schemas.checkout import install_command
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.extras import missing_modules
from loupe.schemas.profile import BuiltinDescriber, Profile
from loupe.schemas.proposals import Tracklet
from loupe.schemas.records import Image
from loupe.schemas.similarity import SplitSettings
from loupe.schemas.tracking import FilterSettings
from loupe.schemas.video import Video
from loupe.schemas.wording import many
from loupe.services.diagnosis import Finding, ModelSpec, lacking


@dataclass
class UFine6926Run(PipelineRun[UFine6926Build]):
    """What the steps share.

    Attributes:
        plans: how the videos of each source are tracked.
        filtering: how tracks are filtered.
    """

    make_detector: DetectorMaker = build_detector
    plans: dict[str, TrackingPlan] = field(default_factory=dict)
    filtering: FilterPlan = field(init=False)


def ufine6926_pipeline(
    make_detector: DetectorMaker = build_detector,
) -> PipelineSpec[UFine6926Build, UFine6926Run]:
    """Track people, filter noise, have tracklets reviewed, then form and describe identities.

    Annotators are asked twice: which tracklets are good, then what the images of the identities
    show. A person's name and split depend on all tracklets, because any of them may show the same
    person or video. Images are therefore made once all tracklets are decided.
    """
    return PipelineSpec(
        form=UFine6926Build,
        demonstrate=demonstration("build-ufine6926"),
        models=_models,
        checks=_checks,
        start=partial(UFine6926Run, make_detector=make_detector),
        version=lambda build: build.version,
        steps=(
            Step(lambda run: run.require_own_dataset("videos")),
            Step(_track),
            Step(_filter_and_propose),
            Gate("tracklets", "tracklets_gate"),
            Step(_form_identities),
            Step(_offer_drafts, enabled=_asks_for_descriptions),
            Gate("descriptions", "descriptions_gate"),
            Step(_draft_descriptions, enabled=_may_draft, per_item=always),
            Release(lambda run: run.build.version),
        ),
    )


def _models(build: UFine6926Build, profile: Profile) -> list[ModelSpec]:
    """Return the detector, the filter's pose model, and the models that draft descriptions, if any.

    Built-in drafts do not count if annotators write every description.
    """
    needs_detector = any(source.detections is None for source in build.sources)
    detectors = [profile.tracking.detector] if needs_detector else []
    pose = _filter_settings(build, profile).pose_model
    asks_people = build.descriptions_gate == "required"
    drafters = [
        one
        for one in profile.describe.models
        if not asks_people or (build.drafts and not isinstance(one, BuiltinDescriber))
    ]
    return [*detectors, *([pose] if pose is not None else []), *drafters]


def _checks(build: UFine6926Build, profile: Profile) -> Iterator[Finding]:
    """Check whether videos can be read, and people be described and split into train and test."""
    if missing_modules("video"):
        yield lacking("videos", "need the extra video", install_command("video"))
        return
    if any(isinstance(one, BuiltinDescriber) for one in _models(build, profile)):
        for source in build.sources:
            if not is_drawn(source):
                yield lacking(
                    f"source {source.name}",
                    "the built-in describer can only describe drawn people, not photographs",
                    "choose a profile with a vision model, such as --profile hosted, or let people "
                    'describe (descriptions_gate = "required")',
                )
    if 0 < build.test_share < 1 and _is_one_video(build):
        yield lacking(
            SPLIT,
            "the sources have one video, and all people of a video are in the same split: there "
            "will be people for training or for testing, not both",
            "add videos, from which the test set can come; or set test_share = 0 (all for "
            "training) or 1 (all for testing)",
        )


def _is_one_video(build: UFine6926Build) -> bool:
    """Tell whether all sources name one video, as far as that is known without a network."""
    from loupe.sources.video.finding import FoundVideo, find_videos

    addresses = [address for source in build.sources for address in source.videos]
    if any("://" in address for address in addresses):
        return False
    videos = (one for address in addresses for one in find_videos(address))
    found = islice((one for one in videos if isinstance(one, FoundVideo)), 2)
    return len(list(found)) == 1


def _filter_settings(build: UFine6926Build, profile: Profile) -> FilterSettings:
    """Return the profile's settings; for drawn people without a pose model."""
    if not build.drawn:
        return profile.filter
    return profile.filter.model_copy(update={"pose_model": None})


def _track(run: UFine6926Run) -> None:
    context, dataset = run.context, run.dataset
    for spec in run.build.sources:
        source, imported = import_videos(context, spec)
        run.add(imported, take_videos(context, dataset, source))
        plan = plan_tracking(context, dataset, run.profile.tracking, spec)
        run.add(track_videos(context, dataset, spec, plan, run.make_detector))
        run.plans[spec.name] = plan
    if not count_entities(run.store, dataset, Video.kind):
        names = " ".join(spec.name for spec in run.build.sources)
        raise ConfigurationError(
            f"the sources of {dataset!r} have no usable video; look at: loupe quarantine {names}"
        )


def _filter_and_propose(run: UFine6926Run) -> None:
    """Propose tracklets of the filtered tracks; reject those proposed under other settings."""
    context, dataset = run.context, run.dataset
    run.filtering = plan_filter(context, dataset, _filter_settings(run.build, run.profile))
    run.add(filter_tracks(context, dataset, run.filtering))
    for spec in run.build.sources:
        run.add(propose(context, dataset, spec, run.plans[spec.name], run.filtering))
    current = _tracklets(run)
    run.sync_active(Tracklet, lambda one: one.id in current)


def _tracklets(run: UFine6926Run) -> set[str]:
    """Return the tracklets made under the plans of this run, and their edits so far, by id."""
    return {
        one
        for spec in run.build.sources
        for one in proposed_tracklets(
            run.store, run.dataset, spec, run.plans[spec.name], run.filtering
        )
    }


def _form_identities(run: UFine6926Run) -> None:
    settings = SplitSettings(test_share=run.build.test_share, seed=run.build.seed)
    least = run.filtering.settings.least_images
    run.add(form_identities(run.context, run.dataset, _tracklets(run), settings, least))
    if not count_entities(run.store, run.dataset, Image.kind, states=LIVE):
        raise ConfigurationError(
            f"no tracklet of {run.dataset!r} was accepted, or none with an active image, "
            f"so there are no identities to describe; look at: loupe quarantine {run.dataset}"
        )
    _compare_split(run)


_SPLIT_TOLERANCE = 0.05
"""By how much the share of identities for testing may differ from the wanted one."""


def _compare_split(run: UFine6926Run) -> None:
    """Report a share of identities for testing that differs from the wanted one, and why."""
    wanted = run.build.test_share
    split_of: dict[str, str | None] = {}
    for image in run.find(Image, *LIVE):
        split_of[image.record(Image).identity] = image.split
    reached = sum(split == "test" for split in split_of.values()) / len(split_of)
    if abs(reached - wanted) <= _SPLIT_TOLERANCE:
        return
    videos = many(count_entities(run.store, run.dataset, Video.kind), "video")
    why = f"all people of a video are in the same split, and there are {videos}"
    run.other_missing.append(
        Missing("share of identities for testing", wanted, round(reached, 3), why)
    )


def _asks_for_descriptions(run: UFine6926Run) -> bool:
    return run.queues["descriptions"].policy.policy != "auto"


def _may_draft(run: UFine6926Run) -> bool:
    return run.queues["descriptions"].policy.policy != "required"


def _offer_drafts(run: UFine6926Run) -> None:
    queue, settings = run.queues["descriptions"], run.profile.describe
    run.add(*offer_drafts(run.context, queue, settings, wanted=run.build.drafts))


def _draft_descriptions(run: UFine6926Run) -> None:
    queue, settings = run.queues["descriptions"], run.profile.describe
    offered = run.build.drafts and _asks_for_descriptions(run)
    run.add(*draft_descriptions(run.context, queue, settings, offered=offered))
