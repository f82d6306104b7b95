"""Finds what could be changed in a picture, by the type of difference that it makes."""

from collections.abc import Callable
from typing import TypeVar

from models.builtin.drawing.draws import Draws
from models.builtin.drawing.vocabulary import KINDS
from models.builtin.editor.changes import (
    Act,
    Change,
    Darken,
    Move,
    Recolour,
    Replace,
    Resettle,
    Respell,
    Restyle,
    Side,
)
from models.builtin.stills.lexicon import ACTIONS, COLOURS, PLACES
from models.builtin.stills.saying import Content, Group
from schemas.taxonomy import DifferenceType

T = TypeVar("T")

_WORDS = ("TEA", "ICE", "OPEN", "SALE", "CAFE", "TAXI", "HOTEL", "PIZZA", "MUSIC", "BAKERY",
          "MUSEUM", "MARKET")  # fmt: skip
_OTHERS_TRIED = 3


def proposals(content: Content, draws: Draws) -> dict[DifferenceType, list[Change]]:
    """Changes of a drawing, of each type some, in a drawn order; types without any are left out.

    Weather is not changed, though the editor can: the built-in embedder sees none, so that nobody
    but people could tell whether captions fit.
    """
    found = {
        kind: _shuffled(propose(content, draws), draws) for kind, propose in _PROPOSERS.items()
    }
    return {kind: changes for kind, changes in found.items() if changes}


def photograph_proposals(draws: Draws) -> dict[DifferenceType, list[Change]]:
    """What can be done to a picture in which nothing is seen."""
    styles: list[Change] = [Restyle("pencil sketch"), Restyle("black-and-white picture")]
    return {
        DifferenceType.STYLE: _shuffled(styles, draws),
        DifferenceType.SCENE_ATTRIBUTE: [Darken()],
    }


def _attributes(content: Content, draws: Draws) -> list[Change]:
    changes: list[Change] = []
    for group in _lone_groups(content):
        if group.colour:
            new = _others(KINDS[group.kind].colours, (group.colour,), draws)
            changes += [
                Recolour(group.kind, (group.number or 1) > 1, group.colour, one) for one in new
            ]
    if _one_person(content):
        worn = tuple(colour for _, colour in content.clothes)
        for garment, colour in content.clothes:
            new = _others(COLOURS, worn, draws)
            changes += [Recolour(garment, False, colour, one) for one in new]
    if content.word and _count(content, "sign") == 1:
        fitting = [word for word in _WORDS if len(word) == len(content.word)]
        changes += [Respell(content.word, word) for word in fitting if word != content.word]
    return changes


def _types(content: Content, draws: Draws) -> list[Change]:
    there = [group.kind for group in content.groups]
    changes: list[Change] = []
    for group in _lone_groups(content):
        colour = group.colour
        if colour is None:
            continue
        fitting = tuple(
            kind
            for kind, about in KINDS.items()
            if colour in about.colours and about.flies == KINDS[group.kind].flies
        )
        many = (group.number or 1) > 1
        new = _others(fitting, tuple(there), draws)
        changes += [Replace(colour, group.kind, many, one) for one in new]
    return changes


def _relations(content: Content, _: Draws) -> list[Change]:
    single = {
        group.kind: group.colour
        for group in _lone_groups(content)
        if group.number == 1 and group.colour
    }
    changes: list[Change] = []
    for one, relation, two in content.relations:
        if one not in single or two not in single:
            continue
        left, right = single[one] or "", single[two] or ""
        if relation == "left":
            changes += [Move(left, one, "right", right, two), Move(right, two, "left", left, one)]
        else:
            sides: tuple[Side, Side] = ("left", "right")
            changes += [Move(left, one, side, right, two) for side in sides]
    return changes


def _places(content: Content, draws: Draws) -> list[Change]:
    if content.place is None:
        return []
    return [Resettle(content.place, one) for one in _others(PLACES, (content.place,), draws)]


def _actions(content: Content, draws: Draws) -> list[Change]:
    if content.action is None or not _one_person(content):
        return []
    return [Act(content.action, one) for one in _others(ACTIONS, (content.action,), draws)]


def _styles(content: Content, _: Draws) -> list[Change]:
    if content.style != "flat drawing":
        return []
    return [Restyle("pencil sketch"), Restyle("poster"), Restyle("mosaic")]


_PROPOSERS: dict[DifferenceType, Callable[[Content, Draws], list[Change]]] = {
    DifferenceType.ENTITY_ATTRIBUTE: _attributes,
    DifferenceType.ENTITY_TYPE: _types,
    DifferenceType.ENTITY_RELATION: _relations,
    DifferenceType.SCENE_TYPE: _places,
    DifferenceType.EVENT_TYPE: _actions,
    DifferenceType.STYLE: _styles,
}


def _lone_groups(content: Content) -> list[Group]:
    """Groups of things, not people or signs, that are all there is of their kind."""
    return [
        group
        for group in content.groups
        if group.kind in KINDS and sum(one.kind == group.kind for one in content.groups) == 1
    ]


def _one_person(content: Content) -> bool:
    return _count(content, "person") == 1


def _count(content: Content, kind: str) -> int:
    return sum(group.number or 0 for group in content.groups if group.kind == kind)


def _others(options: tuple[str, ...], taken: tuple[str, ...], draws: Draws) -> list[str]:
    """A few drawn options that are not taken."""
    free = [option for option in options if option not in taken]
    return _shuffled(free, draws)[:_OTHERS_TRIED]


def _shuffled(items: list[T], draws: Draws) -> list[T]:
    left, found = list(items), []
    while left:
        one = draws.pick(left)
        left.remove(one)
        found.append(one)
    return found
