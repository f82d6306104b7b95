"""Takes things away, puts others in their place, moves them, and lets people do something else."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import NamedTuple

from models.builtin.drawing.people_and_signs import POSTURES
from models.builtin.drawing.vocabulary import KINDS, Action
from models.builtin.editor.canvas import (
    Canvas,
    Drawn,
    Edited,
    Look,
    UneditableError,
    aspect_of,
    drawn_extent,
)
from models.builtin.editor.changes import Act, Add, Move, Remove, Replace
from models.builtin.editor.layers import with_looks, without
from models.builtin.stills.reading import Content, content_of_image
from models.builtin.stills.seeing import PERSON, Thing

_EDGE_PX = 5.0
_GAP_PX = 4.0
_NEW_SIDE_PX = 60.0
_OFFSETS_PX = (0, -6, 6, -12, 12, -20, 20, -30, 30, -44, 44)
_LIFTS_PX = (0, 6, -6, 12, -12)
_MOVES_PX = (34, 24, 46, 58, 16, 72, 90)

Relations = frozenset[tuple[str, str, str]]


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float


def removed(canvas: Canvas, change: Remove) -> Edited:
    """The picture without the thing, or all of them."""
    gone = canvas.find(change.kind, change.colour)
    rest = tuple(thing for thing in canvas.seen.things if all(thing != one.thing for one in gone))
    if not rest:
        raise UneditableError("nothing_left", "nothing would be left in the picture")
    return Edited(without(canvas, gone)[0], canvas.seen._replace(things=rest))


def added(canvas: Canvas, change: Add, seed: int) -> Edited:
    """The picture with one thing more, where there is room for it."""
    _check_colour(change.kind, change.colour)
    look = _of_side(Look(change.kind, change.colour, 0, 0, 1, 1), _NEW_SIDE_PX, canvas.line_px)
    height, width = canvas.pixels.shape[:2]
    lowest = 125 if KINDS[change.kind].flies else height - 8
    highest = 60 if KINDS[change.kind].flies else 150
    spots = [
        _moved_to(look, left, bottom, canvas.line_px)
        for bottom in range(lowest, highest, -15)
        for left in range(8, width, 12)
    ]
    turn = seed % len(spots)
    new = _first_fitting(canvas, (), [spots[turn:] + spots[:turn]], lambda _: True)
    return _with(canvas, (), new, seed)


def replaced(canvas: Canvas, change: Replace, seed: int) -> Edited:
    """The picture with things of another kind where some were."""
    _check_colour(change.new, change.colour)
    gone = canvas.find(change.kind, change.colour)
    wanted = _renamed(canvas.content, change.kind, change.new)
    choices = [
        list(_instead(one, Look(change.new, change.colour, 0, 0, 1, 1), canvas.line_px))
        for one in gone
    ]
    new = _first_fitting(canvas, gone, choices, lambda content: _relations(content) == wanted)
    return _with(canvas, gone, new, seed)


def moved(canvas: Canvas, change: Move, seed: int) -> Edited:
    """The picture with a thing on the other side of another one."""
    one = _single(canvas, change.kind, change.colour)
    other = _single(canvas, change.other, change.other_colour)
    wanted = {
        relation
        for relation in canvas.content.relations
        if {relation[0], relation[2]} != {change.kind, change.other}
    }
    pair = (change.kind, change.other)
    wanted.add((pair[0], "left", pair[1]) if change.side == "left" else (pair[1], "left", pair[0]))
    if wanted == set(canvas.content.relations):
        raise UneditableError("nothing_to_change", f"the {change.kind} is there already")
    spots = _beside(canvas, one, other, change.side)
    new = _first_fitting(canvas, [one], [spots], lambda content: _relations(content) == wanted)
    return _with(canvas, [one], new, seed)


def acted(canvas: Canvas, change: Act, seed: int) -> Edited:
    """The picture with the person doing something else in the same clothes."""
    [person, *others] = canvas.find(PERSON)
    figure = person.look.figure
    if others or figure is None or figure.action.value != change.old:
        raise UneditableError("nothing_to_change", f"nobody is {change.old}, or not only one")
    posture = POSTURES[Action(change.new)]
    height = person.look.height * POSTURES[figure.action].unit / posture.unit
    look = person.look._replace(
        figure=figure.model_copy(update={"action": Action(change.new)}),
        width=height * posture.aspect,
        height=height,
    )
    spots = list(_standing(person, look, canvas.line_px))
    wanted = _relations(canvas.content)
    new = _first_fitting(canvas, [person], [spots], lambda content: _relations(content) == wanted)
    return _with(canvas, [person], new, seed)


def _with(
    canvas: Canvas, gone: Iterable[Drawn], new: list[tuple[Look, Thing]], seed: int
) -> Edited:
    pixels, plain = without(canvas, list(gone))
    looks = sorted((look for look, _ in new), key=lambda look: look.top + look.height)
    return Edited(
        with_looks(canvas, pixels, plain, looks, seed),
        canvas.seen._replace(things=_things(canvas, gone, [thing for _, thing in new])),
    )


def _first_fitting(
    canvas: Canvas,
    gone: Iterable[Drawn],
    choices: list[list[Look]],
    is_wanted: Callable[[Content], bool],
) -> list[tuple[Look, Thing]]:
    """One of the looks for each new thing, where nothing touches and everything else stays so."""
    left = [_box(one.thing) for one in canvas.drawn if one not in tuple(gone)]
    found: list[tuple[Look, Thing]] = []
    for number, looks in enumerate(choices):
        for look in looks:
            thing = _thing(look, canvas.line_px)
            apart = [_box(other) for _, other in found] + left
            if not _inside(canvas, thing) or any(_touch(_box(thing), box) for box in apart):
                continue
            new = [*(other for _, other in found), thing]
            seen = canvas.seen._replace(things=_things(canvas, gone, new))
            if number + 1 < len(choices) or is_wanted(content_of_image(seen)):
                found.append((look, thing))
                break
        else:
            raise UneditableError(
                "no_room", "there is no room for it without changing something else"
            )
    return found


def _things(canvas: Canvas, gone: Iterable[Drawn], new: list[Thing]) -> tuple[Thing, ...]:
    away = [one.thing for one in gone]
    rest = [thing for thing in canvas.seen.things if thing not in away]
    return tuple(sorted([*rest, *new], key=lambda thing: thing.left))


def _instead(one: Drawn, look: Look, line_px: float) -> Iterator[Look]:
    """The look as large as what it replaces, and where that is, or near it."""
    side = math.sqrt(one.cut.width * one.cut.height)
    sized = _of_side(look._replace(mirrored=one.look.mirrored), side, line_px)
    return _around(one, sized, line_px)


def _standing(one: Drawn, look: Look, line_px: float) -> Iterator[Look]:
    """The look on the same ground, or nearly; a little aside."""
    thing = _thing(look, line_px)
    left = (one.thing.left + one.thing.right + thing.left - thing.right) / 2
    for lift, aside in product(_LIFTS_PX, _OFFSETS_PX):
        yield _moved_to(look, left + aside, one.thing.bottom + lift, line_px)


def _around(one: Drawn, look: Look, line_px: float) -> Iterator[Look]:
    """The look with its lower edge, upper edge or middle where the thing's is; a little aside."""
    thing = _thing(look, line_px)
    wide, high = thing.right - thing.left, thing.bottom - thing.top
    middle = (one.thing.left + one.thing.right) / 2
    bottoms = (
        one.thing.bottom,
        one.thing.top + high,
        (one.thing.top + one.thing.bottom + high) / 2,
    )
    for aside, bottom in product(_OFFSETS_PX, bottoms):
        yield _moved_to(look, middle - wide / 2 + aside, bottom, line_px)


