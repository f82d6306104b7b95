"""The figure of a person, part by part, from the back of the picture to the front."""

import math
from collections.abc import Callable
from functools import partial

from sources.demonstration.colours import CLOTH, HAIR, SKIN
from sources.demonstration.fabrics import cloth, plain
from sources.demonstration.people import Person, Side
from sources.demonstration.poses import Limb, Point, Pose, Skeleton
from sources.demonstration.strokes import Flat, Layer

_PITCH = 0.13


class Figure:
    """Paints one person on a layer."""

    def __init__(self, person: Person, pose: Pose, layer: Layer) -> None:
        self.person, self.pose, self.layer = person, pose, layer
        self.bones = Skeleton(person, pose)
        self.cosine = math.cos(math.radians(pose.yaw_degrees))
        self.sine = math.sin(math.radians(pose.yaw_degrees))

    def seen(self, point: Point) -> Flat:
        """Where a point of the person's frame lies in the picture, in metres."""
        return (
            float(point[0] * self.cosine + point[2] * self.sine),
            float(point[1] - _PITCH * self.depth(point)),
        )

    def depth(self, point: Point) -> float:
        """How near a point is to us, in metres from the middle of the person."""
        return float(point[2] * self.cosine - point[0] * self.sine)

    def paint(self) -> None:
        """Paints all parts, the farthest first."""
        parts: list[tuple[float, Callable[[], None]]] = [(0.0, self._torso), (0.01, self._head)]
        for side in Side:
            leg, arm = self.bones.legs[side], self.bones.arms[side]
            parts.append((-1 + self.depth(leg.middle), partial(self._leg, leg, side)))
            parts.append((self.depth(arm.root) * 2 + 0.02, partial(self._arm, arm)))
        for _, paint in sorted(parts, key=lambda part: part[0]):
            paint()

    def _leg(self, leg: Limb, side: Side) -> None:
        points = [self.seen(leg.root), self.seen(leg.middle), self.seen(leg.end)]
        lower = self.person.lower or self.person.upper
        self.layer.paint(
            self.layer.tube([points[2], self.seen(self.bones.toes[side])], [0.045, 0.04]),
            plain(CLOTH[self.person.footwear.colour]),
        )
        self.layer.paint(self.layer.tube(points, [0.09, 0.065, 0.05]), cloth(lower))

    def _arm(self, arm: Limb) -> None:
        points = [self.seen(arm.root), self.seen(arm.middle), self.seen(arm.end)]
        self.layer.paint(self.layer.disc(points[2], 0.04, 0.045), plain(SKIN[self.person.skin]))
        self.layer.paint(self.layer.tube(points, [0.06, 0.05, 0.04]), cloth(self.person.upper))

    def _torso(self) -> None:
        half = self.bones.shoulder_half * max(0.62, abs(self.cosine))
        x, y = self.seen(self.bones.pelvis)
        self.layer.paint(
            self.layer.body(
                [
                    (y + 0.58, x - half * 0.5, x + half * 0.5),
                    (y + 0.5, x - half, x + half),
                    (y + 0.2, x - half * 0.85, x + half * 0.85),
                    (y - 0.06, x - half, x + half),
                ]
            ),
            cloth(self.person.upper),
        )

    def _head(self) -> None:
        x, y = self.seen(self.bones.head)
        self.layer.paint(self.layer.disc((x, y), 0.085, 0.12), plain(HAIR[self.person.hair.colour]))
        if self.cosine > -0.3:
            self.layer.paint(
                self.layer.disc((x + 0.03 * self.sine, y - 0.02), 0.07, 0.1),
                plain(SKIN[self.person.skin]),
            )
