"""The two-way check of captions and images, compared with a literal reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from loupe.flows.ccd.caption_checks import check_preferences
from loupe.schemas.phrases import caption_name, image_letter


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def test_a_caption_that_prefers_another_image_is_reported() -> None:
    images = np.eye(3)
    texts = unit(np.array([[[0.6, 0.8, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]))
    assert check_preferences(texts, images) == [
        "Caption A1 fits image B as well as its own or better (0.800 and 0.600), says the embedder."
    ]


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 5), st.booleans())
def test_findings_equal_those_of_a_literal_reference(
    seed: int, rows: int, images: int, single: bool
) -> None:
    rng = np.random.default_rng(seed)
    pictures = unit(rng.normal(size=(images, 6)))
    pictures[-1] = pictures[0] if seed % 3 == 0 else pictures[-1]
    texts = unit(rng.normal(size=(rows, images, 6)))
    if single:
        pictures, texts = pictures.astype(np.float32), texts.astype(np.float32)

    def cosine(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
        return round(float(one.astype(np.float64) @ other.astype(np.float64)), 6)

    wanted = []
    for row in range(rows):
        for column in range(images):
            own = cosine(texts[row, column], pictures[column])
            others = [at for at in range(images) if at != column]
            by_caption = [cosine(texts[row, column], pictures[at]) for at in others]
            by_image = [cosine(texts[row, at], pictures[column]) for at in others]
            nearest, best = max(by_caption), max(by_image)
            image = image_letter(others[by_caption.index(nearest)])
            caption = caption_name(row, others[by_image.index(best)])
            problems = [
                f"fits image {image} as well as its own or better ({nearest:.3f} and {own:.3f})"
            ] * (nearest >= own)
            said = f"fits image {image_letter(column)} no better than caption {caption} does"
            problems += [f"{said} ({own:.3f} and {best:.3f})"] * (best >= own)
            if problems:
                name = caption_name(row, column)
                wanted.append(f"Caption {name} {', and '.join(problems)}, says the embedder.")
    assert check_preferences(texts, pictures) == wanted


def test_vectors_of_wrong_shape_or_value_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[NDArray[np.float64], NDArray[np.float64], str]] = [
        (np.ones((1, 1, 3)), np.ones((1, 3)), "n at least 2; got"),
        (np.ones((1, 2, 3)), np.ones((3, 3)), r"got \(1, 2, 3\) and \(3, 3\)"),
        (np.ones((2, 3)), np.ones((2, 3)), "must be"),
        (np.full((1, 2, 3), np.nan), np.ones((2, 3)), "finite"),
    ]
    for texts, images, message in cases:
        with subtests.test(message=message), pytest.raises(ValueError, match=message):
            check_preferences(texts, images)
