"""Videos, the tracks of the people in them, and what the noise filter says of every crop."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, model_validator

from schemas.base import EntityRecord, Record
from schemas.proposals import Box, Picture
from schemas.records import Sha256

LINKED_LATER: Final[Mapping[str, frozenset[str]]] = {
    "filter_report": frozenset({"filtered_with"}),
    "tracklet": frozenset({"proposed_with", "tracked_with"}),
}
"""By kind the roles of parents that are no part of an id: settings that lead to the same result.

Where other thresholds give the same report or tracklet, it keeps its id and the decisions on it,
and is linked to those settings, too.
"""


class VideoFacts(Record):
    """What the container says of a video. Width and height are those of the upright picture.

    `frame_rate` is the mean number of frames a second; `frame_count` is what the container claims,
    None where it claims nothing. `rotation_degrees` is how far the stored picture was turned
    clockwise to stand upright: 0, 90, 180 or 270.
    """

    width_px: int = Field(gt=0)
    height_px: int = Field(gt=0)
    frame_rate: float = Field(gt=0)
    frame_count: int | None = Field(default=None, ge=0)
    duration_seconds: float | None = Field(default=None, ge=0)
    codec: str
    rotation_degrees: Literal[0, 90, 180, 270] = 0


class Video(EntityRecord):
    """A video that was imported: its bytes stay where they are, and are known by their digest.

    `file_path` is relative to the root of its source, with forward slashes.
    """

    kind: ClassVar[str] = "video"
    source: str
    file_path: str
    sha256: Sha256
    size_bytes: int = Field(gt=0)
    facts: VideoFacts


class CropMeasures(Record):
    """What was measured of a crop; thresholds are compared with these numbers alone.

    Attributes:
        width_px: width of the box inside the frame.
        height_px: height of the box inside the frame.
        cut_off: share of the box (as detected) that lies outside the frame, 0 to 1.
        border_px: distance of the box to the nearest border of the frame; 0 where it touches it.
        sharpness: variance of the Laplacian of the grey crop, scaled to 128 pixels of height.
        brightness: mean luma, 0 to 255.
        contrast: standard deviation of luma.
        overlap: the largest share of the box that another person's box covers, 0 to 1.
        other_people: other persons of whose box at least half lies in this one.
        keypoints: visible keypoints of the body, None where no pose model was asked.
        perceptual_hash: 64 bits (pHash) as 16 hex digits.
        person: how sure the pose model is that this is a person, 0 to 1; None as for `keypoints`.
        person_share: share of the crop that the pose model sees as that person, None as for
            `keypoints`.
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


class Body(Record):
    """What a pose model saw in a crop; the fields are those of `CropMeasures`.

    A model that only finds keypoints says nothing of the rest.
    """

    keypoints: int = Field(ge=0)
    person: float | None = Field(default=None, ge=0, le=1)
    person_share: float | None = Field(default=None, ge=0, le=1)


class Observation(Record):
    """A person in one frame, as the tracker saw them.

    `embedding` is the detector's re-identification vector, of unit length, as base64 of
    little-endian float16 (see `models.tracking.association`).
    """

    frame: int = Field(ge=0)
    time_seconds: float = Field(ge=0)
    box_xyxy: Box
    score: float = Field(ge=0, le=1)
    crop: Picture
    measures: CropMeasures
    embedding: str


class Track(EntityRecord):
    """What the tracker took for one person, before anything is filtered.

    `number` is the tracker's, unique in the video. Between `first_frame` and `last_frame` the
    person was seen in `seen_frames` frames, of which `observations` are the ones that were kept:
    rising, spread over the whole time, the better of neighbours. `author` is the tracker
    (`name@revision`).
    """

    kind: ClassVar[str] = "track"
    source: str
    video: str
    video_sha256: Sha256
    number: int = Field(ge=1)
    first_frame: int = Field(ge=0)
    last_frame: int = Field(ge=0)
    seen_frames: int = Field(ge=1)
    observations: tuple[Observation, ...] = Field(min_length=1)
    author: str

    @model_validator(mode="after")
    def _observations_rise(self) -> "Track":
        numbers = [observation.frame for observation in self.observations]
        if numbers != sorted(set(numbers)):
            raise ValueError(f"the observations of a track must rise; got {numbers}")
        return self


class Finding(Record):
    """A rule that spoke against a frame (or, where `frame` is None, against the whole track).

    `value` is what was measured and `threshold` what it was compared with. What is `suspected` is
    shown to people with a mark; what is `dropped` is not shown.
    """

    frame: int | None
    rule: str
    value: float
    threshold: float
    outcome: Literal["dropped", "suspected"]


class FilterReport(EntityRecord):
    """What the noise filter made of one track: every finding, and the frames that are left.

    `parts` are the frame numbers that are kept, as one tracklet each: a track with an identity
    switch has several, a track that was dropped none. `switches` are the frames at which a new part
    begins or is suspected to. `bodies` are what a pose model saw, by frame; empty where none was
    asked.
    """

    kind: ClassVar[str] = "filter_report"
    source: str
    track: int
    findings: tuple[Finding, ...] = ()
    parts: tuple[tuple[int, ...], ...] = ()
    switches: tuple[int, ...] = ()
    bodies: dict[int, Body] = Field(default_factory=dict)


# What is recorded of the work on a whole video, beside the tracks that it gave.


class StageSettings(EntityRecord):
    """What a stage was set to. What it made derives from this, too.

    So results of other settings are other entities, and those of the settings in force are known.
    """

    kind: ClassVar[str] = "settings"
    stage: str
    version: str
    values: dict[str, Any]


class TrackedVideo(EntityRecord):
    """What came of following the people of one video: a summary of its tracks.

    `frames` were looked at and gave `tracks`. `notices` say what is wrong with the video (it breaks
    off, say) or with single tracks: what was found before stands.
    """

    kind: ClassVar[str] = "tracked_video"
    source: str
    video: str
    video_sha256: Sha256
    frames: int = Field(ge=0)
    tracks: int = Field(ge=0)
    notices: tuple[str, ...] = ()
