"""Writes the world of drawn people to a folder, with its truth."""

import io
import json
import multiprocessing
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from schemas.base import Record
from schemas.records import Granularity, Split
from sources.demonstration.descriptions import describe
from sources.demonstration.drawing import Box, draw_person
from sources.demonstration.people import Chance, Person, draw_person_attributes
from sources.demonstration.poses import Pose, View, draw_pose
from sources.demonstration.scenes import draw_scene, finish

# What is known of a generated world: its sources, its people, and every image of them.

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


# How the files of each published format lie, and what one row of it looks like.


class Layout(Record):
    """One source: its format, its files, and how many images and captions a person gets."""

    name: str
    format: Format
    granularity: Granularity
    annotation_file: str
    image_root: str
    file_path: str
    images_per_identity: int
    captions_per_image: int
    has_validation: bool = False

    def path_of(self, identity: int, split: Split, position: int) -> str:
        """The `file_path` of an identity's image, both counted from 1 and from 0."""
        serial = (identity - 1) * self.images_per_identity + position + 1
        return self.file_path.format(id=identity, split=split, number=position + 1, serial=serial)


LAYOUTS = (
    Layout(
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
    Layout(
        name="icfg-pedes-demo",
        format="icfg-pedes",
        granularity=Granularity.MEDIUM,
        annotation_file="ICFG-PEDES.json",
        image_root="images",
        file_path="{split}/{id:04d}/{id:04d}_{number:03d}.jpg",
        images_per_identity=6,
        captions_per_image=1,
    ),
    Layout(
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


def annotation_row(layout: Layout, identity: TrueIdentity, image: TrueImage) -> dict[str, Any]:
    """One image as its format has it; the order of the fields follows the published files."""
    captions = list(image.captions)
    if layout.format == "ufine6926":
        return {
            "split": identity.split,
            "id": identity.id,
            "file_path": image.file_path,
            "captions": captions,
        }
    return {
        "split": identity.split,
        "captions": captions,
        "file_path": image.file_path,
        "processed_tokens": [_tokens(caption) for caption in captions],
        "id": identity.id,
    }


def _tokens(caption: str) -> list[str]:
    return re.findall(r"[a-z]+(?:-[a-z]+)*", caption.lower())


# Writes the demonstration world to disk in the published annotation formats.
#
# Three sources, each in a folder of its own, with different people and captions of different
# granularity, and one `truth.json` that says what every person and image really shows.

_SIZES = ((128, 256), (144, 288), (160, 320), (176, 352), (192, 384))


class _Task(Record):
    """One identity to draw, describe and write."""

    home: Path
    seed: int
    layout: Layout
    identity: int
    split: Split

    def chance(self, *parts: str | int) -> Chance:
        """A stream of draws for this identity and nothing else."""
        return Chance(self.seed, self.layout.name, self.identity, *parts)


def write_people_world(
    folder: Path,
    seed: int = 7,
    identities: int = 12,
    train_identities: int = 4,
    validation_identities: int = 2,
    *,
    workers: int = 1,
) -> DemonstrationWorld:
    """Renders and describes a world of people, and writes it under `folder`.

    The same arguments give the same bytes (with the same Pillow and NumPy), however many workers.
    What was in the files is overwritten; other files in `folder` are left alone.

    Args:
        folder: made if missing.
        seed: another seed gives other people.
        identities: test identities per source.
        train_identities: training identities per source.
        validation_identities: validation identities, for the one source that has such a split.
        workers: processes that draw; worth it from some hundred images on.
    """
    splits: dict[Split, int] = {
        "train": train_identities,
        "val": validation_identities,
        "test": identities,
    }
    known = {}
    with _mapping(workers) as run:
        for layout in LAYOUTS:
            tasks = list(_tasks(folder / layout.name, seed, layout, splits))
            known[layout.name] = tuple(run(_write_identity, tasks))
            _write_annotations(folder / layout.name, layout, known[layout.name])
    truth = Truth(seed=seed, identities=known)
    _write_text(folder / TRUTH_FILE, truth.model_dump_json(indent=1))
    return DemonstrationWorld(
        folder=folder,
        seed=seed,
        sources=tuple(_source(folder / layout.name, layout) for layout in LAYOUTS),
        truth_file=folder / TRUTH_FILE,
    )


_Mapping = Callable[[Callable[[_Task], TrueIdentity], list[_Task]], Iterable[TrueIdentity]]


@contextmanager
def _mapping(workers: int) -> Iterator[_Mapping]:
    """Something that maps in order, here or in worker processes."""
    if workers <= 1:
        yield map
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield lambda work, tasks: pool.map(work, tasks, chunksize=4)


def _tasks(home: Path, seed: int, layout: Layout, splits: dict[Split, int]) -> Iterator[_Task]:
    identity = 0
    for split, count in splits.items():
        for _ in range(count if split != "val" or layout.has_validation else 0):
            identity += 1
            yield _Task(home=home, seed=seed, layout=layout, identity=identity, split=split)


def _write_identity(task: _Task) -> TrueIdentity:
    """Draws one person from several sides; each side is seen once before one is seen twice."""
    person = draw_person_attributes(task.chance("person"))
    count = task.layout.images_per_identity
    views: list[View] = []
    for turn in range(-(-count // len(View))):
        views += task.chance("views", turn).shuffled(tuple(View))
    images = (_write_image(task, person, place, view) for place, view in enumerate(views[:count]))
    return TrueIdentity(id=task.identity, split=task.split, person=person, images=tuple(images))


def _write_image(task: _Task, person: Person, position: int, view: View) -> TrueImage:
    chance, layout = task.chance(position), task.layout
    pose = draw_pose(chance, person, view)
    picture, figure = render_crop(chance, person, pose)
    file_path = layout.path_of(task.identity, task.split, position)
    target = task.home / layout.image_root / file_path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(_jpeg(picture))
    return TrueImage(
        file_path=file_path,
        pose=pose,
        captions=tuple(
            describe(person, pose, layout.granularity, annotator, chance)
            for annotator in range(layout.captions_per_image)
        ),
        width_px=picture.width,
        height_px=picture.height,
        figure=figure,
    )


def render_crop(chance: Chance, person: Person, pose: Pose) -> tuple[Image.Image, Box]:
    """A person before a street as a detector would crop it, and the box of the figure in it."""
    width, height = chance.pick(_SIZES)
    under_umbrella = person.carried is not None and person.carried.kind == "umbrella"
    stature = height * (0.77 if under_umbrella else chance.between(0.84, 0.93))
    bottom = height * chance.between(0.955, 0.98)
    middle = width * chance.between(0.46, 0.54)
    canvas = draw_scene(chance, (width, height), bottom)
    place = Box(middle - stature / 4, bottom - stature, middle + stature / 4, bottom)
    figure = draw_person(canvas, person, pose, place, light=chance.between(-1, 1))
    return finish(canvas, chance), figure


def _jpeg(picture: Image.Image) -> bytes:
    """The picture with full colour resolution, so that thin stripes keep their colours."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90, subsampling=0)
    return buffer.getvalue()


def _write_annotations(home: Path, layout: Layout, identities: Iterable[TrueIdentity]) -> None:
    rows = [annotation_row(layout, one, image) for one in identities for image in one.images]
    _write_text(home / layout.annotation_file, json.dumps(rows, ensure_ascii=False, indent=1))


def _write_text(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n", encoding="utf-8")


def _source(home: Path, layout: Layout) -> DemonstrationSource:
    return DemonstrationSource(
        name=layout.name,
        format=layout.format,
        annotation_file=home / layout.annotation_file,
        image_root=home / layout.image_root,
        granularity=layout.granularity,
    )
