"""Build files: TOML that says what to build, and the demonstration's own builds."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from schemas.build import (
    CcdBuild,
    RecosBuild,
    SourceSpec,
    TaskSpec,
    UFine3CBuild,
    UFine6926Build,
    VideoSourceSpec,
)
from schemas.errors import ConfigurationError
from schemas.faults import fault_of
from schemas.retrieval_task import RENDERED_TASKS, RetrievalTask
from schemas.toml_file import at_home, read_toml
from sources.demonstration import DemonstrationWorld, write_people_world
from sources.demonstration.stills import StillsWorld, load_stills_truth, write_stills_world
from sources.demonstration.street import StreetWorld, write_street_world
from sources.demonstration.writing import CITATION, LICENCE

_KEYS = "docs/build-files.md"
_SHIPPED = Path(__file__).parents[1] / "builds"
_Build = TypeVar("_Build", UFine3CBuild, UFine6926Build, RecosBuild, CcdBuild)
_Source = TypeVar("_Source", SourceSpec, VideoSourceSpec)


def load_build(path: Path) -> UFine3CBuild:
    """The UFine3C-style build in `path`; relative paths in it are relative to the file.

    Raises:
        ConfigurationError: the file is not there, is no TOML, or a key in it is unknown or wrong.
    """
    build = _loaded(path, UFine3CBuild)
    sources = tuple(_resolved(source, path.parent) for source in build.sources)
    return build.model_copy(update={"sources": sources})


def load_video_build(path: Path) -> UFine6926Build:
    """The UFine6926-style build in `path`; relative paths in it are relative to the file.

    Raises:
        ConfigurationError: as for `load_build`.
    """
    build = _loaded(path, UFine6926Build)
    sources = tuple(_resolved_videos(source, path.parent) for source in build.sources)
    return build.model_copy(update={"sources": sources})


def load_recos_build(path: Path) -> RecosBuild:
    """The ReCoS-style build in `path`; relative paths in it are relative to the file.

    Raises:
        ConfigurationError: as for `load_build`.
    """
    build = _loaded(path, RecosBuild)
    sources = tuple(_resolved(source, path.parent) for source in build.sources)
    tasks = tuple(_resolved_task(task, path.parent) for task in build.tasks)
    return build.model_copy(update={"sources": sources, "tasks": tasks})


def load_ccd_build(path: Path) -> CcdBuild:
    """The CCD-style build in `path`; relative paths in it are relative to the file.

    Raises:
        ConfigurationError: as for `load_build`.
    """
    build = _loaded(path, CcdBuild)
    sources = tuple(_resolved(source, path.parent) for source in build.sources)
    searched = build.search_folder
    folder = None if searched is None else path.parent / at_home(searched)
    return build.model_copy(update={"sources": sources, "search_folder": folder})


def _loaded(path: Path, form: type[_Build]) -> _Build:
    """The build in a file, or the shipped one of that name, whose paths are relative to `path`."""
    shipped = _SHIPPED / f"{path.name}.toml"
    is_shipped = shipped.exists() and not path.exists()
    values = read_toml(shipped if is_shipped else path, f"build file {path}")
    try:
        build = form.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(
            f"build file {path}: {fault_of(error, form, see=_KEYS)}"
        ) from error
    others = tuple(_resolved_other(one, path.parent) for one in build.against)
    return build.model_copy(update={"against": others})


def load_source(**values: Any) -> SourceSpec:
    """The source that `values` describe.

    Raises:
        ConfigurationError: a value is wrong.
    """
    return _described(SourceSpec, values)


def load_video_source(**values: Any) -> VideoSourceSpec:
    """The collection of videos that `values` describe.

    Raises:
        ConfigurationError: a value is wrong.
    """
    return _described(VideoSourceSpec, values)


def _described(form: type[_Source], values: Mapping[str, Any]) -> _Source:
    try:
        return form.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(f"source: {fault_of(error, form, see=_KEYS)}") from error


def _resolved(source: SourceSpec, folder: Path) -> SourceSpec:
    paths = {
        "annotations": folder / at_home(source.annotations),
        "images": folder / at_home(source.images),
    }
    return source.model_copy(update=paths)


def _resolved_other(named: str, folder: Path) -> str:
    """What a release is compared with; a folder, also as `NAME=FOLDER`, gets its whole path."""
    name, separator, path = named.rpartition("=")
    found = folder / at_home(path)
    is_folder = os.path.isdir(found)  # noqa: PTH112 - pathlib raises where a name is too long
    return f"{name}{separator}{found}" if is_folder else named


def _resolved_task(task: TaskSpec, folder: Path) -> TaskSpec:
    names = None if task.names is None else folder / at_home(task.names)
    return task.model_copy(update={"names": names})


def _resolved_videos(source: VideoSourceSpec, folder: Path) -> VideoSourceSpec:
    """The source with whole paths; addresses with a scheme (`s3://…`) stay as they are."""
    videos = tuple(
        address if "://" in address else str(folder / at_home(address)) for address in source.videos
    )
    return source.model_copy(update={"videos": videos})


# The demonstration: builds of a generated world, still and moving.

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
    """Writes the world under `home` where it is missing, and gives its build."""
    world = _world(home / "demonstration" / f"people-{SEED}")
    return UFine3CBuild(
        dataset="ufine3c-demo",
        seed=SEED,
        identities_per_source=IDENTITIES - 2,
        gate=gate,
        sources=_specs(world),
    )


def demonstration_video_build(home: Path, gate: str = "auto") -> UFine6926Build:
    """Renders the videos of a street under `home` where they are missing, and gives their build."""
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
        drawn=True,
        sources=(street,),
    )


def demonstration_recos_build(home: Path, gate: str = "auto") -> RecosBuild:
    """Draws stills under `home` where they are missing, and gives the build of a benchmark."""
    world = _stills(home / "demonstration" / f"coded-stills-{SEED}")
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
    """Draws stills under `home` where they are missing, and gives the build of a CCD benchmark.

    The same stills are searched: images of one family differ in a detail or two.
    """
    world = _stills(home / "demonstration" / f"coded-stills-{SEED}")
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

    They are confused with their variants. `world.json` is written last, as elsewhere.
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
