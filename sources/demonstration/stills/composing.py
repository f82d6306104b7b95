"""Composes stills: what is in them, where it stands, and how they are rendered."""

import math
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import cycle
from typing import NamedTuple

from PIL import Image
from pydantic import Field

from models.builtin.drawing.pen import Pen, put_inked
from models.builtin.drawing.people_and_signs import POSTURES, Figure, paint_figure, paint_sign
from models.builtin.drawing.places import draw_place
from models.builtin.drawing.styles import LINE_PX, in_style
from models.builtin.drawing.things import PAINTERS
from models.builtin.drawing.vocabulary import COLOURS, HAIR, KINDS, SKIN, Action, Place, Style
from schemas.base import Record
from schemas.retrieval_task import RetrievalTask
from sources.demonstration.people import Chance

# What stills are made of beside what is drawn: sizes, relations, phrases, words on signs.

PLACE_PHRASES: dict[Place, tuple[str, ...]] = {
    Place.BEACH: ("on a beach", "at the beach"),
    Place.PARK: ("in a park", "in the park"),
    Place.STREET: ("on a street", "in the street"),
    Place.KITCHEN: ("in a kitchen", "in the kitchen"),
    Place.DESERT: ("in a desert", "in the desert"),
    Place.SNOW: ("in the snow", "in a snowy landscape"),
    Place.HARBOUR: ("in a harbour", "at the harbour"),
    Place.NIGHT_CITY: ("in a city at night", "in a night city"),
}
"""How each place is said after what is there; the first is the plainest."""


class Size(StrEnum):
    """How large a thing is in its picture."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


class Relation(StrEnum):
    """How the first of two things lies to the second."""

    LEFT = "to the left of"
    RIGHT = "to the right of"
    ABOVE = "above"
    ON = "on"


WORDS = (
    "OPEN", "SALE", "CAFE", "HOTEL", "STOP", "EXIT", "PIZZA", "BOOKS", "BAKERY", "MUSEUM", "TAXI",
    "BANK", "SCHOOL", "MARKET", "GARDEN", "MUSIC", "FRESH", "ICE", "TEA", "PARK", "LUNCH", "FERRY",
)  # fmt: skip
"""What a sign may say."""


# A scene as a plain value: what is there, where, in which style, before anything is drawn.


class Group(Record):
    """Things of one kind, colour and size."""

    kind: str
    colour: str
    count: int = Field(default=1, ge=1, le=6)
    size: Size = Size.MEDIUM


class Scene(Record):
    """What a still shows. `relation` is how the first group lies to the second.

    `sign` is the word on a signboard, None where there is no sign.
    """

    task: RetrievalTask
    place: Place
    style: Style = Style.FLAT
    groups: tuple[Group, ...] = ()
    figure: Figure | None = None
    relation: Relation | None = None
    sign: str | None = None

    def key(self) -> str:
        """What can be said of the scene: equal for scenes that the same words describe."""
        groups = sorted(group.model_dump_json() for group in self.groups)
        if self.relation is not None:
            groups = [group.model_dump_json() for group in self.groups]
        return self.model_dump_json(exclude={"task", "groups"}) + "".join(groups)


# Where things are in a picture, so that none hides another.

WIDTH_PX, HEIGHT_PX = 320, 240
_BODY_PX = {Size.SMALL: 38.0, Size.MEDIUM: 56.0, Size.LARGE: 90.0}
_FIGURE_PX = 112.0
_SIGN_PX = 42.0
_GAP_PX = 5.0
_EDGE_PX = 8.0
_ON_GAP_PX = 3.0
_SHRINK = 0.93
_TRIES = 60


class Placed(NamedTuple):
    """A box in pixels of the picture; `group` counts the scene's groups, -1 figure, -2 sign."""

    group: int
    left: float
    top: float
    width: float
    height: float


FIGURE, SIGN = -1, -2


