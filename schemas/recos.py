"""What a ReCoS-style benchmark is made of: rendered truths, captions, similar images."""

from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from schemas.base import EntityRecord, Record
from schemas.proposals import Picture
from schemas.retrieval_task import RetrievalTask


class RenderedTruth(EntityRecord):
    """What a generator drew into an image, so that its answer is known by construction.

    Attributes:
        task: what the image is for.
        generator: the code that drew it, `name@version`.
        seed: what it was drawn from.
        question: what the image asks, as it can be read from it: `3/4 + 1/8`, a program, a sign.
        answer: the right answer.
        look: how it is drawn: `paper` or `blackboard`, the font, `editor` or `slide` …
        truth: whatever else is known, as JSON: operands, the language of a program, both texts.
        facts: short English statements that are true of the image, the most important first; a
            caption may say each of them.
    """

    kind: ClassVar[str] = "rendered_truth"
    task: RetrievalTask
    generator: str
    seed: int
    question: str
    answer: str
    look: dict[str, str] = Field(default_factory=dict)
    truth: dict[str, Any] = Field(default_factory=dict)
    facts: tuple[str, ...] = Field(min_length=3)


class TextReading(EntityRecord):
    """What a model read in a photograph, the largest writing first; `reader` is `name@revision`."""

    kind: ClassVar[str] = "text_reading"
    reader: str
    texts: tuple[str, ...] = Field(min_length=1)

    @property
    def facts(self) -> tuple[str, ...]:
        """What a caption may say of it."""
        return tuple(f"The words “{text}” are written." for text in self.texts)


class CaptionVerdict(StrEnum):
    """What its discriminability says of a caption (ReCoS, section 3.2)."""

    PASS = "pass"  # noqa: S105 - no password
    OVER_DETAILED = "over_detailed"
    UNDER_DETAILED = "under_detailed"


class DiscriminabilitySettings(Record):
    """When a caption passes.

    Attributes:
        k: how many images a caption is compared with.
        eta: how much of the range from 0 to log k is accepted around its middle.
        temperature: what similarities are divided by; None for one that is calibrated.
        rounds: how often a caption may be rewritten before people are asked.
    """

    k: int = Field(default=10, ge=2)
    eta: float = Field(default=0.8, gt=0, lt=1)
    temperature: float | None = Field(default=None, gt=0)
    rounds: int = Field(default=3, ge=0)


class DiscriminabilityReport(EntityRecord):
    """How well a caption tells its image from the others, and with which settings that was seen.

    `round` counts from 0, the caption as it was first written. `embedder` is `name@revision`.
    """

    kind: ClassVar[str] = "discriminability_report"
    round: int = Field(ge=0)
    dis: float
    lower: float
    upper: float
    verdict: CaptionVerdict
    k: int
    temperature: float
    embedder: str


class TaskDraw(EntityRecord):
    """The images of a source that a task begins with: how they were found, and which came out.

    `way` is `named`, `nearest` (to `query`, by `embedder`), `categories` (at random, of those that
    have one of them) or `random`; `digest` is that of the ids of the images in their order.
    """

    kind: ClassVar[str] = "task_draw"
    task: RetrievalTask
    source: str
    way: Literal["named", "nearest", "categories", "random"]
    query: str | None
    categories: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    embedder: str | None
    seed: int
    images_wanted: int
    images_drawn: int
    digest: str


# Similar images: which were chosen, how many went at each step, and what people say of them.


class ConfusionMatch(EntityRecord):
    """An image of D and the similar image that it is to be confused with (ReCoS, section 3.3).

    Attributes:
        image: the id of x.
        similar: the id of x′.
        similarity: the cosine of their embeddings.
        rank: which of the images of its source that x′ is by similarity to x, from 1; those that
            come before it were taken, or were duplicates.
        embedder: what made the embeddings, as `name@revision`.
    """

    kind: ClassVar[str] = "confusion_match"
    image: str
    similar: str
    similarity: float
    rank: int = Field(ge=1)
    embedder: str


class ExpansionReport(EntityRecord):
    """How many images there were at each step of an expansion (ReCoS: 20,000 found, 14,982 new).

    Attributes:
        images: images of v1.
        wanted: neighbours wanted for each of them.
        found: neighbours in all, an image counted for each that it is a neighbour of.
        distinct: images among them.
        outside: those that are not in v1 themselves.
        exact: those that went because another image has the same bytes.
        near: those that went because they look like one that stays.
        new: what is left, the images that v2 has more than v1.
        doubtful: pairs that people have to decide.
        short: images of v1 that had fewer neighbours than wanted.
        embedder: what made the embeddings, as `name@revision`.
        embedding_recall: that of the near-duplicates (`NearDuplicateReport`).
    """

    kind: ClassVar[str] = "expansion_report"
    images: int
    wanted: int
    found: int
    distinct: int
    outside: int
    exact: int
    near: int
    new: int
    doubtful: int
    short: int
    embedder: str
    embedding_recall: float | None = Field(default=None, exclude_if=lambda share: share is None)


class DuplicateQuestion(EntityRecord):
    """Two images of a benchmark of which people say whether they are the same (ReCoS, section 3.4).

    Attributes:
        first: the image that stays, whatever is said.
        second: the image that leaves if they are the same.
        mirrored: whether the second looks like the mirror image of the first.
        distance: the cosine distance of their spectra; None where their looks are not near.
        similarity: the cosine of their embeddings; None where either has none.
        embedder: what made the embeddings, as `name@revision`.
    """

    kind: ClassVar[str] = "duplicate_question"
    first: Picture
    second: Picture
    mirrored: bool = False
    distance: float | None = None
    similarity: float | None = None
    embedder: str

    @model_validator(mode="after")
    def _images_differ(self) -> "DuplicateQuestion":
        if self.first.sha256 == self.second.sha256:
            raise ValueError(
                f"first and second must be two images; got {self.first.sha256!r} twice"
            )
        return self


# What people are asked of an image before captions are written: does it fit the task?


class Selection(EntityRecord):
    """An image that is proposed for a task of a benchmark (ReCoS, section 3.1).

    Attributes:
        source: the collection that the image is from.
        task: what it is proposed for.
        picture: the image.
        proposed_by: how it was found, in words.
    """

    kind: ClassVar[str] = "selection"
    source: str
    task: RetrievalTask
    picture: Picture
    proposed_by: str


# What is measured of a confusing caption, and what follows from it (ReCoS, section 3.3).


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
