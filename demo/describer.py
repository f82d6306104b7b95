"""A describer of people based on colours and their position on a body."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from loupe.schemas.profile import BuiltinDescriber
from loupe.schemas.validation import packaged_toml
from loupe.testing import BuiltinChatModel, ChatRequest, FormatError, picture_of

# Names of colours, as in the lexicon, and perceptual distances between colours.

Lab = NDArray[np.float32]
"""Colours of shape (…, 3) in CIE L*a*b*: lightness 0 to 100, then green-red and blue-yellow."""

COLOURS = TypeAdapter(dict[str, tuple[int, int, int]]).validate_python(
    packaged_toml(__package__, "colours.toml")
)
"""Each name with an sRGB colour that most people would call by it."""

NAMES = tuple(COLOURS)


def lab_of(pixels: NDArray[np.uint8]) -> Lab:
    """Convert sRGB `pixels`, of shape (height, width, 3), to CIE L*a*b*."""
    import cv2

    return np.asarray(cv2.cvtColor(pixels.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), np.float32)


def nearest_names(colours: Lab) -> NDArray[np.intp]:
    """Return the index in `NAMES` of the nearest name for each of `colours`, of shape (n, 3)."""
    distances = np.linalg.norm(colours[:, None] - anchors(), axis=2)
    return np.asarray(distances.argmin(axis=1), np.intp)


@cache
def anchors() -> Lab:
    """Return the colours of `NAMES`, of shape (names, 3)."""
    return lab_of(np.array([list(COLOURS.values())], np.uint8)).reshape(-1, 3)


# Reads the colours of a person from a crop, by the usual position of a body in its box.

_HEIGHT_PX = 128
_BORDER = 0.08  # width of the strips at both sides that show the street
_STREET_DISTANCE = 9.0  # below this distance in L*a*b*, a pixel may be the street's
_LEAST_PERSON = 0.15  # of a zone: with less left, it may not show clothing
_SECOND_SHARE = 0.28  # of a zone: from this share on, a second colour is mentioned
_MANY_COLOURS = 0.4  # if the first colour has less than this share, there are many


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
    """The colours of a zone by name, the largest first; `many` if none of them prevails.

    Empty if almost all of the zone looks like the street.
    """

    names: tuple[str, ...]
    many: bool


class Reading(NamedTuple):
    """The colours of a person, without recognition of garments.

    Shoes are left out, because they are small, and half of their zone is ground.
    """

    head: Colouring
    upper: Colouring
    lower: Colouring


def read_crop(pixels: NDArray[np.uint8]) -> Reading:
    """Return the colours in `pixels`, an upright crop of shape (height, width, 3) of one person.

    Pixels that look like the strips left and right of the body, at the same height, count as
    street.
    """
    import cv2

    height, width = pixels.shape[:2]
    size = (max(8, round(width * _HEIGHT_PX / height)), _HEIGHT_PX)
    picture = lab_of(np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)))
    return Reading(*(_colouring(picture, zone) for zone in (HEAD, UPPER, LOWER)))


def person_colours(picture: Lab, zone: Zone) -> Lab:
    """Return the colours of a zone, of shape (n, 3), without those of the street unless all are."""
    inside, person = _zone(picture, zone)
    return inside[person] if person.mean() >= _LEAST_PERSON else inside.reshape(-1, 3)


def _colouring(picture: Lab, zone: Zone) -> Colouring:
    inside, person = _zone(picture, zone)
    if person.mean() < _LEAST_PERSON:
        return Colouring((), many=False)
    counts = np.bincount(nearest_names(inside[person]), minlength=len(NAMES))
    order = counts.argsort(kind="stable")[::-1]
    shares = counts[order] / counts.sum()
    names = [NAMES[order[0]], *(NAMES[order[1]],) * bool(shares[1] >= _SECOND_SHARE)]
    return Colouring(tuple(names), bool(shares[0] < _MANY_COLOURS))


def _zone(picture: Lab, zone: Zone) -> tuple[Lab, NDArray[np.bool_]]:
    """Return the pixels of a zone, and which of them differ from both ends of their row."""
    height, width = picture.shape[:2]
    top = int(zone.top * height)
    strip = max(1, int(_BORDER * width))
    band = picture[top : max(int(zone.bottom * height), top + 1)]
    inside = band[:, int(zone.left * width) : int(zone.right * width)]
    street = np.concatenate([band[:, :strip], band[:, -strip:]], axis=1)
    distances = np.linalg.norm(inside[:, :, None] - street[:, None], axis=3)
    return inside, distances.min(axis=2) > _STREET_DISTANCE


# The built-in describer: names the colours that a person wears, by position, offline.


class ColourDescriber(BuiltinChatModel[BuiltinDescriber]):
    """Describes the person in the first image of each request.

    It reads colours by their position on the body and does not guess sex, age or kinds of garments.
    Its texts are only drafts.
    """

    def text_for(self, request: ChatRequest) -> str:
        """Return the visible colours of the person, in the style of the specification."""
        if not request.images:
            raise FormatError(f"{self.ref} describes images, and there is none in the request")
        pixels = np.asarray(picture_of(request.images[0]))
        return describe(read_crop(pixels), self._spec.style)


def describe(reading: Reading, style: str) -> str:
    """Return the colours as sentences; `style` is `plain` or `flowing`."""
    head, upper, lower = (_said(colouring) for colouring in reading)
    if style == "plain":
        return (
            f"A person in {upper} upper clothes and {lower} clothing below the waist. "
            f"The hair or headwear is {head}."
        )
    return (
        f"Seen here is a person with {head} hair or headwear. "
        f"Above the waist the clothing is {upper}; the legs are covered in {lower}."
    )


def _said(colouring: Colouring) -> str:
    names = " and ".join(colouring.names) or "unknown"
    return f"multicolored (mostly {names})" if colouring.many else names
