"""What can be changed in a picture: as plain values, and in plain English."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple, assert_never

from models.builtin.stills.reading import ACTIONS, COLOURS, GARMENTS, PLACES, PLURALS

# What can be changed in a picture, as plain values.

Side = Literal["left", "right"]
Manner = Literal["pencil sketch", "poster", "mosaic", "black-and-white picture"]

MANNERS: tuple[Manner, ...] = ("pencil sketch", "poster", "mosaic", "black-and-white picture")
"""The ways in which a picture can be redrawn."""


class Recolour(NamedTuple):
    """A thing (all of that kind and colour) or a garment gets another colour.

    `many` says that there are several of them; a garment is one, trousers included.
    """

    what: str
    many: bool
    old: str
    new: str


class Respell(NamedTuple):
    """The sign says another word."""

    old: str
    new: str


class Replace(NamedTuple):
    """A thing (all of that kind and colour) becomes one of another kind, of the same colour."""

    colour: str
    kind: str
    many: bool
    new: str


class Remove(NamedTuple):
    """A thing (all of that kind and colour) goes away."""

    colour: str
    kind: str
    many: bool


class Add(NamedTuple):
    """A thing is drawn where there is room."""

    colour: str
    kind: str


class Move(NamedTuple):
    """A thing goes to a side of another one."""

    colour: str
    kind: str
    side: Side
    other_colour: str
    other: str


class Resettle(NamedTuple):
    """Everything is in another place."""

    old: str
    new: str


class Act(NamedTuple):
    """The person does something else."""

    old: str
    new: str


class Rain(NamedTuple):
    """It rains."""


class Restyle(NamedTuple):
    """The whole picture is drawn otherwise."""

    manner: Manner


class Darken(NamedTuple):
    """The light of the whole picture gets dim."""


Change = (
    Recolour | Respell | Replace | Remove | Add | Move | Resettle | Act | Rain | Restyle | Darken
)


# Says changes in plain English, and reads what was said: `read(say(change)) == change`.

THINGS = tuple(kind for kind in PLURALS if kind not in ("person", "sign"))
"""The kinds of things that have a colour."""

_PLACE_NAMES = {place: place for place in PLACES} | {
    "snow": "snowy landscape", "night city": "city at night",
}  # fmt: skip
_PLACES_BY_NAME = {name: place for place, name in _PLACE_NAMES.items()}
_BY_PLURAL = {many: one for one, many in PLURALS.items()}


def say(change: Change) -> str:
    """The sentence that tells an editor of a change."""
    match change:
        case Recolour(what, many, old, new):
            return f"Change the colour of {_named(what, many)} from {old} to {new}."
        case Respell(old, new):
            return f'Change the word on the sign from "{old}" to "{new}".'
        case Replace(colour, kind, many, new):
            by = f"{colour} {PLURALS[new]}" if many else with_article(f"{colour} {new}")
            return f"Replace {_named(kind, many, colour)} by {by}."
        case Remove(colour, kind, many):
            return f"Remove {_named(kind, many, colour)}."
        case Add(colour, kind):
            return f"Add {with_article(f'{colour} {kind}')}."
        case Move(colour, kind, side, other_colour, other):
            return f"Move the {colour} {kind} to the {side} of the {other_colour} {other}."
        case Resettle(old, new):
            return f"Replace the {_PLACE_NAMES[old]} by {with_article(_PLACE_NAMES[new])}."
        case Act(old, new):
            return f"Change what the person does from {old} to {new}."
        case Rain():
            return "Let it rain."
        case Restyle(manner):
            return f"Redraw the picture as {with_article(manner)}."
        case Darken():
            return "Make the light of the picture dim."
        case _:
            assert_never(change)


def read(sentence: str) -> Change | None:
    """The change that a sentence asks for; None where it is not understood.

    Neither case, white space nor the full stop matters.
    """
    plain = " ".join(sentence.split()).rstrip(". ")
    for pattern, change_of in _FORMS:
        if found := pattern.fullmatch(plain):
            return change_of(found)
    return None


def with_article(words: str) -> str:
    """`a` or `an` before words, by their first letter."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def place_name(place: str) -> str:
    """What a place is called after an article."""
    return _PLACE_NAMES[place]