def _beside(canvas: Canvas, one: Drawn, other: Drawn, side: str) -> list[Look]:
    wide = one.thing.right - one.thing.left
    bottoms = [one.thing.bottom]
    if abs(one.thing.bottom - other.thing.bottom) > 30:  # it was above the other, or on it
        bottoms = [other.thing.bottom]
    spots = []
    for lift, away in product((0, 8, -8, 18, -18), _MOVES_PX):
        left = other.thing.left - away - wide if side == "left" else other.thing.right + away
        spots += [_moved_to(one.look, left, bottom + lift, canvas.line_px) for bottom in bottoms]
    return spots


def _of_side(look: Look, side_px: float, line_px: float) -> Look:
    """The look of a size at which what is cut out of the picture has an area of `side_px`²."""
    left, top, right, bottom = drawn_extent(look)
    aspect = aspect_of(look)
    height = side_px / math.sqrt(aspect)
    for _ in range(6):
        wide = (right - left) * height * aspect + 2 * line_px
        high = (bottom - top) * height + 2 * line_px
        height *= side_px / math.sqrt(wide * high)
    return look._replace(width=height * aspect, height=height)


def _moved_to(look: Look, left: float, bottom: float, line_px: float) -> Look:
    """The look where its ink begins at `left` and ends at `bottom`."""
    thing = _thing(look, line_px)
    return look._replace(
        left=float(round(look.left + left - thing.left)),
        top=float(round(look.top + bottom - thing.bottom)),
    )


