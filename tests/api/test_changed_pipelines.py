"""A pipeline that is changed has the rows that it would have in a new home."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

import loupe
from loupe import Caption, Crop, Image
from loupe.models.profiles.settings import Settings
from tests.api.shop import draw_photograph

_PHOTOGRAPHS = 4


@loupe.step
def wide(image: Image, least: int = 0) -> bool:
    return image.width_px >= least


@loupe.step
def halves(image: Image) -> list[Crop]:
    half = image.width_px / 2
    return [Crop.of(image, loupe.Box(left, 0, left + half, image.height_px)) for left in (0, half)]


@loupe.step
def named(image: Image) -> Caption:
    return Caption(f"A part of {image.identity}, as wide as {image.width_px} pixels.")


def crops_of(*least: int) -> list[list[Any]]:
    return [[wide.using(least=one), halves, named, loupe.release()] for one in least]


def one_of_each(*least: int) -> list[list[Any]]:
    return [[wide.using(least=one), loupe.near_duplicates(), loupe.release()] for one in least]


def drawn(*least: int) -> list[list[Any]]:
    return [
        [wide.using(least=one), loupe.steps.sample(3, by="identity"), loupe.release()]
        for one in least
    ]


def swapped() -> list[list[Any]]:
    filters = [wide.using(least=150), loupe.near_duplicates()]
    return [[*order, loupe.release()] for order in (filters[::-1], filters)]


@pytest.mark.parametrize(
    "changes",
    [crops_of(0, 250, 0), one_of_each(0, 150, 250), drawn(0, 150, 0), swapped()],
    ids=["crops", "near-duplicates", "sample", "order"],
)
def test_each_step_sees_what_later_steps_refused_before(
    tmp_path: Path, changes: Sequence[Sequence[Any]]
) -> None:
    """Each photograph is there in three widths, of which the largest is kept."""
    lines = ["sku,file,title"]
    for number in range(_PHOTOGRAPHS):
        whole = tmp_path / f"{number}-300.png"
        draw_photograph(whole, number)
        with Pillow.open(whole) as picture:
            for width in (100, 200, 300):
                path = tmp_path / f"{number}-{width}.png"
                picture.resize((width, width)).save(path)
                lines.append(f"{number}-{width},{path.name},thing {number} of {width} pixels")
    lines.append("")
    (tmp_path / "shop.csv").write_text("\n".join(lines), encoding="utf-8")

    def released(home: str, version: str, steps: Sequence[Any]) -> list[str]:
        source = loupe.source(
            "csv",
            "shop.csv",
            name="shop",
            image="file",
            identity="sku",
            captions=["title"],
            licence="CC0-1.0",
        )
        made = loupe.Pipeline(
            "shown", version=version, sources=[source], steps=list(steps), folder=tmp_path
        )
        release = made.run(settings=Settings(home=tmp_path / home), quiet=True).release
        assert release is not None
        return sorted(row["source_file_path"] for row in release.rows())

    for number, steps in enumerate(changes):
        version = f"0.{number}.0"
        used = released("used", version, steps)
        assert used == released(f"fresh-{number}", version, steps), version
        assert used
