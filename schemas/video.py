"""Videos, the tracks of the people in them, and the noise filter's report on every crop."""

from typing import Any, Final, Literal, get_args

from pydantic import Field

from loupe.schemas.base import IF_ANY, Box, EntityRecord, Record, Sha256
from loupe.schemas.records import Picture


class VideoFacts(Record):
    """Metadata from the container of a video. Width and height are those of the upright image.

    `frame_rate` is the mean number of frames a second, assumed if `has_stated_rate` is False;
    `frame_count` is the number that the
    container states, None if it states none. `rotation_degrees` is the clockwise rotation that
    makes the stored image upright: 0, 90, 180 or 270.
    """

    width_px: int = Field(gt=0)
    height_px: int = Field(gt=0)
    frame_rate: float = Field(gt=0)
    has_stated_rate: bool = True
    frame_count: int | None = Field(default=None, ge=0)
    duration_seconds: float | None = Field(default=None, ge=0)
    codec: str
    rotation_degrees: Literal[0, 90, 180, 270] = 0


class Video(EntityRecord, kind="video"):
    """A video that was imported, identified by its digest; its bytes are not copied.

    `file_path` is relative to the root of its source, with forward slashes.
    """

    source: str
    file_path: str
    sha256: Sha256
    size_bytes: int = Field(gt=0)
    facts: VideoFacts


class CropMeasures(Record):
    """Measurements of a crop; thresholds are compared with these numbers only.

    Attributes:
        width_px: width of the box inside the frame.
        height_px: height of the box inside the frame.
        cut_off: share of the box (as detected) that lies outside the frame, 0 to 1.
        border_px: distance of the box to the nearest border of the frame; 0 if it touches it.
        sharpness: variance of the Laplacian of the grey crop, scaled to 128 pixels of height.
        brightness: mean luma, 0 to 255.
        contrast: standard deviation of luma.
        overlap: the largest share of the box that another person's box covers, 0 to 1.
        other_people: number of other persons with at least half of their box in this one.
        keypoints: number of visible keypoints of the body, None without a pose model.
        perceptual_hash: 64 bits (pHash) as 16 hex digits.
        person: confidence of the pose model that this is a person, 0 to 1; may be None as well.
        person_share: share of the crop that the pose model assigns to that person; may be None as
            well.
    """

    width_px: float = Field(ge=0)
    height_px: float = Field(ge=0)
    cut_off: float = Field(ge=0, le=1)
    border_px: float = Field(ge=0)
    sharpness: float = Field(ge=0)
    brightness: float = Field(ge=0, le=255)
    contrast: float = Field(ge=0)
    overlap: float = Field(ge=0, le=1)
    other_people: int = Field(ge=0)
    keypoints: int | None = Field(default=None, ge=0)
    perceptual_hash: str = Field(pattern=r"^[0-9a-f]{16}$")
    person: float | None = Field(default=None, ge=0, le=1)
    person_share: float | None = Field(default=None, ge=0, le=1)


Landmark = Literal[
    "nose",
    "left_eye",
    "right_eye",
    "left_ear",
    "right_ear",
    "left_shoulder",
    "right_shoulder",
    "left_elbow",
    "right_elbow",
    "left_wrist",
    "right_wrist",
    "left_hip",
    "right_hip",
    "left_knee",
    "right_knee",
    "left_ankle",
    "right_ankle",
]
"""The keypoints of a body, by their names in COCO, in its order."""
LANDMARKS: Final[tuple[Landmark, ...]] = get_args(Landmark)


class Body(Record):
    """The results of a pose model for a crop; but for `visible`, its fields are `CropMeasures`'.

    Fields that a model does not provide are None.

    Attributes:
        keypoints: the number of visible keypoints.
        person: how sure the model is that it sees a person.
        person_share: the share of the crop that the person covers.
        visible: the names of the visible keypoints; reports of the noise filter do without.
    """

    keypoints: int = Field(ge=0)
    person: float | None = Field(default=None, ge=0, le=1)
    person_share: float | None = Field(default=None, ge=0, le=1)
    visible: tuple[Landmark, ...] = IF_ANY


class Observation(Record):
    """A person in one frame, as detected by the tracker.

    `embedding` is the detector's re-identification vector, of unit length, as base64 of
    little-endian float16 (see `loupe.models.tracking.association`).
    """

    frame: int = Field(ge=0)
    time_seconds: float = Field(ge=0)
    box_xyxy: Box
    score: float = Field(ge=0, le=1)
    crop: Picture
    measures: CropMeasures
    embedding: str


class Track(EntityRecord, kind="track"):
    """The frames that the tracker assigned to one person, before filtering.

    `number` is the tracker's, unique in the video. Between `first_frame` and `last_frame` the
    person was seen in `seen_frames` frames. `observations` are those that were kept: in increasing
    order, spread over the whole time, the better of neighbours. `author` is the tracker
    (`name@revision`).
    """

    source: str
    video: str
    video_sha256: Sha256
    number: int = Field(ge=1)
    first_frame: int = Field(ge=0)
    last_frame: int = Field(ge=0)
    seen_frames: int = Field(ge=1)
    observations: tuple[Observation, ...] = Field(min_length=1)
    author: str


class Finding(Record):
    """A rule that a frame (or, if `frame` is None, the whole track) violates.

    `value` was measured and `threshold` is what it was compared with. `suspected` frames are shown
    to annotators with a mark; `dropped` ones are not shown.
    """

    frame: int | None
    rule: str
    value: float
    threshold: float
    outcome: Literal["dropped", "suspected"]


class FilterReport(EntityRecord, kind="filter_report"):
    """The results of the noise filter for one track: every finding, and the remaining frames.

    `parts` are the frame numbers that are kept, as one tracklet each: a track with an identity
    switch has several, a dropped track none. `switches` are the frames at which a new part begins
    or is suspected to begin. `bodies` are the results of a pose model, by frame; empty without one.
    """

    source: str
    track: int
    findings: tuple[Finding, ...] = ()
    parts: tuple[tuple[int, ...], ...] = ()
    switches: tuple[int, ...] = ()
    bodies: dict[int, Body] = Field(default_factory=dict)


# Records about the processing of a whole video, in addition to its tracks.


READ_SOURCES = "sources"
"""The stage whose settings are the sources that the last run of a pipeline read."""


class StageSettings(EntityRecord, kind="settings"):
    """The settings of a stage. The results of the stage also derive from them.

    Results of other settings are therefore other entities, and can be distinguished from those of
    the current settings.
    """

    stage: str
    version: str
    values: dict[str, Any]


class TrackedVideo(EntityRecord, kind="tracked_video"):
    """The result of tracking one video: a summary of its tracks.

    `frames` is the number of frames that were processed, `tracks` that of the tracks. `notices` are
    problems of the video (such as a missing end) or of single tracks; results from before a problem
    are kept.
    """

    source: str
    video: str
    video_sha256: Sha256
    frames: int = Field(ge=0)
    tracks: int = Field(ge=0)
    notices: tuple[str, ...] = ()
