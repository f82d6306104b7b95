"""Built-in embedders of drawn people and of stills, without weights."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from loupe.checks.person.description import Description, Role, Thing
from loupe.checks.person.lexicon import load_lexicon
from loupe.checks.person.parser import parse_description
from loupe.demo.describer import (
    COLOURS,
    HEAD,
    LOWER,
    UPPER,
    Lab,
    Zone,
    anchors,
    lab_of,
    person_colours,
)
from loupe.demo.stills.scene import (
    ACTIONS,
    GARMENTS,
    KINDS,
    PLACES,
    SIZES,
    STRIP_BOX,
    STYLES,
    WORDS,
    read_scene,
)
from loupe.demo.stills.scene import COLOURS as STILL_COLOURS
from loupe.demo.stills.text import Content, Statement, content_of, read_text, statements
from loupe.schemas.embedding import BuiltinEmbedder, BuiltinStillsEmbedder
from loupe.schemas.faithfulness import Attribute
from loupe.schemas.validation import packaged_toml
from loupe.testing import Adapter, plain_picture

# Colours as vectors of their similarity to each named colour.

_BLUR = 11.0  # distance in L*a*b* over which similarity to a name fades

Likeness = NDArray[np.float64]
Vectors = NDArray[np.float32]
"""Of shape (names,): similarity of a colour to each name; unbiased colours sum to 0."""

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


def _likeness_of(colours: Lab) -> Likeness:
    """Return the mean similarity of `colours`, of shape (n, 3), to each name, less the average."""
    ordinary = _soft_names(anchors()).mean(axis=0)
    return np.asarray(_soft_names(colours).mean(axis=0) - ordinary, np.float64)


@cache
def likeness_of_word(colour: str, shade: str = "") -> Likeness:
    """Return the similarity of the colour that a word means, alone or with «dark» or «light»."""
    plain = _WORDS.get(colour, colour)
    name = _SHADES.get((plain, shade), plain)
    if name == "multicoloured":
        return np.zeros(len(COLOURS))
    lab = lab_of(np.array([[COLOURS.get(name, _BLOND)]], np.uint8)).reshape(1, 3)
    if name == plain:  # the shade has no name of its own
        lab[:, 0] *= _LIGHTNESS.get(shade, 1.0)
    return _likeness_of(lab)


def _soft_names(colours: Lab) -> Likeness:
    """Of shape (n, names): rows of similarities that sum to 1."""
    named = anchors()
    # |a - b|² without |a|², which is the same for all names and cancels in the softmax.
    nearness = (colours @ named.T - (named**2).sum(axis=1) / 2) / _BLUR**2
    weights = np.exp(nearness - nearness.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float64)


# The space of the built-in embedder: a block of similarities for each zone, then single features.

_ZONES = {
    "head": 0.6,
    "upper": 1.0,
    "lower": 1.0,
    "feet": 0.6,
    "figure": 0.4,
    "top": 0.5,
    "middle": 0.5,
    "bottom": 0.5,
    "everywhere": 0.6,
}
"""Zones of a person or of any image, and the weights of their colours."""

_MARKS = {
    "upper_pattern": 0.3,
    "lower_pattern": 0.2,
    "bare_arms": 0.2,
    "bare_legs": 0.3,
    "person": 0.3,
}
"""Binary features (1 for yes, -1 for no, 0 if unknown), and their weights."""

_BIAS = 0.05  # so that an empty text has a direction as well
_COLOURS_DIMENSION = len(_ZONES) * len(COLOURS) + len(_MARKS) + 1


def _vector_of(zones: Mapping[str, Likeness], marks: Mapping[str, float]) -> Vectors:
    """Return the unit vector, of shape (COLOURS_DIMENSION,), of the features; the rest is zero."""
    blocks = []
    for zone, weight in _ZONES.items():
        likeness = zones.get(zone, np.zeros(len(COLOURS)))
        blocks.append(weight * likeness / (np.linalg.norm(likeness) or 1.0))
    single = [weight * marks.get(mark, 0.0) for mark, weight in _MARKS.items()]
    vector = np.concatenate([*blocks, single, [_BIAS]])
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


# Reads colours and patterns from an image, by the usual positions of a body, sky and ground.

_HEIGHT_PX = 96
_WIDTHS_PX = (16, 132)
_PERSON_RATIO = 1.4  # ratio of height to width from which an image may show one upright person

_CALM = 6.0  # mean change in L*a*b* between neighbours in plain fabric
_SKIN_TONES = ((244, 212, 188), (214, 168, 130), (158, 108, 74), (98, 64, 46))
_SKIN_DISTANCE = 10.0
_MUCH_SKIN = 0.3

_ARMS = Zone(0.34, 0.50, 0.12, 0.88)
_LEGS = Zone(0.68, 0.84, 0.20, 0.80)
_BODY = {
    "head": HEAD,
    "upper": UPPER,
    "lower": LOWER,
    "feet": Zone(0.87, 0.99, 0.05, 0.95),
    "figure": Zone(0.08, 0.97, 0.10, 0.90),
}


def see(image: Image.Image) -> Vectors:
    """Return the vector of an RGB image."""
    least, most = _WIDTHS_PX
    width = min(most, max(least, round(image.width * _HEIGHT_PX / image.height)))
    small = image.resize((width, _HEIGHT_PX), Image.Resampling.BOX)
    picture = lab_of(np.asarray(small, np.uint8))
    bands = [_likeness_of(band.reshape(-1, 3)) for band in np.split(picture, 3)]
    zones = dict(zip(("top", "middle", "bottom"), bands, strict=True))
    zones["everywhere"] = np.mean(bands, axis=0)
    marks = {"person": -1.0}
    if image.height >= _PERSON_RATIO * image.width:
        body = {zone: _likeness_of(person_colours(picture, at)) for zone, at in _BODY.items()}
        zones |= body
        marks = {
            "person": 1.0,
            "upper_pattern": _pattern(picture, UPPER),
            "lower_pattern": _pattern(picture, LOWER),
            "bare_arms": _bare(picture, _ARMS),
            "bare_legs": _bare(picture, _LEGS),
        }
    return _vector_of(zones, marks)


def _pattern(picture: Lab, place: Zone) -> float:
    """Whether lightness and colour alternate from row to row or column to column."""
    height, width = picture.shape[:2]
    inside = picture[
        int(place.top * height) : int(place.bottom * height),
        int((place.left + 0.1) * width) : int((place.right - 0.1) * width) + 1,
    ]
    most_change = 0.0
    for axis in (0, 1):
        if inside.shape[axis] > 1:
            steps = np.linalg.norm(np.diff(inside, axis=axis), axis=2)
            most_change = max(most_change, float(steps.mean()))
    return float(np.tanh((most_change - _CALM) / _CALM))


def _bare(picture: Lab, place: Zone) -> float:
    """Whether much of a zone has the colour of skin."""
    skin = lab_of(np.array([_SKIN_TONES], np.uint8)).reshape(-1, 3)
    person = person_colours(picture, place)
    nearest = np.linalg.norm(person[:, None] - skin, axis=2).min(axis=1)
    share = float((nearest < _SKIN_DISTANCE).mean())
    return float(np.tanh((share - _MUCH_SKIN) / _MUCH_SKIN))


# Reads a text as if an image were painted of it: colours in their zones, and patterns.

_PLACES: dict[str, dict[str, float]] = {
    "upper": {"upper": 1.0},
    "outer": {"upper": 2.0},  # hides most of the layers under it
    "lower": {"lower": 1.0},
    "whole": {"upper": 1.0, "lower": 1.0},
    "clothing": {"upper": 0.5, "lower": 0.5},
    "feet": {"feet": 1.0},
    "socks": {"feet": 0.3},
    "head": {"head": 1.5},
}
_IN_FIGURE = {"upper": 1.0, "outer": 1.0, "lower": 1.0, "whole": 2.0, "bag": 0.7}
_IN_FIGURE_ELSE = 0.3
_BARE_LEGS = {"shorts": 1.0, "skirt": 1.0, "dress": 0.6, "trousers": -1.0}
_SLEEVES = {"short sleeves": 1.0, "sleeveless": 1.0, "long sleeves": -1.0}
_PLAIN = -0.3  # fabrics are mostly plain if a text does not mention a pattern


def paint(text: str) -> Vectors:
    """Return the vector of a text."""
    description = parse_description(text)
    canvas: dict[str, Likeness] = defaultdict(lambda: np.zeros(len(COLOURS)))
    marks: dict[str, float] = {}
    _paint_background(canvas, text, description)
    worn = any(_slot(item) in _PLACES for item in description.items)
    if worn or description.person.values(Attribute.SEX):
        marks["person"] = 1.0
        for item in description.items:
            if not item.negated and _slot(item):
                _paint_item(canvas, marks, item)
        if (hair := _colour_of(description.hair)) is not None:
            canvas["head"] += hair
    else:
        for word, _ in description.colours:
            canvas["everywhere"] += likeness_of_word(word)
    return _vector_of(canvas, marks)


@cache
def _sceneries() -> tuple[dict[str, tuple[str, Likeness]], re.Pattern[str]]:
    """Return (zone, colour) of backgrounds by word, and the pattern that finds them."""
    data = packaged_toml(__package__, "scenery.toml")
    known: dict[str, tuple[str, Likeness]] = {}
    for entry in data.values():
        shade, _, colour = entry["colour"].rpartition(" ")
        known |= dict.fromkeys(entry["words"], (entry["zone"], likeness_of_word(colour, shade)))
    longest_first = sorted(known, key=len, reverse=True)
    return known, re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")


def _paint_background(canvas: dict[str, Likeness], text: str, description: Description) -> None:
    """Paint backgrounds in their usual zones, in their own colour unless the text names another."""
    stated: dict[int, Likeness] = {}
    for thing in description.items:
        colour = _colour_of(thing)
        if colour is not None:
            stated[thing.span[0]] = colour
    known, pattern = _sceneries()
    for match in pattern.finditer(text.casefold()):
        zone, usual = known[match[0]]
        colour = stated.pop(match.start(), usual)
        canvas[zone] += colour
        canvas["everywhere"] += 0.5 * colour


def _paint_item(canvas: dict[str, Likeness], marks: dict[str, float], item: Thing) -> None:
    """Paint an item that is worn or carried."""
    slot = _slot(item)
    colour = _colour_of(item)
    patterned = 1.0 if item.values(Attribute.PATTERN) else _PLAIN
    for zone, share in _PLACES.get(slot, {}).items():
        if colour is not None:
            canvas[zone] += share * colour
        if (mark := f"{zone}_pattern") in _MARKS:
            marks[mark] = max(marks.get(mark, -1.0), patterned)
    if colour is not None:
        canvas["figure"] += _IN_FIGURE.get(slot, _IN_FIGURE_ELSE) * colour
    for kind in load_lexicon().lineages.get(item.kind, ()):
        if kind in _BARE_LEGS:
            marks["bare_legs"] = _BARE_LEGS[kind]
    for length in item.values(Attribute.LENGTH):
        if length in _SLEEVES:
            marks["bare_arms"] = _SLEEVES[length]


def _slot(thing: Thing) -> str:
    return load_lexicon().slot(thing.kind) if thing.role is Role.ITEM else ""


def _colour_of(thing: Thing) -> Likeness | None:
    """Return the colours stated for a thing, the first with the most weight; None if none."""
    facts = thing.all(Attribute.COLOUR)
    if not facts:
        return None
    mixed = np.zeros(len(COLOURS))
    for place, fact in enumerate(facts):
        mixed += likeness_of_word(fact.value, thing.shades.get(fact.span, "")) / (1 + place / 2)
    return mixed


# The built-in embedder: compares texts with images, offline.


class ColourLexiconEmbedder(Adapter[BuiltinEmbedder | BuiltinStillsEmbedder]):
    """Vectors of colours by zone, patterns, and bare arms and legs.

    An image is measured; a text is read with a lexicon, as if it were painted. Other properties
    (faces, actions, kinds of things) do not count. The same input always results in the same
    vector, of length `dimension`.
    """

    dimension = _COLOURS_DIMENSION

    def embed_images(self, images: Sequence[Image.Image]) -> Vectors:
        """Return a vector for each image: see `ImageTextEmbedder`."""
        return self._rows(self.see(plain_picture(image)) for image in images)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each text: see `ImageTextEmbedder`."""
        return self._rows(map(self.paint, texts))

    def see(self, image: Image.Image) -> Vectors:
        """Return the vector of an RGB image."""
        return see(image)

    def paint(self, text: str) -> Vectors:
        """Return the vector of a text."""
        return paint(text)

    def _rows(self, vectors: Iterable[Vectors]) -> Vectors:
        return np.array([*vectors], np.float32).reshape(-1, self.dimension)


