"""The space in which stills and texts meet, and a coarse signature of any picture."""

import hashlib
from functools import cache
from itertools import pairwise, product

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.builtin.describer import lab_of
from models.builtin.stills.reading import (
    ACTIONS,
    COLOURS,
    GARMENTS,
    KINDS,
    PLACES,
    SIZES,
    STYLES,
    Content,
)

# The space in which stills and texts meet: a place for each thing that may be said.

Vector = NDArray[np.float64]

_MOST = 6
_RELATION_BINS, _LETTER_BINS = 192, 64
_KIND, _COLOURED, _COUNTED, _SIZED = 1.0, 1.0, 0.8, 0.25
_PLACE, _ACTION, _STYLE, _WORN = 1.2, 1.2, 0.3, 0.8
_RELATED, _ON_IS_ABOVE, _WORD = 0.8, 0.4, 1.2


@cache
def _places() -> dict[tuple[str, ...], int]:
    """The dimension of each statement that has one of its own."""
    statements: list[tuple[str, ...]] = [("kind", kind) for kind in KINDS]
    statements += product(("coloured",), KINDS, COLOURS)
    statements += product(("counted",), KINDS, map(str, range(1, _MOST + 1)))
    statements += product(("sized",), KINDS, SIZES)
    statements += product(("worn",), GARMENTS, COLOURS)
    for name, values in (("action", ACTIONS), ("place", PLACES), ("style", STYLES)):
        statements += product((name,), values)
    return {statement: place for place, statement in enumerate(statements)}


def content_dimension() -> int:
    """How long a vector of contents is."""
    return len(_places()) + _RELATION_BINS + _LETTER_BINS


def vector_of_content(content: Content) -> Vector:
    """Of shape (content_dimension(),): all statements, weighed; zero where nothing is known."""
    vector = np.zeros(content_dimension())
    for group in content.groups:
        _put(vector, _KIND, "kind", group.kind)
        if group.colour:
            _put(vector, _COLOURED, "coloured", group.kind, group.colour)
        if group.size:
            _put(vector, _SIZED, "sized", group.kind, group.size)
    for kind, number in _numbers(content).items():
        _put(vector, _COUNTED, "counted", kind, str(min(number, _MOST)))
    for garment, colour in content.clothes:
        _put(vector, _WORN, "worn", garment, colour)
    for weight, name, value in (
        (_ACTION, "action", content.action),
        (_PLACE, "place", content.place),
        (_STYLE, "style", content.style),
    ):
        if value:
            _put(vector, weight, name, value)
    _put_relations(vector, content)
    if content.word:
        _put_letters(vector, content.word)
    return vector


def _numbers(content: Content) -> dict[str, int]:
    """How many there are of each kind; kinds of which that is not said are left out."""
    found: dict[str, int] = {}
    unsaid = {group.kind for group in content.groups if group.number is None}
    for group in content.groups:
        if group.kind not in unsaid and group.number:
            found[group.kind] = found.get(group.kind, 0) + group.number
    return found


def _put(vector: Vector, weight: float, *statement: str) -> None:
    if (place := _places().get(statement)) is not None:
        vector[place] = weight


def _put_relations(vector: Vector, content: Content) -> None:
    start = len(_places())
    for one, relation, two in content.relations:
        vector[start + _bin(_RELATION_BINS, one, relation, two)] += _RELATED
        if relation == "on":
            vector[start + _bin(_RELATION_BINS, one, "above", two)] += _ON_IS_ABOVE


def _put_letters(vector: Vector, word: str) -> None:
    """Pairs of neighbouring letters: a letter that was misread leaves most of them right."""
    start = len(_places()) + _RELATION_BINS
    pairs = list(pairwise(f" {word} "))
    for one, two in pairs:
        vector[start + _bin(_LETTER_BINS, one, two)] += _WORD / len(pairs) ** 0.5


@cache
def _bin(bins: int, *parts: str) -> int:
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest) % bins


# A coarse signature of any picture, so that pictures of which nothing is known can be compared.

_GRID = 4
_SIDE_PX = 64
_EDGE_SCALE, _LIGHT_SCALE, _TINT_SCALE = 12.0, 22.0, 14.0
_MEAN_LIGHT = 62.0
_DIRECTIONS = 4
LAYOUT_DIMENSION = _GRID * _GRID * (3 + _DIRECTIONS)


def layout_of(image: Image.Image) -> Vector:
    """Of shape (LAYOUT_DIMENSION,): light, tint and the direction of edges in a grid of cells.

    All parts are around 0 for an ordinary picture, so that the cosine of two that have nothing to
    do with each other is around 0.
    """
    small = np.asarray(image.resize((_SIDE_PX, _SIDE_PX), Image.Resampling.BOX), np.uint8)
    lab = lab_of(small)
    colours = (_cells(lab) - (_MEAN_LIGHT, 0, 0)) / (_LIGHT_SCALE, _TINT_SCALE, _TINT_SCALE)
    light = lab[..., 0]
    right, down = cv2.Sobel(light, cv2.CV_32F, 1, 0), cv2.Sobel(light, cv2.CV_32F, 0, 1)
    direction = (np.arctan2(down, right) % np.pi / np.pi * _DIRECTIONS).astype(int) % _DIRECTIONS
    strength = np.hypot(right, down)
    edges = np.stack([strength * (direction == one) for one in range(_DIRECTIONS)], axis=-1)
    cells = np.log1p(_cells(edges) / _EDGE_SCALE) - 1
    return np.concatenate([colours.ravel(), 0.6 * cells.ravel()]).astype(np.float64)


def _cells(field: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> Vector:
    """The means of `field`, of shape (side, side, n), in a grid."""
    side = field.shape[0] // _GRID
    return np.asarray(
        field.reshape(_GRID, side, _GRID, side, field.shape[2]).mean(axis=(1, 3)), np.float64
    )
