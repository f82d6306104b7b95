"""What drawn stills are made of, a scene as a value, and the strip of squares that codes it."""

import math
import tomllib
import zlib
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import TypeAdapter

# The vocabulary, and how it is drawn.

Rgb = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

Shape = tuple[str | float, ...]
"""`area`, `oval`, `dome` or `line`, its shade, and x and y in shares of a box.

A line has its width, in shares of the box's height, before its points.
"""

TABLES = tomllib.loads(files(__package__).joinpath("stills.toml").read_text("utf-8"))
COLOURS = TypeAdapter(dict[str, Rgb]).validate_python(TABLES["colours"])
PERSON, SIGN = "person", "sign"


class Kind(NamedTuple):
    """A kind of thing: its plural, its extent in shares of a square, its colours, where it is."""

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
"""What a sign may say."""


# A scene as a value.

WIDTH_PX, HEIGHT_PX = 320, 240
"""Of a still as it is drawn."""

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels of a still as it is drawn."""


class Thing(NamedTuple):
    """A thing in a square of `side` pixels, on its lower edge; lengths are even numbers of pixels.

    `colour` is None for people and signs, `word` what a sign says, `action` what a person does, and
    `clothes` are their garments with their colours, in the order of `GARMENTS`; a hat may be
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
        """What the thing fills of its square."""
        kind = KINDS[self.kind]
        middle, half = self.left + self.side / 2, self.side * kind.width / 2
        return middle - half, self.bottom - self.side * kind.height, middle + half, self.bottom


class Scene(NamedTuple):
    """What a still shows; `seed` (16 bits) is what chance decides in its place."""

    place: str
    style: str
    seed: int
    things: tuple[Thing, ...]


# A scene as code: 288 bits and their checksum, as dark and light squares.

SQUARE_PX, _ROWS = 4, 4
STRIP_BOX: Box = (0, HEIGHT_PX - SQUARE_PX * _ROWS, WIDTH_PX, HEIGHT_PX)
"""Where the strip is."""

_PAYLOAD_BYTES = 36
_LEAST_SIDE_PX = 24
_DARK, _LIGHT = 110, 142  # nearer than what the check of edits calls visible
_LEAST_CONTRAST = 14


def strip_of(scene: Scene) -> NDArray[np.uint8]:
    """The squares that code a scene, as grey values of shape (16, 320).

    Raises:
        ValueError: there are too many things in the scene, or they are not where a strip can say.
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
    """The scene of a still, from its strip alone; None for what has none, as photographs.

    JPEG and another size of the whole picture do no harm; a picture that was cut has no scene.
    """
    grey = image.convert("L").resize((WIDTH_PX, HEIGHT_PX), Image.Resampling.BICUBIC)
    strip = np.asarray(grey, np.float32)[-SQUARE_PX * _ROWS :]
    squares = strip.reshape(_ROWS, SQUARE_PX, -1, SQUARE_PX)[:, 1:-1, :, 1:-1].mean(axis=(1, 3))
    if np.ptp(squares) < _LEAST_CONTRAST:
        return None
    code = np.packbits(squares > (squares.min() + squares.max()) / 2).tobytes()
    payload, checksum = code[:_PAYLOAD_BYTES], code[_PAYLOAD_BYTES:]
    if zlib.crc32(payload).to_bytes(4) != checksum:
        return None
    return _decoded(int.from_bytes(payload))


def _digits(scene: Scene) -> Iterator[tuple[int, int]]:
    """Each value of a scene as a number, and how many values there might be."""
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
    """What `_digits` was made of."""

    def take(values: int) -> int:
        nonlocal number
        number, value = divmod(number, values)
        return value

    def colour() -> str | None:
        return (None, *COLOURS)[take(len(COLOURS) + 1)]

    place, style = PLACES[take(len(PLACES))], STYLES[take(len(STYLES))]
    seed, count = take(2**16), take(16)
    things = []
    for _ in range(count):
        kind = tuple(KINDS)[take(len(KINDS))]
        left, bottom, side = 2 * take(WIDTH_PX // 2), 2 * take(HEIGHT_PX // 2), take(64)
        size, turned = SIZES[take(len(SIZES))], bool(take(2))
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


# Where things are.


def apart(one: Box, other: Box, gap: float = 0) -> bool:
    """Whether two boxes are at least `gap` pixels apart."""
    return (
        one[0] >= other[2] + gap
        or other[0] >= one[2] + gap
        or one[1] >= other[3] + gap
        or other[1] >= one[3] + gap
    )


def is_free(thing: Thing, others: tuple[Thing, ...], gap: float = 4, edge: float = 6) -> bool:
    """Whether the thing is within the picture, above the strip, and apart from all others."""
    left, top, right, bottom = thing.box
    inside = (
        min(left, top) >= edge and right <= WIDTH_PX - edge and bottom <= STRIP_BOX[1] - edge / 2
    )
    return inside and all(apart(thing.box, other.box, gap) for other in others)


def even(length: float) -> int:
    """A length in pixels as scenes have it."""
    return 2 * math.floor(length / 2)
