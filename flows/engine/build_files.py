"""Sources in the form of a build file, and the builds of the demonstration."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from schemas.base import Record
from schemas.build import (
    CcdBuild,
    RecosBuild,
    SourceSpec,
    TaskSpec,
    UFine3CBuild,
    UFine6926Build,
    VideoSourceSpec,
)
from schemas.retrieval_task import RENDERED_TASKS
from schemas.taxonomy import RetrievalTask
from schemas.validation import validated
from sources.demonstration import DemonstrationWorld, write_people_world
from sources.demonstration.stills import (
    TASKS,
    StillsWorld,
    load_stills_truth,
    write_stills_world,
)
from sources.demonstration.street import StreetWorld, write_street_world
from sources.demonstration.writing import CITATION, LICENCE

_KEYS = "docs/build-files.md"
_RecordT = TypeVar("_RecordT", bound=Record)
SourceT = TypeVar("SourceT", SourceSpec, VideoSourceSpec)


def load_source(form: type[SourceT], **values: Any) -> SourceT:
    """Validate `values` as a source or a collection of videos.

    Raises:
        ConfigurationError: a value is invalid.
    """
    return validated(form, values, "source", see=_KEYS)


# Demonstration builds of generated data: images and videos.

SEED = 7
IDENTITIES = 12
VIDEOS = 4
VIDEO_SECONDS = 6.0
STILLS = 320
_TASK_IMAGES = 6
_DRAWN_IMAGES = 4
ANCHORS = 24
_IMAGES_PER_IDENTITY = {"icfg-pedes": 3}


def demonstration_build(home: Path) -> UFine3CBuild:
    """Write the generated data under `home` if it is missing, and return its build."""
    world = _world(
        home,
        "people",
        DemonstrationWorld,
        lambda folder: write_people_world(folder, SEED, IDENTITIES),
    )
    return UFine3CBuild(
        dataset="ufine3c-demo",
        seed=SEED,
        identities_per_source=IDENTITIES - 2,
        sources=tuple(
            one.model_copy(update={"images_per_identity": _IMAGES_PER_IDENTITY.get(one.format)})
            for one in world.sources
        ),
    )


def demonstration_video_build(home: Path) -> UFine6926Build:
    """Render the street videos under `home` if they are missing, and return their build."""
    world = _world(
        home,
        "street",
        StreetWorld,
        lambda folder: write_street_world(folder, SEED, VIDEOS, VIDEO_SECONDS),
    )
    street = VideoSourceSpec(
        name="demo-street",
        videos=tuple(map(str, world.videos)),
        licence=LICENCE,
        citation=CITATION,
    )
    return UFine6926Build(
        dataset="street-demo",  # "ufine6926-demo" is a source of another demonstration
        seed=SEED,
        drawn=True,
        sources=(street,),
    )


def demonstration_recos_build(home: Path) -> RecosBuild:
    """Draw images under `home` if they are missing, and return the build of a task benchmark."""
    stills, folder = _stills(home)
    shown = [
        TaskSpec(task=task, images=_TASK_IMAGES, source=stills.name, names=folder / _names(task))
        for task in TASKS
    ]
    drawn = [
        TaskSpec(task=task, images=_DRAWN_IMAGES)
        for task in RetrievalTask
        if task in RENDERED_TASKS
    ]
    return RecosBuild(
        dataset="recos-demo",
        seed=SEED,
        neighbours=3,
        sources=(stills,),
        tasks=(*shown, *drawn),
    )


def demonstration_ccd_build(home: Path) -> CcdBuild:
    """Draw images under `home` if they are missing, and return the build of a CCD benchmark.

    The image search returns the same images: images of one family differ in one or two details.
    """
    stills, folder = _stills(home)
    listed = stills.images / "licences.jsonl"
    if not listed.exists():
        names = sorted(truth.file_name for truth in load_stills_truth(folder))
        terms = {"licence": LICENCE, "creator": "Loupe's demonstration"}
        lines = [json.dumps({"file_name": name, **terms}) for name in names]
        listed.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return CcdBuild(
        dataset="ccd-demo",
        seed=SEED,
        anchors=ANCHORS,
        search_folder=stills.images,
        sources=(stills,),
    )


def _stills(home: Path) -> tuple[SourceSpec, Path]:
    """Return the images and their folder, with the first image of each family as a list per task.

    The other images of the family are the similar images of a task.
    """

    def write(folder: Path) -> StillsWorld:
        world = write_stills_world(folder, SEED, STILLS)
        firsts = [truth for truth in load_stills_truth(folder) if truth.change is None]
        for task in TASKS:
            names = [truth.file_name for truth in firsts if truth.task == task]
            (folder / _names(task)).write_text("\n".join(names) + "\n", encoding="utf-8")
        return world

    world = _world(home, "coded-stills", StillsWorld, write)
    source = SourceSpec(
        name="demo-stills",
        format="coco-captions",
        annotations=world.annotation_file,
        images=world.image_root,
        licence=LICENCE,
        citation=CITATION,
    )
    return source, world.folder


def _names(task: RetrievalTask) -> str:
    return f"{task.value.casefold()}.txt"


def _world(
    home: Path,
    name: str,
    form: type[_RecordT],
    write: Callable[[Path], _RecordT],
) -> _RecordT:
    """Return the generated data of that name below `home`, written if there is no `world.json`."""
    folder = home / "demonstration" / f"{name}-{SEED}"
    index = folder / "world.json"
    if index.exists():
        return form.model_validate_json(index.read_text(encoding="utf-8"))
    world = write(folder)
    index.write_text(world.model_dump_json(indent=2), encoding="utf-8")
    return world
