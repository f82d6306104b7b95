"""What is known of a generated world: its sources, its people, and every image of them."""

from pathlib import Path
from typing import Literal

from schemas.base import Record
from schemas.records import Granularity, Split
from sources.demonstration.drawing import Box
from sources.demonstration.people import Person
from sources.demonstration.poses import Pose

LICENCE = "CC0-1.0"
CITATION = (
    "Loupe demonstration world: synthetic pictures drawn and described by a seeded program; "
    "no real person is shown."
)
TRUTH_FILE = "truth.json"

Format = Literal["cuhk-pedes", "icfg-pedes", "ufine6926"]


class DemonstrationSource(Record):
    """Where one generated source lies, and how to read it."""

    name: str
    format: Format
    annotation_file: Path
    image_root: Path
    granularity: Granularity
    licence: str = LICENCE
    citation: str = CITATION


class DemonstrationWorld(Record):
    """A generated world: its sources and the file with the truth about them."""

    folder: Path
    seed: int
    sources: tuple[DemonstrationSource, ...]
    truth_file: Path


class TrueImage(Record):
    """What is known of one image; `file_path` is as in the annotations.

    `figure` is the box of the person's pixels, in pixels of the image.
    """

    file_path: str
    pose: Pose
    captions: tuple[str, ...]
    width_px: int
    height_px: int
    figure: Box


class TrueIdentity(Record):
    """What is known of one identity, whose `id` is as in the annotations."""

    id: int
    split: Split
    person: Person
    images: tuple[TrueImage, ...]


class Truth(Record):
    """Everything that is known of a world, by source name."""

    seed: int
    identities: dict[str, tuple[TrueIdentity, ...]]


def load_truth(folder: Path) -> Truth:
    """The truth about the world that was written to `folder`."""
    return Truth.model_validate_json((folder / TRUTH_FILE).read_bytes())
