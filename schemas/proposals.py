"""Records that pipelines propose and people judge on a page, each complete in itself.

A record contains everything that its page shows, so that a judgement can be understood years later:
texts, and images by the digest of their bytes. The proposing step also links the entities that it
is made of (`image_id`, and as parents in the store).
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from loupe.schemas.base import Box, EntityRecord, Record, Sha256
from loupe.schemas.records import Picture
from loupe.schemas.taxonomy import DifferenceType


class ImageQuestion(EntityRecord, kind="image_question"):
    """Whether an image that was drawn from a source is usable, and shows what the source states.

    Attributes:
        source: the collection of the image.
        identity: what the source says it shows.
        picture: the image.
        captions: its captions.
        others: other images of the identity.
    """

    source: str
    identity: str
    picture: Picture
    captions: tuple[str, ...] = ()
    others: tuple[Picture, ...] = ()


class TrackletFrame(Record):
    """A person in one frame of a video.

    Attributes:
        frame: number of the frame in its video, from 0.
        time_seconds: time of the frame from the start of the video.
        crop: the cropped person.
        box_xyxy: box of the crop in the frame.
        score: confidence of the detector, 0 to 1.
        suspicions: filter rules that flagged the frame without dropping it (`blurred`, `occluded`,
            `near_duplicate` …); the page proposes to drop flagged frames.
    """

    frame: int = Field(ge=0)
    time_seconds: float = Field(ge=0)
    crop: Picture
    box_xyxy: Box
    score: float = Field(ge=0, le=1)
    suspicions: tuple[str, ...] = ()


class OtherTracklet(Record):
    """Another tracklet that may show the same person, with a few of its frames."""

    tracklet_id: str
    similarity: float = Field(ge=-1, le=1)
    frames: tuple[TrackletFrame, ...] = Field(min_length=1)


class Tracklet(EntityRecord, kind="tracklet"):
    """One person according to a tracker, in the order of time.

    `author` is the tracker (`name@revision`) or the person who edited the tracklet.

    Attributes:
        source: the collection of the video.
        video: path of the video in it, with forward slashes.
        video_sha256: digest of the video.
        track: number of the track; parts of a split have the same number.
        frames: frames in ascending order.
        switches: frame numbers at which the filter suspects a change of person.
        others: tracklets that may show the same person; people decide this.
        same_person_as: ids of the tracklets that show the same person.
    """

    source: str
    video: str
    video_sha256: Sha256
    track: int
    frames: tuple[TrackletFrame, ...] = Field(min_length=1)
    switches: tuple[int, ...] = ()
    others: tuple[OtherTracklet, ...] = ()
    same_person_as: tuple[str, ...] = ()
    author: str


class Strategy(EntityRecord, kind="strategy"):
    """How to get an image that differs from its anchor in one detail (CCD, step 1).

    Attributes:
        source: the collection of the anchor.
        anchor: the image.
        caption: caption of the anchor that the model was given.
        detail: detail of the anchor to change.
        difference: type of the change.
        plan: the change as a sentence.
        contrastive_caption: caption of the wanted image, and the search query for it.
        editing_instruction: prompt for an editing model.
        author: the model (`name@revision`) or the person who edited it.
    """

    source: str
    anchor: Picture
    caption: str
    detail: str
    difference: DifferenceType
    plan: str
    contrastive_caption: str
    editing_instruction: str
    author: str


class FoundImage(Record):
    """Where a candidate was found, and its terms of use."""

    method: Literal["search"] = "search"
    engine: str
    query: str
    rank: int = Field(ge=1)
    page: str
    licence: str
    creator: str | None = None


class EditedImage(Record):
    """How a candidate was edited from its anchor."""

    method: Literal["edit"] = "edit"
    model: str
    instruction: str
    seed: int
    steps: int = Field(ge=1)


class EditMeasurement(Record):
    """How much an edit changed, and whether it made the wanted change.

    Attributes:
        changed_share: share of the image's pixels that changed visibly, 0 to 1.
        outside_share: share of the image's pixels that changed outside the wanted region; None if
            no region is known (a place or a style affects the whole image).
        region_xyxy: box around the region, in pixels of the anchor.
        region_by: who specified the region.
        apart_share: if no region is known, the share that changed apart from the largest changed
            area (or as many areas as such a change explains); None if the whole image was to
            change.
        shift: how much better the candidate fits the contrastive caption than the anchor's,
            compared with the anchor (a difference of cosines, -4 to 4): above 0 if the wanted
            detail changed.
    """

    changed_share: float = Field(ge=0, le=1)
    outside_share: float | None = Field(default=None, ge=0, le=1)
    region_xyxy: Box | None = None
    region_by: str | None = None
    apart_share: float | None = Field(default=None, ge=0, le=1)
    shift: float | None = Field(default=None, ge=-4, le=4)


class Candidate(EntityRecord, kind="candidate"):
    """An image that may differ from its anchor in one detail (CCD, step 2).

    Attributes:
        similarity: cosine of its embedding to the anchor's, if computed.
        measurement: what an edit changed.
        overlay: the anchor with the differences marked, if both show the same scene.
        warnings: for reviewers, one sentence each; a gate without review rejects the candidate.
    """

    source: str
    anchor: Picture
    caption: str
    strategy_id: str | None = None
    detail: str
    difference: DifferenceType
    plan: str
    contrastive_caption: str
    image: Picture
    origin: Annotated[FoundImage | EditedImage, Field(discriminator="method")]
    similarity: float | None = Field(default=None, ge=-1, le=1)
    measurement: EditMeasurement | None = None
    overlay: Picture | None = None
    warnings: tuple[str, ...] = ()


class GroupMember(Record):
    """An image of a group; the anchor has no `difference` and no `plan`.

    `captions` are its fine captions, one for each coarse caption of the group, in that order;
    `translations` are those in the group's second language, if any.
    """

    picture: Picture
    captions: tuple[str, ...]
    translations: tuple[str, ...] = ()
    difference: DifferenceType | None = None
    plan: str = ""


class CaptionGroup(EntityRecord, kind="caption_group"):
    """An anchor and its contrastive images with fine captions (CCD, step 3); the anchor is first.

    Attributes:
        author: the model (`name@revision`) or the person who edited them.
        second_language: language of the translations (ISO 639-1); None for none.
        warnings: for reviewers, one sentence each; a gate without review rejects the group.
    """

    source: str
    coarse_captions: tuple[str, ...] = Field(min_length=1)
    members: tuple[GroupMember, ...] = Field(min_length=1)
    author: str
    second_language: str | None = Field(default=None, pattern=r"^[a-z]{2}$")
    warnings: tuple[str, ...] = ()


OPTIONS = 6
"""Number of options of a choice test (UFineBench: the right one among five others)."""


class Confusion(EntityRecord, kind="confusion"):
    """A caption, its own image, and the image that it must not fit (ReCoS, section 3.3).

    A caption that also fits the other image is a false negative: it makes the benchmark wrong.

    Attributes:
        source: the collection that the images are from.
        text: the caption.
        own: the image that it was written for.
        other: the image that it could be confused with.
        caption_id: the caption's entity, if it is one.
        author: the model (`name@revision`) or the person who wrote it.
    """

    source: str
    text: str
    own: Picture
    other: Picture
    caption_id: str | None = None
    author: str


class ChoiceTest(EntityRecord, kind="choice_test"):
    """A caption and six images, or an image and six captions, of which one is right.

    Attributes:
        source: the collection that the samples are from.
        direction: whether to find the image of a caption or the caption of an image.
        captions: one or six of them.
        images: six or one of them.
        answer: the index of the right option, from 0. The page never shows them in this order.
    """

    source: str
    direction: Literal["caption-to-image", "image-to-caption"]
    captions: tuple[str, ...]
    images: tuple[Picture, ...]
    answer: int = Field(ge=0, lt=OPTIONS)

    @model_validator(mode="after")
    def _has_one_question_and_six_options(self) -> "ChoiceTest":
        wanted = (1, OPTIONS) if self.direction == "caption-to-image" else (OPTIONS, 1)
        if (len(self.captions), len(self.images)) != wanted:
            raise ValueError(
                f"a test {self.direction} must have {wanted[0]} caption(s) and {wanted[1]} "
                f"image(s); got {len(self.captions)} and {len(self.images)}"
            )
        if len({*self.captions}) + len({image.sha256 for image in self.images}) != 1 + OPTIONS:
            raise ValueError("the options of a choice test must all differ")
        return self
