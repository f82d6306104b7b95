"""Steps of one's own on a Ray of this machine, in a network of its own."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.shop import draw_photograph
from tests.flows.ray_cluster import NAMESPACE, PRIVATE_NETWORK
from tests.separation import require

PIPELINE = """
import os

import loupe
from loupe import Caption, Image, Rejection

parallel = os.environ["PARALLEL"]


class Size(loupe.Record, kind="size"):
    pixels: int


@loupe.step(version="1", parallel=parallel)
def size(image: Image) -> Size | Rejection:
    if image.identity == "P1":
        return Rejection.of("odd", "It is odd.")
    return Size(pixels=int(image.pixels.size))


@loupe.step(version="1", parallel=parallel)
def louder(caption: Caption) -> list[Caption]:
    return [Caption(caption.text.upper())]


source = loupe.source(
    "csv", "shop.csv", images="photos", identity="sku", captions=["title"], licence="CC0-1.0"
)
pipeline = loupe.Pipeline(
    "shop", version="0.1.0", sources=[source], steps=[size, louder, loupe.release()]
)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder with a short path, as the sockets of Ray need one."""
    folder = Path(tempfile.mkdtemp())
    (folder / "photos").mkdir()
    lines = ["sku,title"]
    for number in range(4):
        draw_photograph(folder / "photos" / f"P{number}.jpg", number)
        lines.append(f"P{number},thing number {number} of wood")
    (folder / "shop.csv").write_text("\n".join(lines), encoding="utf-8")
    (folder / "shop.py").write_text(PIPELINE, encoding="utf-8")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
def test_a_step_on_ray_gives_the_same_release_as_in_a_thread(folder: Path) -> None:
    require("unshare", "ip")
    loupe = str(Path(sys.executable).with_name("loupe"))
    ids = {}
    for parallel in ("thread", "ray"):
        found = subprocess.run(
            [*NAMESPACE, "sh", "-c", PRIVATE_NETWORK, "sh", loupe, "run", "shop.py", "--json"],
            cwd=folder,
            env=os.environ | {"PARALLEL": parallel, "LOUPE_HOME": str(folder / parallel)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        report = json.loads(found.stdout)
        (sizes,) = [one for one in report["stages"] if one["stage"] == "size"]
        assert (sizes["done"], sizes["rejected"]) == (3, {"odd": 1})
        ids[parallel] = report["release_id"]
    assert ids["ray"] == ids["thread"]
