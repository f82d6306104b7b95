"""Strata are what captions state."""

import pytest

from loupe.checks.person.strata import DISPUTED, strata_of
from loupe.schemas.plugins import NOT_STATED


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (
            ["A young woman with dark skin wears a red dress.", "The woman has white sneakers."],
            ("female", "young", "dark", "dress"),
        ),
        (["The boy wears a T-shirt and jeans."], ("male", NOT_STATED, NOT_STATED, "trousers")),
        (["A man in shorts.", "A woman in shorts."], (DISPUTED, NOT_STATED, NOT_STATED, "shorts")),
        (["A bus at a stop."], (NOT_STATED,) * 4),
        ([], (NOT_STATED,) * 4),
    ],
)
def test_strata_are_what_captions_state(texts: list[str], wanted: tuple[str, ...]) -> None:
    assert tuple(strata_of(texts).values()) == wanted
