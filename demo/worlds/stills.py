"""A world of drawn stills with known contents, in the format of COCO captions.

Each still is about one task of a retrieval benchmark: colours, numbers, positions, people, kinds of
things, actions, places, or signs. Stills form families whose members differ in one detail, because
only near neighbours can be confused. Each contains its scene as a strip of squares, which the
built-in models read (`loupe.demo.stills`).
"""

import io
import json
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import Field

from loupe.demo.stills.drawing import draw_still
from loupe.demo.stills.scene import (
    ACTIONS,
    COLOURS,
    KINDS,
    PERSON,
    PLACES,
    SIGN,
    SIZES,
    STRIP_BOX,
    STYLES,
    THINGS,
    WIDTH_PX,
    WORDS,
    Scene,
    Thing,
    even,
    is_free,
)
from loupe.demo.stills.text import Content, Group, details_of, write
from loupe.schemas.base import Record
from loupe.schemas.taxonomy import RetrievalTask
from loupe.testing import Chance

# A world, and the truth about each of its images.

TRUTH_FILE = "truth.jsonl"
_CAPTIONS_FILE = "captions_test.json"
_IMAGE_ROOT = "images"


class StillTruth(Record):
    """The truth about one still.

    Attributes:
        image_id: as in the annotations, from 1.
        file_name: as in the annotations, under the image root.
        task: the task of the still.
        content: the contents; of relations only the one that the still is about.
        scene: the drawn objects with their positions.
        family: equal for a still and its variants, which differ from it in a detail.
        change: the difference of a variant; None for the first of its family.
        same_caption_as: the `image_id` of an image with the same contents in another layout, so
            that every caption of one is true of the other; None except for planted pairs.
        captions: five true captions.
    """

    image_id: int
    file_name: str
    task: RetrievalTask
    content: Content
    scene: Scene
    family: int
    change: str | None = None
    same_caption_as: int | None = None
    captions: tuple[str, ...] = Field(min_length=5, max_length=5)


class StillsWorld(Record):
    """The location of a world of stills.

    `annotation_file` is in the format of COCO captions; `file_name`s in it are under `image_root`.
    """

    folder: Path
    annotation_file: Path
    image_root: Path


def load_stills_truth(folder: Path) -> tuple[StillTruth, ...]:
    """Load the truth about the stills that were written to `folder`, in the order of their ids."""
    lines = (folder / TRUTH_FILE).read_text("utf-8").splitlines()
    return tuple(StillTruth.model_validate_json(line) for line in lines)


def write_stills_world(
    folder: Path, seed: int = 7, count: int = 400, *, same_caption_pairs: int = 0
) -> StillsWorld:
    """Draw and describe `count` stills, and write them under `folder`.

    The same arguments result in the same bytes (with the same Pillow and NumPy). The first stills
    of a world do not depend on their number.

    Args:
        folder: made if missing; existing files of the same names are overwritten.
        seed: determines the scenes.
        count: number of images; no two have the same contents.
        same_caption_pairs: number of images for which another one is added with the same contents
            in another layout, so that captions of one are true of the other.
    """
    root = folder / _IMAGE_ROOT
    root.mkdir(parents=True, exist_ok=True)
    truths = list(plan_stills(seed, count, same_caption_pairs=same_caption_pairs))
    for truth in truths:
        (root / truth.file_name).write_bytes(jpeg_of(draw_still(truth.scene)))
    lines = "".join(truth.model_dump_json() + "\n" for truth in truths)
    (folder / TRUTH_FILE).write_text(lines, encoding="utf-8")
    coco = json.dumps(_coco(truths), indent=1) + "\n"
    (folder / _CAPTIONS_FILE).write_text(coco, encoding="utf-8")
    return StillsWorld(folder=folder, annotation_file=folder / _CAPTIONS_FILE, image_root=root)


