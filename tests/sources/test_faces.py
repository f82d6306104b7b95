"""Faces are made unrecognisable before an image is stored."""

import io
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from loupe.models.faces import Face
from loupe.sources.decoding import decoded
from loupe.sources.faces import hide, treat_faces, without_faces
from loupe.sources.images import InspectedImage, inspect_image

PHOTOGRAPH = Path(__file__).parents[3] / "shared" / "data" / "coco_captions" / "6.jpg"
EYES = (292, 178, 328, 190)  # of the woman in it, whose face is 48 pixels wide
needs_vision = pytest.mark.skipif(find_spec("mediapipe") is None, reason="needs weights: vision")
needs_photograph = pytest.mark.skipif(not PHOTOGRAPH.exists(), reason="needs weights: photograph")
SHAPE = (120, 100)


def noise(*shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(7).integers(0, 256, shape, np.uint8)


def roughness(pixels: NDArray[np.uint8]) -> float:
    """Return the mean difference of neighbouring pixels around the eyes."""
    left, top, right, bottom = EYES
    return float(np.abs(np.diff(pixels[top:bottom, left:right].astype(float), axis=1)).mean())


def test_little_of_a_face_is_left_and_nothing_else_changes() -> None:
    face = Face(30, 30, 70, 80, 0.9)
    for channels in ((), (3,), (4,)):
        pixels = noise(*SHAPE, *channels)
        for method in ("blur", "replace"):
            hidden = hide(pixels, [face], method)
            assert (hidden[:, :15] == pixels[:, :15]).all()
            assert (hidden[-10:] == pixels[-10:]).all()
            if channels == (4,):
                assert (hidden[..., 3] == pixels[..., 3]).all()
            colours = hidden[35:75, 35:65, :3] if channels else hidden[35:75, 35:65]
            steps = np.abs(np.diff(colours.astype(int), axis=0)).max()
            assert steps <= (8 if method == "blur" else 0)


def test_a_face_that_reaches_beyond_the_image_is_hidden_as_far_as_it_is_there() -> None:
    pixels = noise(*SHAPE, 3)
    hidden = hide(pixels, [Face(-20, -30, 20, 20, 0.9), Face(300, 300, 340, 350, 0.9)], "replace")
    assert len(np.unique(hidden[:15, :15].reshape(-1, 3), axis=0)) == 1
    assert (hidden[60:] == pixels[60:]).all()


def encoded(pixels: NDArray[np.uint8], form: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


@needs_vision
def test_an_image_without_faces_keeps_its_bytes_and_says_that_none_was_found() -> None:
    data = encoded(np.full((90, 130, 3), 120, np.uint8), "PNG")
    treated = treat_faces("blur", data)
    assert treated.data == data
    assert treated.faces is not None
    assert (treated.faces.count, treated.faces.method) == (0, "blur")
    assert treat_faces("keep", data) == (data, None)


@needs_vision
@needs_photograph
def test_the_face_in_a_photograph_is_gone_in_every_format() -> None:
    original = np.asarray(Image.open(PHOTOGRAPH).convert("RGB"))
    before = roughness(original)
    for form in ("JPEG", "PNG", "WEBP", "BMP"):
        treated = treat_faces("blur", encoded(original, form))
        assert treated.faces is not None
        assert treated.faces.count > 0
        picture = decoded(treated.data, 10**6)
        assert (picture.format, picture.size) == (form, (640, 480))
        assert roughness(np.asarray(picture.convert("RGB"))) < before / 4


@needs_vision
@needs_photograph
def test_the_file_stays_known_by_its_digest_and_its_bytes_are_others() -> None:
    found = inspect_image(PHOTOGRAPH.parent, PHOTOGRAPH.name)
    treated = without_faces("replace", found)
    assert isinstance(found, InspectedImage)
    assert isinstance(treated, InspectedImage)
    assert treated.source_sha256 == found.source_sha256
    assert treated.sha256 != found.sha256
    assert treated.faces is not None
    assert "mediapipe-face-detection@" in treated.faces.model


@needs_vision
@needs_photograph
def test_large_clutter_is_left_as_it_is() -> None:
    airplane = PHOTOGRAPH.with_name("0.jpg").read_bytes()
    before = np.asarray(decoded(airplane, 10**6).convert("RGB"), int)
    treated = treat_faces("blur", airplane)
    after = np.asarray(decoded(treated.data, 10**6).convert("RGB"), int)
    assert (np.abs(before - after).max(axis=2) > 30).mean() < 0.01
