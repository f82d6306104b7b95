"""Records of a ReCoS-style benchmark: rendered truths, captions, similar images."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from loupe.schemas.base import IF_ANY, IF_KNOWN, EntityRecord, Record
from loupe.schemas.records import Picture
from loupe.schemas.taxonomy import RetrievalTask


class RenderedTruth(EntityRecord, kind="rendered_truth"):
    """What a generator drew into an image, so that its answer is known by construction.

    Attributes:
        task: task of the image.
        generator: the drawing code, `name@version`.
        seed: seed of the drawing.
        question: the question as it can be read from the image: `3/4 + 1/8`, a program, a sign.
        answer: the right answer.
        look: its look: `paper` or `blackboard`, the font, the ink …
        truth: further truth as JSON: operands, the language of a program, both texts.
        facts: short true statements about the image in English, most important first; captions may
            use each of them.
    """

    task: RetrievalTask
    generator: str
    seed: int
    question: str
    answer: str
    look: dict[str, str] = Field(default_factory=dict)
    truth: dict[str, Any] = Field(default_factory=dict)
    facts: tuple[str, ...] = Field(min_length=3)


class TextReading(EntityRecord, kind="text_reading"):
    """The text that a model read in a photograph, largest first; `reader` is `name@revision`."""

    reader: str
    texts: tuple[str, ...] = Field(min_length=1)

    @property
    def facts(self) -> tuple[str, ...]:
        """Facts for captions."""
        return tuple(f"The words “{text}” are written." for text in self.texts)


class CaptionVerdict(StrEnum):
    """The verdict on a caption by its discriminability (ReCoS, section 3.2)."""

    PASS = "pass"  # noqa: S105 - no password
    OVER_DETAILED = "over_detailed"
    UNDER_DETAILED = "under_detailed"


class DiscriminabilitySettings(Record):
    """When a caption passes.

    Attributes:
        k: number of images that a caption is compared with.
        eta: accepted share of the range from 0 to log k, around its middle.
        temperature: divisor of similarities; None to calibrate it.
        rounds: most revisions of a caption before people decide.
    """

    k: int = Field(default=10, ge=2)
    eta: float = Field(default=0.8, gt=0, lt=1)
    temperature: float | None = Field(default=None, gt=0)
    rounds: int = Field(default=3, ge=0)


class DiscriminabilityReport(EntityRecord, kind="discriminability_report"):
    """How well a caption distinguishes its image from others, and the settings of the measurement.

    `round` counts from 0, the original caption. `embedder` is `name@revision`.
    """

    round: int = Field(ge=0)
    dis: float
    lower: float
    upper: float
    verdict: CaptionVerdict
    k: int
    temperature: float
    embedder: str


class TaskDraw(EntityRecord, kind="task_draw"):
    """The images of a source that a task begins with, and how they were selected.

    `method` is `named`, `nearest` (to `query`, by `embedder`), `categories` (random images with one
    of the categories) or `random`; `digest` is that of the ids of the images in their order.
    """

    task: RetrievalTask
    source: str
    method: Literal["named", "nearest", "categories", "random"]
    query: str | None
    categories: tuple[str, ...] = IF_ANY
    embedder: str | None
    seed: int
    images_wanted: int
    images_drawn: int
    digest: str


# Similar images: the matches, the number of images at each step, and questions to people.


class ConfusionMatch(EntityRecord, kind="confusion_match"):
    """An image of D and the similar image to confuse it with (ReCoS, section 3.3).

    Attributes:
        image: id of x.
        similar: id of x′.
        similarity: cosine of their embeddings.
        rank: position of x′ among the images of its source by similarity to x, from 1; images
            before it were taken or duplicates.
        embedder: the embedder, as `name@revision`.
    """

    image: str
    similar: str
    similarity: float
    rank: int = Field(ge=1)
    embedder: str


class ExpansionReport(EntityRecord, kind="expansion_report"):
    """The number of images at each step of an expansion (ReCoS: 20,000 found, 14,982 new).

    Attributes:
        images: images of v1.
        wanted: neighbours wanted for each image.
        found: all neighbours; an image is counted once for each image it is a neighbour of.
        distinct: distinct images among them.
        outside: images that are not in v1.
        exact: images removed because another has the same bytes.
        near: images removed as near-duplicates.
        new: remaining images, which v2 adds to v1.
        doubtful: pairs that people have to decide.
        short: images of v1 with fewer neighbours than wanted.
        embedder: the embedder, as `name@revision`.
        embedding_recall: recall of the near-duplicate search (`NearDuplicateReport`).
    """

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
    embedding_recall: float | None = IF_KNOWN


class DuplicateQuestion(EntityRecord, kind="duplicate_question"):
    """Two images of a benchmark; people decide if they are the same (ReCoS, section 3.4).

    Attributes:
        first: the image that is kept in any case.
        second: the image that is removed if they are the same.
        mirrored: whether the second looks like the mirror image of the first.
        distance: cosine distance of their spectra; None if their looks are not near.
        similarity: cosine of their embeddings; None if either has none.
        embedder: the embedder, as `name@revision`.
    """

    first: Picture
    second: Picture
    mirrored: bool = False
    distance: float | None = None
    similarity: float | None = None
    embedder: str


# The question to people before captions are written: does an image fit the task?


class Selection(EntityRecord, kind="selection"):
    """An image proposed for a task of a benchmark (ReCoS, section 3.1).

    Attributes:
        source: the collection of the image.
        task: the task it is proposed for.
        picture: the image.
        proposed_by: how it was selected, in words.
    """

    source: str
    task: RetrievalTask
    picture: Picture
    proposed_by: str


# Measurements of a confusing caption, and the resulting verdict (ReCoS, section 3.3).


class ConfusionVerdict(StrEnum):
    """The verdict on both captions and both images.

    People see `doubtful` pairs with both images side by side, and `false_negative` pairs, whose
    caption fits the similar image no worse than its own.
    """

    CLEAR = "clear"
    DOUBTFUL = "doubtful"
    FALSE_NEGATIVE = "false_negative"


class ConfusionFinding(StrEnum):
    """A problem of a confusing caption."""

    CAPTION_FITS_SIMILAR = "caption_fits_similar"
    CONFUSING_FITS_IMAGE = "confusing_fits_image"
    MANY_WORDS_CHANGED = "many_words_changed"
    SAME_WORDS = "same_words"


class ConfusionSettings(Record):
    """When a confusing caption passes; see docs/recos.md.

    Attributes:
        margin: how much nearer, in cosine, a caption must be to its own image than to the other
            one; None to calibrate it on the captions of D.
        missed_share: share of captions fitting both images that a calibrated margin may miss.
        usual_margin: margin if there are too few captions to calibrate one.
        least_images: number of images required for a calibration.
        changed_share: share of words that may differ between t and t′.
    """

    margin: float | None = Field(default=None, ge=0, le=2)
    missed_share: float = Field(default=0.02, gt=0, lt=0.5)
    usual_margin: float = Field(default=0.05, ge=0, le=2)
    least_images: int = Field(default=20, ge=2)
    changed_share: float = Field(default=0.5, gt=0, le=1)


class ConfusionCalibration(EntityRecord, kind="confusion_calibration"):
    """The margin of a check, and how it was determined.

    Attributes:
        margin: in cosine.
        calibrated: whether it was calibrated on known pairs.
        images: number of images of D.
        captions: number of their captions.
        missed_share: share that it may miss, if calibrated.
        embedder: the embedder, as `name@revision`.
    """

    margin: float
    calibrated: bool
    images: int
    captions: int
    missed_share: float
    embedder: str


class ConfusionCheck(EntityRecord, kind="confusion_check"):
    """The check of a caption t of an image x and the confusing caption t′ of a similar image x′.

    Attributes:
        caption_image: cosine of t and x.
        caption_similar: cosine of t and x′.
        confusing_image: cosine of t′ and x.
        confusing_similar: cosine of t′ and x′.
        caption_advantage: how much nearer t is to x than to x′, after subtracting each image's mean
            similarity to captions.
        confusing_advantage: how much nearer t′ is to x′ than to x.
        margin: the least value of both advantages, exclusive.
        edits: word insertions, deletions and replacements between t and t′.
        words: number of words of the longer caption.
        findings: problems of the caption.
        verdict: the resulting verdict.
        embedder: the embedder, as `name@revision`.
    """

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