Vector = NDArray[np.float64]

_CONTENT = 1.0
_COLOURS = 0.3
_LAYOUT = 0.35
_STILL_BIAS = 0.02  # so that an empty text has a direction as well


def _joined(content: Content, colours: NDArray[np.floating], layout: Vector) -> Vectors:
    said = np.zeros(len(_AXES))
    for statement in statements(content):
        if statement in _AXES:
            said[_AXES[statement]] = _WEIGHTS[statement[0]]
    blocks = ((_CONTENT, said), (_COLOURS, colours.astype(np.float64)), (_LAYOUT, layout))
    whole = np.concatenate([*(weight * _unit(one) for weight, one in blocks), [_STILL_BIAS]])
    return np.asarray(_unit(whole), np.float32)


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector


# An axis for each statement, and its weight.

_WEIGHTS = {
    "kind": 1.0, "coloured": 1.0, "counted": 0.8, "sized": 0.5, "worn": 0.8, "related": 0.8,
    "action": 1.2, "place": 1.2, "word": 1.2, "style": 0.8,
}  # fmt: skip


_MADE: list[Statement] = [
    *product(["kind"], KINDS),
    *product(["coloured"], KINDS, STILL_COLOURS),
    *product(["counted"], KINDS, map(str, range(1, 9))),
    *product(["sized"], KINDS, SIZES),
    *product(["worn"], GARMENTS, STILL_COLOURS),
    *product(["related"], KINDS, ("left", "above", "on"), KINDS),
    *product(["action"], ACTIONS),
    *product(["place"], PLACES),
    *product(["word"], WORDS),
    *product(["style"], STYLES),
]
_AXES = {statement: axis for axis, statement in enumerate(_MADE)}
"""The axis of each possible statement about a scene."""