def place_things(chance: Chance, scene: Scene) -> list[Placed]:
    """A box for every thing of the scene; where it is crowded, all are drawn a little smaller."""
    scale = 1.0
    while True:
        for _ in range(_TRIES):
            placed = _attempt(chance, scene, scale)
            if placed is not None:
                return placed
        scale *= _SHRINK


def _attempt(chance: Chance, scene: Scene, scale: float) -> list[Placed] | None:
    placed = list(_related(chance, scene, scale)) if scene.relation else []
    gap = _GAP_PX + 2 * LINE_PX[scene.style]
    wanted: list[tuple[int, float, float, bool]] = []
    if scene.sign:
        high = _SIGN_PX * max(scale, 0.8)
        wanted.append((SIGN, high * (0.5 + 0.58 * len(scene.sign)), high * 1.7, False))
    if scene.figure:
        posture = POSTURES[scene.figure.action]
        high = _FIGURE_PX * scale / posture.unit
        wanted.append((FIGURE, high * posture.aspect, high, False))
    for index, group in enumerate(scene.groups[2 if scene.relation else 0 :]):
        width, height = _extent(scene, index + (2 if scene.relation else 0), scale)
        flies = KINDS[group.kind].flies
        wanted += [(index + (2 if scene.relation else 0), width, height, flies)] * group.count
    for index, width, height, flies in wanted:
        box = _somewhere(chance, index, width, height, placed, flies=flies, gap=gap)
        if box is None:
            return None
        placed.append(box)
    return placed if all(_inside(box) for box in placed) else None


def _extent(scene: Scene, index: int, scale: float) -> tuple[float, float]:
    """Width and height of a thing of the group: of equal area for all kinds of a size."""
    group = scene.groups[index]
    side = _BODY_PX[group.size] * scale
    root = math.sqrt(KINDS[group.kind].aspect)
    return side * root, side / root


def _related(chance: Chance, scene: Scene, scale: float) -> tuple[Placed, Placed]:
    (w0, h0), (w1, h1) = _extent(scene, 0, scale), _extent(scene, 1, scale)
    if scene.relation in (Relation.LEFT, Relation.RIGHT):
        between = chance.between(24, 70)
        start = chance.between(_EDGE_PX, max(_EDGE_PX + 1, WIDTH_PX - w0 - w1 - between))
        floor = chance.between(150, 222)
        first, second = start, start + w0 + between
        if scene.relation is Relation.RIGHT:
            first, second = start + w1 + between, start
        lift = chance.between(-6, 6)
        return (
            Placed(0, first, floor - h0, w0, h0),
            Placed(1, second, floor + lift - h1, w1, h1),
        )
    middle, floor = chance.between(70, 250), chance.between(195, 230)
    touching = _ON_GAP_PX + 2 * LINE_PX[scene.style]
    apart = touching if scene.relation is Relation.ON else chance.between(22, 46)
    low = floor - h1
    return (
        Placed(0, middle - w0 / 2, low - apart - h0, w0, h0),
        Placed(1, middle - w1 / 2, low, w1, h1),
    )


