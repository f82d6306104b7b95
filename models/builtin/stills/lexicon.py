"""The words that tell of stills: each with what it means to the one who sees them."""

import re
from functools import cache

from models.builtin.stills.shapes import NAMES

PLURALS: dict[str, str] = {
    "ball": "balls", "box": "boxes", "car": "cars", "boat": "boats", "tree": "trees",
    "house": "houses", "cup": "cups", "umbrella": "umbrellas", "kite": "kites",
    "chair": "chairs", "clock": "clocks", "book": "books", "dog": "dogs", "cat": "cats",
    "bird": "birds", "fish": "fish", "apple": "apples", "flower": "flowers", "lamp": "lamps",
    "bicycle": "bicycles", "person": "people", "sign": "signs",
}  # fmt: skip
"""Every kind that can be seen, with its plural."""

KINDS = tuple(PLURALS)
GARMENTS = ("shirt", "trousers", "hat")
COLOURS = NAMES
ACTIONS = ("standing", "waving", "running", "jumping", "sitting", "lying down")
PLACES = ("beach", "park", "street", "kitchen", "desert", "snow", "harbour", "night city")
STYLES = ("flat drawing", "pencil sketch", "poster", "mosaic")
SIZES = ("small", "large")
RELATIONS = ("left", "above", "on")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_KIND_WORDS = {
    "boxes": "box", "vehicle": "car", "vehicles": "car", "boats": "boat", "sailboat": "boat",
    "sailboats": "boat", "ship": "boat", "ships": "boat", "mug": "cup", "mugs": "cup",
    "parasol": "umbrella", "alarm clock": "clock", "puppy": "dog", "dogs": "dog", "kitten": "cat",
    "bike": "bicycle", "bikes": "bicycle", "fishes": "fish", "building": "house",
    "buildings": "house", "man": "person", "woman": "person", "men": "person", "women": "person",
    "boy": "person", "girl": "person", "child": "person", "children": "person", "figure": "person",
    "someone": "person", "somebody": "person", "persons": "person", "signboard": "sign",
}  # fmt: skip
_GARMENT_WORDS = {
    "shirt": "shirt", "t-shirt": "shirt", "top": "shirt", "sweater": "shirt", "jacket": "shirt",
    "trousers": "trousers", "pants": "trousers", "jeans": "trousers", "hat": "hat", "cap": "hat",
}  # fmt: skip
_COLOUR_WORDS = {"violet": "purple", "rose": "pink", "golden": "yellow"}
_SIZE_WORDS = {
    "small": "small", "little": "small", "tiny": "small", "large": "large", "big": "large",
    "huge": "large",
}  # fmt: skip
_ACTION_WORDS = {
    "standing": "standing", "stands": "standing", "waving": "waving", "waves": "waving",
    "running": "running", "runs": "running", "jumping": "jumping", "jumps": "jumping",
    "leaping": "jumping", "sitting": "sitting", "sits": "sitting", "seated": "sitting",
    "lying down": "lying down", "lies down": "lying down", "lying": "lying down",
    "lies": "lying down",
}  # fmt: skip
_PLACE_WORDS = {
    "beach": "beach", "seaside": "beach", "park": "park", "meadow": "park", "lawn": "park",
    "street": "street", "road": "street", "kitchen": "kitchen", "desert": "desert",
    "dunes": "desert", "snowy landscape": "snow", "snow": "snow", "snowy": "snow",
    "harbour": "harbour", "harbor": "harbour", "port": "harbour", "quay": "harbour",
    "night city": "night city", "city at night": "night city", "night": "night city",
}  # fmt: skip
_STYLE_WORDS = {
    "flat drawing": "flat drawing", "drawing": "flat drawing", "pencil sketch": "pencil sketch",
    "sketch": "pencil sketch", "poster": "poster", "mosaic": "mosaic",
}  # fmt: skip
_RELATION_WORDS = {
    "to the left of": "left", "left of": "left", "on the left of": "left",
    "to the right of": "right", "right of": "right", "on the right of": "right",
    "above": "above", "over": "above", "below": "below", "under": "below", "beneath": "below",
    "on top of": "on", "on": "on",
}  # fmt: skip

_CLASSES: dict[str, dict[str, str]] = {
    "kind": {**{kind: kind for kind in KINDS}, **{many: one for one, many in PLURALS.items()},
             **_KIND_WORDS},
    "garment": _GARMENT_WORDS,
    "colour": {**{name: name for name in COLOURS}, **_COLOUR_WORDS},
    "size": _SIZE_WORDS,
    "action": _ACTION_WORDS,
    "place": _PLACE_WORDS,
    "style": _STYLE_WORDS,
    "relation": _RELATION_WORDS,
    "number": {
        **{word: str(number) for number, word in enumerate(NUMBERS)},
        **{str(number): str(number) for number in range(11)},
        "a": "1", "an": "1", "single": "1",
    },
}  # fmt: skip


@cache
def words() -> tuple[dict[str, tuple[str, str]], re.Pattern[str]]:
    """(class, meaning) of each word, and what finds words and everything between them."""
    known = {
        word: (name, value) for name, entry in _CLASSES.items() for word, value in entry.items()
    }
    longest_first = sorted(known, key=len, reverse=True)
    return known, re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b|\w+|[^\w\s]")
