"""Write the world of drawn people to a folder, with its truth."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from pydantic import TypeAdapter

from loupe.demo.worlds.descriptions import describe
from loupe.demo.worlds.figure import (
    STATURE_METRES,
    Pose,
    View,
    draw_figure,
    draw_pose,
    draw_shadow,
    shaded,
)
from loupe.demo.worlds.people import TABLES, Person, Rgb, draw_person_attributes
from loupe.schemas.base import Record, Split
from loupe.schemas.build import SourceSpec
from loupe.schemas.records import Granularity
from loupe.testing import Chance

_COLOURS: dict[str, list[Rgb]] = TypeAdapter(dict[str, list[Rgb]]).validate_python(TABLES["street"])


def draw_houses(chance: Chance, size: tuple[int, int], foot: float, unit: float) -> Image.Image:
    """Draw fronts of houses, each with rows of windows above a shop, on a pavement.

    They stand on the row `foot`; `unit` is pixels per metre there. No part is so upright that it
    could be detected as a person.
    """
    width = size[0]
    picture = Image.new("RGB", size, chance.pick(_COLOURS["pavements"]))
    draw = ImageDraw.Draw(picture)
    left = -chance.between(0, 6) * unit
    while left < width:
        right = left + chance.between(6, 10) * unit
        wall = chance.pick(_COLOURS["walls"])
        draw.rectangle((left, 0, right, foot), wall, shaded(wall, 0.8))
        shop = (left + 0.5 * unit, foot - 2.7 * unit, right - 0.5 * unit, foot - 0.5 * unit)
        draw.rectangle(shop, chance.pick(_COLOURS["glass"]))
        awning = (left + 0.3 * unit, shop[1] - 0.2 * unit, right - 0.3 * unit, shop[1] + 0.4 * unit)
        draw.rectangle(awning, chance.pick(_COLOURS["awnings"]))
        for top in np.arange(foot - 6.2 * unit, -2 * unit, -3.6 * unit):
            for x in np.arange(left + 0.8 * unit, right - 1.9 * unit, 2.7 * unit):
                window = (x, top, x + 1.6 * unit, top + 1.7 * unit)
                draw.rectangle(window, chance.pick(_COLOURS["glass"]), shaded(wall, 1.12), 3)
        left = right
    draw.rectangle((0, foot - 0.18 * unit, width, foot), (120, 116, 112))
    return picture


def draw_scene(chance: Chance, size: tuple[int, int], ground_y: float) -> Image.Image:
    """Draw a street of the given size in pixels; `ground_y` is where a person in front stands."""
    foot = ground_y * chance.between(0.60, 0.80)
    unit = ground_y * chance.between(0.10, 0.2)
    picture = draw_houses(chance, size, foot, unit)
    draw = ImageDraw.Draw(picture)
    for _ in range(chance.whole(0, 3)):  # trees
        x = chance.between(0, size[0])
        y = foot - chance.between(1.5, 3) * unit
        draw.rectangle((x - 0.1 * unit, y, x + 0.1 * unit, foot), fill=(92, 76, 62))
        for _ in range(20):
            across = chance.between(-1.2, 1.2) * unit
            up = chance.between(-0.5, 1.8) * unit
            leaves = (x + across, y - up), chance.between(0.25, 0.6) * unit
            draw.circle(*leaves, fill=chance.pick(_COLOURS["leaves"]))
    return picture.filter(ImageFilter.GaussianBlur(0.006 * ground_y + 0.4))


def finish(picture: Image.Image, chance: Chance) -> Image.Image:
    """Return the image as from a camera: with a tint and slight noise."""
    bright = chance.between(0.92, 1.06)
    across = np.linspace(-1, 1, picture.width, dtype=np.float32)[None, :, None]
    light = bright * (1 + chance.between(-0.05, 0.05) * across)
    noise = 2.2 * chance.noise((picture.height, picture.width, 1))
    pixels = np.asarray(picture, np.float32) * light + noise
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


# The truth about a generated world: its sources, its people, and every image of them.

LICENCE = "CC0-1.0"
CITATION = (
    "Loupe demonstration world: synthetic pictures drawn and described by a seeded program; "
    "no real person is shown."
)
TRUTH_FILE = "truth.json"


class DemonstrationWorld(Record):
    """A generated world and its sources."""

    folder: Path
    sources: tuple[SourceSpec, ...]


class TrueImage(Record):
    """The truth about one image; `file_path` is as in the annotations.

    `figure` is the box of the person's pixels (left, top, right, bottom).
    """

    file_path: str
    pose: Pose
    captions: tuple[str, ...]
    figure: tuple[int, int, int, int]


class TrueIdentity(Record):
    """The truth about one identity, whose `id` is as in the annotations."""

    id: int
    split: Split
    person: Person
    images: tuple[TrueImage, ...]


_TRUTH = TypeAdapter(dict[str, tuple[TrueIdentity, ...]])


def load_truth(folder: Path) -> dict[str, tuple[TrueIdentity, ...]]:
    """Load the truth about the world that was written to `folder`, by source name."""
    return _TRUTH.validate_json((folder / TRUTH_FILE).read_bytes())


# The layout of each published format, and its numbers of images and captions a person.


class _Layout(Record):
    """One source of `people.toml`; the folder of its images is relative to its own."""

    name: str
    format: str
    granularity: Granularity
    annotation_file: str
    image_root: str
    file_path: str
    images_per_identity: int
    captions_per_image: int
    has_validation: bool = False


_LAYOUTS = TypeAdapter(tuple[_Layout, ...]).validate_python(TABLES["sources"])
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
    known = {}
    sources = []
    for layout in _LAYOUTS:
        home = folder / layout.name
        numbers: dict[Split, int] = {
            "train": train_identities,
            "val": validation_identities if layout.has_validation else 0,
            "test": identities,
        }
        identities_of_layout: list[TrueIdentity] = []
        for split, number in numbers.items():
            for _ in range(number):
                serial = len(identities_of_layout) + 1
                identity = _write_identity(home, seed, layout, serial, split)
                identities_of_layout.append(identity)
        known[layout.name] = tuple(identities_of_layout)
        annotations = home / layout.annotation_file
        rows: list[dict[str, Any]] = []
        for identity in identities_of_layout:
            rows += [_annotation_row(layout, identity, image) for image in identity.images]
        annotations.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
        annotations.write_text(text, encoding="utf-8")
        sources.append(
            SourceSpec(
                name=layout.name,
                format=layout.format,
                annotations=annotations,
                images=home / layout.image_root,
                granularity=layout.granularity,
                licence=LICENCE,
                citation=CITATION,
            )
        )
    (folder / TRUTH_FILE).write_bytes(_TRUTH.dump_json(known, indent=1))
    return DemonstrationWorld(folder=folder, sources=tuple(sources))


def _write_identity(
    home: Path, seed: int, layout: _Layout, identity: int, split: Split
) -> TrueIdentity:
    """Draw one person from several sides; no side is repeated before all were used."""
    chance = Chance(seed, layout.name, identity, "person")
    person = draw_person_attributes(chance)
    count = layout.images_per_identity
    views = [*chance.shuffled(tuple(View)), *chance.shuffled(tuple(View))][:count]
    images = []
    for number, view in enumerate(views, start=1):
        chance = Chance(seed, layout.name, identity, number)
        pose = draw_pose(chance, view)
        picture, figure = _render_crop(chance, person, pose)
        serial = (identity - 1) * count + number
        file_path = layout.file_path.format(id=identity, split=split, number=number, serial=serial)
        target = home / layout.image_root / file_path
        target.parent.mkdir(parents=True, exist_ok=True)
        # Full colour resolution, so that thin stripes keep their colours.
        picture.save(target, "JPEG", quality=90, subsampling=0)
        captions = tuple(
            describe(person, pose, layout.granularity, annotator, chance)
            for annotator in range(layout.captions_per_image)
        )
        images.append(TrueImage(file_path=file_path, pose=pose, captions=captions, figure=figure))
    return TrueIdentity(id=identity, split=split, person=person, images=tuple(images))


def _render_crop(
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
    """Return one image in its format."""
    row: dict[str, Any] = {
        "split": identity.split,
        "id": identity.id,
        "file_path": image.file_path,
        "captions": list(image.captions),
    }
    if layout.format != "ufine6926":
        words = [re.findall(r"[a-z]+(?:-[a-z]+)*", one.lower()) for one in image.captions]
        row["processed_tokens"] = words
    return row
