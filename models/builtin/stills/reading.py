"""What is seen, or said, of a still as one value, and how a text is read."""

import re
from collections import Counter
from functools import cache
from typing import NamedTuple

from models.builtin.stills.seeing import NAMES, PERSON, SIGN, Seen, Thing

# The words that describe stills: each with what it means to the one who sees them.

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


# Reads what a text says of a still, and where in the text each of it is said.

_QUOTED = re.compile(r"[\"“”«»]([^\"“”«»]+)[\"“”«»]|(?<!\w)['‘]([^'‘’]+)['’](?!\w)")
_IS = frozenset({"is", "are", "was", "were"})
_FILLERS = frozenset({"bright", "shiny", "old", "new", "other", "-"})


class Word(NamedTuple):
    """A word or a few, by their meaning, at text[start:end]."""

    value: str
    start: int
    end: int


class Mention(NamedTuple):
    """A thing or garment that a text names; `number` is `"1"` for `a` and `an`."""

    kind: Word
    number: Word | None = None
    size: Word | None = None
    colour: Word | None = None


class Related(NamedTuple):
    """How the mention at `first` lies to the one at `second`: `left`, `above` or `on`."""

    first: int
    relation: str
    second: int


class Reading(NamedTuple):
    """All that was understood of a text; a garment is a mention, too."""

    mentions: tuple[Mention, ...]
    garments: tuple[Mention, ...]
    actions: tuple[Word, ...]
    places: tuple[Word, ...]
    styles: tuple[Word, ...]
    related: tuple[Related, ...]
    signs: tuple[Word, ...]


class _Token(NamedTuple):
    name: str
    word: Word


def read_still_text(text: str) -> Reading:
    """What `text` says; what is between quotation marks is what a sign says."""
    signs = tuple(_quoted(match) for match in _QUOTED.finditer(text))
    hidden = _QUOTED.sub(lambda match: "\0" * len(match[0]), text)
    tokens = list(_tokens(hidden))
    mentions: list[Mention] = []
    garments: list[Mention] = []
    places_of: dict[int, int] = {}
    for at, token in enumerate(tokens):
        if token.name == "kind":
            places_of[at] = len(mentions)
            mentions.append(_mention(tokens, at))
        elif token.name == "garment":
            garments.append(_mention(tokens, at))
    people = any(mention.kind.value == "person" for mention in mentions) or bool(garments)
    return Reading(
        tuple(mentions),
        tuple(garments),
        _of_class(tokens, "action") if people else (),
        _of_class(tokens, "place"),
        _of_class(tokens, "style"),
        tuple(_relations(tokens, places_of)),
        signs,
    )


def _quoted(match: re.Match[str]) -> Word:
    group = 1 if match[1] is not None else 2
    return Word(match[group].strip().upper(), match.start(group), match.end(group))


def _tokens(text: str) -> list[_Token]:
    known, pattern = words()
    found = []
    for match in pattern.finditer(text.casefold()):
        name, value = known.get(match[0], ("", match[0]))
        found.append(_Token(name, Word(value, match.start(), match.end())))
    return found


def _mention(tokens: list[_Token], at: int) -> Mention:
    """The noun at `at` with what stands before it, or after `is`."""
    found: dict[str, Word] = {}
    before = at - 1
    while before >= 0 and (
        tokens[before].name in ("number", "size", "colour") or tokens[before].word.value in _FILLERS
    ):
        found.setdefault(tokens[before].name, tokens[before].word)
        if tokens[before].name == "number":
            break
        before -= 1
    after = tokens[at + 1 : at + 3]
    follows = len(after) > 1 and after[0].word.value in _IS and after[1].name == "colour"
    if follows and "colour" not in found:
        found["colour"] = after[1].word
    return Mention(tokens[at].word, found.get("number"), found.get("size"), found.get("colour"))


def _of_class(tokens: list[_Token], name: str) -> tuple[Word, ...]:
    return tuple(token.word for token in tokens if token.name == name)


