"""Reads a text as a picture that is painted of it: colours at their places, and patterns."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from models.builtin.embedder.palette import LIKENESSES, Likeness, likeness_of_word
from models.builtin.embedder.scenery import sceneries
from models.builtin.embedder.space import Mark, Zone, vector_of
from models.builtin.person.description import Description, Role, Thing
from models.builtin.person.lexicon_file import load_lexicon
from models.builtin.person.parser import parse_description
from models.embedding import Vectors
from schemas.faithfulness import Attribute

_PLACES: dict[str, tuple[tuple[Zone, float], ...]] = {
    "upper": ((Zone.UPPER, 1.0),),
    "outer": ((Zone.UPPER, 2.0),),  # hides most of what is under it
    "lower": ((Zone.LOWER, 1.0),),
    "whole": ((Zone.UPPER, 1.0), (Zone.LOWER, 1.0)),
    "clothing": ((Zone.UPPER, 0.5), (Zone.LOWER, 0.5)),
    "feet": ((Zone.FEET, 1.0),),
    "socks": ((Zone.FEET, 0.3),),
    "head": ((Zone.HEAD, 1.5),),
}
_IN_FIGURE = {"upper": 1.0, "outer": 1.0, "lower": 1.0, "whole": 2.0, "bag": 0.7}
_IN_FIGURE_ELSE = 0.3
_HAIR = 1.0
_BARE_LEGS = {"shorts": 1.0, "skirt": 1.0, "dress": 0.6, "trousers": -1.0}
_SLEEVES = {"short sleeves": 1.0, "sleeveless": 1.0, "long sleeves": -1.0}
_PLAIN = -0.3  # where a text says nothing of a pattern, there mostly is none

_Canvas = dict[Zone, Likeness]


def paint(text: str) -> Vectors:
    """The vector of a text."""
    description = parse_description(text)
    canvas: _Canvas = defaultdict(lambda: np.zeros(LIKENESSES))
    _paint_background(canvas, text, description)
    marks: dict[Mark, float] = {}
    if _is_of_a_person(description):
        _paint_person(canvas, description)
        marks = _marks(description)
    return vector_of(canvas, marks)


def _is_of_a_person(description: Description) -> bool:
    """Whether it tells how somebody looks."""
    worn = any(_slot(item) in _PLACES for item in description.items)
    return worn or bool(description.person.values(Attribute.SEX))


def _paint_background(canvas: _Canvas, text: str, description: Description) -> None:
    """Sceneries where they mostly are, in their own colour unless the text gives another one."""
    stated = {
        thing.span[0]: colour
        for thing in description.items
        if (colour := _colour_of(thing)) is not None
    }
    for start, scenery in sceneries(text):
        colour = stated.pop(start, scenery.colour)
        canvas[scenery.zone] += colour
        canvas[Zone.EVERYWHERE] += 0.5 * colour
    if not _is_of_a_person(description):
        for word, _ in description.colours:
            canvas[Zone.EVERYWHERE] += likeness_of_word(word)


def _paint_person(canvas: _Canvas, description: Description) -> None:
    for thing in _shown(description):
        colour = _colour_of(thing)
        if colour is None:
            continue
        slot = _slot(thing)
        for zone, share in _PLACES.get(slot, ()):
            canvas[zone] += share * colour
        canvas[Zone.FIGURE] += _IN_FIGURE.get(slot, _IN_FIGURE_ELSE) * colour
    if (hair := _colour_of(description.hair)) is not None:
        canvas[Zone.HEAD] += _HAIR * hair


def _marks(description: Description) -> dict[Mark, float]:
    marks = {Mark.PERSON: 1.0}
    for thing in _shown(description):
        slot = _slot(thing)
        patterned = 1.0 if thing.values(Attribute.PATTERN) else _PLAIN
        for zone, _ in _PLACES.get(slot, ()):
            if zone is Zone.UPPER:
                marks[Mark.UPPER_PATTERN] = max(marks.get(Mark.UPPER_PATTERN, -1.0), patterned)
            elif zone is Zone.LOWER:
                marks[Mark.LOWER_PATTERN] = max(marks.get(Mark.LOWER_PATTERN, -1.0), patterned)
        for kind in load_lexicon().lineages.get(thing.kind, ()):
            if kind in _BARE_LEGS:
                marks[Mark.BARE_LEGS] = _BARE_LEGS[kind]
        for length in thing.values(Attribute.LENGTH):
            if length in _SLEEVES:
                marks[Mark.BARE_ARMS] = _SLEEVES[length]
    return marks


def _shown(description: Description) -> Iterator[Thing]:
    """What is worn or carried; things of the surroundings are left out."""
    return (item for item in description.items if not item.negated and _slot(item))


def _slot(thing: Thing) -> str:
    return load_lexicon().slot(thing.kind) if thing.role is Role.ITEM else ""


def _colour_of(thing: Thing) -> Likeness | None:
    """The colours stated of a thing, the first one above all; None where there are none."""
    facts = thing.all(Attribute.COLOUR)
    if not facts:
        return None
    mixed = np.zeros(LIKENESSES)
    for place, fact in enumerate(facts):
        mixed += likeness_of_word(fact.value, thing.shades.get(fact.span, "")) / (1 + place / 2)
    return mixed
