"""Collections in memory and variants of images for the tests of contamination."""

import io
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image

from loupe.demo.worlds.writing import draw_scene, finish
from loupe.release.contamination import Other, SeenImage, SeenVideo
from loupe.sources.chance import Chance

SIZE = (160, 120)
Variant = Callable[[Image.Image], bytes]


def collection(contents: Sequence[SeenImage | SeenVideo]) -> Other:
    """A dataset in memory that a release is compared with."""
    return Other("other", "dataset", lambda: iter(contents))


def scene(number: int) -> Image.Image:
    """A drawn scene, different for each number."""
    chance = Chance("contamination", number)
    return finish(draw_scene(chance, SIZE, chance.between(80, 110)), chance)


def jpeg(picture: Image.Image, quality: int = 90) -> bytes:
    """Encode the picture as JPEG."""
    buffer = io.BytesIO()
    picture.convert("RGB").save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def _half(picture: Image.Image) -> bytes:
    return jpeg(picture.resize((picture.width // 2, picture.height // 2)))


def _brighter(picture: Image.Image) -> bytes:
    pixels = np.clip(np.asarray(picture.convert("RGB")).astype(int) + 15, 0, 255)
    return jpeg(Image.fromarray(pixels.astype(np.uint8)))


def _cropped(picture: Image.Image) -> bytes:
    x, y = round(0.008 * picture.width), round(0.008 * picture.height)
    return jpeg(picture.crop((x, y, picture.width - x, picture.height - y)))


VARIANTS: dict[str, Variant] = {
    "copy": jpeg,
    "JPEG q60": lambda picture: jpeg(picture, 60),
    "half size": _half,
    "+15 brightness": _brighter,
    "1.6 % crop": _cropped,
}
