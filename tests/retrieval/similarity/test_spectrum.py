"""Hashes and spectra compared with imagehash and with real mirror images."""

import imagehash
import numpy as np
from hypothesis import given
from hypothesis.extra.numpy import arrays
from PIL import Image

from loupe.retrieval.similarity.spectrum import (
    SIDE_PX,
    look_of,
    mirrored_spectra,
    spectrum_distances,
)

pictures = arrays(np.uint8, (SIDE_PX, SIDE_PX)).map(lambda grey: grey.astype(np.float64))
random = np.random.default_rng(0)


def test_the_hash_of_a_32_by_32_image_equals_imagehash() -> None:
    for _ in range(50):
        grey = random.integers(0, 256, (SIDE_PX, SIDE_PX), np.uint8)
        look = look_of(grey.astype(np.float64))
        assert look is not None
        assert f"{look.perceptual_hash:016x}" == str(imagehash.phash(Image.fromarray(grey)))


@given(pictures)
def test_the_spectrum_of_a_mirror_image_follows_from_signs(grey: np.ndarray) -> None:
    look, mirrored = look_of(grey), look_of(grey[:, ::-1])
    assert (look is None) == (mirrored is None)
    if look is None or mirrored is None:
        return
    by_sign = mirrored_spectra(look.spectrum[None])[0].astype(int)
    assert np.abs(by_sign - mirrored.spectrum).max() <= 1  # rounding of halves
    assert spectrum_distances(by_sign[None], mirrored.spectrum[None])[0] < 0.01


def test_mirrored_hashes_equal_hashes_of_mirror_images() -> None:
    for _ in range(50):
        grey = random.normal(128, 40, (SIDE_PX, SIDE_PX))
        look, mirrored = look_of(grey), look_of(grey[:, ::-1])
        assert look is not None
        assert mirrored is not None
        assert look.mirrored_hash == mirrored.perceptual_hash
        assert look.perceptual_hash == mirrored.mirrored_hash


def test_a_uniform_image_has_no_spectrum() -> None:
    for level in (0, 127.3, 255):
        assert look_of(np.full((SIDE_PX, SIDE_PX), level)) is None
