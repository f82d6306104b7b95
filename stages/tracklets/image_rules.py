"""The rules of the noise filter that look at one crop alone.

Every rule is asked about every crop: a crop that is dropped by one is still held against the
others, so that a report tells all that is wrong with it.
"""

from collections.abc import Callable, Iterator
from statistics import median
from typing import Literal, NamedTuple

from schemas.tracking import FilterSettings
from schemas.video import CropMeasures, Observation, Track
from stages.tracklets.measurements import Measurement, outcome_of, rounded


class Seen(NamedTuple):
    """An observation, and what the rules know of the track around it."""

    observation: Observation
    usual_sharpness: float

    @property
    def measures(self) -> CropMeasures:
        """The measures of the crop."""
        return self.observation.measures


class ImageRule(NamedTuple):
    """One threshold of the filter.

    Attributes:
        name: what findings call it; rules that mean the same to people share a name.
        part: what tells rules of one name apart, in a word.
        measure: what is measured, in words, with its unit.
        setting: the field of `FilterSettings` that holds the threshold.
        direction: whether the value must be at least or at most the threshold.
        value: the value; None where it was not measured, and the rule says nothing.
        scale_end: where the scale ends that the band of suspicion is measured on.
        is_exact: whether what is measured is known so well that nothing need be suspected.
    """

    name: str
    part: str
    measure: str
    setting: str
    direction: Literal["at least", "at most"]
    value: Callable[[Seen], float | None]
    scale_end: float = 0.0
    is_exact: bool = False

    def judge(self, seen: Seen, settings: FilterSettings) -> Measurement | None:
        """What the rule says of a crop; None where it has nothing to measure."""
        found = self.value(seen)
        if found is None:
            return None
        value, threshold = rounded(found), float(getattr(settings, self.setting))
        end = threshold if self.is_exact else self.scale_end
        outcome = outcome_of(value, threshold, self.direction, scale_end=end)
        frame = seen.observation.frame
        return Measurement(self.name, self.setting, frame, value, threshold, outcome)


def _aspect(seen: Seen) -> float:
    return seen.measures.width_px / max(seen.measures.height_px, 1e-6)


def _relative_sharpness(seen: Seen) -> float:
    return seen.measures.sharpness / seen.usual_sharpness if seen.usual_sharpness else 1.0


IMAGE_RULES = (
    ImageRule(
        "too_small",
        "height",
        "height of the box in the frame, px",
        "least_height_px",
        "at least",
        lambda seen: seen.measures.height_px,
        is_exact=True,
    ),
    ImageRule(
        "too_small",
        "width",
        "width of the box in the frame, px",
        "least_width_px",
        "at least",
        lambda seen: seen.measures.width_px,
        is_exact=True,
    ),
    ImageRule("bad_aspect", "narrow", "width / height", "narrowest_aspect", "at least", _aspect),
    ImageRule("bad_aspect", "wide", "width / height", "widest_aspect", "at most", _aspect),
    ImageRule(
        "truncated",
        "cut off",
        "share of the box outside the frame",
        "most_cut_off",
        "at most",
        lambda seen: seen.measures.cut_off,
    ),
    ImageRule(
        "truncated",
        "border",
        "distance of the box from the frame's border, px",
        "least_border_px",
        "at least",
        lambda seen: seen.measures.border_px,
        is_exact=True,
    ),
    ImageRule(
        "blurred",
        "alone",
        "variance of the Laplacian at 128 px of height",
        "least_sharpness",
        "at least",
        lambda seen: seen.measures.sharpness,
    ),
    ImageRule(
        "blurred",
        "in its track",
        "sharpness as a share of the track's median",
        "least_relative_sharpness",
        "at least",
        _relative_sharpness,
    ),
    ImageRule(
        "too_dark", "", "mean luma", "darkest", "at least", lambda seen: seen.measures.brightness
    ),
    ImageRule(
        "too_bright",
        "",
        "mean luma",
        "brightest",
        "at most",
        lambda seen: seen.measures.brightness,
        scale_end=255.0,
    ),
    ImageRule(
        "flat",
        "",
        "standard deviation of luma",
        "least_contrast",
        "at least",
        lambda seen: seen.measures.contrast,
    ),
    ImageRule(
        "unsure",
        "",
        "the detector's score",
        "least_score",
        "at least",
        lambda seen: seen.observation.score,
    ),
    ImageRule(
        "occluded",
        "",
        "share of the box covered by a person in front",
        "most_overlap",
        "at most",
        lambda seen: seen.measures.overlap,
    ),
    ImageRule(
        "crowded",
        "",
        "other people at least half in the box",
        "most_other_people",
        "at most",
        lambda seen: seen.measures.other_people,
        is_exact=True,
    ),
    ImageRule(
        "few_keypoints",
        "",
        "visible keypoints of the body",
        "least_keypoints",
        "at least",
        lambda seen: seen.measures.keypoints,
    ),
)
"""In the order in which they are reported."""


def judge_crops(track: Track, settings: FilterSettings) -> Iterator[Measurement]:
    """What every rule says of every crop of a track, frame by frame.

    Keypoints are looked at only where the settings name a pose model.
    """
    rules = [
        rule for rule in IMAGE_RULES if rule.setting != "least_keypoints" or settings.pose_model
    ]
    usual = median(observation.measures.sharpness for observation in track.observations)
    for observation in track.observations:
        seen = Seen(observation, usual)
        for rule in rules:
            if (found := rule.judge(seen, settings)) is not None:
                yield found
