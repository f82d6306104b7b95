"""People with known attributes, and what they wear."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from schemas.base import Record, digest_of

# Seeded draws that do not depend on the order in which other things are drawn.

T = TypeVar("T")


class Chance:
    """A stream of draws named by `parts`: equal names give equal streams, on every machine."""

    def __init__(self, *parts: str | int) -> None:
        self._generator = np.random.default_rng(int(digest_of(*(str(part) for part in parts)), 16))

    def pick(self, options: Sequence[T]) -> T:
        """One of `options`, all equally likely."""
        return options[int(self._generator.integers(len(options)))]

    def happens(self, probability: float) -> bool:
        """True with the given probability."""
        return bool(self._generator.random() < probability)

    def between(self, low: float, high: float) -> float:
        """A number drawn evenly from [low, high)."""
        return low + (high - low) * float(self._generator.random())

    def noise(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Standard normal noise of the given shape."""
        return self._generator.standard_normal(shape, dtype=np.float32)

    def weigh(self, options: Mapping[T, float]) -> T:
        """One key of `options`, as likely as its weight."""
        mark = self._generator.random() * sum(options.values())
        for option, weight in options.items():
            mark -= weight
            if mark < 0:
                return option
        return option

    def whole(self, low: int, high: int) -> int:
        """An integer drawn evenly from low to high, both included."""
        return int(self._generator.integers(low, high + 1))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in a drawn order."""
        return [items[int(index)] for index in self._generator.permutation(len(items))]


# The colours of the demonstration world: a word for each, and what it looks like.

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
    """One of `options` that differs visibly from every colour in `others`."""
    clear = [option for option in options if all(distance(option, o) >= apart for o in others)]
    return chance.pick(clear or [option for option in options if option not in others])


# The people of the demonstration world: what can be known of a person, and a seeded draw.


class Sex(StrEnum):
    """As a passer-by would say."""

    FEMALE = "female"
    MALE = "male"


class Age(StrEnum):
    """Age group."""

    YOUNG = "young"
    MIDDLE_AGED = "middle-aged"
    ELDERLY = "elderly"


class Build(StrEnum):
    """Body build."""

    SLIM = "slim"
    MEDIUM = "medium"
    HEAVY = "heavy"


class Pattern(StrEnum):
    """What is on the cloth; all but `plain` are drawn in the garment's second colour."""

    PLAIN = "plain"
    STRIPED = "striped"
    PLAID = "plaid"
    DOTTED = "polka-dot"
    PRINTED = "printed"


class Side(StrEnum):
    """The person's own side: the right hand of somebody who faces us is on our left."""

    LEFT = "left"
    RIGHT = "right"


class Hair(Record):
    """`length` is short, medium or long; `style` is straight, curly, wavy, ponytail or bun."""

    colour: str
    length: str
    style: str


class Garment(Record):
    """A piece of clothing. `sleeve` and `length` are None where the kind has none to speak of."""

    kind: str
    colour: str
    pattern: Pattern = Pattern.PLAIN
    second_colour: str | None = None
    sleeve: str | None = None
    length: str | None = None


class Jacket(Record):
    """Worn over the upper garment, which shows only in front, and only where the jacket is open."""

    kind: str
    colour: str
    open: bool


class Footwear(Record):
    """`socks` is their colour where they show, else None."""

    kind: str
    colour: str
    sole_colour: str
    socks: str | None = None


class Carried(Record):
    """A bag or an umbrella; `side` is None for what is worn on the back."""

    kind: str
    colour: str
    side: Side | None = None


class Headwear(Record):
    """A hat or cap."""

    kind: str
    colour: str


class Person(Record):
    """Everything that stays the same from one image of a person to the next.

    `lower` is None where the upper garment is a dress. `glasses` is glasses, sunglasses or None.
    """

    sex: Sex
    age: Age
    build: Build
    skin: str
    hair: Hair
    beard: bool
    headwear: Headwear | None
    glasses: str | None
    scarf: str | None
    upper: Garment
    jacket: Jacket | None
    lower: Garment | None
    footwear: Footwear
    carried: Carried | None


