"""Write the world of drawn people to a folder, with its truth."""

import json
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

from PIL import Image

from schemas.base import Record
from schemas.records import Granularity, Split
from sources.demonstration.descriptions import describe
from sources.demonstration.figure import (
    STATURE_METRES,
    Pose,
    View,
    draw_figure,
    draw_pose,
    draw_shadow,
)
from sources.demonstration.people import Chance, Person, draw_person_attributes
from sources.demonstration.scenes import draw_scene, finish

# The truth about a generated world: its sources, its people, and every image of them.

LICENCE = "CC0-1.0"
CITATION = (
    "Loupe demonstration world: synthetic pictures drawn and described by a seeded program; "
    "no real person is shown."
)
TRUTH_FILE = "truth.json"

Format = Literal["cuhk-pedes", "icfg-pedes", "ufine6926"]


class DemonstrationSource(Record):
    """The location of one generated source, and how to read it."""

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
    """The truth about one image; `file_path` is as in the annotations.

    `figure` is the box of the person's pixels (left, top, right, bottom).
    """

    file_path: str
    pose: Pose
    captions: tuple[str, ...]
    width_px: int
    height_px: int
    figure: tuple[int, int, int, int]


class TrueIdentity(Record):
    """The truth about one identity, whose `id` is as in the annotations."""

    id: int
    split: Split
    person: Person
    images: tuple[TrueImage, ...]


class Truth(Record):
    """The truth about a world, by source name."""

    seed: int
    identities: dict[str, tuple[TrueIdentity, ...]]


def load_truth(folder: Path) -> Truth:
    """Load the truth about the world that was written to `folder`."""
    return Truth.model_validate_json((folder / TRUTH_FILE).read_bytes())


# The layout of each published format, and its numbers of images and captions a person.


class _Layout(NamedTuple):
    """One source; the folder of its images is relative to its own, and so is the file."""

    name: str
    format: Format
    granularity: Granularity
    annotation_file: str
    image_root: str
    file_path: str
    images_per_identity: int
    captions_per_image: int
    has_validation: bool = False


_LAYOUTS = (
    _Layout(
        "cuhk-pedes-demo", "cuhk-pedes", Granularity.COARSE, "reid_raw.json", "images",
        "demo/{id:04d}_{number}.jpg", 3, 2, has_validation=True,
    ),
    _Layout(
        "icfg-pedes-demo", "icfg-pedes", Granularity.MEDIUM, "ICFG-PEDES.json", "images",
        "{split}/{id:04d}/{id:04d}_{number:03d}.jpg", 6, 1,
    ),
    _Layout(
        "ufine6926-demo", "ufine6926", Granularity.FINE, "ufine6926.json", ".",
        "images/{serial}.jpg", 4, 2,
    ),
)  # fmt: skip
_SIZES = ((128, 256), (144, 288), (160, 320), (176, 352), (192, 384))


def write_people_world(
    folder: Path,
    seed: int = 7,
    identities: int = 12,
    train_identities: int = 4,
    validation_identities: int = 2,
) -> DemonstrationWorld:
    """Render and describe a world of people, and write it under `folder`.

    There are three sources, each in a folder of its own, with different people and captions of
    different granularity, and one `truth.json` with the attributes of every person and image. The
    same arguments result in the same bytes (with the same Pillow and NumPy). These files are
    overwritten; other files in `folder` are not changed.

    Args:
        folder: made if missing.
        seed: determines the people.
        identities: test identities per source.
        train_identities: training identities per source.
        validation_identities: validation identities, for the one source that has such a split.
    """
    known, sources = {}, []
    for layout in _LAYOUTS:
        home = folder / layout.name
        numbers: dict[Split, int] = {
            "train": train_identities,
            "val": validation_identities if layout.has_validation else 0,
            "test": identities,
        }
        splits = [split for split, number in numbers.items() for _ in range(number)]
        known[layout.name] = tuple(
            _write_identity(home, seed, layout, identity, split)
            for identity, split in enumerate(splits, start=1)
        )
        annotations = home / layout.annotation_file
        rows = [
            _annotation_row(layout, identity, image)
            for identity in known[layout.name]
            for image in identity.images
        ]
        annotations.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
        annotations.write_text(text, encoding="utf-8")
        sources.append(
            DemonstrationSource(
                name=layout.name,
                format=layout.format,
                annotation_file=annotations,
                image_root=home / layout.image_root,
                granularity=layout.granularity,
            )
        )
    truth, file = Truth(seed=seed, identities=known), folder / TRUTH_FILE
    file.write_text(truth.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return DemonstrationWorld(folder=folder, seed=seed, sources=tuple(sources), truth_file=file)


def _write_identity(
    home: Path, seed: int, layout: _Layout, identity: int, split: Split
) -> TrueIdentity:
    """Draw one person from several sides; no side is repeated before all were used."""
    chance = Chance(seed, layout.name, identity, "person")
    person = draw_person_attributes(chance)
    count = layout.images_per_identity
    views = [view for _ in range(-(-count // len(View))) for view in chance.shuffled(tuple(View))]
    images = []
    for place, view in enumerate(views[:count]):
        chance = Chance(seed, layout.name, identity, place)
        pose = draw_pose(chance, person, view)
        picture, figure = render_crop(chance, person, pose)
        serial = (identity - 1) * count + place + 1
        file_path = layout.file_path.format(
            id=identity, split=split, number=place + 1, serial=serial
        )
        target = home / layout.image_root / file_path
        target.parent.mkdir(parents=True, exist_ok=True)
        # Full colour resolution, so that thin stripes keep their colours.
        picture.save(target, "JPEG", quality=90, subsampling=0)
        captions = tuple(
            describe(person, pose, layout.granularity, annotator, chance)
            for annotator in range(layout.captions_per_image)
        )
        images.append(
            TrueImage(
                file_path=file_path,
                pose=pose,
                captions=captions,
                width_px=picture.width,
                height_px=picture.height,
                figure=figure,
            )
        )
    return TrueIdentity(id=identity, split=split, person=person, images=tuple(images))


def render_crop(
    chance: Chance, person: Person, pose: Pose
) -> tuple[Image.Image, tuple[int, int, int, int]]:
    """Render a person in a street as a detector would crop it, and the box of the figure in it."""
    width, height = chance.pick(_SIZES)
    scale = height * chance.between(0.84, 0.93) / STATURE_METRES
    foot = (round(width * chance.between(0.46, 0.54)), round(height * chance.between(0.955, 0.98)))
    canvas = draw_scene(chance, (width, height), foot[1])
    draw_shadow(scale).paste(canvas, foot)
    left, top, right, bottom = draw_figure(person, pose, scale).paste(canvas, foot)
    box = (max(0, left), max(0, top), min(width, right), min(height, bottom))
    return finish(canvas, chance), box


def _annotation_row(layout: _Layout, identity: TrueIdentity, image: TrueImage) -> dict[str, Any]:
    """Return one image in its format; the order of the fields follows the published files."""
    row: dict[str, Any] = {"split": identity.split}
    captions = list(image.captions)
    if layout.format == "ufine6926":
        return row | {"id": identity.id, "file_path": image.file_path, "captions": captions}
    tokens = [re.findall(r"[a-z]+(?:-[a-z]+)*", caption.lower()) for caption in captions]
    row |= {"captions": captions, "file_path": image.file_path, "processed_tokens": tokens}
    return row | {"id": identity.id}
