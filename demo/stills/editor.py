"""The built-in editor: changes the scene of a drawn still by instruction, and draws it again."""

import io
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import combinations
from time import perf_counter
from typing import NamedTuple

import numpy as np
from PIL import Image
from pydantic import TypeAdapter

from loupe.demo.stills.drawing import BLACK_AND_WHITE, draw_still, in_style
from loupe.demo.stills.scene import (
    ACTIONS,
    COLOURS,
    GARMENTS,
    HEIGHT_PX,
    KINDS,
    PERSON,
    PLACES,
    SIGN,
    STRIP_BOX,
    STYLES,
    TABLES,
    THINGS,
    WIDTH_PX,
    WORDS,
    Scene,
    Thing,
    apart,
    is_free,
    read_scene,
)
from loupe.demo.stills.text import content_of
from loupe.schemas.base import Box
from loupe.schemas.image_edit import BuiltinEditor, EditFailure, EditOutcome, EditRequest
from loupe.schemas.taxonomy import DifferenceType
from loupe.schemas.wording import with_article
from loupe.testing import Adapter, as_rgb, edited_picture

# The built-in editor.


class StillsEditor(Adapter[BuiltinEditor]):
    """An `ImageEditor` that understands the sentences of `ASPECTS`.

    It reads the scene of a drawn still from the strip along its lower edge, changes it, and redraws
    the changed parts; all other pixels stay the same. Of other images, in particular photographs,
    it can only change style and light. Equal specifications and requests result in the same image.
    """

    def edit(self, requests: Iterable[EditRequest]) -> Iterator[tuple[int, EditOutcome]]:
        """Yield (position, outcome) of each request, in order, one request at a time."""
        for position, request in enumerate(requests):
            yield position, _edited(request)


def _edited(request: EditRequest) -> EditOutcome:
    started = perf_counter()
    change = read_change(request.instruction)
    if change is None:
        return EditFailure(
            reason="instruction_not_understood",
            detail=f"the instruction {request.instruction!r} is none that the editor understands",
        )
    try:
        with Image.open(io.BytesIO(request.image.data)) as picture:
            image = as_rgb(picture)
        result, regions = edited_image(image, change, request.seed)
    except (OSError, Image.DecompressionBombError) as fault:
        return EditFailure(reason="image_unreadable", detail=f"the image cannot be read: {fault}")
    except UneditableError as fault:
        return EditFailure(reason=fault.reason, detail=str(fault))
    return edited_picture(result, perf_counter() - started, regions)


class UneditableError(Exception):
    """A change is not possible in this image: `reason` is a word, the text a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


# The possible changes: as plain values, in plain English, and by the type of the difference.


class Change(NamedTuple):
    """A change of one aspect: one of `ASPECTS`, which determines the use of the other fields.

    `what` is a kind, its plural for all things of that kind and colour, or a garment.
    """

    aspect: str
    new: str = ""
    old: str = ""
    what: str = ""
    colour: str = ""
    other: str = ""
    other_colour: str = ""


class Aspect(NamedTuple):
    """How a change is worded for the editor and for users: its type, the detail, and the plan."""

    instruction: str
    difference: DifferenceType
    detail: str
    plan: str = "{detail} changes from {old} to {new}."


ASPECTS = TypeAdapter(dict[str, Aspect]).validate_python(TABLES["aspects"])
_PLURALS = {KINDS[kind].plural: kind for kind in THINGS}
_MANNERS = (*STYLES[1:], BLACK_AND_WHITE)
_VALUES: dict[str, dict[str, tuple[str, ...]]] = {
    "colour": {"what": (*THINGS, *_PLURALS, *GARMENTS), "old": tuple(COLOURS),
               "new": tuple(COLOURS)},
    "word": {"old": WORDS, "new": WORDS},
    "kind": {"what": (*THINGS, *_PLURALS), "new": (*THINGS, *_PLURALS)},
    "side": {"what": THINGS, "other": THINGS, "new": ("left", "right")},
    "action": {"old": ACTIONS, "new": ACTIONS},
    "place": {"old": PLACES, "new": PLACES},
    "style": {"new": _MANNERS},
    "light": {"new": ("dim",)},
}  # fmt: skip
"""Allowed values of each field of a change."""


def say_change(change: Change) -> str:
    """Return the sentence that requests a change from the editor."""
    return filled(ASPECTS[change.aspect].instruction, change)


def read_change(sentence: str) -> Change | None:
    """Return the change that a sentence requests; None if it is not understood.

    Case, white space and the full stop do not matter.
    """
    plain = " ".join(sentence.split()).rstrip(". ")
    for aspect, pattern in _patterns().items():
        if found := pattern.fullmatch(plain):
            words = {name: value.lower() for name, value in found.groupdict().items()}
            change = Change(aspect, **words)
            if aspect == "word":
                change = change._replace(old=change.old.upper(), new=change.new.upper())
            if aspect != "kind" or (change.what in _PLURALS) == (change.new in _PLURALS):
                return change
    return None


def filled(form: str, change: Change) -> str:
    """Fill a form of `Aspect` with the words of a change; `{a_new}` has an article if needed."""
    many = change.new in _PLURALS
    words = change._asdict()
    detail = ASPECTS[change.aspect].detail.format(**words)
    return form.format(
        **words,
        detail=detail[0].upper() + detail[1:],
        a_old=with_article(change.old or "?"),
        a_new=change.new if many else with_article(change.new or "?"),
    )


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Return the regular expression for the sentence of each aspect."""
    colours = dict.fromkeys(("colour", "other_colour"), tuple(COLOURS))
    patterns = {}
    for aspect, about in ASPECTS.items():
        form = about.instruction.rstrip(".").replace("{a_new}", "(?:an? )?{new}")
        for name, values in {**colours, **_VALUES[aspect]}.items():
            longest_first = "|".join(sorted(map(re.escape, values), key=len, reverse=True))
            form = form.replace(f"{{{name}}}", f"(?P<{name}>{longest_first})")
        patterns[aspect] = re.compile(form, re.IGNORECASE)
    return patterns