_UPPER_COLOURS = tuple(CLOTH)
_QUIET_COLOURS = ("black", "gray", "dark gray", "dark blue", "brown", "beige", "khaki", "white")
_LOWER_COLOURS: dict[str, tuple[str, ...]] = {
    "jeans": ("blue", "dark blue", "light blue", "black", "gray"),
    "trousers": (
        "black",
        "gray",
        "dark gray",
        "dark blue",
        "brown",
        "beige",
        "khaki",
        "dark green",
    ),
    "leggings": ("black", "dark gray", "dark blue", "purple", "dark red"),
    "shorts": ("black", "blue", "dark blue", "khaki", "gray", "red", "dark green", "beige"),
    "skirt": ("black", "red", "dark blue", "pink", "green", "beige", "purple", "light blue"),
}


def draw_person_attributes(chance: Chance) -> Person:
    """A person whose attributes go together and whose garments differ visibly."""
    sex = chance.pick((Sex.FEMALE, Sex.MALE))
    age = chance.weigh({Age.YOUNG: 6, Age.MIDDLE_AGED: 3, Age.ELDERLY: 2})
    upper = _upper(chance, sex)
    jacket = _jacket(chance, upper)
    outer = jacket.colour if jacket else upper.colour
    lower = None if upper.kind == "dress" else _lower(chance, sex, upper, jacket)
    headwear = _headwear(chance)
    return Person(
        sex=sex,
        age=age,
        build=chance.weigh({Build.SLIM: 4, Build.MEDIUM: 4, Build.HEAVY: 2}),
        skin=chance.weigh({"fair": 4, "tan": 3, "brown": 2, "dark": 2}),
        hair=_hair(chance, sex, age, headwear),
        beard=sex is Sex.MALE and chance.happens(0.25),
        headwear=headwear,
        glasses=chance.weigh({None: 6, "glasses": 2, "sunglasses": 1}),
        scarf=_scarf(chance, upper, outer),
        upper=upper,
        jacket=jacket,
        lower=lower,
        footwear=_footwear(chance, sex, lower or upper),
        carried=_carried(chance, sex, outer),
    )


def _upper(chance: Chance, sex: Sex) -> Garment:
    kinds: dict[str, float] = {"t-shirt": 5, "shirt": 3, "sweater": 3, "hoodie": 2, "polo shirt": 1}
    if sex is Sex.FEMALE:
        kinds = {"t-shirt": 4, "shirt": 2, "sweater": 3, "hoodie": 1, "tank top": 1, "dress": 4}
    kind = chance.weigh(kinds)
    colour = chance.pick(_UPPER_COLOURS)
    pattern = chance.weigh(_patterns_of(kind))
    second = (
        None if pattern is Pattern.PLAIN else pick_apart(chance, tuple(CLOTH), colour, apart=90)
    )
    return Garment(
        kind=kind,
        colour=colour,
        pattern=pattern,
        second_colour=second,
        sleeve=_sleeve(chance, kind),
        length=chance.pick(("knee-length", "long")) if kind == "dress" else None,
    )


def _patterns_of(kind: str) -> dict[Pattern, float]:
    plain = {Pattern.PLAIN: 6.0}
    if kind in ("t-shirt", "hoodie"):
        return plain | {Pattern.STRIPED: 3, Pattern.PRINTED: 4}
    if kind == "shirt":
        return plain | {Pattern.PLAID: 4, Pattern.STRIPED: 2, Pattern.DOTTED: 1}
    if kind == "dress":
        return plain | {Pattern.DOTTED: 3, Pattern.STRIPED: 2, Pattern.PLAID: 1}
    return plain | {Pattern.STRIPED: 3}


def _sleeve(chance: Chance, kind: str) -> str:
    if kind in ("sweater", "hoodie"):
        return "long"
    if kind == "tank top":
        return "sleeveless"
    if kind == "shirt":
        return chance.weigh({"long": 3, "short": 1})
    if kind == "dress":
        return chance.weigh({"long": 1, "short": 2, "sleeveless": 2})
    return chance.weigh({"short": 4, "long": 1}) if kind == "t-shirt" else "short"


def _jacket(chance: Chance, upper: Garment) -> Jacket | None:
    hides_too_much = upper.kind in ("hoodie", "dress", "polo shirt") or upper.pattern == "printed"
    if hides_too_much or not chance.happens(0.45):
        return None
    kind = chance.weigh({"jacket": 4, "coat": 2, "vest": 1, "blazer": 1})
    colour = pick_apart(chance, _UPPER_COLOURS, upper.colour)
    return Jacket(kind=kind, colour=colour, open=kind == "vest" or chance.happens(0.75))


