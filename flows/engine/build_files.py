"""The builds of the demonstrations, whose data is generated on first use."""

import json
from collections.abc import Callable
from pathlib import Path

from loupe.flows.engine.context import BuildT
from loupe.schemas.text_files import read_toml
from loupe.schemas.validation import validated
from loupe.sources.demonstration import write_people_world
from loupe.sources.demonstration.stills import load_stills_truth, write_stills_world
from loupe.sources.demonstration.street import write_street_world
from loupe.sources.demonstration.writing import CITATION, LICENCE

_BUILDS = Path(__file__).parents[1] / "builds" / "demonstration"
SEED = 7
IDENTITIES = 12
VIDEOS = 4
VIDEO_SECONDS = 6.0
STILLS = 320
DONE = "complete"
"""The file that is written last, so that incomplete data is recognized and written again."""


def demonstration_build(form: type[BuildT], name: str, home: Path) -> BuildT:
    """Return the demonstration's build of that name; its data is drawn under `home` if missing."""
    data, write = _DATA[name]
    folder = home / "demonstration" / f"{data}-{SEED}"
    if not (folder / DONE).exists():
        write(folder)
        (folder / DONE).touch()
    values = read_toml(_BUILDS / f"{name}.toml", f"demonstration {name}")
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


_DATA: dict[str, tuple[str, Callable[[Path], object]]] = {
    "people": ("people", lambda folder: write_people_world(folder, SEED, IDENTITIES)),
    "street": ("street", lambda folder: write_street_world(folder, SEED, VIDEOS, VIDEO_SECONDS)),
    "recos": ("coded-stills", _write_stills),
    "ccd": ("coded-stills", _write_stills),
}
"""The folder of the data of each build, and the function that draws them."""