def _relations(tokens: list[_Token], places_of: dict[int, int]) -> list[Related]:
    """Relations whose words stand between two things, with nothing but their attributes between."""
    found = []
    for at, token in enumerate(tokens):
        if token.name != "relation":
            continue
        before = next((p for p in range(at - 1, -1, -1) if p in places_of), None)
        after = next((p for p in range(at + 1, len(tokens)) if p in places_of), None)
        if before is None or after is None or not _only_attributes(tokens[at + 1 : after]):
            continue
        if any(part.name in ("place", "garment") for part in tokens[before:at]):
            continue
        one, two = places_of[before], places_of[after]
        relation = token.word.value
        if relation in ("right", "below"):
            one, two, relation = two, one, "left" if relation == "right" else "above"
        found.append(Related(one, relation, two))
    return found


def _only_attributes(between: list[_Token]) -> bool:
    return all(
        token.name in ("number", "size", "colour") or token.word.value in {"the", *_FILLERS}
        for token in between
    )


# What is seen, or said, of a still as one value, so that both can be compared.

_ON_PX = 12.0
_OVERLAP = 0.3


class Group(NamedTuple):
    """Things of one kind and colour; None is what nobody says."""

    kind: str
    colour: str | None
    number: int | None
    size: str | None = None


class Content(NamedTuple):
    """What a still shows, as far as it is known.

    `relations` are (kind, `left` | `above` | `on`, kind); `clothes` (garment, colour).
    """

    groups: tuple[Group, ...]
    clothes: tuple[tuple[str, str], ...]
    action: str | None
    place: str | None
    style: str | None
    relations: tuple[tuple[str, str, str], ...]
    word: str | None


def content_of_image(seen: Seen) -> Content:
    """What was seen; groups in the order of how much there is of them, then from left to right."""
    counts: Counter[tuple[str, str | None]] = Counter()
    first: dict[tuple[str, str | None], Thing] = {}
    for thing in seen.things:
        key = (thing.kind, thing.colour)
        counts[key] += 1
        first.setdefault(key, thing)
    groups = tuple(
        Group(kind, colour, counts[kind, colour], _size_word(first[kind, colour].size))
        for kind, colour in first
    )
    people = [thing for thing in seen.things if thing.kind == PERSON]
    signs = [thing for thing in seen.things if thing.kind == SIGN and thing.word]
    single = [thing for thing in seen.things if counts[thing.kind, thing.colour] == 1]
    return Content(
        groups,
        people[0].clothes if people else (),
        people[0].action if people else None,
        seen.place,
        seen.style,
        _seen_relations(single),
        signs[0].word if signs else None,
    )


def content_of_text(reading: Reading) -> Content:
    """What was read."""
    groups = tuple(
        Group(
            mention.kind.value,
            mention.colour.value if mention.colour else None,
            int(mention.number.value) if mention.number else None,
            mention.size.value if mention.size else None,
        )
        for mention in reading.mentions
    )
    clothes = tuple(
        (garment.kind.value, garment.colour.value) for garment in reading.garments if garment.colour
    )
    relations = tuple(
        (groups[one].kind, relation, groups[two].kind) for one, relation, two in reading.related
    )
    return Content(
        groups,
        clothes,
        reading.actions[0].value if reading.actions else None,
        reading.places[0].value if reading.places else None,
        reading.styles[0].value if reading.styles else None,
        relations,
        reading.signs[0].value if reading.signs else None,
    )


def _size_word(size: str) -> str | None:
    return size if size in SIZES else None


def _seen_relations(things: list[Thing]) -> tuple[tuple[str, str, str], ...]:
    """Between every two single things: how the one lies to the other."""
    found = []
    for place, one in enumerate(things):
        for two in things[place + 1 :]:
            shared = min(one.right, two.right) - max(one.left, two.left)
            width = min(one.right - one.left, two.right - two.left)
            if shared < _OVERLAP * width:
                left, right = sorted((one, two), key=lambda thing: thing.left + thing.right)
                found.append((left.kind, RELATIONS[0], right.kind))
                continue
            upper, lower = sorted((one, two), key=lambda thing: thing.top + thing.bottom)
            touching = lower.top - upper.bottom < _ON_PX
            found.append((upper.kind, RELATIONS[2 if touching else 1], lower.kind))
    return tuple(found)
