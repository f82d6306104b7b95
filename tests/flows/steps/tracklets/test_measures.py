"""Crops and their measures, compared with slow literal references."""

from io import BytesIO
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from loupe.flows.cropping import MARGIN, cut, encode
from loupe.flows.ufine6926.crops import (
    cut_person,
    hash_distance,
    measure_quickly,
    perceptual_hash,
    sharpness,
)
from loupe.models.tracking.detector import Frame, Pixels
from loupe.schemas.base import sha256_of

NOBODY = np.zeros((0, 4))
HEIGHT, WIDTH = 120, 160


def noise(seed: int, height: int = HEIGHT, width: int = WIDTH) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def smooth(seed: int, radius: float) -> Pixels:
    """Return blurred noise of 128 × 64 pixels."""
    return cv2.GaussianBlur(noise(seed, 128, 64), (0, 0), radius).astype(np.uint8)


def as_grey(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.uint8)


def box(*sides: float) -> NDArray[np.float64]:
    return np.array(sides, np.float64)


numbers = st.integers(-40, 200)
spans = st.integers(1, 80)
boxes = st.builds(lambda x, y, w, h: (x, y, x + w, y + h), numbers, numbers, spans, spans)


@settings(deadline=None, max_examples=30)
@given(boxes)
def test_a_cut_contains_the_pixels_of_the_box_inside_the_frame(
    sides: tuple[int, int, int, int],
) -> None:
    pixels = np.arange(HEIGHT * WIDTH * 3).astype(np.uint8).reshape(HEIGHT, WIDTH, 3)
    left, top, right, bottom = sides
    wanted = [
        [pixels[row, column].tolist() for column in range(max(0, left), min(WIDTH, right))]
        for row in range(max(0, top), min(HEIGHT, bottom))
    ]
    found = cut(pixels, box(*sides))
    if wanted and wanted[0]:
        assert found.tolist() == wanted
    else:
        assert found.size == 0


def test_a_cut_has_a_margin_on_every_side() -> None:
    pixels = noise(0)
    assert cut(pixels, box(50, 40, 90, 100), 0.1).shape == (72, 48, 3)
    assert cut(pixels, box(0, 0, 40, 60), 0.1).shape == (66, 44, 3)
    assert cut(pixels, box(10.2, 10.7, 20.1, 30.2)).shape == (21, 11, 3)


def test_a_crop_records_other_people_who_cover_enough_of_it() -> None:
    others = np.array(
        [
            (80.0, 20, 130, 110),  # overlaps from the right
            (46, 40, 50, 100),  # covers 4 %
            (100, 0, 160, 30),  # does not overlap
        ]
    )
    crop = cut_person(noise(0), box(50, 40, 90, 100), others)
    assert (crop.picture.width_px, crop.picture.height_px) == (44, 64)
    assert crop.picture.others_xyxy == ((32.0, 0.0, 44.0, 64.0),)
    alone = cut_person(noise(0), box(50, 40, 90, 100), NOBODY)
    assert alone == encode(cut(noise(0), box(50, 40, 90, 100), MARGIN))
    assert "others_xyxy" not in alone.picture.model_dump()


def test_an_encoded_crop_keeps_its_colours() -> None:
    pixels = np.full((40, 20, 3), (200, 40, 90), np.uint8)
    crop = encode(pixels)
    assert crop.picture.sha256 == sha256_of(crop.data)
    assert (crop.picture.width_px, crop.picture.height_px) == (20, 40)
    assert crop.picture.media_type == "image/jpeg"
    read = np.asarray(Image.open(BytesIO(crop.data)))
    assert np.abs(read.astype(int) - pixels).max() <= 2


def literal_grey(pixels: Pixels) -> NDArray[np.float64]:
    """ITU-R BT.601 luma."""
    grey: NDArray[np.float64] = pixels @ np.array([0.299, 0.587, 0.114])
    return grey


