"""Where things stand in a picture, so that none hides another."""

import math
from typing import NamedTuple

from models.builtin.drawing.figures import POSTURES
from models.builtin.drawing.styles import LINE_PX
from models.builtin.drawing.vocabulary import KINDS
from sources.demonstration.chance import Chance
from sources.demonstration.stills.scene import Scene
from sources.demonstration.stills.vocabulary import Relation, Size

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
