"""What is said of a change is read as that change."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.builtin.editor.changes import (
    MANNERS,
    THINGS,
    Act,
    Add,
    Change,
    Darken,
    Move,
    Rain,
    Recolour,
    Remove,
    Replace,
    Resettle,
    Respell,
    Restyle,
    read,
    say,
)
from models.builtin.stills.reading import ACTIONS, COLOURS, GARMENTS, PLACES

_COLOUR, _THING, _PLACE = st.sampled_from(COLOURS), st.sampled_from(THINGS), st.sampled_from(PLACES)
_WORD = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=1, max_size=9)
_ACTION = st.sampled_from(ACTIONS)

CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(Recolour, _THING, st.booleans(), _COLOUR, _COLOUR),
    st.builds(Recolour, st.sampled_from(GARMENTS), st.just(False), _COLOUR, _COLOUR),
    st.builds(Respell, _WORD, _WORD),
    st.builds(Replace, _COLOUR, _THING, st.booleans(), _THING),
    st.builds(Remove, _COLOUR, _THING, st.booleans()),
    st.builds(Add, _COLOUR, _THING),
    st.builds(Move, _COLOUR, _THING, st.sampled_from(("left", "right")), _COLOUR, _THING),
    st.builds(Resettle, _PLACE, _PLACE),
    st.builds(Act, _ACTION, _ACTION),
    st.builds(Rain),
    st.builds(Restyle, st.sampled_from(MANNERS)),
    st.builds(Darken),
)


@given(CHANGES)
def test_what_is_said_is_read(change: Change) -> None:
    sentence = say(change)
    assert read(sentence) == change
    assert read(f"  {sentence.upper().rstrip('.')} ") == change
    assert sentence.endswith(".")
    assert len(sentence.split()) < 20


def test_every_change_is_drawn_above() -> None:
    assert {type(change) for change in map(read, _EXAMPLES)} == set(get_args(Change))


_EXAMPLES = (
    "Change the colour of the car from red to blue.",
    'Change the word on the sign from "OPEN" to "SALE".',
    "Replace all red fish by red boats.",
    "Remove the black dog.",
    "Add an orange ball.",
    "Move the white cup to the right of the brown box.",
    "Replace the beach by a desert.",
    "Change what the person does from standing to lying down.",
    "Let it rain.",
    "Redraw the picture as a pencil sketch.",
    "Make the light of the picture dim.",
)


def test_anything_else_is_not_understood(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "",
        "Make it nicer.",
        "Change the colour of the dragon from red to blue.",
        "Change the colour of the car from red to teal.",
        "Replace the red car by a blue boat.",  # two changes at once
        "Replace all red cars by a red boat.",
        "Remove the dog.",  # of which colour?
        "Let it rain. Remove the black dog.",
        "Move the red cup above the blue box.",
    ]
    for sentence in cases:
        with subtests.test(sentence=sentence):
            assert read(sentence) is None
