import os
import subprocess
import sys

import numpy as np

from loupe.models.tracking.appearance import (
    DIMENSIONS,
    MEAN,
    Boxes,
    embeddings_of,
    signatures,
)
from loupe.models.tracking.detector import Pixels
from loupe.schemas.base import sha256_of
from loupe.schemas.processes import PYTHON
from tests.models.tracking.walkers import Walker, frame_of

RED = Walker(50, 50)
OTHERS = [
    Walker(50, 50, shirt=(240, 240, 240), trousers=(20, 20, 20)),
    Walker(50, 50, shirt=(20, 90, 40), trousers=(150, 140, 110)),
    Walker(50, 50, shirt=(25, 25, 25), trousers=(30, 35, 90)),
    Walker(50, 50, shirt=(40, 60, 190), trousers=(60, 60, 65)),
]


def pixels_of(walker: Walker, number: int = 0, light: float = 1.0) -> Pixels:
    return frame_of([walker], number, light=light).pixels


def embedding(pixels: Pixels, box: Boxes) -> Boxes:
    vector: Boxes = embeddings_of(pixels, box[None])[0]
    return vector


def test_embeddings_are_unit_vectors() -> None:
    boxes = np.stack([RED.box(0), RED.box(0) + 3])
    vectors = embeddings_of(pixels_of(RED), boxes)
    assert vectors.shape == (2, DIMENSIONS)
    assert DIMENSIONS <= 256
    assert MEAN.shape == (DIMENSIONS,)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(
        np.linalg.norm(signatures(pixels_of(RED), boxes), axis=1), 1, atol=1e-4
    )


def test_the_embedding_is_robust_to_light_and_inexact_boxes() -> None:
    first = embedding(pixels_of(RED), RED.box(0))
    for light in (0.6, 0.8, 1.2):
        assert first @ embedding(pixels_of(RED, light=light), RED.box(0)) > 0.9, light
    for jitter in ((2, 2, 2, 2), (-2, 3, 2, 3), (0, -4, 0, 4)):
        box = RED.box(0) + np.array(jitter, np.float32)
        assert first @ embedding(pixels_of(RED), box) > 0.85, jitter


def test_different_clothes_have_different_embeddings() -> None:
    first = embedding(pixels_of(RED), RED.box(0))
    similarities = [float(first @ embedding(pixels_of(other), other.box(0))) for other in OTHERS]
    assert max(similarities) < 0.6, similarities


def test_the_embedding_is_the_same_on_any_processor() -> None:
    older = {
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
        "OPENBLAS_CORETYPE": "Nehalem",
        "OPENCV_CPU_DISABLE": "AVX512-SKX,AVX2,FMA3,AVX,SSE4.2,SSE4.1",
        "PYTHONWARNINGS": "ignore",  # of features that this processor lacks anyway
    }
    told = subprocess.run(
        [*PYTHON, "-c", f"from {__name__} import print_digest; print_digest()"],
        env=os.environ | older,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == digest_of_embeddings()


def digest_of_embeddings() -> str:
    vectors = [embedding(pixels_of(one), one.box(0)) for one in (RED, *OTHERS)]
    return sha256_of(np.stack(vectors).tobytes())


def print_digest() -> None:
    sys.stdout.write(digest_of_embeddings())


def test_boxes_outside_the_frame_have_embeddings_and_no_boxes_have_none() -> None:
    boxes = [(-40, -40, -10, -10), (470, 260, 600, 400), (5, 5, 5, 5)]
    vectors = embeddings_of(pixels_of(RED), np.array(boxes, np.float32))
    assert np.isfinite(vectors).all()
    assert vectors.shape == (3, DIMENSIONS)
    assert embeddings_of(pixels_of(RED), np.zeros((0, 4), np.float32)).shape == (0, DIMENSIONS)
