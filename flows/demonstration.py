"""The builds that run where the user gives none: a generated world, still and moving."""

import json
import os
from pathlib import Path

from schemas.build import (
    CcdBuild,
    RecosBuild,
    SourceSpec,
    TaskSpec,
    UFine3CBuild,
    UFine6926Build,
    VideoSourceSpec,
)
from schemas.retrieval_task import RENDERED_TASKS, RetrievalTask
from sources.demonstration import DemonstrationWorld, write_people_world
from sources.demonstration.stills import StillsWorld, load_stills_truth, write_stills_world
from sources.demonstration.street import StreetWorld, write_street_world
from sources.demonstration.writing import CITATION, LICENCE

SEED = 7
IDENTITIES = 12
VIDEOS = 4
VIDEO_SECONDS = 6.0
STILLS = 320
TASK_IMAGES = 6
DRAWN_IMAGES = 4
ANCHORS = 24
_STILL_TASKS = (
    RetrievalTask.COLOR,
    RetrievalTask.COUNT,
    RetrievalTask.LOCATION,
    RetrievalTask.FIGURE,
    RetrievalTask.OBJECT,
    RetrievalTask.ACTION,
    RetrievalTask.SCENE,
    RetrievalTask.OCR,
)
_IMAGES_PER_IDENTITY = 3  # of the medium source alone, as for ICFG-PEDES in `UFine3CBuild`


def demonstration_build(home: Path, gate: str = "auto") -> UFine3CBuild:
    """Writes the world under `home` where it is not there yet, and gives its build."""
    world = _world(home / "demonstration" / f"people-{SEED}")
    return UFine3CBuild(
        dataset="ufine3c-demo",
        seed=SEED,
        identities_per_source=IDENTITIES - 2,
        gate=gate,
        sources=_specs(world),
    )


def demonstration_video_build(home: Path, gate: str = "auto") -> UFine6926Build:
    """Renders the videos of a street under `home` where they are not yet, and gives their build."""
    world = _street(home / "demonstration" / f"street-{SEED}")
    street = VideoSourceSpec(
        name="demo-street",
        videos=tuple(map(str, world.videos)),
        licence=LICENCE,
        citation=CITATION,
    )
    return UFine6926Build(
        dataset="street-demo",  # "ufine6926-demo" is a source of the other demonstration
        seed=SEED,
        tracklets_gate=gate,
        descriptions_gate=gate,
        sources=(street,),
    )


def demonstration_recos_build(home: Path, gate: str = "auto") -> RecosBuild:
    """Draws stills under `home` where they are not yet, and gives the build of a benchmark."""
    world = _stills(home / "demonstration" / f"stills-{SEED}")
    stills = SourceSpec(
        name="demo-stills",
        format="coco-captions",
        annotations=world.annotation_file,
        images=world.image_root,
        licence=LICENCE,
        citation=CITATION,
    )
    shown = [
        TaskSpec(
            task=task, images=TASK_IMAGES, source=stills.name, names=world.folder / _names(task)
        )
        for task in _STILL_TASKS
    ]
    drawn = [TaskSpec(task=task, images=DRAWN_IMAGES) for task in RENDERED_TASKS]
    return RecosBuild(
        dataset="recos-demo",
        seed=SEED,
        neighbours=3,
        captions_gate=gate,
        confusions_gate=gate,
        sources=(stills,),
        tasks=(*shown, *drawn),
    )


def demonstration_ccd_build(home: Path, gate: str = "auto") -> CcdBuild:
    """Draws stills under `home` where they are not yet, and gives the build of a CCD benchmark.

    What is searched are the same stills: images of one family differ in a detail or two.
    """
    world = _stills(home / "demonstration" / f"stills-{SEED}")
    stills = SourceSpec(
        name="demo-stills",
        format="coco-captions",
        annotations=world.annotation_file,
        images=world.image_root,
        licence=LICENCE,
        citation=CITATION,
    )
    return CcdBuild(
        dataset="ccd-demo",
        seed=SEED,
        anchors=ANCHORS,
        search_folder=_searched(world),
        strategies_gate=gate,
        candidates_gate=gate,
        groups_gate=gate,
        sources=(stills,),
    )


def _searched(world: StillsWorld) -> Path:
    """The folder of all stills, with the licence of each."""
    listed = world.image_root / "licences.jsonl"
    if not listed.exists():
        names = sorted(truth.file_name for truth in load_stills_truth(world.folder))
        terms = {"licence": LICENCE, "creator": "Loupe's demonstration"}
        lines = [json.dumps({"file_name": name, **terms}) for name in names]
        listed.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return world.image_root


def _stills(folder: Path) -> StillsWorld:
    """The stills in `folder`, and for each task a list of the first of each family.

    Variants of these are what they are confused with. `world.json` is written last, as elsewhere.
    """
    index = folder / "world.json"
    if index.exists():
        world = StillsWorld.model_validate_json(index.read_text(encoding="utf-8"))
        if world.annotation_file.exists():
            return world
    world = write_stills_world(folder, SEED, STILLS)
    firsts = [truth for truth in load_stills_truth(folder) if truth.change is None]
    for task in _STILL_TASKS:
        names = [truth.file_name for truth in firsts if truth.task == task]
        (folder / _names(task)).write_text("\n".join(names) + "\n", encoding="utf-8")
    index.write_text(world.model_dump_json(indent=2), encoding="utf-8")
    return world


def _names(task: RetrievalTask) -> str:
    return f"{task.value.casefold()}.txt"


def _street(folder: Path) -> StreetWorld:
    """The street in `folder`; `world.json` is written last, as for the world of pictures."""
    index = folder / "world.json"
    if index.exists():
        world = StreetWorld.model_validate_json(index.read_text(encoding="utf-8"))
        if all(video.exists() for video in world.videos):
            return world
    workers = min(VIDEOS, os.cpu_count() or 1)
    world = write_street_world(folder, SEED, VIDEOS, VIDEO_SECONDS, workers=workers)
    index.write_text(world.model_dump_json(indent=2), encoding="utf-8")
    return world


def _world(folder: Path) -> DemonstrationWorld:
    """The world in `folder`; `world.json` is written last, so a world half drawn is drawn again."""
    index = folder / "world.json"
    if index.exists():
        world = DemonstrationWorld.model_validate_json(index.read_text(encoding="utf-8"))
        if all(source.annotation_file.exists() for source in world.sources):
            return world
    world = write_people_world(folder, SEED, IDENTITIES)
    index.write_text(world.model_dump_json(indent=2), encoding="utf-8")
    return world


def _specs(world: DemonstrationWorld) -> tuple[SourceSpec, ...]:
    return tuple(
        SourceSpec(
            name=source.name,
            format=source.format,
            annotations=source.annotation_file,
            images=source.image_root,
            granularity=source.granularity,
            licence=source.licence,
            citation=source.citation,
            images_per_identity=_IMAGES_PER_IDENTITY if source.format == "icfg-pedes" else None,
        )
        for source in world.sources
    )
