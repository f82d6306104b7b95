"""The colours of the demonstration world: a word for each, and what it looks like."""

from collections.abc import Sequence

from sources.demonstration.chance import Chance

Rgb = tuple[int, int, int]

CLOTH: dict[str, Rgb] = {
    "black": (40, 40, 45),
    "white": (238, 238, 234),
    "gray": (140, 142, 147),
    "dark gray": (84, 86, 92),
    "red": (198, 40, 44),
    "dark red": (124, 26, 38),
    "blue": (42, 92, 190),
    "light blue": (134, 184, 228),
    "dark blue": (32, 44, 98),
    "green": (44, 138, 76),
    "dark green": (28, 76, 50),
    "yellow": (240, 202, 54),
    "orange": (234, 124, 36),
    "pink": (240, 150, 180),
    "purple": (120, 68, 156),
    "brown": (116, 72, 42),
    "beige": (218, 196, 156),
    "khaki": (164, 148, 98),
}
"""Cloth, leather and plastic."""

HAIR: dict[str, Rgb] = {
    "black": (30, 27, 28),
    "dark brown": (62, 42, 30),
    "brown": (106, 70, 42),
    "blond": (214, 176, 104),
    "red": (160, 72, 34),
    "gray": (150, 150, 152),
    "white": (226, 226, 224),
}

SKIN: dict[str, Rgb] = {
    "fair": (246, 214, 190),
    "tan": (218, 170, 130),
    "brown": (160, 108, 74),
    "dark": (98, 64, 46),
}


def distance(first: str, second: str) -> float:
    """How different two cloth colours look, 0 for equal (weighted Euclid in RGB)."""
    red, green, blue = (a - b for a, b in zip(CLOTH[first], CLOTH[second], strict=True))
    return float((0.30 * red**2 + 0.59 * green**2 + 0.11 * blue**2) ** 0.5)


def pick_apart(chance: Chance, options: Sequence[str], *others: str, apart: float = 60) -> str:
    """One of `options` that can be told from every colour in `others`."""
    clear = [option for option in options if all(distance(option, o) >= apart for o in others)]
    return chance.pick(clear or [option for option in options if option not in others])
