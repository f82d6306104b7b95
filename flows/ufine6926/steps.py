"""Steps of `build-ufine6926` that any pipeline may have: people in photographs, cut out and judged.

They are found by their entry points, as those of other packages are.
"""

from collections import Counter

import numpy as np

from loupe.api.models import Detector, PoseModel
from loupe.api.step import step
from loupe.api.values import Box, Crop, Image, Rejection
from loupe.flows.ufine6926.crops import Boxes, cut_person, measure_quickly
from loupe.flows.ufine6926.noise_rules import BODY_RULES, RULES, judge_crop
from loupe.models.tracking.detector import Frame
from loupe.schemas.tracking import FilterSettings

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
) -> bool | Rejection:
    """Keeps crops on which enough of one person can be seen.

    `least_keypoints` of 17 must be visible, the pose model must be as sure as `least_person` that
    this is a person, who must cover `least_person_share` of the crop.
    """
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
    return True
