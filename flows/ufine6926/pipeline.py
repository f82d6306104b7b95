"""`build-ufine6926`: from street video to described identities (UFineBench, section 3.2)."""

from collections.abc import Iterator

from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.pipeline import (
    Gate,
    PipelineSpec,
    Release,
    Step,
    always,
    demonstration,
)
from loupe.flows.engine.video_import import check_videos, read_videos
from loupe.flows.ufine6926.describing import draft_descriptions, offer_drafts
from loupe.flows.ufine6926.steps import Filtering, Forming, Tracking
from loupe.flows.ufine6926.tracking import DetectorMaker
from loupe.models.registry import build_detector
from loupe.release.card.model_use import is_drawn
from loupe.schemas.build import UFine6926Build
from loupe.schemas.profile import BuiltinDescriber, Profile
from loupe.services.diagnosis import Finding, ModelSpec, lacking

Run = PipelineRun[UFine6926Build]


def ufine6926_pipeline(
    make_detector: DetectorMaker = build_detector,
) -> PipelineSpec[UFine6926Build, Run]:
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
        start=Run,
        version=lambda build: build.version,
        steps=(
            Step(lambda run: run.require_own_dataset("videos")),
            Step(read_videos),
            Tracking(make_detector=make_detector),
            Filtering(),
            Gate("tracklets", "tracklets_gate"),
            Forming(),
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
    pose = Filtering().settings(profile, are_drawn=build.drawn).pose_model
    asks_people = build.descriptions_gate == "required"
    drafters = [
        one
        for one in profile.describe.models
        if not asks_people or (build.drafts and not isinstance(one, BuiltinDescriber))
    ]
    return [*detectors, *([pose] if pose is not None else []), *drafters]


def _checks(build: UFine6926Build, profile: Profile) -> Iterator[Finding]:
    """Check whether videos can be read, and people be described and split into train and test."""
    yield from check_videos(build.sources, build.test_share)
    if any(isinstance(one, BuiltinDescriber) for one in _models(build, profile)):
        for source in build.sources:
            if not is_drawn(source):
                yield lacking(
                    f"source {source.name}",
                    "the built-in describer can only describe drawn people, not photographs",
                    "choose a profile with a vision model, such as --profile hosted, or let people "
                    'describe (descriptions_gate = "required")',
                )


def _asks_for_descriptions(run: Run) -> bool:
    return run.queues["descriptions"].policy.policy != "auto"


def _may_draft(run: Run) -> bool:
    return run.queues["descriptions"].policy.policy != "required"


def _offer_drafts(run: Run) -> None:
    queue, settings = run.queues["descriptions"], run.profile.describe
    run.add(*offer_drafts(run.context, queue, settings, wanted=run.build.drafts))


def _draft_descriptions(run: Run) -> None:
    queue, settings = run.queues["descriptions"], run.profile.describe
    offered = run.build.drafts and _asks_for_descriptions(run)
    run.add(*draft_descriptions(run.context, queue, settings, offered=offered))
