"""The builds that run where the user gives none: a generated world, still and moving."""

import os
from pathlib import Path

from schemas.build import SourceSpec, UFine3CBuild, UFine6926Build, VideoSourceSpec
from sources.demonstration import DemonstrationWorld, write_people_world
from sources.demonstration.street import StreetWorld, write_street_world
from sources.demonstration.truth import CITATION, LICENCE

SEED = 7
IDENTITIES = 12
VIDEOS = 4
VIDEO_SECONDS = 6.0
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
