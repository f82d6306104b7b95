"""People with known attributes and clothes."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from pydantic import TypeAdapter

from loupe.schemas.base import Record
from loupe.schemas.validation import packaged_toml
from loupe.testing import Chance

# The colours of the demonstration world: a word and an RGB value for each.

Rgb = tuple[int, int, int]

TABLES = packaged_toml(__package__, "people.toml")
_COLOURS = TypeAdapter(dict[str, Rgb])
CLOTH, HAIR, SKIN = (_COLOURS.validate_python(TABLES[of]) for of in ("cloth", "hair", "skin"))
_WEIGHTS: dict[str, dict[str, float]] = TABLES["weights"]


def _pick_apart(chance: Chance, options: Sequence[str], *others: str, apart: float = 60) -> str:
    """Return one of `options` that differs visibly from every colour in `others`."""

    def distance(first: str, second: str) -> float:
        """Return the weighted Euclidean distance in RGB, 0 for equal colours."""
        squares = np.subtract(CLOTH[first], CLOTH[second]) ** 2
        return float((squares @ (0.30, 0.59, 0.11)) ** 0.5)

    clear: list[str] = []
    for option in options:
        nearest = min((distance(option, other) for other in others), default=apart)
        if nearest >= apart:
            clear.append(option)
    return chance.pick(clear or [option for option in options if option not in others])


# The attributes of a person, and a seeded draw of them.


class Sex(StrEnum):
    """Sex, as a passer-by would name it."""

    FEMALE = "female"
    MALE = "male"


class Side(StrEnum):
    """The person's own side: the right hand of a person facing the camera is on the left."""

    LEFT = "left"
    RIGHT = "right"


class Hair(Record):
    """`length` is short, medium or long."""

    colour: str
    length: str


class Garment(Record):
    """A piece of clothing; `stripes` is the colour of its stripes."""

    kind: str
    colour: str
    stripes: str | None = None
    sleeve: str | None = None
    length: str | None = None


class Worn(Record):
    """An item of a kind and a colour: headwear, footwear."""

    kind: str
    colour: str


class Jacket(Worn):
    """Worn over the upper garment, which is only visible in front if the jacket is open."""

    open: bool


class Carried(Worn):
    """A bag; `side` is None for one worn on the back."""

    side: Side | None = None


class Person(Record):
    """The attributes of a person that do not change between images.

    `age` is young, middle-aged or elderly, `build` slim, medium or heavy.
    """

    sex: Sex
    age: str
    build: str
    skin: str
    hair: Hair
    headwear: Worn | None
    upper: Garment
    jacket: Jacket | None
    lower: Garment
    footwear: Worn
    carried: Carried | None


def draw_person_attributes(chance: Chance) -> Person:
    """Draw a person whose attributes are consistent and whose garments differ visibly."""

    def drawn(name: str) -> str:
        return chance.weigh(_WEIGHTS[name])

    def colour_of(kind: str, *others: str) -> str:
        return _pick_apart(chance, TABLES["colours"].get(kind, tuple(CLOTH)), *others)

    def garment(kind: str, *others: str) -> Garment:
        colour = colour_of(kind, *others)
        striped = kind in TABLES["striped"] and chance.happens(0.4)
        return Garment(
            kind=kind,
            colour=colour,
            stripes=_pick_apart(chance, tuple(CLOTH), colour, apart=90) if striped else None,
            sleeve=chance.pick(TABLES["sleeves"].get(kind, (None,))),
            length=chance.pick(TABLES["lengths"].get(kind, (None,))),
        )

    female = chance.happens(0.5)
    age = drawn("age")
    upper = garment(drawn("upper"))
    jacket = None
    if kind := drawn("jacket"):
        jacket = Jacket(kind=kind, colour=colour_of(kind, upper.colour), open=chance.happens(0.75))
    outer = (jacket or upper).colour
    lower = garment(drawn("lower_of_women" if female else "lower"), upper.colour, outer)
    hat = drawn("headwear")
    shoes = drawn("footwear")
    carried = None
    if bag := drawn("carried"):
        side = None if bag == "backpack" else chance.pick(tuple(Side))
        carried = Carried(kind=bag, colour=colour_of(bag, outer), side=side)
    return Person(
        sex=Sex.FEMALE if female else Sex.MALE,
        age=age,
        build=drawn("build"),
        skin=drawn("skin"),
        hair=Hair(
            colour=drawn("hair_of_elderly" if age == "elderly" else "hair"),
            length=drawn("hair_length") if female else "short",
        ),
        headwear=Worn(kind=hat, colour=colour_of(hat)) if hat else None,
        upper=upper,
        jacket=jacket,
        lower=lower,
        footwear=Worn(kind=shoes, colour=colour_of(shoes)),
        carried=carried,
    )