def _somewhere(
    chance: Chance,
    index: int,
    width: float,
    height: float,
    placed: list[Placed],
    *,
    flies: bool,
    gap: float,
) -> Placed | None:
    for _ in range(_TRIES // 3):
        left = chance.between(_EDGE_PX, WIDTH_PX - _EDGE_PX - width)
        bottom = chance.between(height + _EDGE_PX, 125) if flies else chance.between(140, 232)
        box = Placed(index, left, bottom - height, width, height)
        if _inside(box) and all(_apart(box, other, gap) for other in placed):
            return box
    return None


def _inside(box: Placed) -> bool:
    return (
        box.left >= _EDGE_PX - 1
        and box.top >= _EDGE_PX - 1
        and box.left + box.width <= WIDTH_PX - _EDGE_PX + 1
        and box.top + box.height <= HEIGHT_PX - _EDGE_PX + 1
    )


def _apart(one: Placed, other: Placed, gap: float) -> bool:
    return (
        one.left > other.left + other.width + gap
        or other.left > one.left + one.width + gap
        or one.top > other.top + other.height + gap
        or other.top > one.top + one.height + gap
    )


# A scene made visible: the place, then each thing with a line of ink around it, then the style.


class Rendering(NamedTuple):
    """The picture (RGB, 320 × 240), and where each thing is in it, in the order of drawing."""

    picture: Image.Image
    placed: list[Placed]


def render_still(scene: Scene, layout_seed: int) -> Rendering:
    """Draws a scene; another `layout_seed` puts the same things elsewhere."""
    chance = Chance("stills", layout_seed)
    canvas = draw_place(chance, scene.place, (WIDTH_PX, HEIGHT_PX))
    placed = place_things(chance, scene)
    line_px = LINE_PX[scene.style]
    for box in sorted(placed, key=lambda box: box.top + box.height):
        put_inked(canvas, _drawn(chance, scene, box), (box.left, box.top), line_px)
    return Rendering(in_style(canvas, scene.style, chance), placed)


def _drawn(chance: Chance, scene: Scene, box: Placed) -> Image.Image:
    """The thing alone, on a transparent sheet, `FINE` times finer than the picture."""
    pen = Pen(box.width, box.height)
    if box.group == SIGN:
        paint_sign(pen, scene.sign or "")
        return pen.sheet
    if box.group == FIGURE:
        if scene.figure is not None:
            paint_figure(pen, scene.figure)
        return pen.sheet
    group = scene.groups[box.group]
    PAINTERS[group.kind](pen, COLOURS[group.colour])
    if chance.happens(0.5) and group.kind not in ("book", "clock"):
        return pen.sheet.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return pen.sheet


# Draws scenes that are about a task, and variants of them that differ in a detail or two.

TASKS = (
    RetrievalTask.COLOR,
    RetrievalTask.COUNT,
    RetrievalTask.LOCATION,
    RetrievalTask.FIGURE,
    RetrievalTask.OBJECT,
    RetrievalTask.ACTION,
    RetrievalTask.SCENE,
    RetrievalTask.OCR,
)
"""The tasks that stills are drawn for."""

_STYLES = {Style.FLAT: 0.79, Style.SKETCH: 0.07, Style.POSTER: 0.07, Style.MOSAIC: 0.07}
_SUPPORTS = ("box", "chair", "car", "book", "house")
_FAMILY = {2: 0.6, 3: 0.4}
_STANDING = tuple(kind for kind in KINDS if not KINDS[kind].flies)


def families(seed: int) -> Iterator[list[tuple[Scene, str | None]]]:
    """Families without end, no scene twice: (scene, what differs from the first of its family).

    What differs is None for the first. The tasks take turns.
    """
    seen: set[str] = set()
    for number, task in enumerate(cycle(TASKS)):
        chance = Chance(seed, "family", number)
        first = _fresh(chance, task, seen)
        family: list[tuple[Scene, str | None]] = [(first, None)]
        for _ in range(chance.weigh(_FAMILY) - 1):
            while True:
                scene, change = vary(chance, first)
                if scene.key() not in seen:
                    break
            seen.add(scene.key())
            family.append((scene, change))
        yield family


def _fresh(chance: Chance, task: RetrievalTask, seen: set[str]) -> Scene:
    while True:
        scene = compose(chance, task)
        if scene.key() not in seen:
            seen.add(scene.key())
            return scene


def compose(chance: Chance, task: RetrievalTask) -> Scene:
    """A scene that is about `task`."""
    style = chance.weigh(_STYLES)
    if task in (RetrievalTask.OCR, RetrievalTask.LOCATION) and style is Style.MOSAIC:
        style = Style.FLAT
    scene = Scene(task=task, place=chance.pick(tuple(Place)), style=style)
    return scene.model_copy(update=_CONTENTS[task](chance))


def _coloured(chance: Chance) -> dict[str, object]:
    return {"groups": _groups(chance, chance.pick((2, 2, 3)))}


def _counted(chance: Chance) -> dict[str, object]:
    first = _groups(chance, chance.pick((1, 2)))
    highest = 6 if len(first) == 1 else 4
    counted = tuple(
        group.model_copy(update={"count": chance.whole(2 if not place else 1, highest)})
        for place, group in enumerate(first)
    )
    return {"groups": counted}


def _located(chance: Chance) -> dict[str, object]:
    relation = chance.pick(tuple(Relation))
    one, two = _groups(chance, 2, kinds=_STANDING)
    if relation is Relation.ON:
        two = two.model_copy(update={"kind": chance.pick(_SUPPORTS)})
        two = two.model_copy(update={"colour": chance.pick(KINDS[two.kind].colours)})
        if one.kind == two.kind:
            one = _group(chance, "cat")
    if relation is Relation.ABOVE:
        one = _group(chance, chance.pick(("bird", "kite", "ball", "clock", "umbrella")))
        if one.kind == two.kind:
            two = _group(chance, "dog")
    return {"groups": (one, two), "relation": relation}


def _with_figure(chance: Chance, action: Action, things: int) -> dict[str, object]:
    return {"figure": _figure(chance, action), "groups": _groups(chance, things)}


def _seen_figure(chance: Chance) -> dict[str, object]:
    return _with_figure(chance, Action.STANDING, chance.pick((0, 1)))


def _acting(chance: Chance) -> dict[str, object]:
    actions = [action for action in Action if action is not Action.STANDING]
    return _with_figure(chance, chance.pick(actions), 1)


def _of_objects(chance: Chance) -> dict[str, object]:
    groups = _groups(chance, chance.pick((2, 3)))
    sized = (
        group.model_copy(update={"size": chance.pick((Size.SMALL, Size.MEDIUM, Size.LARGE))})
        for group in groups
    )
    return {"groups": tuple(sized)}


def _of_a_place(chance: Chance) -> dict[str, object]:
    return {"groups": _groups(chance, 1)}


def _signed(chance: Chance) -> dict[str, object]:
    return {"sign": chance.pick(WORDS), "groups": _groups(chance, 1)}


_CONTENTS: dict[RetrievalTask, Callable[[Chance], dict[str, object]]] = {
    RetrievalTask.COLOR: _coloured,
    RetrievalTask.COUNT: _counted,
    RetrievalTask.LOCATION: _located,
    RetrievalTask.FIGURE: _seen_figure,
    RetrievalTask.OBJECT: _of_objects,
    RetrievalTask.ACTION: _acting,
    RetrievalTask.SCENE: _of_a_place,
    RetrievalTask.OCR: _signed,
}


def _groups(chance: Chance, count: int, kinds: tuple[str, ...] = tuple(KINDS)) -> tuple[Group, ...]:
    """Single things of different kinds."""
    return tuple(_group(chance, kind) for kind in chance.shuffled(kinds)[:count])


def _group(chance: Chance, kind: str) -> Group:
    return Group(kind=kind, colour=chance.pick(KINDS[kind].colours))


def _figure(chance: Chance, action: Action) -> Figure:
    shirt, trousers, hat = chance.shuffled(tuple(COLOURS))[:3]
    return Figure(
        action=action,
        shirt=shirt,
        trousers=trousers,
        hat=hat if chance.happens(0.4) else None,
        hair=chance.pick(tuple(HAIR)),
        skin=chance.pick(tuple(SKIN)),
    )


def vary(chance: Chance, scene: Scene) -> tuple[Scene, str]:
    """A scene like another but for a detail or two, and which of these it is."""
    change = chance.weigh(_changes(scene))
    return scene.model_copy(update=_CHANGERS[change](chance, scene)), change


def _changes(scene: Scene) -> dict[str, float]:
    """What may change: what the scene's task is about, above all."""
    about = {
        RetrievalTask.COLOR: "colour", RetrievalTask.COUNT: "count",
        RetrievalTask.LOCATION: "relation", RetrievalTask.FIGURE: "clothes",
        RetrievalTask.OBJECT: "kind", RetrievalTask.ACTION: "action",
        RetrievalTask.SCENE: "place", RetrievalTask.OCR: "sign",
    }[scene.task]  # fmt: skip
    changes = {about: 3.0, "place": 0.7}
    if scene.groups:
        changes |= {"colour": max(0.7, changes.get("colour", 0.0))}
    return changes


def _other_colour(chance: Chance, scene: Scene) -> dict[str, object]:
    def change(group: Group) -> Group:
        others = [colour for colour in KINDS[group.kind].colours if colour != group.colour]
        return group.model_copy(update={"colour": chance.pick(others)})

    return {"groups": _one_changed(chance, scene, change)}


def _other_count(chance: Chance, scene: Scene) -> dict[str, object]:
    def change(group: Group) -> Group:
        highest = 6 if len(scene.groups) == 1 else 4
        near = [group.count + step for step in (-2, -1, 1, 2)]
        return group.model_copy(
            update={"count": chance.pick([count for count in near if 1 <= count <= highest])}
        )

    return {"groups": _one_changed(chance, scene, change)}


def _other_kind(chance: Chance, scene: Scene) -> dict[str, object]:
    taken = {group.kind for group in scene.groups}

    def change(group: Group) -> Group:
        fitting = [
            kind for kind in KINDS if kind not in taken and group.colour in KINDS[kind].colours
        ]
        return group.model_copy(update={"kind": chance.pick(fitting)})

    return {"groups": _one_changed(chance, scene, change)}


def _other_relation(chance: Chance, scene: Scene) -> dict[str, object]:
    opposite = {Relation.LEFT: Relation.RIGHT, Relation.RIGHT: Relation.LEFT}
    if scene.relation in opposite:
        return {"relation": opposite[scene.relation]}
    return {"relation": chance.pick((Relation.LEFT, Relation.RIGHT))}


def _other_clothes(chance: Chance, scene: Scene) -> dict[str, object]:
    if scene.figure is None:
        return _other_place(chance, scene)
    part = chance.pick(("shirt", "trousers", "hat"))
    worn = {scene.figure.shirt, scene.figure.trousers, scene.figure.hat}
    colour = chance.pick([colour for colour in COLOURS if colour not in worn])
    return {"figure": scene.figure.model_copy(update={part: colour})}


def _other_action(chance: Chance, scene: Scene) -> dict[str, object]:
    if scene.figure is None:
        return _other_place(chance, scene)
    others = [action for action in Action if action is not scene.figure.action]
    return {"figure": scene.figure.model_copy(update={"action": chance.pick(others)})}


def _other_place(chance: Chance, scene: Scene) -> dict[str, object]:
    return {"place": chance.pick([place for place in Place if place is not scene.place])}


def _other_sign(chance: Chance, scene: Scene) -> dict[str, object]:
    return {"sign": chance.pick([word for word in WORDS if word != scene.sign])}


def _one_changed(
    chance: Chance, scene: Scene, change: Callable[[Group], Group]
) -> tuple[Group, ...]:
    place = chance.whole(0, len(scene.groups) - 1)
    return tuple(
        change(group) if index == place else group for index, group in enumerate(scene.groups)
    )


_CHANGERS: dict[str, Callable[[Chance, Scene], dict[str, object]]] = {
    "colour": _other_colour,
    "count": _other_count,
    "kind": _other_kind,
    "relation": _other_relation,
    "clothes": _other_clothes,
    "action": _other_action,
    "place": _other_place,
    "sign": _other_sign,
}
