"""The built-in embedder of stills: compares the code of a drawing with texts, offline."""

from itertools import product

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.builtin.describer import lab_of
from models.builtin.embedder import COLOURS_DIMENSION, ColourLexiconEmbedder, paint, see
from models.builtin.stills.scene import (
    ACTIONS,
    COLOURS,
    GARMENTS,
    KINDS,
    PLACES,
    SIZES,
    STRIP_BOX,
    STYLES,
    WORDS,
    read_scene,
)
from models.builtin.stills.text import Content, Statement, content_of, read_text, statements
from models.embedding import Vectors

Vector = NDArray[np.float64]

_CONTENT, _COLOURS, _LAYOUT = 1.0, 0.3, 0.35
_BIAS = 0.02  # so that an empty text has a direction as well


def _joined(content: Content, colours: NDArray[np.floating], layout: Vector) -> Vectors:
    said = np.zeros(len(_AXES))
    for statement in statements(content):
        if statement in _AXES:
            said[_AXES[statement]] = _WEIGHTS[statement[0]]
    blocks = ((_CONTENT, said), (_COLOURS, colours.astype(np.float64)), (_LAYOUT, layout))
    whole = np.concatenate([*(weight * _unit(one) for weight, one in blocks), [_BIAS]])
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
    *product(["coloured"], KINDS, COLOURS),
    *product(["counted"], KINDS, map(str, range(1, 9))),
    *product(["sized"], KINDS, SIZES),
    *product(["worn"], GARMENTS, COLOURS),
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
_EDGE_SCALE, _LIGHT_SCALE, _TINT_SCALE = 12.0, 22.0, 14.0
_MEAN_LIGHT = 62.0
_DIRECTIONS = 4
_LAYOUT_DIMENSION = _GRID * _GRID * (3 + _DIRECTIONS)


def layout_of(image: Image.Image) -> Vector:
    """Return lightness, tint and edge directions in a grid of 4 × 4 cells, of shape (112,).

    All parts are around 0 for an average image, so that the cosine of two unrelated images is
    around 0.
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

    dimension = len(_AXES) + COLOURS_DIMENSION + _LAYOUT_DIMENSION + 1

    def see(self, image: Image.Image) -> Vectors:
        """Return the vector of an RGB image."""
        scene = read_scene(image)
        if scene is None:
            return _joined(Content(), see(image), layout_of(image))
        drawn = image.crop((0, 0, image.width, round(image.height * STRIP_BOX[1] / STRIP_BOX[3])))
        return _joined(content_of(scene), see(drawn), layout_of(drawn))

    def paint(self, text: str) -> Vectors:
        """Return the vector of a text."""
        return _joined(read_text(text), paint(text), np.zeros(_LAYOUT_DIMENSION))
