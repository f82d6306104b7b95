"""Distinct original images, and variants of them that are planted among them.

If `../shared/data` contains photographs, two of three originals are compositions of two to four
parts of photographs, cropped at random places and sizes and possibly mirrored; one of three is a
drawn street of the demonstration world. The streets are harder: they are plain, and many differ
only in the colours of walls. Without photographs, all originals are streets.
"""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from loupe.demo.worlds.writing import draw_scene, finish
from loupe.sources.chance import Chance

PHOTOGRAPHS = Path(__file__).parents[2] / "shared" / "data"
SIZE = (640, 480)
QUALITY = 90

Pixels = NDArray[np.uint8]


class Planted(NamedTuple):
    """A variant with its kind, the index of its original and its bytes."""

    kind: str
    original: int
    data: bytes


def photographs() -> list[Pixels]:
    """The available photographs, without repeated views of the same object."""
    folders = (PHOTOGRAPHS / name for name in ("coco_captions", "photos", "near_duplicates"))
    files = sorted(file for folder in folders for file in folder.glob("*.jpg"))
    kept = [file for file in files if "ukbench" not in file.stem or "_" not in file.stem]
    return [np.asarray(Image.open(file).convert("RGB")) for file in kept]


def originals(count: int) -> Iterator[bytes]:
    """Yield originals as JPEG."""
    pool = photographs()
    for number in range(count):
        yield encoded(
            _composition(pool, np.random.default_rng(number))
            if pool and number % 3 < 2
            else _street(number)
        )


def _street(number: int) -> Image.Image:
    chance = Chance("near-duplicates", number)
    return finish(draw_scene(chance, SIZE, chance.between(330, 450)), chance)


def _composition(pool: list[Pixels], random: np.random.Generator) -> Image.Image:
    canvas = Image.new("RGB", SIZE)
    _fill(canvas, (0, 0, *SIZE), int(random.integers(2, 5)), pool, random)
    return canvas


def _fill(
    canvas: Image.Image,
    box: tuple[int, int, int, int],
    parts: int,
    pool: list[Pixels],
    random: np.random.Generator,
) -> None:
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    if parts == 1:
        canvas.paste(_part(pool, (width, height), random), (left, top))
        return
    share = random.uniform(0.3, 0.7)
    if width >= height:
        middle = left + int(width * share)
        halves = (left, top, middle, bottom), (middle, top, right, bottom)
    else:
        middle = top + int(height * share)
        halves = (left, top, right, middle), (left, middle, right, bottom)
    for half, count in zip(halves, (parts // 2, parts - parts // 2), strict=True):
        _fill(canvas, half, count, pool, random)


def _part(pool: list[Pixels], size: tuple[int, int], random: np.random.Generator) -> Image.Image:
    source = pool[random.integers(len(pool))]
    height, width = source.shape[:2]
    wide = int(width * random.uniform(0.25, 0.6))
    high = min(height, max(1, wide * size[1] // size[0]))
    x, y = random.integers(0, width - wide + 1), random.integers(0, height - high + 1)
    cut = source[y : y + high, x : x + wide]
    side = cut[:, ::-1] if random.random() < 0.5 else cut
    return Image.fromarray(np.ascontiguousarray(side)).resize(size, Image.Resampling.BICUBIC)


def encoded(picture: Image.Image, quality: int = QUALITY) -> bytes:
    """Encode the picture as JPEG."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def _brighter(picture: Image.Image) -> Image.Image:
    return Image.fromarray(np.clip(np.asarray(picture).astype(int) + 15, 0, 255).astype(np.uint8))


def _cropped(picture: Image.Image) -> Image.Image:
    x, y = round(0.008 * picture.width), round(0.008 * picture.height)
    return picture.crop((x, y, picture.width - x, picture.height - y))


def _half(picture: Image.Image) -> Image.Image:
    return picture.resize((picture.width // 2, picture.height // 2))


VARIANTS: dict[str, Callable[[bytes], bytes]] = {
    "copy": lambda data: data,
    "JPEG q60": lambda data: encoded(_opened(data), 60),
    "half size": lambda data: encoded(_half(_opened(data))),
    "+15 brightness": lambda data: encoded(_brighter(_opened(data))),
    "1.6 % crop": lambda data: encoded(_cropped(_opened(data))),
    "flip": lambda data: encoded(_opened(data).transpose(Image.Transpose.FLIP_LEFT_RIGHT)),
}


def _opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def planted(images: list[bytes], of_each: int) -> Iterator[Planted]:
    """Yield `of_each` variants of each kind, of randomly chosen originals."""
    random = np.random.default_rng(99)
    for kind, vary in VARIANTS.items():
        for number in random.choice(len(images), of_each, replace=False):
            yield Planted(kind, int(number), vary(images[number]))