def _lower(chance: Chance, sex: Sex, upper: Garment, jacket: Jacket | None) -> Garment:
    kinds: dict[str, float] = {"jeans": 4, "trousers": 4, "shorts": 2}
    if sex is Sex.FEMALE:
        kinds = {"jeans": 4, "trousers": 2, "leggings": 2, "shorts": 1, "skirt": 3}
    if jacket and jacket.kind == "coat":  # reaches the knees and would hide anything short
        kinds = {"jeans": 1, "trousers": 1}
    kind = chance.weigh(kinds)
    outer = jacket.colour if jacket else upper.colour
    colour = pick_apart(chance, _LOWER_COLOURS[kind], upper.colour, outer, apart=40)
    length = {"shorts": "short", "leggings": "cropped"}.get(kind, "long")
    if kind == "skirt":
        length = chance.pick(("short", "knee-length", "long"))
    patterned = kind == "skirt" and chance.happens(0.4)
    pattern = chance.pick((Pattern.PLAID, Pattern.DOTTED)) if patterned else Pattern.PLAIN
    second = (
        pick_apart(chance, ("white", "black", "beige"), colour, apart=90) if patterned else None
    )
    return Garment(kind=kind, colour=colour, pattern=pattern, second_colour=second, length=length)


def _hair(chance: Chance, sex: Sex, age: Age, headwear: Headwear | None) -> Hair:
    colours: dict[str, float] = {"black": 4, "dark brown": 3, "brown": 3, "blond": 2, "red": 1}
    if age is Age.ELDERLY:
        colours = {"gray": 1, "white": 1}
    colour = chance.weigh(colours)
    if sex is Sex.MALE:
        return Hair(colour=colour, length="short", style=chance.weigh({"straight": 3, "curly": 1}))
    length = chance.weigh({"short": 1, "medium": 2, "long": 4})
    styles: dict[str, float] = {"straight": 3, "wavy": 2}
    if length == "short":
        styles = {"straight": 2, "curly": 1}
    elif length == "long":
        styles = styles | {"ponytail": 2} | ({} if headwear else {"bun": 1})
    return Hair(colour=colour, length=length, style=chance.weigh(styles))


def _headwear(chance: Chance) -> Headwear | None:
    if not chance.happens(0.3):
        return None
    kind = chance.weigh({"baseball cap": 4, "knit hat": 3, "sun hat": 2})
    return Headwear(kind=kind, colour=chance.pick(tuple(CLOTH)))


def _scarf(chance: Chance, upper: Garment, outer: str) -> str | None:
    if upper.sleeve != "long" or not chance.happens(0.2):
        return None
    return pick_apart(chance, tuple(CLOTH), upper.colour, outer)


def _footwear(chance: Chance, sex: Sex, lowest: Garment) -> Footwear:
    bare = lowest.length in ("short", "knee-length")
    kinds: dict[str, float] = {"sneakers": 6, "leather shoes": 2, "boots": 0 if bare else 2}
    kinds |= {"sandals": 1} if bare else {}
    if sex is Sex.FEMALE and lowest.kind in ("skirt", "dress"):
        kinds = {"sneakers": 2, "flats": 3, "boots": 1}
    kind = chance.weigh(kinds)
    if kind == "sneakers":
        colour = chance.pick(("white", "black", "red", "blue", "gray", "pink", "green", "orange"))
        sole = "black" if colour == "white" and chance.happens(0.3) else "white"
        socks = chance.weigh({"white": 2, "black": 1, None: 1}) if bare else None
        return Footwear(kind=kind, colour=colour, sole_colour=sole, socks=socks)
    colour = chance.pick(("black", "brown", "beige", "dark red"))
    return Footwear(kind=kind, colour=colour, sole_colour="black")


def _carried(chance: Chance, sex: Sex, outer: str) -> Carried | None:
    kinds: dict[str, float] = {"backpack": 6, "shoulder bag": 4, "umbrella": 1.5, "shopping bag": 2}
    kinds["handbag" if sex is Sex.FEMALE else "briefcase"] = 3
    if not chance.happens(0.75):
        return None
    kind = chance.weigh(kinds)
    options = _QUIET_COLOURS if kind == "briefcase" else tuple(CLOTH)
    side = None if kind == "backpack" else chance.pick((Side.LEFT, Side.RIGHT))
    return Carried(kind=kind, colour=pick_apart(chance, options, outer), side=side)