def literal_laplacian_variance(grey: NDArray[np.uint8]) -> float:
    """Variance of the 3×3 Laplacian, with borders reflected without the border pixel."""
    padded = np.pad(grey.astype(float), 1, mode="reflect")
    values = [
        padded[row - 1, column]
        + padded[row + 1, column]
        + padded[row, column - 1]
        + padded[row, column + 1]
        - 4 * padded[row, column]
        for row in range(1, grey.shape[0] + 1)
        for column in range(1, grey.shape[1] + 1)
    ]
    mean = sum(values) / len(values)
    variance: float = sum((value - mean) ** 2 for value in values) / len(values)
    return variance


def test_sharpness_is_the_variance_of_the_laplacian() -> None:
    grey = literal_grey(noise(1, 128, 40)).round().astype(np.uint8)
    assert sharpness(grey) == pytest.approx(literal_laplacian_variance(grey), rel=1e-9)


def test_sharpness_does_not_depend_on_the_size_of_the_person() -> None:
    far = smooth(2, 1.5)
    near = cv2.resize(far, (192, 384), interpolation=cv2.INTER_CUBIC)
    values = [sharpness(as_grey(np.asarray(one))) for one in (far, near, smooth(2, 3))]
    assert values[1] == pytest.approx(values[0], rel=0.2)
    assert values[2] < 0.2 * values[0]


def test_luma_is_measured_inside_the_box() -> None:
    pixels = noise(3)
    found = measure_quickly(Frame(0, 0.0, pixels), box(30, 20, 70, 110), NOBODY)
    assert found is not None
    grey = literal_grey(pixels[20:110, 30:70])
    assert found.brightness == pytest.approx(grey.mean(), abs=0.2)
    assert found.contrast == pytest.approx(grey.std(), abs=0.2)
    assert (found.width_px, found.height_px, found.border_px) == (40, 90, 10)
    assert (found.cut_off, found.overlap, found.other_people) == (0, 0, 0)


def test_the_hash_equals_that_of_imagehash_and_is_near_for_similar_images() -> None:
    from imagehash import phash

    pixels = smooth(4, 6)
    found = perceptual_hash(pixels)
    assert found == str(phash(Image.fromarray(pixels)))
    brighter = np.clip(pixels.astype(int) + 12, 0, 255).astype(np.uint8)
    assert hash_distance(found, perceptual_hash(brighter)) <= 4
    other = smooth(5, 6)
    assert hash_distance(found, perceptual_hash(other)) > 10
    assert hash_distance("0" * 16, "f" * 16) == 64


@settings(deadline=None, max_examples=30)
@given(boxes, st.lists(boxes, max_size=4))
def test_measures_of_boxes_equal_those_by_counting_pixels(
    sides: tuple[int, int, int, int], others: list[tuple[int, int, int, int]]
) -> None:
    frame = Frame(0, 0.0, np.zeros((HEIGHT, WIDTH, 3), np.uint8))
    left, top, right, bottom = sides
    inside = {
        (row, column)
        for row in range(max(0, top), min(HEIGHT, bottom))
        for column in range(max(0, left), min(WIDTH, right))
    }
    found = measure_quickly(frame, box(*sides), np.array(others, float).reshape(-1, 4))
    if min(min(HEIGHT, bottom) - max(0, top), min(WIDTH, right) - max(0, left)) < 2:
        assert found is None
        return
    assert found is not None
    area = (right - left) * (bottom - top)
    assert found.cut_off == pytest.approx(1 - len(inside) / area, abs=1e-4)
    assert found.border_px == max(0, min(left, top, WIDTH - right, HEIGHT - bottom))
    shares, crowd = [0.0], 0
    for one in others:
        pixels = {(r, c) for r in range(one[1], one[3]) for c in range(one[0], one[2])}
        shared = len(pixels & inside)
        crowd += shared >= len(pixels) / 2
        shares.append(shared / len(inside))
    assert found.overlap == pytest.approx(max(shares), abs=1e-4)
    assert found.other_people == crowd
