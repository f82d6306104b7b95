"""The two-way check of captions and images, compared with a literal reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from flows.ccd.caption_checks import CaptionPreference, check_preferences


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def confused_with(one: CaptionPreference) -> int | None:
    """Return the image that a caption is confused with, checked from the caption first, or None."""
    if one.prefers_other_image:
        return one.nearest_image
    return one.best_caption if one.loses_own_image else None


def test_a_caption_that_prefers_another_image_is_reported() -> None:
    images = np.eye(3)
    texts = unit(np.array([[[0.6, 0.8, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]))
    first, second, third = check_preferences(texts, images)
    assert (first.prefers_other_image, first.loses_own_image, confused_with(first)) == (
        True,
        False,
        1,
    )
    assert first.sentence == (
        "Caption A1 fits image B as well as its own or better (0.800 and 0.600), says the embedder."
    )
    assert second.sentence == third.sentence == ""


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
    found = iter(check_preferences(texts, pictures))

    def cosine(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
        return round(float(one.astype(np.float64) @ other.astype(np.float64)), 6)

    for row in range(rows):
        for column in range(images):
            one = next(found)
            own = cosine(texts[row, column], pictures[column])
            others = [at for at in range(images) if at != column]
            by_caption = [cosine(texts[row, column], pictures[at]) for at in others]
            by_image = [cosine(texts[row, at], pictures[column]) for at in others]
            assert one.prefers_other_image == (max(by_caption) >= own)
            assert one.loses_own_image == (max(by_image) >= own)
            if max(by_caption) >= own:
                assert confused_with(one) == others[by_caption.index(max(by_caption))]
            elif max(by_image) >= own:
                assert confused_with(one) == others[by_image.index(max(by_image))]
            else:
                assert confused_with(one) is None


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
