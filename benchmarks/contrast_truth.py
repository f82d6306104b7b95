"""What is true of a drawn still after a change, and whether an edit did that and nothing else."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.builtin.drawing.pen import Pen, inked, pad_px
from models.builtin.drawing.styles import LINE_PX
from models.builtin.drawing.things import PAINTERS
from models.builtin.drawing.vocabulary import COLOURS
from models.builtin.editor.changes import (
    Act,
    Change,
    Move,
    Rain,
    Recolour,
    Replace,
    Resettle,
    Respell,
    Restyle,
)
from models.builtin.stills.reading import GARMENTS, Content, content_of_image
from models.builtin.stills.seeing import PERSON, SIGN, Seen, Thing, see_still
from sources.demonstration.stills.writing import StillTruth, TrueThing

_PAD_PX = 9
_VISIBLE = 20  # of 255, in any channel
_LEAST_CHANGED, _MOST_ELSEWHERE = 0.02, 0.001
_MOST_RAIN, _LEAST_PLACE, _LEAST_STYLE = 0.6, 0.4, 0.1
_STEADY_PX = 8.0  # drawings do not fill their boxes

Marks = NDArray[np.bool_]


def true_seen(truth: StillTruth) -> Seen:
    """What eyes that never err would see in a still."""
    scene = truth.scene
    return Seen(
        scene.place.value, scene.style.value, tuple(_true_thing(truth, one) for one in truth.things)
    )


def true_content(truth: StillTruth) -> Content:
    """The same, as a value."""
    return content_of_image(true_seen(truth))


def content_after(truth: StillTruth, change: Change, result: Image.Image) -> Content | None:
    """What must be true of an edited still; None where the change is none of what it shows.

    How things lie to each other after a move is taken from what is seen of `result`.
    """
    seen = true_seen(truth)
    match change:
        case Recolour(what, _, old, new) if what in GARMENTS:
            things = [_dressed(thing, what, old, new) for thing in seen.things]
        case Recolour(what, _, old, new):
            things = [
                thing._replace(colour=new) if (thing.kind, thing.colour) == (what, old) else thing
                for thing in seen.things
            ]
        case Replace(colour, kind, _, new):
            things = [
                thing._replace(kind=new) if (thing.kind, thing.colour) == (kind, colour) else thing
                for thing in seen.things
            ]
        case Respell(old, new):
            things = [
                thing._replace(word=new) if thing.word == old else thing for thing in seen.things
            ]
        case Act(old, new):
            things = [
                thing._replace(action=new) if thing.action == old else thing
                for thing in seen.things
            ]
        case Resettle(old, new):
            return content_of_image(seen._replace(place=new)) if seen.place == old else None
        case Restyle("pencil sketch" | "poster" | "mosaic" as manner):
            return content_of_image(seen._replace(style=manner))
        case Rain():
            return content_of_image(seen)
        case Move():
            return _content_after_move(seen, change, result)
        case _:
            return None
    if things == list(seen.things):
        return None
    return content_of_image(seen._replace(things=tuple(things)))


def faults(truth: StillTruth, change: Change, before: Image.Image, after: Image.Image) -> list[str]:
    """What is wrong with an edit: by what is seen, and by the pixels around the true boxes."""
    wanted = content_after(truth, change, after)
    if wanted is None:
        return ["the change is none of what the picture shows"]
    one, two = (content_of_image(see_still(image)) for image in (before, after))
    return [
        *_seen_faults(wanted, two),
        *_relation_faults(change, one, two),
        *_pixel_faults(truth, change, before, after),
    ]


def _seen_faults(wanted: Content, found: Content) -> Iterator[str]:
    for name in ("clothes", "action", "place", "style", "word"):
        one, two = getattr(wanted, name), getattr(found, name)
        if one != two:
            yield f"{name} seen as {two}, not {one}"
    groups = [
        sorted((group.kind, group.colour or "", group.number or 0) for group in content.groups)
        for content in (wanted, found)
    ]
    if groups[0] != groups[1]:
        yield f"things seen as {groups[1]}, not {groups[0]}"


def _relation_faults(change: Change, before: Content, after: Content) -> Iterator[str]:
    """How things are seen to lie to each other: as before, but for what was moved."""
    wanted = set(before.relations)
    if isinstance(change, Replace):
        names = {change.kind: change.new}
        wanted = {(names.get(a, a), relation, names.get(b, b)) for a, relation, b in wanted}
    if isinstance(change, Move):
        pair = {change.kind, change.other}
        wanted = {relation for relation in wanted if {relation[0], relation[2]} != pair}
        order = (change.kind, change.other)
        one, two = order if change.side == "left" else order[::-1]
        wanted.add((one, "left", two))
    if wanted != set(after.relations):
        yield f"things lie as {sorted(after.relations)}, not as {sorted(wanted)}"


def _pixel_faults(
    truth: StillTruth, change: Change, before: Image.Image, after: Image.Image
) -> Iterator[str]:
    if before.size != after.size:
        yield f"the size is {after.size}, not {before.size}"
        return
    changed = _changed(before, after)
    if isinstance(change, Restyle):
        if changed.mean() < _LEAST_STYLE:
            yield "the picture is hardly another one"
        return
    if isinstance(change, Resettle | Rain):
        things, ground = _surely_things(truth), _ground(truth)
        if things.any() and changed[things].mean() > 0.004:
            yield f"{changed[things].mean():.1%} of the things changed with their place"
        share = changed[ground].mean()
        if isinstance(change, Resettle) and share < _LEAST_PLACE:
            yield f"only {share:.1%} of the place changed"
        if isinstance(change, Rain) and not _LEAST_CHANGED < share < _MOST_RAIN:
            yield f"{share:.1%} of the place is rain"
        return
    inside = _intended(truth, change, after)
    if changed[~inside].mean() > _MOST_ELSEWHERE:
        yield f"{changed[~inside].mean():.2%} changed elsewhere"
    if changed[inside].mean() < _LEAST_CHANGED:
        yield "nothing changed where it should"


def _changed(before: Image.Image, after: Image.Image) -> Marks:
    one, two = (np.asarray(image.convert("RGB"), np.int16) for image in (before, after))
    return np.asarray(np.abs(one - two).max(axis=2) > _VISIBLE)


def _intended(truth: StillTruth, change: Change, after: Image.Image) -> Marks:
    """Where the change may show: the true boxes of what changes, and where it is seen now."""
    seen = see_still(after)
    boxes: list[TrueThing | Thing] = []
    match change:
        case Recolour(what, _, _, _) if what in GARMENTS:
            boxes += [one for one in truth.things if one.kind == PERSON]
        case Recolour(what, _, old, _):
            boxes += [one for one in truth.things if (one.kind, one.colour) == (what, old)]
        case Respell():
            boxes += [one for one in truth.things if one.kind == SIGN]
        case Replace(colour, kind, _, new):
            boxes += [one for one in truth.things if (one.kind, one.colour) == (kind, colour)]
            boxes += [one for one in seen.things if (one.kind, one.colour) == (new, colour)]
        case Move(colour, kind, _, _, _):
            for things in (truth.things, seen.things):
                boxes += [one for one in things if (one.kind, one.colour) == (kind, colour)]
        case Act():
            for things in (truth.things, seen.things):
                boxes += [one for one in things if one.kind == PERSON]
        case _:
            raise TypeError(f"{change} concerns the whole picture")
    return _boxed(boxes, (after.height, after.width))


def _boxed(boxes: list[TrueThing | Thing], shape: tuple[int, int]) -> Marks:
    marks = np.zeros(shape, bool)
    for box in boxes:
        rows = slice(max(0, int(box.top) - _PAD_PX), int(box.bottom) + _PAD_PX)
        marks[rows, max(0, int(box.left) - _PAD_PX) : int(box.right) + _PAD_PX] = True
    return marks


def _ground(truth: StillTruth) -> Marks:
    return ~_boxed(list(truth.things), (240, 320))


def _surely_things(truth: StillTruth) -> Marks:
    """Pixels that belong to a drawn thing, whichever way round it is drawn."""
    marks = np.zeros((240, 320), bool)
    line_px = LINE_PX[truth.scene.style]
    for one in truth.things:
        if one.kind not in PAINTERS:
            continue
        pen = Pen(one.right - one.left, one.bottom - one.top)
        PAINTERS[one.kind](pen, COLOURS[one.colour or "red"])
        turned = pen.sheet.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        thin_px = line_px - 2.2  # its ink fades further out
        solid = [np.asarray(inked(way, thin_px))[..., 3] == 255 for way in (pen.sheet, turned)]
        both = solid[0] & solid[1]
        pad = pad_px(thin_px)
        top, left = round(one.top) - pad, round(one.left) - pad
        marks[top : top + both.shape[0], left : left + both.shape[1]] |= both
    return marks


def _true_thing(truth: StillTruth, one: TrueThing) -> Thing:
    scene = truth.scene
    sizes = {group.kind: group.size.value for group in scene.groups}
    line_px = LINE_PX[scene.style]
    box = (one.left - line_px, one.top - line_px, one.right + line_px, one.bottom + line_px)
    thing = Thing(one.kind, one.colour, sizes.get(one.kind, "medium"), *box)
    if one.kind == SIGN:
        return thing._replace(word=scene.sign)
    if one.kind == PERSON and scene.figure:
        worn = {name: getattr(scene.figure, name) for name in GARMENTS}
        return thing._replace(
            action=scene.figure.action.value,
            clothes=tuple((name, colour) for name, colour in worn.items() if colour),
        )
    return thing


def _dressed(thing: Thing, garment: str, old: str, new: str) -> Thing:
    if (garment, old) not in thing.clothes:
        return thing
    clothes = {**dict(thing.clothes), garment: new}
    return thing._replace(clothes=tuple(clothes.items()))


def _content_after_move(seen: Seen, change: Move, result: Image.Image) -> Content | None:
    """The moved thing where it is seen; all others where they truly are, which must be so."""
    found = see_still(result)
    moved = [one for one in found.things if (one.kind, one.colour) == (change.kind, change.colour)]
    rest = [one for one in seen.things if (one.kind, one.colour) != (change.kind, change.colour)]
    steady = all(
        any(
            (one.kind, one.colour) == (other.kind, other.colour)
            and abs(one.left + one.right - other.left - other.right) / 2 < _STEADY_PX
            for other in found.things
        )
        for one in rest
    )
    if len(moved) != 1 or len(rest) != len(seen.things) - 1 or not steady:
        return None
    content = content_of_image(seen._replace(things=(*rest, moved[0])))
    pair = (change.kind, "left", change.other)
    if change.side == "right":
        pair = (change.other, "left", change.kind)
    return content if pair in content.relations else None
