"""Reads the colours of a person off a crop, by where a body stands in the box around it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.builtin.describer.colour_names import NAMES, Lab, lab_of, nearest_names

_HEIGHT_PX = 128
_BORDER = 0.08  # the width of the strips at both sides that show the street
_STREET_DISTANCE = 9.0  # nearer than this in L*a*b*, a pixel may be the street's
_LEAST_PERSON = 0.15  # of a zone: with less left, the street has the person's colours
_SECOND_SHARE = 0.28  # of a zone: from here on a second colour is worth a word
_MANY_COLOURS = 0.4  # with the first colour below this share, there are many


class Zone(NamedTuple):
    """A part of the box, in shares of its height and width."""

    top: float
    bottom: float
    left: float
    right: float


HEAD = Zone(0.015, 0.085, 0.36, 0.64)
UPPER = Zone(0.20, 0.43, 0.30, 0.70)
LOWER = Zone(0.52, 0.70, 0.30, 0.70)


class Colouring(NamedTuple):
    """The colours of a zone by name, the largest first; `many` where none of them prevails."""

    names: tuple[str, ...]
    many: bool


class Reading(NamedTuple):
    """What can be seen of a person without knowing what anything is.

    Shoes are left out: they are small, and half of their zone is ground.
    """

    head: Colouring
    upper: Colouring
    lower: Colouring


def read_crop(pixels: NDArray[np.uint8]) -> Reading:
    """The colours in `pixels`, an upright crop of shape (height, width, 3) around one person.

    What looks like the strips left and right of the body, at the same height, is taken for street,
    unless almost all of a zone does.
    """
    picture = lab_of(_scaled(pixels))
    return Reading(*(_colouring(picture, zone) for zone in (HEAD, UPPER, LOWER)))


def _scaled(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    import cv2

    height, width = pixels.shape[:2]
    size = (max(8, round(width * _HEIGHT_PX / height)), _HEIGHT_PX)
    scaled: NDArray[np.uint8] = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))
    return scaled


def person_colours(picture: Lab, zone: Zone) -> Lab:
    """The colours of a zone, of shape (n, 3), without what is taken for street."""
    height, width = picture.shape[:2]
    rows = slice(int(zone.top * height), max(int(zone.bottom * height), int(zone.top * height) + 1))
    inside = picture[rows, int(zone.left * width) : int(zone.right * width)]
    person: Lab = inside[_is_person(inside, picture[rows])]
    if len(person) < _LEAST_PERSON * inside.shape[0] * inside.shape[1]:
        person = inside.reshape(-1, 3)
    return person


def _colouring(picture: Lab, zone: Zone) -> Colouring:
    person = person_colours(picture, zone)
    counts = np.bincount(nearest_names(person), minlength=len(NAMES))
    order = counts.argsort(kind="stable")[::-1]
    shares = counts[order] / counts.sum()
    names = [NAMES[order[0]], *(NAMES[order[1]],) * bool(shares[1] >= _SECOND_SHARE)]
    return Colouring(tuple(names), bool(shares[0] < _MANY_COLOURS))


def _is_person(inside: Lab, band: Lab) -> NDArray[np.bool_]:
    """Which pixels of a zone differ, row by row, from both ends of the band that it lies in."""
    strip = max(1, int(_BORDER * band.shape[1]))
    street = np.concatenate([band[:, :strip], band[:, -strip:]], axis=1)
    distances = np.linalg.norm(inside[:, :, None] - street[:, None], axis=3)
    different: NDArray[np.bool_] = distances.min(axis=2) > _STREET_DISTANCE
    return different