# A coarse signature of any image, so that images with unknown contents can be compared.

_GRID = 4
_SIDE_PX = 64
_EDGE_SCALE = 12.0
_LIGHT_SCALE = 22.0
_TINT_SCALE = 14.0
_MEAN_LIGHT = 62.0
_DIRECTIONS = 4
_LAYOUT_DIMENSION = _GRID * _GRID * (3 + _DIRECTIONS)


def _layout_of(image: Image.Image) -> Vector:
    """Return lightness, tint and edge directions in a grid of 4 × 4 cells, of shape (112,).

    All parts are around 0 for an average image, so that the cosine of two unrelated images is
    around 0.
    """
    import cv2

    small = np.asarray(image.resize((_SIDE_PX, _SIDE_PX), Image.Resampling.BOX), np.uint8)
    lab = lab_of(small)
    colours = (_cells(lab) - (_MEAN_LIGHT, 0, 0)) / (_LIGHT_SCALE, _TINT_SCALE, _TINT_SCALE)
    light = lab[..., 0]
    right = cv2.Sobel(light, cv2.CV_32F, 1, 0)
    down = cv2.Sobel(light, cv2.CV_32F, 0, 1)
    direction = (np.arctan2(down, right) % np.pi / np.pi * _DIRECTIONS).astype(int) % _DIRECTIONS
    strength = np.hypot(right, down)
    edges = np.stack([strength * (direction == one) for one in range(_DIRECTIONS)], axis=-1)
    cells = np.log1p(_cells(edges) / _EDGE_SCALE) - 1
    return np.concatenate([colours.ravel(), 0.6 * cells.ravel()]).astype(np.float64)


