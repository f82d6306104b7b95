"""What is known of a world of stills, image by image."""

from pathlib import Path

from pydantic import Field

from schemas.base import Record
from schemas.retrieval_task import RetrievalTask
from sources.demonstration.stills.scene import Scene

LICENCE = "CC0-1.0"
CITATION = "Loupe demonstration stills: synthetic scenes drawn and described by a seeded program."
TRUTH_FILE = "truth.jsonl"
CAPTIONS_FILE = "captions_test.json"
IMAGE_ROOT = "images"


class TrueThing(Record):
    """One drawn thing: what it is and its box without the ink, in pixels of the image.

    `kind` is one of the vocabulary, `person` or `sign`; `colour` is None for these two.
    """

    kind: str
    colour: str | None
    left: float
    top: float
    right: float
    bottom: float


class StillTruth(Record):
    """Everything that is known of one still.

    Attributes:
        image_id: as in the annotations, from 1.
        file_name: as in the annotations, under the image root.
        task: what the scene is about.
        scene: what was drawn.
        things: where it was drawn, the farthest first.
        family: equal for a scene and its variants, which differ from it in a detail or two.
        change: what a variant differs in; None for the first of its family.
        same_caption_as: the `image_id` of an image that shows the same scene elsewhere laid out, so
            that every caption of the one is true of the other; None for all but planted pairs.
        facts: short true statements, the most important first.
        captions: five true captions.
    """

    image_id: int
    file_name: str
    task: RetrievalTask
    scene: Scene
    things: tuple[TrueThing, ...]
    family: int
    change: str | None = None
    same_caption_as: int | None = None
    facts: tuple[str, ...] = Field(min_length=3)
    captions: tuple[str, ...] = Field(min_length=5, max_length=5)


class StillsWorld(Record):
    """Where a world of stills lies.

    `annotation_file` is in the format of COCO captions; `file_name`s in it are under `image_root`.
    """

    folder: Path
    seed: int
    annotation_file: Path
    image_root: Path
    truth_file: Path
    licence: str = LICENCE
    citation: str = CITATION


def load_stills_truth(folder: Path) -> tuple[StillTruth, ...]:
    """The truth about the stills that were written to `folder`, in the order of their ids."""
    lines = (folder / TRUTH_FILE).read_text("utf-8").splitlines()
    return tuple(StillTruth.model_validate_json(line) for line in lines)
