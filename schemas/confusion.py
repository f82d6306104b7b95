"""What is measured of a confusing caption, and what follows from it (ReCoS, section 3.3)."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from schemas.base import EntityRecord, Record


class ConfusionVerdict(StrEnum):
    """What the check of both captions against both images comes to.

    `doubtful` goes to people, with both images side by side; so does `false_negative`, whose
    caption fits the similar image no worse than its own.
    """

    CLEAR = "clear"
    DOUBTFUL = "doubtful"
    FALSE_NEGATIVE = "false_negative"


class ConfusionFinding(StrEnum):
    """What speaks against a confusing caption."""

    CAPTION_FITS_SIMILAR = "caption_fits_similar"
    CONFUSING_FITS_IMAGE = "confusing_fits_image"
    MANY_WORDS_CHANGED = "many_words_changed"
    SAME_WORDS = "same_words"


class ConfusionSettings(Record):
    """When a confusing caption is clear; see docs/recos.md.

    Attributes:
        margin: by how much, in cosine, a caption must be nearer to its own image than to the other
            one; None for a margin that is calibrated on the captions of D.
        missed_share: the share of captions that fit both images which a calibrated margin may
            overlook.
        usual_margin: the margin where there are too few captions to calibrate one.
        least_images: how many images a calibration needs.
        changed_share: the share of words that may differ between t and t′.
    """

    margin: float | None = Field(default=None, ge=0, le=2)
    missed_share: float = Field(default=0.02, gt=0, lt=0.5)
    usual_margin: float = Field(default=0.05, ge=0, le=2)
    least_images: int = Field(default=20, ge=2)
    changed_share: float = Field(default=0.5, gt=0, le=1)


class ConfusionCalibration(EntityRecord):
    """The margin that a check was made with, and what it was found on.

    Attributes:
        margin: in cosine.
        calibrated: whether it was found on known pairs.
        images: how many images of D there were.
        captions: how many captions of them.
        missed_share: what it may overlook, where it was calibrated.
        embedder: what made the embeddings, as `name@revision`.
    """

    kind: ClassVar[str] = "confusion_calibration"
    margin: float
    calibrated: bool
    images: int
    captions: int
    missed_share: float
    embedder: str


class ConfusionCheck(EntityRecord):
    """A caption t of an image x and the confusing caption t′ of a similar one x′, measured.

    Attributes:
        caption_image: the cosine of t and x.
        caption_similar: that of t and x′.
        confusing_image: that of t′ and x.
        confusing_similar: that of t′ and x′.
        caption_advantage: how much nearer t is to x than to x′, each image's usual similarity to
            captions taken off.
        confusing_advantage: how much nearer t′ is to x′ than to x.
        margin: what both have to exceed.
        edits: words put in, left out or replaced between t and t′.
        words: the words of the longer of them.
        findings: what speaks against it.
        verdict: what follows.
        embedder: what made the embeddings, as `name@revision`.
    """

    kind: ClassVar[str] = "confusion_check"
    caption_image: float
    caption_similar: float
    confusing_image: float
    confusing_similar: float
    caption_advantage: float
    confusing_advantage: float
    margin: float
    edits: int
    words: int
    findings: tuple[ConfusionFinding, ...]
    verdict: ConfusionVerdict
    embedder: str
