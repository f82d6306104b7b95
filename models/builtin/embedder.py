"""An embedder that knows colours and where they are, and words that say so."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum, auto
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.builtin import describer
from models.builtin.describer import COLOURS, NAMES, Lab, lab_of
from models.builtin.person.description import Description, Role, Thing
from models.builtin.person.lexicon import load_lexicon
from models.builtin.person.parser import parse_description
from models.embedding import Vectors, plain_picture
from schemas.chat import ModelRef
from schemas.embedding import BuiltinEmbedder
from schemas.faithfulness import Attribute

# Colours as numbers that tell how much they look like each colour that has a name.

_BLUR = 11.0  # the distance in L*a*b* over which a likeness to a name fades

LIKENESSES = len(NAMES)
Likeness = NDArray[np.float64]
"""Of shape (LIKENESSES,): how much a colour is like each name; colours of no bias sum up to 0."""

_WORDS = {"grey": "gray", "silver": "light gray", "transparent": "light gray"}
_SHADES = {
    ("gray", "dark"): "dark gray",
    ("gray", "light"): "light gray",
    ("red", "dark"): "maroon",
    ("blue", "light"): "light blue",
    ("blue", "dark"): "navy",
    ("green", "dark"): "dark green",
    ("brown", "dark"): "dark brown",
    ("brown", "light"): "khaki",
}
_BLOND = (214, 176, 104)
_LIGHTNESS = {"dark": 0.65, "light": 1.2}


def likeness_of(colours: Lab) -> Likeness:
    """The mean likeness of `colours`, of shape (n, 3), to each name, less that of any colour."""
    likeness: Likeness = _soft_names(colours).mean(axis=0) - _ordinary()
    return likeness


@cache
def likeness_of_word(colour: str, shade: str = "") -> Likeness:
    """The likeness of the colour that a word of the lexicon means, alone or «dark», «light»."""
    name = _WORDS.get(colour, colour)
    name = _SHADES.get((name, shade), name)
    if name == "multicoloured":
        return np.zeros(LIKENESSES)
    rgb = COLOURS.get(name, _BLOND)
    lab = lab_of(np.array([[rgb]], np.uint8)).reshape(1, 3)
    if name == _WORDS.get(colour, colour):  # no name of its own for the shade
        lab[:, 0] *= _LIGHTNESS.get(shade, 1.0)
    return likeness_of(lab)


def _soft_names(colours: Lab) -> Likeness:
    """Of shape (n, LIKENESSES): rows of likenesses that sum up to 1."""
    anchors = _anchors()
    # |a - b|² without the |a|² that all names share: it goes out of the softmax.
    nearness = (colours @ anchors.T - (anchors**2).sum(axis=1) / 2) / _BLUR**2
    weights = np.exp(nearness - nearness.max(axis=1, keepdims=True))
    soft: Likeness = weights / weights.sum(axis=1, keepdims=True)
    return soft


@cache
def _anchors() -> Lab:
    return lab_of(np.array([list(COLOURS.values())], np.uint8)).reshape(-1, 3)


@cache
def _ordinary() -> Likeness:
    mean: Likeness = _soft_names(_anchors()).mean(axis=0)
    return mean


# The space of the built-in embedder: a block of likenesses for each zone, then single marks.


class Zone(StrEnum):
    """A place whose colours count: on a person, or in any picture."""

    HEAD = auto()
    UPPER = auto()
    LOWER = auto()
    FEET = auto()
    FIGURE = auto()
    TOP = auto()
    MIDDLE = auto()
    BOTTOM = auto()
    EVERYWHERE = auto()


class Mark(StrEnum):
    """Something that is there or not: 1 for yes, -1 for no, 0 where nobody can tell."""

    UPPER_PATTERN = auto()
    LOWER_PATTERN = auto()
    BARE_ARMS = auto()
    BARE_LEGS = auto()
    PERSON = auto()


WEIGHTS: Mapping[Zone | Mark, float] = {
    Zone.HEAD: 0.6,
    Zone.UPPER: 1.0,
    Zone.LOWER: 1.0,
    Zone.FEET: 0.6,
    Zone.FIGURE: 0.4,
    Zone.TOP: 0.5,
    Zone.MIDDLE: 0.5,
    Zone.BOTTOM: 0.5,
    Zone.EVERYWHERE: 0.6,
    Mark.UPPER_PATTERN: 0.3,
    Mark.LOWER_PATTERN: 0.2,
    Mark.BARE_ARMS: 0.2,
    Mark.BARE_LEGS: 0.3,
    Mark.PERSON: 0.3,
}
"""How much each counts when two vectors are compared."""

_BIAS = 0.05  # so that what says nothing has a direction, too
COLOURS_DIMENSION = len(Zone) * LIKENESSES + len(Mark) + 1


def vector_of(zones: Mapping[Zone, Likeness], marks: Mapping[Mark, float]) -> Vectors:
    """The unit vector, of shape (DIMENSION,), of what was found; the rest is zero."""
    blocks = [_block(zone, zones.get(zone)) for zone in Zone]
    single = [WEIGHTS[mark] * marks.get(mark, 0.0) for mark in Mark]
    vector = np.concatenate([*blocks, single, [_BIAS]])
    unit: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def _block(zone: Zone, likeness: Likeness | None) -> Likeness:
    if likeness is None or not likeness.any():
        return np.zeros(LIKENESSES)
    return WEIGHTS[zone] * likeness / np.linalg.norm(likeness)


# Words of what stands behind people and things, with its usual place and colour.


class Scenery(NamedTuple):
    """Something in a picture that is no person: where it mostly is, and in which colour."""

    zone: Zone
    colour: Likeness


def sceneries(text: str) -> Iterator[tuple[int, Scenery]]:
    """(place in the text, what is named there), in order."""
    known, pattern = _lexicon()
    for match in pattern.finditer(text.casefold()):
        yield match.start(), known[match[0]]


@cache
def _lexicon() -> tuple[dict[str, Scenery], re.Pattern[str]]:
    data = tomllib.loads(files(__package__).joinpath("scenery.toml").read_text("utf-8"))
    known = {
        word: Scenery(Zone(entry["zone"]), _colour(entry["colour"]))
        for entry in data.values()
        for word in entry["words"]
    }
    longest_first = sorted(known, key=len, reverse=True)
    return known, re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")


def _colour(words: str) -> Likeness:
    shade, _, colour = words.rpartition(" ")
    return likeness_of_word(colour, shade)


# Reads colours and patterns off an image, by where a body, a sky and a ground would be in it.

_HEIGHT_PX = 96
_WIDTHS_PX = (16, 132)
_PERSON_RATIO = 1.4  # of height to width: from here on a picture may be of one upright person

_CALM = 6.0  # a mean change in L*a*b* between neighbours that cloth without a pattern shows
_SKIN_TONES = ((244, 212, 188), (214, 168, 130), (158, 108, 74), (98, 64, 46))
_SKIN_DISTANCE = 10.0
_MUCH_SKIN = 0.3

_FEET = describer.Zone(0.87, 0.99, 0.05, 0.95)
_FIGURE = describer.Zone(0.08, 0.97, 0.10, 0.90)
_ARMS = describer.Zone(0.34, 0.50, 0.12, 0.88)
_LEGS = describer.Zone(0.68, 0.84, 0.20, 0.80)
_BODY = {
    Zone.HEAD: describer.HEAD,
    Zone.UPPER: describer.UPPER,
    Zone.LOWER: describer.LOWER,
    Zone.FEET: _FEET,
    Zone.FIGURE: _FIGURE,
}
_BANDS = (Zone.TOP, Zone.MIDDLE, Zone.BOTTOM)


def see(image: Image.Image) -> Vectors:
    """The vector of an RGB image."""
    picture = lab_of(np.asarray(image.resize(_size(image), Image.Resampling.BOX), np.uint8))
    third = _HEIGHT_PX // 3
    bands = [likeness_of(picture[i * third : (i + 1) * third].reshape(-1, 3)) for i in range(3)]
    zones = dict(zip(_BANDS, bands, strict=True)) | {Zone.EVERYWHERE: np.mean(bands, axis=0)}
    marks = {Mark.PERSON: 1.0 if image.height >= _PERSON_RATIO * image.width else -1.0}
    if marks[Mark.PERSON] > 0:
        zones |= {zone: _colours(picture, place) for zone, place in _BODY.items()}
        marks |= _body_marks(picture)
    return vector_of(zones, marks)


def _size(image: Image.Image) -> tuple[int, int]:
    least, most = _WIDTHS_PX
    return min(most, max(least, round(image.width * _HEIGHT_PX / image.height))), _HEIGHT_PX


def _colours(picture: Lab, place: describer.Zone) -> Likeness:
    return likeness_of(describer.person_colours(picture, place))


def _body_marks(picture: Lab) -> dict[Mark, float]:
    return {
        Mark.UPPER_PATTERN: _pattern(picture, describer.UPPER),
        Mark.LOWER_PATTERN: _pattern(picture, describer.LOWER),
        Mark.BARE_ARMS: _bare(picture, _ARMS),
        Mark.BARE_LEGS: _bare(picture, _LEGS),
    }


def _pattern(picture: Lab, place: describer.Zone) -> float:
    """Whether light and colour change again and again from row to row or column to column."""
    height, width = picture.shape[:2]
    inside = picture[
        int(place.top * height) : int(place.bottom * height),
        int((place.left + 0.1) * width) : int((place.right - 0.1) * width) + 1,
    ]
    changes = [
        float(np.linalg.norm(np.diff(inside, axis=axis), axis=2).mean())
        for axis in (0, 1)
        if inside.shape[axis] > 1
    ]
    return float(np.tanh((max(changes, default=0.0) - _CALM) / _CALM))


def _bare(picture: Lab, place: describer.Zone) -> float:
    """Whether much of a zone has a colour of skin."""
    person = describer.person_colours(picture, place)
    nearest = np.linalg.norm(person[:, None] - _skin(), axis=2).min(axis=1)
    share = float((nearest < _SKIN_DISTANCE).mean())
    return float(np.tanh((share - _MUCH_SKIN) / _MUCH_SKIN))


@cache
def _skin() -> Lab:
    return lab_of(np.array([_SKIN_TONES], np.uint8)).reshape(-1, 3)


# Reads a text as a picture that is painted of it: colours at their places, and patterns.

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


# The built-in embedder: compares what a text says with what an image shows, offline.


class ColourLexiconEmbedder:
    """Vectors of colours by their place, patterns, and bare arms and legs.

    An image is measured; a text is read through a lexicon, as if it were painted. What neither
    knows (faces, actions, kinds of things) does not count. The same input always gives the same
    vector.
    """

    def __init__(self, spec: BuiltinEmbedder) -> None:
        self._spec = spec

    @property
    def ref(self) -> ModelRef:
        """Name and revision."""
        return self._spec.ref

    @property
    def dimension(self) -> int:
        """How long a vector is."""
        return COLOURS_DIMENSION

    def embed_images(self, images: Sequence[Image.Image]) -> Vectors:
        """A vector for each image: see `ImageTextEmbedder`."""
        return _rows(see(plain_picture(image)) for image in images)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text: see `ImageTextEmbedder`."""
        return _rows(paint(text) for text in texts)


def _rows(vectors: Iterable[Vectors]) -> Vectors:
    return np.array([*vectors], np.float32).reshape(-1, COLOURS_DIMENSION)
