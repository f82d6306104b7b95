"""The builds of the demonstrations, whose data is drawn on first use."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from loupe.demo.worlds import write_people_world
from loupe.demo.worlds.stills import load_stills_truth, write_stills_world
from loupe.demo.worlds.street import write_street_world
from loupe.demo.worlds.writing import CITATION, LICENCE
from loupe.schemas.build import Build, CcdBuild, RecosBuild, UFine3CBuild, UFine6926Build
from loupe.schemas.validation import packaged_toml, validated

BuildT = TypeVar("BuildT", bound=Build)

SEED = 7
IDENTITIES = 12
VIDEOS = 4
VIDEO_SECONDS = 6.0
STILLS = 320
DONE = "complete"
"""The file that is written last, so that incomplete data is recognized and written again."""


def ufine3c(home: Path) -> UFine3CBuild:
    """Return the build of drawn people in three annotation formats."""
    folder = _drawn(home, "people", lambda empty: write_people_world(empty, SEED, IDENTITIES))
    return _build(UFine3CBuild, "people", folder)


def ufine6926(home: Path) -> UFine6926Build:
    """Return the build of videos of a drawn street."""
    folder = _drawn(
        home, "street", lambda empty: write_street_world(empty, SEED, VIDEOS, VIDEO_SECONDS)
    )
    return _build(UFine6926Build, "street", folder)


def recos(home: Path) -> RecosBuild:
    """Return the build of tasks on drawn stills."""
    return _build(RecosBuild, "recos", _drawn(home, "coded-stills", _write_stills))


def ccd(home: Path) -> CcdBuild:
    """Return the build of contrastive groups of drawn stills."""
    return _build(CcdBuild, "ccd", _drawn(home, "coded-stills", _write_stills))


def _drawn(home: Path, data: str, write: Callable[[Path], object]) -> Path:
    """Return the folder of the data, which is drawn if it is missing."""
    folder = home / "demonstration" / f"{data}-{SEED}"
    if not (folder / DONE).exists():
        write(folder)
        (folder / DONE).touch()
    return folder


def _build(form: type[BuildT], name: str, folder: Path) -> BuildT:
    """Return the build in a file of this package, whose sources are in `folder`."""
    values = packaged_toml("loupe.demo.builds", f"{name}.toml")
    for source in values["sources"]:
        source |= {"licence": LICENCE, "citation": CITATION}
    return validated(form, values, f"demonstration {name}", folder=folder)


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
