"""The builds of the demonstrations, whose data is generated on first use."""

import json
from collections.abc import Callable
from pathlib import Path

from flows.engine.context import BuildT
from schemas.build import CcdBuild, RecosBuild, UFine3CBuild, UFine6926Build
from schemas.validation import read_toml, validated
from sources.demonstration import write_people_world
from sources.demonstration.stills import load_stills_truth, write_stills_world
from sources.demonstration.street import write_street_world
from sources.demonstration.writing import CITATION, LICENCE

_BUILDS = Path(__file__).parents[1] / "builds" / "demonstration"
SEED = 7
IDENTITIES = 12
VIDEOS = 4
VIDEO_SECONDS = 6.0
STILLS = 320
DONE = "complete"
"""The file that is written last, so that incomplete data is recognized and written again."""


def demonstration_build(home: Path) -> UFine3CBuild:
    """Draw people in the streets under `home` if they are missing, and return their build."""
    folder = _folder(home, "people", lambda folder: write_people_world(folder, SEED, IDENTITIES))
    return _build(UFine3CBuild, "people", folder)


def demonstration_video_build(home: Path) -> UFine6926Build:
    """Render the street videos under `home` if they are missing, and return their build."""
    folder = _folder(
        home, "street", lambda folder: write_street_world(folder, SEED, VIDEOS, VIDEO_SECONDS)
    )
    return _build(UFine6926Build, "street", folder)


def demonstration_recos_build(home: Path) -> RecosBuild:
    """Draw images under `home` if they are missing, and return the build of a task benchmark."""
    return _build(RecosBuild, "recos", _folder(home, "coded-stills", _write_stills))


def demonstration_ccd_build(home: Path) -> CcdBuild:
    """Draw images under `home` if they are missing, and return the build of a CCD benchmark."""
    return _build(CcdBuild, "ccd", _folder(home, "coded-stills", _write_stills))


def _write_stills(folder: Path) -> None:
    """Draw images, and list their licences and the first images of families by task.

    The other images of a family are the similar images of a task.
    """
    images = write_stills_world(folder, SEED, STILLS).image_root
    lists: dict[Path, list[str]] = {}
    for truth in load_stills_truth(folder):
        terms = {"licence": LICENCE, "creator": "Loupe's demonstration"}
        licence = json.dumps({"file_name": truth.file_name, **terms})
        lists.setdefault(images / "licences.jsonl", []).append(licence)
        if truth.change is None:
            names = folder / f"{truth.task.casefold()}.txt"
            lists.setdefault(names, []).append(truth.file_name)
    for path, lines in lists.items():
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _folder(home: Path, name: str, write: Callable[[Path], object]) -> Path:
    """Return the folder of the generated data of that name below `home`."""
    folder = home / "demonstration" / f"{name}-{SEED}"
    if not (folder / DONE).exists():
        write(folder)
        (folder / DONE).touch()
    return folder


def _build(form: type[BuildT], name: str, folder: Path) -> BuildT:
    """Return the build of that name, with its data in `folder`."""
    values = read_toml(_BUILDS / f"{name}.toml", f"demonstration {name}")
    for source in values["sources"]:
        source |= {"licence": LICENCE, "citation": CITATION}
    return validated(form, values, f"demonstration {name}", folder=folder)
