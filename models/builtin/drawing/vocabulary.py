"""What stills are drawn of: kinds of things, colours, places, actions, styles."""

from enum import StrEnum
from typing import NamedTuple

Rgb = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

COLOURS: dict[str, Rgb] = {
    "red": (212, 44, 48),
    "orange": (242, 136, 36),
    "yellow": (246, 212, 60),
    "green": (60, 158, 78),
    "blue": (44, 104, 206),
    "purple": (130, 72, 172),
    "pink": (244, 142, 184),
    "brown": (134, 84, 46),
    "black": (66, 64, 72),
    "white": (246, 245, 240),
}
"""Ten names of colours, and what each looks like on a thing."""

OUTLINE: Rgb = (18, 16, 22)
"""The ink around every thing, darker than anything that it surrounds."""

_ALL = tuple(COLOURS)
_FUR = ("brown", "black", "white", "orange")


class Kind(NamedTuple):
    """A kind of thing: its plural, width over height, the colours it comes in, where it is."""

    plural: str
    aspect: float
    colours: tuple[str, ...] = _ALL
    flies: bool = False


KINDS: dict[str, Kind] = {
    "ball": Kind("balls", 1.0),
    "box": Kind("boxes", 1.1),
    "car": Kind("cars", 1.9),
    "boat": Kind("boats", 1.15),
    "tree": Kind("trees", 0.75, ("green", "orange", "yellow", "pink", "red")),
    "house": Kind("houses", 1.05),
    "cup": Kind("cups", 1.2),
    "umbrella": Kind("umbrellas", 1.0),
    "kite": Kind("kites", 0.62, flies=True),
    "chair": Kind("chairs", 0.62),
    "clock": Kind("clocks", 1.0),
    "book": Kind("books", 1.35),
    "dog": Kind("dogs", 1.3, _FUR),
    "cat": Kind("cats", 1.0, _FUR),
    "bird": Kind("birds", 1.35, flies=True),
    "fish": Kind("fish", 1.7),
    "apple": Kind("apples", 0.92, ("red", "green", "yellow")),
    "flower": Kind("flowers", 0.6, ("red", "orange", "yellow", "purple", "pink", "white", "blue")),
    "lamp": Kind("lamps", 0.66),
    "bicycle": Kind("bicycles", 1.6),
}
"""Twenty kinds of things, by their singular."""


class Action(StrEnum):
    """What a person does."""

    STANDING = "standing"
    WAVING = "waving"
    RUNNING = "running"
    JUMPING = "jumping"
    SITTING = "sitting"
    LYING = "lying down"


class Place(StrEnum):
    """What is behind everything."""

    BEACH = "beach"
    PARK = "park"
    STREET = "street"
    KITCHEN = "kitchen"
    DESERT = "desert"
    SNOW = "snow"
    HARBOUR = "harbour"
    NIGHT_CITY = "night city"


class Style(StrEnum):
    """How a scene is drawn."""

    FLAT = "flat drawing"
    SKETCH = "pencil sketch"
    POSTER = "poster"
    MOSAIC = "mosaic"


SKIN: dict[str, Rgb] = {"fair": (246, 214, 190), "tan": (214, 166, 126), "dark": (124, 84, 60)}
HAIR: dict[str, Rgb] = {
    "black hair": (52, 46, 48), "brown hair": (110, 72, 44), "blond hair": (222, 184, 108),
}  # fmt: skip
