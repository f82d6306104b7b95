from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from loupe.retrieval.edit_measures import change_between, changed_areas, scaled_box
from loupe.schemas.profile import EditCheckSettings
from tests.retrieval.image_edits.pictures import (
    RE_ENCODINGS,
    Picture,
    as_a_model_would,
    pasted,
    pictures,
    still,
)

SETTINGS = EditCheckSettings()


def test_re_encoding_alone_changes_almost_no_pixels(subtests: pytest.Subtests) -> None:
    for name in RE_ENCODINGS:
        with subtests.test(name=name):
            re_encode: Callable[[Picture], Picture] = RE_ENCODINGS[name]
            for picture in pictures()[1:]:
                share = change_between(picture, re_encode(picture), SETTINGS).mask.mean()
                assert share < SETTINGS.least_changed_share / 2


def test_a_pasted_region_is_located(subtests: pytest.Subtests) -> None:
    cases: list[Callable[[Picture], Picture]] = [lambda picture: picture, as_a_model_would]
    for case, encode in enumerate(cases):
        with subtests.test(case=case):
            for seed, picture in enumerate(pictures()):
                width, height = picture.size
                box = (width // 4, height // 3, width // 2, height * 2 // 3)
                change = change_between(picture, encode(pasted(picture, box, seed)), SETTINGS)
                left, top, right, bottom = (
                    round(one) for one in scaled_box(box, picture.size, change.size)
                )
                inside = np.zeros_like(change.mask)
                inside[top - 3 : bottom + 3, left - 3 : right + 3] = True
                assert change.mask[inside].mean() > 0.35
                assert change.mask[~inside].mean() < 0.002


def test_the_change_does_not_depend_on_order_or_size() -> None:
    one, box = still(4), (40, 60, 120, 150)
    other = pasted(one, box)
    there, back = (change_between(*pair, SETTINGS).mask for pair in ((one, other), (other, one)))
    assert np.mean(there != back) < 0.003
    large, larger = (one.resize((960, 720)), other.resize((960, 720)))
    again = change_between(large, larger, SETTINGS).mask
    assert again.shape == there.shape
    assert np.mean(there != again) < 0.01


def test_extreme_sizes_are_compared(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, int]] = [(1, 1), (3, 200), (31, 31), (2000, 40)]
    for size in cases:
        with subtests.test(size=size):
            grey, red = Image.new("RGB", size, (128, 128, 128)), Image.new("RGB", size, (250, 0, 0))
            assert not change_between(grey, grey, SETTINGS).mask.any()
            assert change_between(grey, red, SETTINGS).mask.mean() > 0.5
            assert changed_areas(change_between(grey, grey, SETTINGS)) == []


def test_every_mode_is_compared(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["L", "RGBA", "P", "1"]
    for mode in cases:
        with subtests.test(mode=mode):
            picture = still(1).convert(mode)
            assert not change_between(picture, picture, SETTINGS).mask.any()