# Changes a scene.

_REACH_PX = 3
"""Margin of a change: ink on the edge of a box, or blurred shades around it in a sketch."""


def changed_scene(scene: Scene, change: Change, seed: int = 0) -> Scene:
    """Return the scene with one thing changed.

    Args:
        scene: the scene of a still.
        change: the change to make.
        seed: determines the random details of a new place.

    Raises:
        UneditableError: the change is not possible.
    """
    match change.aspect:
        case "light":
            raise UneditableError("not_drawable", "the light of a drawing is not changed")
        case "style" if scene.style != STYLES[0] or change.new not in STYLES:
            raise UneditableError(
                "not_drawable", f"a {scene.style} is not drawn as {with_article(change.new)}"
            )
        case "style":
            return scene._replace(style=change.new)
        case "place":
            if scene.place != change.old or change.old == change.new:
                raise UneditableError("nothing_to_change", f"the place is not a {change.old}")
            return scene._replace(place=change.new, seed=seed % 2**16)
        case "kind":
            return _replaced(scene, _concerned(scene, change), change)
        case "side":
            [thing] = _concerned(scene, change)
            return _with(scene, {thing: _moved(scene, thing, change)})
        case _:
            things = _concerned(scene, change)
            return _with(scene, {one: _changed_thing(one, change) for one in things})


def _with(scene: Scene, changed: dict[Thing, Thing]) -> Scene:
    return scene._replace(things=tuple(changed.get(one, one) for one in scene.things))


def _concerned(scene: Scene, change: Change) -> list[Thing]:
    """Return the things that a change applies to.

    Raises:
        UneditableError: there are none, or the change is ambiguous.
    """
    kind = _PLURALS.get(change.what, change.what)
    if change.aspect in ("word", "action"):
        kind = SIGN if change.aspect == "word" else PERSON
        now = [one.word or one.action for one in scene.things if one.kind == kind]
    elif change.what in GARMENTS:
        kind = PERSON
        now = [dict(one.clothes).get(change.what) for one in scene.things if one.kind == kind]
    else:
        now = [one.colour for one in scene.things if one.kind == kind]
    old = change.colour or change.old
    if change.old == change.new or not now or set(now) != {old}:
        raise UneditableError("nothing_to_change", f"there is no {kind} of which {old} is true")
    if len(now) > 1 and change.what not in _PLURALS:
        raise UneditableError("ambiguous", f"there is more than one {kind}")
    return [one for one in scene.things if one.kind == kind]


def _changed_thing(thing: Thing, change: Change) -> Thing:
    """Return the thing with another word, action, or colour."""
    if change.aspect == "word":
        return thing._replace(word=change.new)
    if change.aspect == "action":
        return thing._replace(action=change.new)
    if change.what in GARMENTS:
        worn = {**dict(thing.clothes), change.what: change.new}
        return thing._replace(clothes=tuple(worn.items()))
    return _drawable(thing._replace(colour=change.new))


def _drawable(thing: Thing) -> Thing:
    if thing.colour not in KINDS[thing.kind].colours:
        raise UneditableError("not_drawable", f"a {thing.kind} is not drawn in {thing.colour}")
    return thing


