"""Reads colours and patterns off an image, by where a body, a sky and a ground would be in it."""

from functools import cache

import numpy as np
from PIL import Image

from models.builtin.describer import reading
from models.builtin.describer.colour_names import Lab, lab_of
from models.builtin.embedder.palette import Likeness, likeness_of
from models.builtin.embedder.space import Mark, Zone, vector_of
from models.embedding import Vectors

_HEIGHT_PX = 96
_WIDTHS_PX = (16, 132)
_PERSON_RATIO = 1.4  # of height to width: from here on a picture may be of one upright person

_CALM = 6.0  # a mean change in L*a*b* between neighbours that cloth without a pattern shows
_SKIN_TONES = ((244, 212, 188), (214, 168, 130), (158, 108, 74), (98, 64, 46))
_SKIN_DISTANCE = 10.0
_MUCH_SKIN = 0.3

_FEET = reading.Zone(0.87, 0.99, 0.05, 0.95)
_FIGURE = reading.Zone(0.08, 0.97, 0.10, 0.90)
_ARMS = reading.Zone(0.34, 0.50, 0.12, 0.88)
_LEGS = reading.Zone(0.68, 0.84, 0.20, 0.80)
_BODY = {
    Zone.HEAD: reading.HEAD,
    Zone.UPPER: reading.UPPER,
    Zone.LOWER: reading.LOWER,
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


def _colours(picture: Lab, place: reading.Zone) -> Likeness:
    return likeness_of(reading.person_colours(picture, place))


def _body_marks(picture: Lab) -> dict[Mark, float]:
    return {
        Mark.UPPER_PATTERN: _pattern(picture, reading.UPPER),
        Mark.LOWER_PATTERN: _pattern(picture, reading.LOWER),
        Mark.BARE_ARMS: _bare(picture, _ARMS),
        Mark.BARE_LEGS: _bare(picture, _LEGS),
    }


def _pattern(picture: Lab, place: reading.Zone) -> float:
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


def _bare(picture: Lab, place: reading.Zone) -> float:
    """Whether much of a zone has a colour of skin."""
    person = reading.person_colours(picture, place)
    nearest = np.linalg.norm(person[:, None] - _skin(), axis=2).min(axis=1)
    share = float((nearest < _SKIN_DISTANCE).mean())
    return float(np.tanh((share - _MUCH_SKIN) / _MUCH_SKIN))


@cache
def _skin() -> Lab:
    return lab_of(np.array([_SKIN_TONES], np.uint8)).reshape(-1, 3)
