"""The vocabulary of drawn stills, a scene as a value, and the strip of squares that encodes it."""

import math
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import TypeAdapter

from loupe.schemas.base import Box
from loupe.schemas.validation import packaged_toml

# The vocabulary, and how it is drawn.

Rgb = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

Shape = tuple[str | float, ...]
"""`area`, `oval`, `dome` or `line`, its shade, and x and y in shares of a box.

A line has its width, in shares of the box's height, before its points.
"""

TABLES = packaged_toml(__package__, "stills.toml")
COLOURS = TypeAdapter(dict[str, Rgb]).validate_python(TABLES["colours"])
PERSON = "person"
SIGN = "sign"


class Kind(NamedTuple):
    """A kind of thing: its plural, its extent in shares of a square, its colours, its places."""

    plural: str
    width: float
    height: float
    colours: tuple[str, ...] = tuple(COLOURS)
    flies: bool = False
    shapes: tuple[Shape, ...] = ()


KINDS = TypeAdapter(dict[str, Kind]).validate_python(TABLES["kinds"])
THINGS = tuple(kind for kind in KINDS if kind not in (PERSON, SIGN))
"""The kinds that have a colour."""

PLACES = tuple(TABLES["places"])
STYLES = ("flat drawing", "pencil sketch", "poster")
ACTIONS = tuple(TABLES["actions"])
GARMENTS = ("shirt", "trousers", "hat")
SIZES = ("small", "medium", "large")
WORDS = tuple(TABLES["words"])
"""The possible words of a sign."""


# A scene as a value.

# The size of a still.
WIDTH_PX = 320
HEIGHT_PX = 240


class Thing(NamedTuple):
    """A thing in a square of `side` pixels, on its lower edge; lengths are even numbers of pixels.

    `colour` is None for people and signs, `word` is the text of a sign, `action` that of a person,
    and `clothes` are their garments with their colours, in the order of `GARMENTS`; a hat may be
    missing.
    """

    kind: str
    colour: str | None
    left: int
    bottom: int
    side: int
    size: str = "medium"
    turned: bool = False
    word: str | None = None
    action: str | None = None
    clothes: tuple[tuple[str, str], ...] = ()

    @property
    def box(self) -> Box:
        """Return the part of its square that the thing fills."""
        kind = KINDS[self.kind]
        middle = self.left + self.side / 2
        half = self.side * kind.width / 2
        return middle - half, self.bottom - self.side * kind.height, middle + half, self.bottom


class Scene(NamedTuple):
    """The contents of a still; `seed` (16 bits) determines random details of its place."""

    place: str
    style: str
    seed: int
    things: tuple[Thing, ...]


# A scene as code: 288 bits and their checksum, as dark and light squares.

SQUARE_PX = 4
_ROWS = 4
STRIP_BOX: Box = (0, HEIGHT_PX - SQUARE_PX * _ROWS, WIDTH_PX, HEIGHT_PX)
"""Position of the strip."""

_PAYLOAD_BYTES = 36
_LEAST_SIDE_PX = 24
_DARK, _LIGHT = 110, 142  # below the threshold that the check of edits calls visible
_LEAST_CONTRAST = 14


def strip_of(scene: Scene) -> NDArray[np.uint8]:
    """Return the squares that encode a scene, as grey values of shape (16, 320).

    Raises:
        ValueError: the scene has too many things, or positions that a strip cannot encode.
    """
    number = 0
    for value, values in reversed(list(_digits(scene))):
        if not 0 <= value < values:
            raise ValueError(f"the scene cannot be coded: {value} is not below {values}")
        number = number * values + value
    payload = number.to_bytes(_PAYLOAD_BYTES)
    code = payload + zlib.crc32(payload).to_bytes(4)
    bits = np.unpackbits(np.frombuffer(code, np.uint8)).reshape(_ROWS, -1)
    square = np.ones((SQUARE_PX, SQUARE_PX), np.uint8)
    return np.kron(np.where(bits, _LIGHT, _DARK).astype(np.uint8), square)


