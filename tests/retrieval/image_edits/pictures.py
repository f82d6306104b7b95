"""Pictures, re-encodings of them, and edits with a known changed box."""

import io
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image, ImageEnhance

from loupe.demo.stills.drawing import draw_still
from loupe.demo.worlds.stills import StillTruth, plan_stills
from loupe.sources.chance import Chance
from tests.annotate.interfaces.proposed import PHOTOGRAPHS
from tests.retrieval.similarity.pictures import street

Picture = Image.Image


@cache
def truth(place: int, seed: int = 11) -> StillTruth:
    """Return the ground truth of a demonstration still."""
    return list(plan_stills(seed, place + 1))[place]


def still(place: int) -> Picture:
    """Draw a still."""
    return draw_still(truth(place).scene)


def photographs() -> list[Picture]:
    """Return a real photograph, or none if it is not available."""
    files = sorted(PHOTOGRAPHS.glob("*.jpg"))[:1]
    return [Image.open(file).convert("RGB") for file in files]


def pictures() -> list[Picture]:
    """Return drawn pictures and, if available, a photograph."""
    return [still(1), street(3), *photographs()]


def saved(picture: Picture, **options: object) -> Picture:
    """Save the picture as a JPEG and read it again."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", **options)
    return Image.open(buffer).convert("RGB")


def _enlarged(picture: Picture, by: float) -> Picture:
    width, height = picture.size
    left, top = width * (1 - 1 / by) / 2, height * (1 - 1 / by) / 2
    matrix = (1 / by, 0, left, 0, 1 / by, top)
    return picture.transform(picture.size, Image.Transform.AFFINE, matrix, Image.Resampling.BICUBIC)


def _moved(picture: Picture) -> Picture:
    matrix = (1, 0, 3.5, 0, 1, -2)
    return picture.transform(picture.size, Image.Transform.AFFINE, matrix, Image.Resampling.BICUBIC)


def _noisy(picture: Picture) -> Picture:
    noise = np.random.default_rng(0).normal(0, 8, (picture.height, picture.width, 3))
    return _from(np.asarray(picture, np.float64) + noise)


def _warmer(picture: Picture) -> Picture:
    return _from(np.asarray(picture, np.float64) + np.array([5, 1, -4]))


def _softer(picture: Picture) -> Picture:
    small = picture.resize((round(picture.width / 1.5), round(picture.height / 1.5)))
    return small.resize(picture.size, Image.Resampling.LANCZOS)


def _from(values: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> Picture:
    return Image.fromarray(np.clip(values, 0, 255).round().astype(np.uint8))


def as_a_model_would(picture: Picture) -> Picture:
    """Soften, enlarge and warm a picture, raise its contrast, and save it as a JPEG."""
    softer = _warmer(_enlarged(_softer(picture), 1.008))
    return saved(ImageEnhance.Contrast(softer).enhance(1.05), quality=90, subsampling=0)


RE_ENCODINGS: dict[str, Callable[[Picture], Picture]] = {
    "jpeg": lambda picture: saved(picture, quality=85, subsampling=0),
    "noisy": _noisy,
    "moved": _moved,
    "all at once": as_a_model_would,
}


def pasted(picture: Picture, box: tuple[int, int, int, int], seed: int = 0) -> Picture:
    """Paste another picture into a box."""
    left, top, right, bottom = box
    patch = street(20 + seed).rotate(180).resize((right - left, bottom - top))
    edited = picture.copy()
    edited.paste(patch, (left, top))
    return edited


def chance(*parts: str | int) -> Chance:
    """Return a stream of random draws."""
    return Chance("edits", *parts)
