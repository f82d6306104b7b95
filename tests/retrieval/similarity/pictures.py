"""Images that are known to differ, and variants known to have the same content."""

import io
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image

from loupe.demo.worlds.writing import draw_scene, finish
from loupe.sources.chance import Chance

SIZE = (320, 240)


@cache
def street(seed: int) -> Image.Image:
    """A drawn street of sky, houses, trees, shops or a wall, different for every seed."""
    chance = Chance("near-duplicates", seed)
    return finish(draw_scene(chance, SIZE, chance.between(165, 225)), chance)


def encoded(picture: Image.Image, file_format: str = "JPEG", **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(
        buffer, file_format, **({"quality": 92} if file_format == "JPEG" else {}) | options
    )
    return buffer.getvalue()


def _brighter(picture: Image.Image) -> Image.Image:
    return Image.fromarray(np.clip(np.asarray(picture).astype(int) + 15, 0, 255).astype(np.uint8))


def _cropped(picture: Image.Image) -> Image.Image:
    """The image without 0.8 % on each side: 1.6 % of the width and of the height."""
    x, y = round(0.008 * picture.width), round(0.008 * picture.height)
    return picture.crop((x, y, picture.width - x, picture.height - y))


def _half(picture: Image.Image) -> Image.Image:
    return picture.resize((picture.width // 2, picture.height // 2))


VARIANTS: dict[str, Callable[[Image.Image], bytes]] = {
    "quality 60": lambda picture: encoded(picture, quality=60),
    "half": lambda picture: encoded(_half(picture)),
    "brighter": lambda picture: encoded(_brighter(picture)),
    "cropped": lambda picture: encoded(_cropped(picture)),
    "png": lambda picture: encoded(picture, "PNG"),
    "webp": lambda picture: encoded(picture, "WEBP", quality=70),
    "mirrored": lambda picture: encoded(picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)),
}