def read_scene(image: Image.Image) -> Scene | None:
    """Read the scene of a still from its strip; None if it has none, such as photographs.

    The strip survives JPEG and scaling of the whole image; a cropped image has no scene.
    """
    grey = image.convert("L").resize((WIDTH_PX, HEIGHT_PX), Image.Resampling.BICUBIC)
    strip = np.asarray(grey, np.float32)[-SQUARE_PX * _ROWS :]
    squares = strip.reshape(_ROWS, SQUARE_PX, -1, SQUARE_PX)[:, 1:-1, :, 1:-1].mean(axis=(1, 3))
    if np.ptp(squares) < _LEAST_CONTRAST:
        return None
    code = np.packbits(squares > (squares.min() + squares.max()) / 2).tobytes()
    payload = code[:_PAYLOAD_BYTES]
    checksum = code[_PAYLOAD_BYTES:]
    if zlib.crc32(payload).to_bytes(4) != checksum:
        return None
    return _decoded(int.from_bytes(payload))


def _digits(scene: Scene) -> Iterator[tuple[int, int]]:
    """Return each value of a scene as a number, and the number of its possible values."""
    yield PLACES.index(scene.place), len(PLACES)
    yield STYLES.index(scene.style), len(STYLES)
    yield scene.seed, 2**16
    yield len(scene.things), 16
    for thing in scene.things:
        yield list(KINDS).index(thing.kind), len(KINDS)
        yield thing.left // 2, WIDTH_PX // 2
        yield thing.bottom // 2, HEIGHT_PX // 2
        yield (thing.side - _LEAST_SIDE_PX) // 2, 64
        yield SIZES.index(thing.size), len(SIZES)
        yield int(thing.turned), 2
        if thing.kind == SIGN:
            yield WORDS.index(thing.word or ""), len(WORDS)
        elif thing.kind == PERSON:
            yield ACTIONS.index(thing.action or ""), len(ACTIONS)
            for garment in GARMENTS:
                yield _colour_number(dict(thing.clothes).get(garment)), len(COLOURS) + 1
        else:
            yield _colour_number(thing.colour), len(COLOURS) + 1


def _colour_number(colour: str | None) -> int:
    return 0 if colour is None else 1 + list(COLOURS).index(colour)


def _decoded(number: int) -> Scene:
    """Return the scene that `_digits` encodes."""

    def take(values: int) -> int:
        nonlocal number
        number, value = divmod(number, values)
        return value

    def colour() -> str | None:
        return (None, *COLOURS)[take(len(COLOURS) + 1)]

    place = PLACES[take(len(PLACES))]
    style = STYLES[take(len(STYLES))]
    seed = take(2**16)
    count = take(16)
    things = []
    for _ in range(count):
        kind = tuple(KINDS)[take(len(KINDS))]
        left = 2 * take(WIDTH_PX // 2)
        bottom = 2 * take(HEIGHT_PX // 2)
        side = take(64)
        size = SIZES[take(len(SIZES))]
        turned = bool(take(2))
        thing = Thing(kind, None, left, bottom, _LEAST_SIDE_PX + 2 * side, size, turned)
        if kind == SIGN:
            thing = thing._replace(word=WORDS[take(len(WORDS))])
        elif kind == PERSON:
            action = ACTIONS[take(len(ACTIONS))]
            worn = [(garment, colour()) for garment in GARMENTS]
            clothes = tuple((garment, one) for garment, one in worn if one is not None)
            thing = thing._replace(action=action, clothes=clothes)
        else:
            thing = thing._replace(colour=colour())
        things.append(thing)
    return Scene(place, style, seed, tuple(things))


# The positions of things.


def apart(one: Box, other: Box, gap: float = 0) -> bool:
    """Whether two boxes are at least `gap` pixels apart."""
    return (
        one[0] >= other[2] + gap
        or other[0] >= one[2] + gap
        or one[1] >= other[3] + gap
        or other[1] >= one[3] + gap
    )


def is_free(thing: Thing, others: tuple[Thing, ...], gap: float = 4, edge: float = 6) -> bool:
    """Whether the thing is inside the image, above the strip, and apart from all others."""
    left, top, right, bottom = thing.box
    inside = (
        min(left, top) >= edge and right <= WIDTH_PX - edge and bottom <= STRIP_BOX[1] - edge / 2
    )
    return inside and all(apart(thing.box, other.box, gap) for other in others)


def even(length: float) -> int:
    """Round a length in pixels to an even number, as in scenes."""
    return 2 * math.floor(length / 2)
