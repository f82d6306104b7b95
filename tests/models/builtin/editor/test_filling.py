"""What lies behind a thing is drawn on as it goes on beside it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.builtin.drawing.vocabulary import Style
from models.builtin.editor.layers import filled

_SHAPE = (120, 200)


def _bands(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """A picture that is the same from left to right."""
    rows = np.random.default_rng(seed).uniform(0, 255, (_SHAPE[0], 1, 3))
    return np.repeat(rows, _SHAPE[1], axis=1).astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 9),
    st.integers(2, 140),
    st.integers(2, 70),
    st.integers(4, 50),
    st.integers(4, 45),
)
def test_what_is_the_same_from_left_to_right_comes_back(
    seed: int, left: int, top: int, width: int, height: int
) -> None:
    picture = _bands(seed)
    hole = np.zeros(_SHAPE, bool)
    hole[top : top + height, left : left + width] = True
    spoilt = np.where(hole[..., None], np.float32(7), picture)
    assert np.array_equal(filled(spoilt, hole, hole, Style.FLAT), picture)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 99))
def test_nothing_else_changes_and_nothing_comes_from_things(seed: int) -> None:
    generator = np.random.default_rng(seed)
    picture = generator.uniform(0, 200, (*_SHAPE, 3)).astype(np.float32)
    hole, thing = np.zeros(_SHAPE, bool), np.zeros(_SHAPE, bool)
    hole[30:60, 60:90] = True
    thing[20:80, 110:170] = True
    picture[thing] = 255
    result = filled(picture, hole, thing, Style.FLAT)
    assert np.array_equal(result[~hole], picture[~hole])
    assert result[hole].max() <= 200


def test_where_there_is_nothing_to_go_on_with_it_is_painted_over() -> None:
    picture = np.full((*_SHAPE, 3), 90, np.float32)
    hole = np.zeros(_SHAPE, bool)
    hole[40:60, 4:196] = True
    picture[hole] = 0
    assert np.abs(filled(picture, hole, hole, Style.FLAT) - 90).max() <= 4
