"""Says what a change is about: its type, the detail, and what becomes of it."""

import re
from typing import NamedTuple, assert_never

from models.builtin.editor.changes import (
    Act,
    Add,
    Change,
    Darken,
    Move,
    Rain,
    Recolour,
    Remove,
    Replace,
    Resettle,
    Respell,
    Restyle,
)
from models.builtin.editor.grammar import place_name, with_article
from models.builtin.stills.lexicon import PLURALS
from schemas.taxonomy import DifferenceType

PHOTOGRAPH, GREY_PHOTOGRAPH = "colour picture", "black-and-white picture"
FLAT = "flat drawing"

_PLAN = re.compile(r"\bThe (weather|style|light) changes from (.+) to (.+?)\.?$")
_PHRASES = {"weather": " in {} weather", "style": ", shown as {}", "light": " in {} light"}


class Wording(NamedTuple):
    """What is said of a change: its type, what it changes, and into what."""

    difference: DifferenceType
    detail: str
    plan: str


class Unseen(NamedTuple):
    """Something that tells two images apart but is not seen: `weather`, `style` or `light`."""

    aspect: str
    anchor: str
    sibling: str


def worded(change: Change, style: str = FLAT) -> Wording | None:
    """What is said of a change; None for one that is of no type in the taxonomy.

    `style` is that of the picture as it is.
    """
    kinds = DifferenceType
    match change:
        case Recolour(what, many, old, new):
            named = PLURALS[what] if many else what
            detail = f"the colour of the {named}"
            return Wording(kinds.ENTITY_ATTRIBUTE, detail, _from_to(detail, old, new))
        case Respell(old, new):
            detail = "the word on the sign"
            plan = _from_to(detail, f'"{old}"', f'"{new}"')
            return Wording(kinds.ENTITY_ATTRIBUTE, detail, plan)
        case Replace(colour, kind, many, new):
            one, two = (PLURALS[kind], PLURALS[new]) if many else (kind, with_article(new))
            detail = f"the {colour} {one}"
            becomes = "become" if many else "becomes"
            return Wording(kinds.ENTITY_TYPE, detail, f"The {colour} {one} {becomes} {two}.")
        case Move(colour, kind, side, other_colour, other):
            detail = f"where the {colour} {kind} is"
            plan = f"The {colour} {kind} goes to the {side} of the {other_colour} {other}."
            return Wording(kinds.ENTITY_RELATION, detail, plan)
        case Resettle(old, new):
            names = (with_article(place_name(place)) for place in (old, new))
            return Wording(kinds.SCENE_TYPE, "the place", _from_to("the place", *names))
        case Act(old, new):
            detail = "what the person does"
            return Wording(kinds.EVENT_TYPE, detail, _from_to(detail, old, new))
        case Rain():
            plan = _from_to("the weather", "dry", "rainy")
            return Wording(kinds.SCENE_ATTRIBUTE, "the weather", plan)
        case Restyle(manner):
            names = (with_article(one) for one in (style, manner))
            return Wording(kinds.STYLE, "the style", _from_to("the style", *names))
        case Darken():
            plan = _from_to("the light", "bright", "dim")
            return Wording(kinds.SCENE_ATTRIBUTE, "the light", plan)
        case Remove() | Add():
            return None
        case _:
            assert_never(change)


def unseen_difference(text: str) -> Unseen | None:
    """What a plan says of weather, style or light, as phrases that end a caption."""
    found = _PLAN.search(text)
    if found is None:
        return None
    aspect = found[1]
    return Unseen(aspect, _PHRASES[aspect].format(found[2]), _PHRASES[aspect].format(found[3]))


def _from_to(detail: str, old: str, new: str) -> str:
    return f"{detail[0].upper()}{detail[1:]} changes from {old} to {new}."