def _cells(field: NDArray[np.floating]) -> Vector:
    """Return the means of `field`, of shape (side, side, n), in a grid."""
    side = field.shape[0] // _GRID
    cells = field.reshape(_GRID, side, _GRID, side, field.shape[2])
    return np.asarray(cells.mean(axis=(1, 3)), np.float64)


# The built-in embedder of stills.


class StillsLexiconEmbedder(ColourLexiconEmbedder):
    """Vectors of the contents of a drawing: kinds, numbers, colours, places, actions, signs.

    It has no vision: it reads the strip of code along the lower edge of drawn stills. Of all other
    images it uses colours by position, as `ColourLexiconEmbedder` does, and a coarse layout that
    only such images have.
    """

    dimension = len(_AXES) + _COLOURS_DIMENSION + _LAYOUT_DIMENSION + 1

    def see(self, image: Image.Image) -> Vectors:
        """Return the vector of an RGB image."""
        scene = read_scene(image)
        if scene is None:
            return _joined(Content(), see(image), _layout_of(image))
        drawn = image.crop((0, 0, image.width, round(image.height * STRIP_BOX[1] / STRIP_BOX[3])))
        return _joined(content_of(scene), see(drawn), _layout_of(drawn))

    def paint(self, text: str) -> Vectors:
        """Return the vector of a text."""
        return _joined(read_text(text), paint(text), np.zeros(_LAYOUT_DIMENSION))