def _coco(truths: list[StillTruth]) -> dict[str, list[dict[str, Any]]]:
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for truth in truths:
        images.append({"id": truth.image_id, "file_name": truth.file_name})
        annotations += [{"image_id": truth.image_id, "caption": text} for text in truth.captions]
    return {"images": images, "annotations": annotations}


def plan_stills(seed: int, count: int, *, same_caption_pairs: int = 0) -> Iterator[StillTruth]:
    """Return the stills of a world, in order; draw them with `drawing.draw_still`."""
    stills: list[StillTruth] = []
    for family, task, content, change in islice(_members(seed), count):
        image_id = len(stills) + 1
        stills.append(
            StillTruth(
                image_id=image_id,
                file_name=f"{image_id:06d}.jpg",
                task=task,
                content=content,
                scene=lay_out(content, Chance("layout", seed, image_id)),
                family=family,
                change=change,
                captions=captions_of(content, seed),
            )
        )
        yield stills[-1]
    for place in range(same_caption_pairs):
        original = stills[place * count // same_caption_pairs]
        image_id = count + 1 + place
        update = {
            "image_id": image_id,
            "file_name": f"{image_id:06d}.jpg",
            "scene": lay_out(original.content, Chance("layout", seed, image_id)),
            "change": "layout",
            "same_caption_as": original.image_id,
        }
        yield original.model_copy(update=update)


def jpeg_of(picture: Image.Image) -> bytes:
    """Encode the image as it is written, with full colour resolution."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=92, subsampling=0)
    return buffer.getvalue()


def captions_of(content: Content, seed: int) -> tuple[str, ...]:
    """Return five different captions, each true and complete, in different styles."""
    everything = details_of(content)
    turned = bool(content.relations) and content.relations[0][0] != content.groups[0].kind
    plain = [detail for detail in everything if detail[0] != "style"]
    texts = [*write(content, plain, turned=turned), write(content, everything, turned=turned)[0]]
    return tuple(Chance(seed, "captions", *texts).shuffled(texts)[:5])


# The contents of stills: scenes about a task, and variants that differ in one detail.

_TASKS: dict[RetrievalTask, str] = {
    RetrievalTask.COLOR: "colour",
    RetrievalTask.COUNT: "count",
    RetrievalTask.LOCATION: "relation",
    RetrievalTask.FIGURE: "clothes",
    RetrievalTask.OBJECT: "kind",
    RetrievalTask.ACTION: "action",
    RetrievalTask.SCENE: "place",
    RetrievalTask.OCR: "sign",
}
"""The main differences of variants of the stills of a task."""

TASKS = tuple(_TASKS)
"""The tasks that stills are drawn for."""

_STYLE_SHARES = dict(zip(STYLES, (0.84, 0.08, 0.08), strict=True))
_STANDING = tuple(kind for kind in THINGS if not KINDS[kind].flies)
_SUPPORTS = ("box", "car", "house")
_ABOVE = ("bird", "kite", "ball", "umbrella")
_MOST_OF_ONE = 6
_MOST_OF_TWO = 4

_GROUPS: dict[RetrievalTask, tuple[int, ...]] = {
    RetrievalTask.COLOR: (2, 2, 3),
    RetrievalTask.OBJECT: (2, 2, 3),
    RetrievalTask.COUNT: (1, 2),
    RetrievalTask.FIGURE: (0, 1),
}


def _members(seed: int) -> Iterator[tuple[int, RetrievalTask, Content, str | None]]:
    """Yield (family, task, content, difference from the first) without end or repetition.

    The tasks alternate.
    """
    seen: set[Content] = set()
    for number, task in enumerate(cycle(TASKS)):
        chance = Chance(seed, "family", number)
        first = compose(chance, task)
        while first in seen:
            first = compose(chance, task)
        seen.add(first)
        yield number, task, first, None
        for _ in range(chance.weigh({1: 0.6, 2: 0.4})):
            content, change = vary(chance, first, task)
            while content in seen:
                content, change = vary(chance, first, task)
            seen.add(content)
            yield number, task, content, change


def compose(chance: Chance, task: RetrievalTask) -> Content:
    """Return contents about `task`."""
    style = chance.weigh(_STYLE_SHARES)
    content = Content(place=chance.pick(PLACES), style=style)
    if task is RetrievalTask.LOCATION:
        return _located(chance, content)
    count = chance.pick(_GROUPS.get(task, (1,)))
    groups = [_group(chance, kind) for kind in chance.shuffled(THINGS)[:count]]
    if task is RetrievalTask.COUNT:
        most = _MOST_OF_ONE if len(groups) == 1 else _MOST_OF_TWO
        numbers = [chance.whole(2 - place, most) for place in range(len(groups))]
        groups = [one._replace(number=number) for one, number in zip(groups, numbers, strict=True)]
    if task is RetrievalTask.OBJECT:
        groups = [one._replace(size=chance.pick(("small", None, "large"))) for one in groups]
    if task is RetrievalTask.OCR:
        groups = [Group(SIGN, None, 1), *groups]
        content = content._replace(word=chance.pick(WORDS))
    if task in (RetrievalTask.FIGURE, RetrievalTask.ACTION):
        groups = [*groups, Group(PERSON, None, 1)]
        acts = task is RetrievalTask.ACTION
        shirt, trousers, hat = chance.shuffled(tuple(COLOURS))[:3]
        action = chance.pick(ACTIONS[1:]) if acts else ACTIONS[0]
        clothes = [("shirt", shirt), ("trousers", trousers)]
        if chance.happens(0.4):
            clothes.append(("hat", hat))
        content = content._replace(action=action, clothes=tuple(clothes))
    return content._replace(groups=tuple(groups))


def _located(chance: Chance, content: Content) -> Content:
    relation = chance.pick(("left", "right", "above", "on"))
    upper = {"above": _ABOVE}.get(relation, _STANDING)
    lower = {"on": _SUPPORTS}.get(relation, _STANDING)
    one = chance.pick(upper)
    two = chance.pick([kind for kind in lower if kind != one])
    groups = (_group(chance, one), _group(chance, two))
    related = (two, "left", one) if relation == "right" else (one, relation, two)
    return content._replace(groups=groups, relations=(related,))


def _group(chance: Chance, kind: str) -> Group:
    return Group(kind, chance.pick(KINDS[kind].colours), 1)


def vary(chance: Chance, content: Content, task: RetrievalTask) -> tuple[Content, str]:
    """Return contents that differ in one detail, and that detail: preferably that of the task."""
    coloured = [place for place, group in enumerate(content.groups) if group.colour]
    change = chance.weigh({"place": 0.7, "colour": 0.7 * bool(coloured), _TASKS[task]: 3.0})

    def another(options: Iterable[str], *taken: str | None) -> str:
        return _another(chance, options, *taken)

    if change in ("colour", "count", "kind"):
        groups = list(content.groups)
        place = chance.pick(coloured)
        groups[place] = _varied_group(chance, content, groups[place], change)
        return content._replace(groups=tuple(groups)), change
    if change == "relation":
        one, relation, two = content.relations[0]
        if relation == "left" or chance.happens(0.5):
            one, two = two, one
        return content._replace(relations=((one, "left", two),)), change
    if change == "clothes":
        worn = dict(content.clothes)
        garment = chance.pick(tuple(worn))
        worn[garment] = another(COLOURS, *worn.values())
        return content._replace(clothes=tuple(worn.items())), change
    if change == "action":
        return content._replace(action=another(ACTIONS, content.action)), change
    if change == "sign":
        return content._replace(word=another(WORDS, content.word)), change
    return content._replace(place=another(PLACES, content.place)), change


def _another(chance: Chance, options: Iterable[str], *taken: str | None) -> str:
    """Pick one of `options` that is not taken."""
    return chance.pick([option for option in options if option not in taken])


def _varied_group(chance: Chance, content: Content, group: Group, change: str) -> Group:
    """Return a group of the content with another colour, count or kind."""
    if change == "colour":
        colours = KINDS[group.kind].colours
        return group._replace(colour=_another(chance, colours, group.colour))
    if change == "count":
        most = _MOST_OF_ONE if len(content.groups) == 1 else _MOST_OF_TWO
        near = [(group.number or 1) + step for step in (-2, -1, 1, 2)]
        return group._replace(number=chance.pick([n for n in near if 1 <= n <= most]))
    fitting = [kind for kind in THINGS if group.colour in KINDS[kind].colours]
    there = [one.kind for one in content.groups]
    return group._replace(kind=_another(chance, fitting, *there))


# The layout of a still, in which nothing hides anything else.

_SIDE_PX = dict(zip((*SIZES, PERSON, SIGN), (40, 58, 92, 112, 84), strict=True))
_TRIES = 60


def lay_out(content: Content, chance: Chance) -> Scene:
    """Lay out the contents; in a crowded scene, all things are slightly smaller."""
    seed = chance.whole(0, 2**16 - 1)
    scale = 1.0
    while True:
        for _ in range(_TRIES):
            things = _placed(content, chance, scale)
            if things is not None:
                return Scene(content.place or PLACES[0], content.style or STYLES[0], seed, things)
        scale *= 0.93


def _placed(content: Content, chance: Chance, scale: float) -> tuple[Thing, ...] | None:
    """Place all things, in the order of their groups; None if there is no space for one."""
    groups = content.groups
    things: list[Thing] = []
    if content.relations:
        things += _pair(content, chance, scale)
        if not all(is_free(thing, (), edge=8) for thing in things):
            return None
    for group in groups[len(things) :]:
        for _ in range(group.number or 1):
            free = (_somewhere(content, group, chance, scale) for _ in range(_TRIES // 3))
            thing = next((one for one in free if is_free(one, tuple(things), 5, 8)), None)
            if thing is None:
                return None
            things.append(thing)
    return tuple(things)


def _thing(content: Content, group: Group, chance: Chance, scale: float) -> Thing:
    """Return a thing of a group, without a position."""
    size = group.size or "medium"
    name = group.kind if group.kind in _SIDE_PX else size
    thing = Thing(group.kind, group.colour, 0, 0, even(_SIDE_PX[name] * scale), size)
    if group.kind == SIGN:
        return thing._replace(word=content.word)
    if group.kind == PERSON:
        thing = thing._replace(action=content.action, clothes=content.clothes)
    return thing._replace(turned=chance.happens(0.5))


def _somewhere(content: Content, group: Group, chance: Chance, scale: float) -> Thing:
    thing = _thing(content, group, chance, scale)
    highest = 140.0
    lowest = STRIP_BOX[1] - 8
    if KINDS[group.kind].flies:
        highest = thing.side
        lowest = 110
    left = chance.between(0, WIDTH_PX - thing.side)
    bottom = chance.between(highest, lowest)
    return thing._replace(left=even(left), bottom=even(bottom))


def _pair(content: Content, chance: Chance, scale: float) -> tuple[Thing, Thing]:
    """Place two things with the relation between them, in the order of their groups."""
    first, second = (_thing(content, group, chance, scale) for group in content.groups)
    [(kind, relation, _)] = content.relations
    one, two = (first, second) if first.kind == kind else (second, first)
    floor = chance.between(150, STRIP_BOX[1] - 8)
    start = chance.between(0, WIDTH_PX - one.side - two.side)
    if relation == "left":
        one = one._replace(left=even(start), bottom=even(floor))
        between = start + one.side + chance.between(16, 60)
        two = two._replace(left=even(between), bottom=even(floor + chance.between(-6, 6)))
    else:
        gap = 2 if relation == "on" else chance.between(22, 46)
        middle = start + one.side
        two = two._replace(left=even(middle - two.side / 2), bottom=even(floor))
        one = one._replace(left=even(middle - one.side / 2), bottom=even(two.box[1] - gap))
    return (one, two) if first.kind == kind else (two, one)
