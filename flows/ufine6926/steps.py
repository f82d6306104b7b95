"""Steps of `build-ufine6926` that any pipeline may have: people followed, cut out and judged.

They are found by their entry points, as those of other packages are.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError

from loupe.api.models import Detector, PoseModel
from loupe.api.parts import OwnRun, Part, Place
from loupe.api.step import step
from loupe.api.values import Box, Crop, Image, Rejection
from loupe.db.entities import LIVE, count_entities
from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.quotas import Missing
from loupe.flows.engine.releasing import DRAWN_SPLIT
from loupe.flows.engine.runner import store_settings
from loupe.flows.engine.video_import import FORMAT
from loupe.flows.ufine6926 import identities
from loupe.flows.ufine6926.crops import Boxes, cut_person, measure_quickly
from loupe.flows.ufine6926.noise_filter import (
    FILTER_TRACK_VERSION,
    FilterPlan,
    plan_filter,
    propose,
    proposed_tracklets,
)
from loupe.flows.ufine6926.noise_filter import filter_tracks as filter_all
from loupe.flows.ufine6926.noise_rules import BODY_RULES, RULES, judge_crop
from loupe.flows.ufine6926.tracking import VERSION as TRACKING_VERSION
from loupe.flows.ufine6926.tracking import DetectorMaker, TrackingPlan, plan_tracking, track_videos
from loupe.models.registry import build_detector
from loupe.models.tracking.detector import Frame
from loupe.schemas import records
from loupe.schemas.build import UFine6926Build, VideoSourceSpec
from loupe.schemas.chat import NamedModel
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.profile import Profile
from loupe.schemas.proposals import Tracklet
from loupe.schemas.similarity import SPLIT_TOLERANCE, SplitSettings
from loupe.schemas.tracking import FilterSettings
from loupe.schemas.validation import fault_of, nearest_hint
from loupe.schemas.video import LANDMARKS, Track, Video
from loupe.schemas.wording import many

_USUAL = FilterSettings(pose_model=None)


@step(version="1")
def crop_people(
    image: Image,
    detector: Detector,
    least_height_px: float = _USUAL.least_height_px,
    least_width_px: float = _USUAL.least_width_px,
    narrowest_aspect: float = _USUAL.narrowest_aspect,
    widest_aspect: float = _USUAL.widest_aspect,
    most_cut_off: float = _USUAL.most_cut_off,
    least_border_px: float = _USUAL.least_border_px,
    least_sharpness: float = _USUAL.least_sharpness,
    darkest: float = _USUAL.darkest,
    brightest: float = _USUAL.brightest,
    least_contrast: float = _USUAL.least_contrast,
    least_score: float = _USUAL.least_score,
    most_overlap: float = _USUAL.most_overlap,
    most_other_people: int = _USUAL.most_other_people,
) -> list[Crop] | Rejection:
    """Cuts people out of an image, as far as the rules for single crops of the noise filter pass.

    The thresholds are those of docs/noise-filter.md.
    """
    settings = FilterSettings(
        pose_model=None,
        least_height_px=least_height_px,
        least_width_px=least_width_px,
        narrowest_aspect=narrowest_aspect,
        widest_aspect=widest_aspect,
        most_cut_off=most_cut_off,
        least_border_px=least_border_px,
        least_sharpness=least_sharpness,
        darkest=darkest,
        brightest=brightest,
        least_contrast=least_contrast,
        least_score=least_score,
        most_overlap=most_overlap,
        most_other_people=most_other_people,
    )
    people = detector.detect(image)
    if not people:
        return Rejection.of("nobody", "The detector finds no people.")
    boxes = np.array([one[:4] for one in people], np.float64)
    crops: list[Crop] = []
    reasons: Counter[str] = Counter()
    for place, person in enumerate(people):
        others = np.delete(boxes, place, axis=0)
        reason = _refusal(image, person, others, settings)
        if reason:
            reasons[reason] += 1
            continue
        cropped = cut_person(image.pixels, boxes[place], others)
        crops.append(
            Crop(
                data=cropped.data,
                width_px=cropped.picture.width_px,
                height_px=cropped.picture.height_px,
                media_type=cropped.picture.media_type,
                name="-".join(str(round(side)) for side in person[:4]),
            )
        )
    if crops:
        return crops
    said = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    detail = f"None of the {len(people)} people that were found can be used: {said}."
    return Rejection.of(reasons.most_common(1)[0][0], detail)


def _refusal(image: Image, person: Box, others: Boxes, settings: FilterSettings) -> str:
    """Return the first rule that drops a person in an image; empty if none does."""
    frame, box = Frame(0, 0.0, image.pixels), np.array(person[:4], np.float64)
    measures = measure_quickly(frame, box, others)
    if measures is None:
        return "too_small"
    judged = judge_crop(0, measures, person.score, measures.sharpness, settings)
    return next((one.rule for one in judged if one.outcome == "dropped"), "")


@step(version="1")
def filter_by_pose(
    image: Image,
    pose: PoseModel,
    least_keypoints: int = _USUAL.least_keypoints,
    least_person: float = _USUAL.least_person,
    least_person_share: float = _USUAL.least_person_share,
    landmarks: Sequence[str] = (),
) -> bool | Rejection:
    """Keeps crops on which enough of one person can be seen.

    `least_keypoints` of 17 must be visible, and all of `landmarks`, which are named as in COCO
    (`nose`, `left_ankle`). The pose model must be as sure as `least_person` that this is a person,
    who must cover `least_person_share` of the crop.
    """
    for name in landmarks:
        if name not in LANDMARKS:
            raise UsageError(f"no landmark is called {name!r}; {nearest_hint(name, LANDMARKS)}")
    settings = FilterSettings(
        least_keypoints=least_keypoints,
        least_person=least_person,
        least_person_share=least_person_share,
    )
    body = pose.body(image, Box(0, 0, image.width_px, image.height_px))
    for rule in RULES:
        value = getattr(body, rule.field) if rule.setting in BODY_RULES else None
        if value is None:
            continue
        judged = rule.judge(None, value, settings)
        if judged.outcome == "dropped":
            detail = f"{rule.measure}: {judged.value:g}; wanted {rule.sign} {judged.threshold:g}."
            return Rejection.of(rule.name, detail)
    if hidden := [name for name in landmarks if name not in body.visible]:
        return Rejection.of("hidden_landmark", f"It does not show: {', '.join(hidden)}.")
    return True


# People followed through videos. Their tracks and tracklets are kept up to date by their settings.


def _videos_of(run: PipelineRun[Any]) -> Iterator[VideoSourceSpec]:
    return (one for one in run.build.sources if isinstance(one, VideoSourceSpec))


class Tracking(Part):
    """Follows the people of videos, and keeps some crops of each; every track is stored at once.

    Its plans are those of the sources, by name, in `run.shared["tracking"]`.
    """

    version = TRACKING_VERSION
    takes = Video.kind
    proposes = (Track,)

    def __init__(self, name: str = "track", make_detector: DetectorMaker = build_detector) -> None:
        self.name = name
        self._make_detector = make_detector
        self._detects = True

    def placed(self, place: Place) -> None:
        """Note whether all videos come with detections."""
        of_videos = [one for one in place.sources if one.get("format") == FORMAT]
        self._detects = any("detections" not in one for one in of_videos)

    def specs(self, profile: Profile) -> Sequence[NamedModel]:
        """Return the detector, if a source needs it."""
        return [profile.tracking.detector] if self._detects else []

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: Video -> the people in it, followed from frame to frame"

    def run(self, run: PipelineRun[Any]) -> None:
        """Follow the people of all videos that were not finished yet."""
        run.begin(self)
        plans: dict[str, TrackingPlan] = {}
        run.shared["tracking"] = plans
        seconds = run.build.limit if isinstance(run, OwnRun) else None
        for spec in _videos_of(run):
            settings = run.profile.tracking
            plan = plan_tracking(run.context, run.dataset, settings, spec, seconds)
            plans[spec.name] = plan
            run.add(track_videos(run.context, run.dataset, spec, plan, self._make_detector))


def track(*, name: str = "track") -> Part:
    """Return a step that follows the people in the videos of the sources (`[tracking]`).

    It takes the videos of `loupe.source("videos", …)` (docs/video.md). Put `filter_tracks` behind
    it.

    Args:
        name: the name of the step.
    """
    return Tracking(name)


class Filtering(Part):
    """The noise filter: proposes the usable parts of tracks as tracklets.

    Its plan is in `run.shared["filtering"]`.
    """

    version = FILTER_TRACK_VERSION
    takes = Track.kind
    proposes = (Tracklet,)

    def __init__(
        self, name: str = "filter_tracks", thresholds: Mapping[str, Any] | None = None
    ) -> None:
        self.name = name
        self._thresholds = dict(thresholds or {})

    def settings(self, profile: Profile, *, are_drawn: bool = False) -> FilterSettings:
        """Return the thresholds; a pose model does not know drawn people."""
        stated = self._thresholds | ({"pose_model": None} if are_drawn else {})
        return profile.filter.model_copy(update=stated)

    def specs(self, profile: Profile) -> Sequence[NamedModel]:
        """Return the pose model, if there is one."""
        model = self.settings(profile).pose_model
        return [model] if model is not None else []

    def values(self, profile: Profile) -> dict[str, Any]:
        """Return the thresholds."""
        return self.settings(profile).model_dump(mode="json")

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: Track -> Tracklet, as far as its crops show one person well"

    def chosen(self, profile: Profile) -> dict[str, Any]:
        """Return the thresholds that are not the usual ones, wherever they are stated."""
        settings = self.settings(profile).model_dump(mode="json", exclude_defaults=True)
        return {name: value for name, value in settings.items() if name != "pose_model"}

    def run(self, run: PipelineRun[Any]) -> None:
        """Propose tracklets of the filtered tracks; reject those proposed under other settings."""
        run.begin(self)
        context, dataset = run.context, run.dataset
        are_drawn = isinstance(run.build, UFine6926Build) and run.build.drawn
        settings = self.settings(run.profile, are_drawn=are_drawn)
        plan = run.shared["filtering"] = plan_filter(context, dataset, settings)
        run.add(filter_all(context, dataset, plan))
        for spec in _videos_of(run):
            run.add(propose(context, dataset, spec, run.shared["tracking"][spec.name], plan))
        current = _tracklets(run)
        run.sync_active(Tracklet, lambda one: one.id in current)


def _tracklets(run: PipelineRun[Any]) -> set[str]:
    """Return the tracklets made under the plans of this run, and their edits so far, by id."""
    tracking, filtering = run.shared["tracking"], run.shared["filtering"]
    found: set[str] = set()
    for spec in _videos_of(run):
        plan = tracking[spec.name]
        found |= proposed_tracklets(run.store, run.dataset, spec, plan, filtering)
    return found


def filter_tracks(*, name: str = "filter_tracks", **thresholds: Any) -> Part:
    """Return the noise filter: a step that makes a `loupe.Tracklet` of each usable part of a track.

    A crop that is blurred, dark, cut off or hidden, or on which the pose model sees no person, is
    dropped; so are outliers and near-duplicates of a track. A track that changes from one person to
    another is split. Put a gate for `loupe.Tracklet`, at which people drop frames and say which
    tracklets show one person, behind it, then `form_identities`.

    Args:
        name: the name of the step.
        thresholds: other ones than those of `[filter]` in the profile (docs/noise-filter.md).

    Raises:
        UsageError: there is no such threshold, or it has a wrong value.
    """
    try:
        stated = FilterSettings(**thresholds)
    except ValidationError as error:
        raise UsageError(f"filter_tracks: {fault_of(error, FilterSettings)}") from error
    return Filtering(name, {key: getattr(stated, key) for key in thresholds})


class Forming(Part):
    """Makes identities of the accepted tracklets: their crops become images, in train or test."""

    takes = Tracklet.kind
    awaits = (Tracklet.kind,)
    makes = (records.Image.kind,)

    def __init__(self, name: str = "form_identities") -> None:
        self.name = name

    def described(self) -> str:
        """Return what it does."""
        return f"{self.name}: Tracklet -> Image, with identities, in train or test by video"

    def run(self, run: PipelineRun[Any]) -> None:
        """Form the identities of all accepted tracklets together.

        Raises:
            ConfigurationError: there are none.
        """
        scope = run.begin(self)
        wanted: float | None = run.build.test_share
        share = 1.0 if wanted is None else wanted
        filtering: FilterPlan = run.shared["filtering"]
        report, images = identities.form_identities(
            run.context,
            run.dataset,
            _tracklets(run),
            SplitSettings(test_share=share, seed=run.build.seed),
            filtering.settings.least_images,
            scope,
        )
        run.add(report)
        run.keep_only(self, records.Image, images)
        if not count_entities(run.store, run.dataset, records.Image.kind, states=LIVE):
            raise ConfigurationError(
                f"no tracklet of {run.dataset!r} was accepted, or none with an active image, "
                f"so there are no identities to describe; look at: loupe quarantine {run.dataset}"
            )
        if wanted is not None:
            _compare_split(run, images, wanted)


def _compare_split(run: PipelineRun[Any], images: Collection[str], wanted: float) -> None:
    """Report a share of identities for testing that differs from the wanted one, and why."""
    stated = store_settings(run.context, run.dataset, DRAWN_SPLIT, "1", {"test_share": wanted})
    run.keep_settings(stated.id, [one.id for one in run.stage_settings(DRAWN_SPLIT)])
    split_of: dict[str, str | None] = {}
    for image in run.find(records.Image, *LIVE):
        if image.id in images:
            split_of[image.record(records.Image).identity] = image.split
    reached = sum(split == "test" for split in split_of.values()) / len(split_of)
    if abs(reached - wanted) <= SPLIT_TOLERANCE:
        return
    videos = many(count_entities(run.store, run.dataset, Video.kind), "video")
    why = f"all people of a video are in the same split, and there are {videos}"
    run.other_missing.append(
        Missing("share of identities for testing", wanted, round(reached, 3), why)
    )


def form_identities(*, name: str = "form_identities") -> Part:
    """Return a step that makes the crops of accepted tracklets images, by person and split.

    Tracklets that people said to show one person are one identity. People who share a video, or a
    near-duplicate image, are in the same split; the share of those for testing is as close to
    `test_share` of the release as that permits (without one, all are for testing). A split that was
    assigned stays.

    Args:
        name: the name of the step.
    """
    return Forming(name)
