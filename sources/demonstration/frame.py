"""A posed person in front of the camera: where each point of the body falls in the picture."""

import math

import numpy as np

from sources.demonstration.people import Person, Side
from sources.demonstration.poses import Limb, Point, Pose, Skeleton
from sources.demonstration.strokes import Field, Flat, Layer, Surface

CAMERA_PITCH = 0.13
"""How much lower, per metre, a nearer point appears: the camera looks down a little."""

Rows = list[tuple[float, float, float]]


class Frame:
    """Projects a person's frame onto a layer; every painter of a part works with one."""

    def __init__(self, person: Person, pose: Pose, layer: Layer) -> None:
        self.person, self.pose, self.layer = person, pose, layer
        self.bones = Skeleton(person, pose)
        self.yaw = math.radians(pose.yaw_degrees)
        self.cosine, self.sine = math.cos(self.yaw), math.sin(self.yaw)

    def seen(self, point: Point) -> Flat:
        """Where a point of the person's frame lies in the picture, in metres."""
        x = float(point[0] * self.cosine + point[2] * self.sine)
        return x, float(point[1] - CAMERA_PITCH * self.depth(point))

    def at(self, left: float, up: float, forward: float) -> Flat:
        """Like `seen`, for a point given by its coordinates, carried along by the pelvis."""
        return self.seen(np.array([left, up + self.drop, forward]))

    def depth(self, point: Point) -> float:
        """How near a point is to us, in metres from the middle of the person."""
        return float(point[2] * self.cosine - point[0] * self.sine)

    @property
    def drop(self) -> float:
        """How far the stride has lowered the pelvis, in metres (negative: lower)."""
        return float(self.bones.drop)

    def is_far(self, side: Side) -> bool:
        """True where the side of the person is turned away from us."""
        return self.sine * (1 if side is Side.LEFT else -1) > 0.5

    def half(self, width: float, depth: float) -> float:
        """Half of what is seen of an upright elliptic cylinder."""
        return math.hypot(width * self.cosine, depth * self.sine)

    def azimuth(self, surface: Surface) -> Field:
        """Where on a body that turns with the person a pixel lies, in radians.

        0 is straight ahead of the person, positive to their left, ±π their back.
        """
        angle = surface.angle - self.yaw + math.pi
        return np.asarray(angle % (2 * math.pi) - math.pi, np.float32)

    def limb(self, limb: Limb) -> list[Flat]:
        """The three joints in the picture."""
        return [self.seen(limb.root), self.seen(limb.middle), self.seen(limb.end)]


def between(start: Flat, end: Flat, share: float) -> Flat:
    """The point that lies `share` of the way from `start` to `end`."""
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])