def _thing(look: Look, line_px: float) -> Thing:
    """How the look will be seen."""
    left, top, right, bottom = drawn_extent(look)
    clothes: tuple[tuple[str, str], ...] = ()
    if look.figure is not None:
        worn = {name: getattr(look.figure, name) for name in ("shirt", "trousers", "hat")}
        clothes = tuple((name, colour) for name, colour in worn.items() if colour)
    return Thing(
        look.kind,
        look.colour,
        "medium",
        look.left + left * look.width - line_px,
        look.top + top * look.height - line_px,
        look.left + right * look.width + line_px,
        look.top + bottom * look.height + line_px,
        look.figure.action.value if look.figure else None,
        clothes,
        look.word,
    )


def _box(thing: Thing) -> _Box:
    return _Box(thing.left, thing.top, thing.right, thing.bottom)


def _inside(canvas: Canvas, thing: Thing) -> bool:
    height, width = canvas.pixels.shape[:2]
    return (
        thing.left >= _EDGE_PX
        and thing.top >= _EDGE_PX
        and thing.right <= width - _EDGE_PX
        and thing.bottom <= height - _EDGE_PX
    )


def _touch(one: _Box, two: _Box) -> bool:
    return (
        one.left < two.right + _GAP_PX
        and two.left < one.right + _GAP_PX
        and one.top < two.bottom + _GAP_PX
        and two.top < one.bottom + _GAP_PX
    )


def _relations(content: Content) -> Relations:
    return frozenset(content.relations)


def _renamed(content: Content, old: str, new: str) -> Relations:
    if sum(group.kind == old for group in content.groups) > 1:
        raise UneditableError("ambiguous", f"there are other things that are a {old}")
    if any(group.kind == new for group in content.groups):
        raise UneditableError("ambiguous", f"there is a {new} already")
    names = {old: new}
    return frozenset(
        (names.get(one, one), relation, names.get(two, two))
        for one, relation, two in content.relations
    )


def _single(canvas: Canvas, kind: str, colour: str) -> Drawn:
    found = canvas.find(kind, colour)
    if len(found) > 1 or len(canvas.find(kind)) > 1:
        raise UneditableError("ambiguous", f"there is more than one {kind}")
    return found[0]


def _check_colour(kind: str, colour: str) -> None:
    if colour not in KINDS[kind].colours:
        raise UneditableError("not_drawable", f"a {kind} is not drawn in {colour}")
