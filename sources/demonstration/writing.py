"""Writes the demonstration world to disk in the published annotation formats.

Three sources, each in a folder of its own, with different people and captions of different
granularity, and one `truth.json` that says what every person and image really shows.
"""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from schemas.base import Record
from schemas.records import Granularity, Split
from sources.demonstration.chance import Chance
from sources.demonstration.descriptions import describe
from sources.demonstration.drawing import Box, draw_person
from sources.demonstration.people import Person, draw_person_attributes
from sources.demonstration.poses import Pose, View, draw_pose
from sources.demonstration.scenes import draw_scene

LICENCE = "CC0-1.0"
CITATION = (
    "Loupe demonstration world: synthetic people drawn and described by a seeded program; "
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
    """What is known of one image; `file_path` is as in the annotations."""

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


class _Plan(Record):
    """How one source is laid out."""

    name: str
    format: Format
    granularity: Granularity
    annotation_file: str
    image_root: str
    file_path: str
    images_per_identity: int
    captions_per_image: int
    has_validation: bool = False


_PLANS = (
    _Plan(
        name="cuhk-pedes-demo",
        format="cuhk-pedes",
        granularity=Granularity.COARSE,
        annotation_file="reid_raw.json",
        image_root="images",
        file_path="demo/{id:04d}_{number}.jpg",
        images_per_identity=3,
        captions_per_image=2,
        has_validation=True,
    ),
    _Plan(
        name="icfg-pedes-demo",
        format="icfg-pedes",
        granularity=Granularity.MEDIUM,
        annotation_file="ICFG-PEDES.json",
        image_root="images",
        file_path="{split}/{id:04d}/{id:04d}_{number:03d}.jpg",
        images_per_identity=6,
        captions_per_image=1,
    ),
    _Plan(
        name="ufine6926-demo",
        format="ufine6926",
        granularity=Granularity.FINE,
        annotation_file="ufine6926.json",
        image_root=".",
        file_path="images/{serial}.jpg",
        images_per_identity=4,
        captions_per_image=2,
    ),
)
_SIZES = ((128, 256), (144, 288), (160, 320), (176, 352), (192, 384))


def write_people_world(
    folder: Path,
    seed: int = 7,
    identities: int = 12,
    train_identities: int = 4,
    validation_identities: int = 2,
) -> DemonstrationWorld:
    """Renders and describes a world of people, and writes it under `folder`.

    The same arguments give the same bytes (with the same Pillow and NumPy). What was in the files
    is overwritten; other files in `folder` are left alone.

    Args:
        folder: made if missing.
        seed: another seed gives other people.
        identities: test identities per source.
        train_identities: training identities per source.
        validation_identities: validation identities, for the one source that has such a split.
    """
    splits: dict[Split, int] = {
        "train": train_identities,
        "val": validation_identities,
        "test": identities,
    }
    known = {plan.name: tuple(_write_source(folder, seed, plan, splits)) for plan in _PLANS}
    truth_file = folder / TRUTH_FILE
    truth_file.write_text(
        Truth(seed=seed, identities=known).model_dump_json(indent=1) + "\n", encoding="utf-8"
    )
    sources = tuple(_source(folder, plan) for plan in _PLANS)
    return DemonstrationWorld(folder=folder, seed=seed, sources=sources, truth_file=truth_file)


def load_truth(folder: Path) -> Truth:
    """The truth about the world that was written to `folder`."""
    return Truth.model_validate_json((folder / TRUTH_FILE).read_bytes())


def _source(folder: Path, plan: _Plan) -> DemonstrationSource:
    home = folder / plan.name
    return DemonstrationSource(
        name=plan.name,
        format=plan.format,
        annotation_file=home / plan.annotation_file,
        image_root=home / plan.image_root,
        granularity=plan.granularity,
    )


def _write_source(
    folder: Path, seed: int, plan: _Plan, splits: dict[Split, int]
) -> Iterator[TrueIdentity]:
    """Yields the identities of one source as they are drawn; the annotations come last."""
    rows: list[dict[str, Any]] = []
    number = 0
    for split, count in splits.items():
        for _ in range(count if split != "val" or plan.has_validation else 0):
            number += 1
            identity = _write_identity(folder, seed, plan, number, split)
            rows.extend(_row(plan, identity, image) for image in identity.images)
            yield identity
    text = json.dumps(rows, ensure_ascii=False, indent=1)
    (folder / plan.name / plan.annotation_file).write_text(text + "\n", encoding="utf-8")


def _write_identity(
    folder: Path, seed: int, plan: _Plan, number: int, split: Split
) -> TrueIdentity:
    person = draw_person_attributes(Chance(seed, plan.name, number, "person"))
    turn = Chance(seed, plan.name, number, "views")
    views = [view for _ in range(2) for view in turn.shuffled(tuple(View))]
    images = tuple(
        _write_image(folder, seed, plan, number, split, person, position, view)
        for position, view in enumerate(views[: plan.images_per_identity])
    )
    return TrueIdentity(id=number, split=split, person=person, images=images)


def _write_image(
    folder: Path,
    seed: int,
    plan: _Plan,
    number: int,
    split: Split,
    person: Person,
    position: int,
    view: View,
) -> TrueImage:
    chance = Chance(seed, plan.name, number, position)
    size = chance.pick(_SIZES)
    pose = draw_pose(chance, person, view)
    height = size[1] * chance.between(0.84, 0.93)
    bottom = size[1] * chance.between(0.955, 0.98)
    middle = size[0] * chance.between(0.46, 0.54)
    canvas = draw_scene(chance, size, bottom)
    figure = draw_person(
        canvas,
        person,
        pose,
        Box(middle - height / 4, bottom - height, middle + height / 4, bottom),
        light=chance.between(-1, 1),
    )
    file_path = plan.file_path.format(
        id=number,
        split=split,
        number=position + 1,
        serial=(number - 1) * plan.images_per_identity + position + 1,
    )
    target = folder / plan.name / plan.image_root / file_path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(_jpeg(canvas))
    captions = tuple(
        describe(person, pose, plan.granularity, annotator, chance)
        for annotator in range(plan.captions_per_image)
    )
    return TrueImage(
        file_path=file_path,
        pose=pose,
        captions=captions,
        width_px=size[0],
        height_px=size[1],
        figure=figure,
    )


def _jpeg(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90, subsampling=0)
    return buffer.getvalue()


def _row(plan: _Plan, identity: TrueIdentity, image: TrueImage) -> dict[str, Any]:
    """One image as the format has it; the field order follows the published files."""
    captions = list(image.captions)
    if plan.format == "ufine6926":
        return {
            "split": identity.split,
            "id": identity.id,
            "file_path": image.file_path,
            "captions": captions,
        }
    tokens = [re.findall(r"[a-z]+(?:-[a-z]+)*", caption.lower()) for caption in captions]
    return {
        "split": identity.split,
        "captions": captions,
        "file_path": image.file_path,
        "processed_tokens": tokens,
        "id": identity.id,
    }
