import io

import numpy as np
import pytest
from PIL import Image

from loupe.retrieval.edit_measures import change_between, difference_overlay
from loupe.schemas.profile import EditCheckSettings
from tests.retrieval.image_edits.pictures import pasted, still

SETTINGS = EditCheckSettings()
BOX = (60, 60, 180, 170)


def overlay(anchor: Image.Image, edited: Image.Image) -> Image.Image:
    drawn = difference_overlay(anchor, change_between(anchor, edited, SETTINGS))
    with Image.open(io.BytesIO(drawn)) as picture:
        assert picture.format == "PNG"
        return picture.convert("RGB")


def colourfulness(
    pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    values = pixels.astype(np.int16)
    return np.asarray(values.max(axis=2) - values.min(axis=2))


def test_only_changed_pixels_have_colour() -> None:
    anchor = still(4)
    marked = overlay(anchor, pasted(anchor, BOX))
    assert marked.size == anchor.size
    colour = colourfulness(np.asarray(marked)) > 20
    left, top, right, bottom = BOX
    assert colour[top + 8 : bottom - 8, left + 8 : right - 8].mean() > 0.6
    colour[top - 4 : bottom + 4, left - 4 : right + 4] = False
    assert not colour.any()


def test_the_outline_has_contrast_in_grey_on_any_background(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["black", "white"]
    for anchor in cases:
        with subtests.test(anchor=anchor):
            plain = Image.new("RGB", (320, 240), anchor)
            edited = plain.copy()
            edited.paste("blue", BOX)
            grey = np.asarray(overlay(plain, edited).convert("L"), np.int16)
            row = grey[115, BOX[0] - 12 : BOX[0] + 12]
            assert row.min() < 60
            assert row.max() - row.min() > 100
