"""What pipelines propose and people judge on pages of their own, each complete in itself.

A record holds all that its page shows, so that a judgement can be read years later: texts, and
images by the digest of their bytes. The proposing step also links the entities that it is made of
(`image_id`, and as parents in the store).
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from schemas.base import EntityRecord, Record
from schemas.records import Sha256
from schemas.taxonomy import DifferenceType

Box = tuple[float, float, float, float]
"""A box as (left, top, right, bottom), in pixels of the frame or image it was found in."""


class Picture(Record):
    """An image in the blob store; `image_id` is its entity, where it is one."""

    sha256: Sha256
    media_type: str
    width_px: int = Field(gt=0)
    height_px: int = Field(gt=0)
    image_id: str | None = None


class TrackletFrame(Record):
    """A person in one frame of a video.

    Attributes:
        frame: the number of the frame in its video, from 0.
        time_seconds: when it is shown, from the start of the video.
        crop: the person, cut out.
        box_xyxy: where that was in the frame.
        score: how sure the detector was, 0 to 1.
        suspicions: the filter rules that spoke against the frame without dropping it
            (`blurred`, `occluded`, `near_duplicate` …); they are proposed to be dropped.
    """

    frame: int = Field(ge=0)
    time_seconds: float = Field(ge=0)
    crop: Picture
    box_xyxy: Box
    score: float = Field(ge=0, le=1)
    suspicions: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _box_has_an_area(self) -> "TrackletFrame":
        left, top, right, bottom = self.box_xyxy
        if not (left < right and top < bottom):
            raise ValueError(f"box_xyxy must be (left, top, right, bottom); got {self.box_xyxy!r}")
        return self


class OtherTracklet(Record):
    """Another tracklet that may show the same person, by a few of its frames."""

    tracklet_id: str
    similarity: float = Field(ge=-1, le=1)
    frames: tuple[TrackletFrame, ...] = Field(min_length=1)


class Tracklet(EntityRecord):
    """What a tracker took for one person, in the order of time.

    `author` is the tracker (`name@revision`) or the person who edited it.

    Attributes:
        source: the collection that the video is from.
        video: the video's path in it, with forward slashes.
        video_sha256: the digest of the video.
        track: the tracker's number for it; the parts of a split keep it.
        frames: the frames, rising.
        switches: frame numbers from which on the filter suspects another person.
        others: tracklets that may show the same person; people decide, not code.
        same_person_as: the tracklets that do, by their ids.
    """

    kind: ClassVar[str] = "tracklet"
    source: str
    video: str
    video_sha256: Sha256
    track: int
    frames: tuple[TrackletFrame, ...] = Field(min_length=1)
    switches: tuple[int, ...] = ()
    others: tuple[OtherTracklet, ...] = ()
    same_person_as: tuple[str, ...] = ()
    author: str

    @model_validator(mode="after")
    def _frames_rise(self) -> "Tracklet":
        numbers = [frame.frame for frame in self.frames]
        if numbers != sorted(set(numbers)):
            raise ValueError(f"the frames of a tracklet must rise; got {numbers}")
        return self


class Strategy(EntityRecord):
    """How to get an image that differs from its anchor in one detail (CCD, step 1).

    Attributes:
        source: the collection that the anchor is from.
        anchor: the image.
        caption: the caption that the model was given with it.
        detail: the detail of the anchor that is to change.
        difference: the type of the change.
        plan: what it is changed into, in a sentence.
        contrastive_caption: the caption of the image wanted, and the query to search it with.
        editing_instruction: the prompt of an editing model.
        author: the model (`name@revision`) or the person who edited it.
    """

    kind: ClassVar[str] = "strategy"
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
    """Where a candidate was found, and under which terms it may be used."""

    way: Literal["search"] = "search"
    engine: str
    query: str
    rank: int = Field(ge=1)
    page: str
    licence: str
    creator: str | None = None


class EditedImage(Record):
    """What made a candidate out of its anchor."""

    way: Literal["edit"] = "edit"
    model: str
    instruction: str
    seed: int
    steps: int = Field(ge=1)


class EditMeasurement(Record):
    """How much an edit changed, and whether it changed what was wanted.

    Attributes:
        changed_share: the share of the image's pixels that changed visibly, 0 to 1.
        outside_share: the share of the image's pixels that changed outside the region where the
            change was wanted; None where nobody knows a region (a place or a style concerns all).
        region_xyxy: the box around the region, in pixels of the anchor.
        region_by: who knows the region.
        apart_share: where nobody does, the share that changed apart from the largest changed area
            (or as many as such a change explains); None for what concerns all of the picture.
        shift: by how much more the candidate fits the contrastive caption than the anchor's, held
            against the same of the anchor (a difference of cosines, -4 to 4): above 0 where the
            wanted detail changed.
    """

    changed_share: float = Field(ge=0, le=1)
    outside_share: float | None = Field(default=None, ge=0, le=1)
    region_xyxy: Box | None = None
    region_by: str | None = None
    apart_share: float | None = Field(default=None, ge=0, le=1)
    shift: float | None = Field(default=None, ge=-4, le=4)


class Candidate(EntityRecord):
    """An image that might differ from its anchor in one detail (CCD, step 2).

    Attributes:
        similarity: the cosine of its embedding to the anchor's, where one was computed.
        measurement: what an edit changed.
        overlay: the anchor with what differs marked, where the two are the same scene.
        doubts: what speaks against it, a sentence each; a gate where nobody looks turns it down.
    """

    kind: ClassVar[str] = "candidate"
    source: str
    anchor: Picture
    caption: str
    strategy_id: str | None = None
    detail: str
    difference: DifferenceType
    plan: str
    contrastive_caption: str
    image: Picture
    origin: Annotated[FoundImage | EditedImage, Field(discriminator="way")]
    similarity: float | None = Field(default=None, ge=-1, le=1)
    measurement: EditMeasurement | None = None
    overlay: Picture | None = None
    doubts: tuple[str, ...] = ()


class GroupMember(Record):
    """An image of a group; the anchor has no `difference` and no `plan`.

    `captions` are its fine captions, one for each coarse caption of the group, in that order;
    `translations` are those in the group's second language, where it has one.
    """

    picture: Picture
    captions: tuple[str, ...]
    translations: tuple[str, ...] = ()
    difference: DifferenceType | None = None
    plan: str = ""


class CaptionGroup(EntityRecord):
    """An anchor and its contrastive images with fine captions (CCD, step 3); the anchor is first.

    Attributes:
        author: the model (`name@revision`) or the person who edited them.
        second_language: the language of the translations (ISO 639-1); None for none.
        doubts: what speaks against captions, a sentence each; a gate where nobody looks turns the
            group down.
    """

    kind: ClassVar[str] = "caption_group"
    source: str
    coarse_captions: tuple[str, ...] = Field(min_length=1)
    members: tuple[GroupMember, ...] = Field(min_length=1)
    author: str
    second_language: str | None = Field(default=None, pattern=r"^[a-z]{2}$")
    doubts: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_complete(self) -> "CaptionGroup":
        wanted = len(self.coarse_captions)
        counts = [len(member.captions) for member in self.members]
        if any(count != wanted for count in counts):
            raise ValueError(
                f"every image of a group must have {wanted} captions, one for each coarse one; "
                f"got {counts}"
            )
        translated = {len(member.translations) for member in self.members}
        if translated != {wanted if self.second_language else 0}:
            raise ValueError(
                f"a group has a translation of every caption or none; got {sorted(translated)} "
                f"an image, in language {self.second_language!r}"
            )
        anchors = [member.difference is None for member in self.members]
        if anchors != [True] + [False] * (len(anchors) - 1):
            raise ValueError("the first image of a group, and no other, must be the anchor")
        return self
