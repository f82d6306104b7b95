"""People with known attributes and clothes."""

import tomllib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.resources import files
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from schemas.base import Record, digest_of

T = TypeVar("T")


class Chance:
    """A stream of random numbers named by `parts`: equal names, equal streams, on every machine."""

    def __init__(self, *parts: str | int) -> None:
        self._generator = np.random.default_rng(int(digest_of(*(str(part) for part in parts)), 16))

    def pick(self, options: Sequence[T]) -> T:
        """Return one of `options`, all equally likely."""
        return options[int(self._generator.integers(len(options)))]

    def happens(self, probability: float) -> bool:
        """Return True with the given probability."""
        return bool(self._generator.random() < probability)

    def between(self, low: float, high: float) -> float:
        """Return a number drawn uniformly from [low, high)."""
        return low + (high - low) * float(self._generator.random())

    def noise(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return standard normal noise of the given shape."""
        return self._generator.standard_normal(shape, dtype=np.float32)

    def weigh(self, options: Mapping[T, float]) -> T:
        """Return one key of `options`, with the probability of its weight."""
        mark = self._generator.random() * sum(options.values())
        for option, weight in options.items():
            mark -= weight
            if mark < 0:
                return option
        return option

    def whole(self, low: int, high: int) -> int:
        """Return an integer drawn from low to high, both included."""
        return int(self._generator.integers(low, high + 1))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order."""
        return [items[int(index)] for index in self._generator.permutation(len(items))]


# The colours of the demonstration world: a word and an RGB value for each.

Rgb = tuple[int, int, int]

TABLES = tomllib.loads(files(__package__).joinpath("people.toml").read_text("utf-8"))
_COLOURS = TypeAdapter(dict[str, Rgb])
CLOTH, HAIR, SKIN = (_COLOURS.validate_python(TABLES[of]) for of in ("cloth", "hair", "skin"))
_WEIGHTS: dict[str, dict[str, float]] = TABLES["weights"]


def _pick_apart(chance: Chance, options: Sequence[str], *others: str, apart: float = 60) -> str:
    """Return one of `options` that differs visibly from every colour in `others`."""

    def distance(first: str, second: str) -> float:
        """Return the weighted Euclidean distance in RGB, 0 for equal colours."""
        squares = np.subtract(CLOTH[first], CLOTH[second]) ** 2
        return float((squares @ (0.30, 0.59, 0.11)) ** 0.5)

    clear = [option for option in options if all(distance(option, o) >= apart for o in others)]
    return chance.pick(clear or [option for option in options if option not in others])


# The attributes of a person, and a seeded draw of them.


class Sex(StrEnum):
    """Sex, as a passer-by would name it."""

    FEMALE = "female"
    MALE = "male"


class Pattern(StrEnum):
    """Pattern of a fabric; all except `plain` use the garment's second colour."""

    PLAIN = "plain"
    STRIPED = "striped"
    PLAID = "plaid"
    DOTTED = "polka-dot"


class Side(StrEnum):
    """The person's own side: the right hand of a person facing the camera is on the left."""

    LEFT = "left"
    RIGHT = "right"


class Hair(Record):
    """`length` is short, medium or long; `style` is straight or curly."""

    colour: str
    length: str
    style: str


class Garment(Record):
    """A piece of clothing. `sleeve` and `length` are None if its kind has none worth stating."""

    kind: str
    colour: str
    pattern: Pattern = Pattern.PLAIN
    second_colour: str | None = None
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

    `age` is young, middle-aged or elderly, `build` slim, medium or heavy; `lower` is None if the
    upper garment is a dress. `glasses` is glasses, sunglasses or None.
    """

    sex: Sex
    age: str
    build: str
    skin: str
    hair: Hair
    headwear: Worn | None
    glasses: str | None
    upper: Garment
    jacket: Jacket | None
    lower: Garment | None
    footwear: Worn
    carried: Carried | None


def draw_person_attributes(chance: Chance) -> Person:
    """Draw a person whose attributes are consistent and whose garments differ visibly."""

    def drawn(name: str) -> str:
        return chance.weigh(_WEIGHTS[name])

    def garment(kind: str, colours: Sequence[str], *others: str) -> Garment:
        colour = _pick_apart(chance, colours, *others)
        patterned = kind in ("shirt", "t-shirt", "dress", "skirt")
        pattern = Pattern(drawn("pattern")) if patterned else Pattern.PLAIN
        plain = pattern is Pattern.PLAIN
        return Garment(
            kind=kind,
            colour=colour,
            pattern=pattern,
            second_colour=None if plain else _pick_apart(chance, tuple(CLOTH), colour, apart=90),
            sleeve=chance.pick(TABLES["sleeves"].get(kind, (None,))),
            length=chance.pick(TABLES["lengths"].get(kind, (None,))),
        )

    sex = chance.pick((Sex.FEMALE, Sex.MALE))
    female, age = sex is Sex.FEMALE, drawn("age")
    upper = garment(drawn("upper_of_women" if female else "upper"), tuple(CLOTH))
    jacket, lower = None, None
    if upper.kind != "dress":
        if kind := drawn("jacket"):
            colour = _pick_apart(chance, tuple(CLOTH), upper.colour)
            jacket = Jacket(kind=kind, colour=colour, open=chance.happens(0.75))
        # A coat covers the thighs and would hide short garments.
        below_coat = jacket is not None and jacket.kind == "coat"
        kinds = "lower_below_coats" if below_coat else "lower_of_women" if female else "lower"
        outer = jacket.colour if jacket else upper.colour
        kind = drawn(kinds)
        lower = garment(kind, TABLES["colours"][kind], upper.colour, outer)
    hair = Hair(
        colour=drawn("hair_of_elderly" if age == "elderly" else "hair"),
        length=drawn("hair_length") if female else "short",
        style=drawn("hair_style"),
    )
    hat, shoes, carried = drawn("headwear"), drawn("footwear"), None
    if bag := drawn("carried"):
        colour = _pick_apart(chance, tuple(CLOTH), (jacket or upper).colour)
        side = None if bag == "backpack" else chance.pick(tuple(Side))
        carried = Carried(kind=bag, colour=colour, side=side)
    return Person(
        sex=sex,
        age=age,
        build=drawn("build"),
        skin=drawn("skin"),
        hair=hair,
        headwear=Worn(kind=hat, colour=chance.pick(tuple(CLOTH))) if hat else None,
        glasses=drawn("glasses") or None,
        upper=upper,
        jacket=jacket,
        lower=lower,
        footwear=Worn(kind=shoes, colour=chance.pick(TABLES["colours"][shoes])),
        carried=carried,
    )