def _named(kind: str, many: bool, colour: str | None = None) -> str:
    before = f"{colour} " if colour else ""
    return f"all {before}{PLURALS[kind]}" if many else f"the {before}{kind}"


def _any(words: tuple[str, ...] | dict[str, str]) -> str:
    return f"(?:{'|'.join(sorted(map(re.escape, words), key=len, reverse=True))})"


_COLOUR, _KIND, _PLACE, _ACTION = _any(COLOURS), _any(THINGS), _any(_PLACES_BY_NAME), _any(ACTIONS)
_MANY = _any(tuple(PLURALS[kind] for kind in THINGS))
_ONE_OR_ALL = rf"(?:the (?P<one>{_any(THINGS + GARMENTS)})|all (?P<all>{_MANY}))"
_COLOURED = (
    rf"(?:the (?P<colour>{_COLOUR}) (?P<one>{_KIND})|all (?P<colours>{_COLOUR}) (?P<all>{_MANY}))"
)


def _recolour(found: re.Match[str]) -> Change:
    kind, many = _kind(found)
    return Recolour(kind, many, found["old"].lower(), found["new"].lower())


def _kind(found: re.Match[str]) -> tuple[str, bool]:
    if found["one"]:
        return found["one"].lower(), False
    return _BY_PLURAL[found["all"].lower()], True


def _coloured(found: re.Match[str]) -> tuple[str, str, bool]:
    kind, many = _kind(found)
    return (found["colour"] or found["colours"]).lower(), kind, many


def _replace(found: re.Match[str]) -> Change:
    colour, kind, many = _coloured(found)
    new = found["new"].lower()
    return Replace(colour, kind, many, _BY_PLURAL[new] if many else new)


def _move(found: re.Match[str]) -> Change:
    side: Side = "left" if found["side"].lower() == "left" else "right"
    colour, kind = found["colour"].lower(), found["kind"].lower()
    return Move(colour, kind, side, found["other_colour"].lower(), found["other"].lower())


def _manner(found: re.Match[str]) -> Change:
    manner: Manner = next(one for one in MANNERS if one == found["manner"].lower())
    return Restyle(manner)


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Change]], ...] = (
    (
        _form(rf"Change the colour of {_ONE_OR_ALL} from (?P<old>{_COLOUR}) to (?P<new>{_COLOUR})"),
        _recolour,
    ),
    (
        _form(r'Change the word on the sign from "(?P<old>[^"]+)" to "(?P<new>[^"]+)"'),
        lambda found: Respell(found["old"].upper(), found["new"].upper()),
    ),
    (
        _form(rf"Replace {_COLOURED} by an? (?:(?P=colour)) (?P<new>{_KIND})"),
        _replace,
    ),
    (
        _form(rf"Replace {_COLOURED} by (?:(?P=colours)) (?P<new>{_MANY})"),
        _replace,
    ),
    (_form(rf"Remove {_COLOURED}"), lambda found: Remove(*_coloured(found))),
    (
        _form(rf"Add an? (?P<colour>{_COLOUR}) (?P<kind>{_KIND})"),
        lambda found: Add(found["colour"].lower(), found["kind"].lower()),
    ),
    (
        _form(
            rf"Move the (?P<colour>{_COLOUR}) (?P<kind>{_KIND}) to the (?P<side>left|right) of "
            rf"the (?P<other_colour>{_COLOUR}) (?P<other>{_KIND})"
        ),
        _move,
    ),
    (
        _form(rf"Replace the (?P<old>{_PLACE}) by an? (?P<new>{_PLACE})"),
        lambda found: Resettle(
            _PLACES_BY_NAME[found["old"].lower()], _PLACES_BY_NAME[found["new"].lower()]
        ),
    ),
    (
        _form(rf"Change what the person does from (?P<old>{_ACTION}) to (?P<new>{_ACTION})"),
        lambda found: Act(found["old"].lower(), found["new"].lower()),
    ),
    (_form("Let it rain"), lambda _: Rain()),
    (_form(rf"Redraw the picture as an? (?P<manner>{_any(MANNERS)})"), _manner),
    (_form("Make the light of the picture dim"), lambda _: Darken()),
)