def _replaced(scene: Scene, things: list[Thing], change: Change) -> Scene:
    """Replace things by another kind in their squares, if all relations stay the same."""
    old = things[0].kind
    kind = _PLURALS.get(change.new, change.new)
    if any(one.kind == kind for one in scene.things):
        raise UneditableError("ambiguous", f"there is a {kind} already")
    after = _with(scene, {one: _drawable(one._replace(kind=kind)) for one in things})
    wanted: set[tuple[str, ...]] = set()
    for relation in content_of(scene).relations:
        wanted.add(tuple(kind if word == old else word for word in relation))
    same_relations = set(content_of(after).relations) == wanted
    pairs = combinations([one.box for one in after.things], 2)
    if not same_relations or not all(apart(one, other) for one, other in pairs):
        raise UneditableError("no_room", f"there is no room for a {kind} where the {old} is")
    return after


def _moved(scene: Scene, thing: Thing, change: Change) -> Thing:
    """Move the thing to that side of another one, to the first free position from there."""
    beside = [one for one in scene.things if one.kind == change.other]
    if [one.colour for one in beside] != [change.other_colour]:
        raise UneditableError("nothing_to_change", f"there is not one {change.other}")
    [other] = beside
    pair = (thing.kind, other.kind) if change.new == "left" else (other.kind, thing.kind)
    wanted = (pair[0], "left", pair[1])
    before = content_of(scene).relations
    if wanted in before:
        raise UneditableError("nothing_to_change", f"the {thing.kind} is there already")
    rest: set[tuple[str, str, str]] = set()
    for relation in before:
        if {relation[0], relation[2]} != set(pair):
            rest.add(relation)
    others = tuple(one for one in scene.things if one != thing)
    sign = -1 if change.new == "left" else 1
    for bottom in (other.bottom, thing.bottom, 170, 190, 210, 150):
        for away in range(12, WIDTH_PX, 4):
            start = other.left - thing.side if sign < 0 else other.left + other.side
            new = thing._replace(left=max(0, start + sign * away), bottom=bottom)
            relations = set(content_of(_with(scene, {thing: new})).relations)
            if is_free(new, others) and relations == rest | {wanted}:
                return new
    raise UneditableError("no_room", f"there is no room to the {change.new} of the {other.kind}")


# Changes an image.


def edited_image(
    image: Image.Image, change: Change, seed: int = 0
) -> tuple[Image.Image, tuple[Box, ...]]:
    """Return an RGB image after a change, of the same size, and boxes around the changes.

    Boxes are (left, top, right, bottom) in pixels of the image: those of the changed things, and
    the strip. All pixels outside are unchanged. There are no boxes if the whole image changed.

    Raises:
        UneditableError: the change is not possible.
    """
    scene = read_scene(image)
    if scene is None:
        return _edited_photograph(image, change), ()
    after = changed_scene(scene, change, seed)
    drawn = draw_still(after).resize(image.size, Image.Resampling.BICUBIC)
    if (scene.place, scene.style) != (after.place, after.style):
        return drawn, ()
    across = image.width / WIDTH_PX
    down = image.height / HEIGHT_PX
    result = image.copy()
    boxes: list[Box] = []
    changed = set(scene.things) ^ set(after.things)
    for box in sorted({STRIP_BOX, *(_reached(thing.box) for thing in changed)}):
        left, top, right, bottom = (
            round(edge * scale) for edge, scale in zip(box, (across, down) * 2, strict=True)
        )
        result.paste(drawn.crop((left, top, right, bottom)), (left, top))
        boxes.append((left, top, right, bottom))
    return result, tuple(boxes)


def _reached(box: Box) -> Box:
    """Return the region that drawing a thing in its box may change."""
    left, top, right, bottom = box
    return (
        max(0, left - _REACH_PX),
        max(0, top - _REACH_PX),
        min(WIDTH_PX, right + _REACH_PX),
        min(HEIGHT_PX, bottom + _REACH_PX),
    )


def _edited_photograph(image: Image.Image, change: Change) -> Image.Image:
    if change.aspect == "light":
        dim = np.array((0.34, 0.38, 0.52))
        pixels = 255 * (np.asarray(image, np.float32) / 255) ** 1.15 * dim
        return Image.fromarray(pixels.round().astype(np.uint8))
    if change.aspect != "style":
        raise UneditableError(
            "nothing_read", "of pictures without a scene only the style and the light are changed"
        )
    if change.new == BLACK_AND_WHITE and not is_coloured(image):
        raise UneditableError("nothing_to_change", "the picture has no colours")
    grey = image.convert("L").convert("RGB")
    return in_style(grey if change.new == "pencil sketch" else image, change.new)


def is_coloured(image: Image.Image) -> bool:
    """Whether some part of an RGB image is not grey."""
    return float(np.percentile(np.ptp(np.asarray(image, np.float32), axis=2), 95)) > 24
