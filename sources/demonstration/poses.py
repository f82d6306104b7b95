"""Poses of a walking or standing person, and the frame that a person is drawn in."""

import math
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from schemas.base import Record
from sources.demonstration.layer import Flat, Layer
from sources.demonstration.people import Age, Build, Carried, Chance, Person, Sex, Side

# Poses: which way a person is turned and what they do, as joint positions in metres.

Point = NDArray[np.float64]
"""A point in the person's frame, in metres: (to the person's left, up, forward)."""

LEFT, RIGHT = 1.0, -1.0


class Action(StrEnum):
    """What a person does in an image."""

    WALKING = "walking"
    STANDING = "standing"
    PHONE = "looking at a phone"
    CALL = "talking on the phone"


class View(StrEnum):
    """The side of the person that we see."""

    FRONT = "front"
    BACK = "back"
    LEFT = "left"
    RIGHT = "right"


class Pose(Record):
    """A moment of an action.

    `yaw_degrees` is 0 for somebody who faces us, 90 for somebody who faces to the right of the
    image (we see their right side), 180 for a back. `phase` in [0, 1) is the place in the step.
    """

    action: Action
    yaw_degrees: float
    phase: float

    @property
    def view(self) -> View:
        """The side that we see most of."""
        turn = (self.yaw_degrees + 45) % 360
        return (View.FRONT, View.RIGHT, View.BACK, View.LEFT)[int(turn // 90)]


def hand_of(person: Person) -> Side | None:
    """The hand that holds something; None where both are free."""
    carried = person.carried
    in_hand = ("handbag", "briefcase", "shopping bag", "umbrella")
    return carried.side if carried and carried.kind in in_hand else None


def free_hand(person: Person) -> Side:
    """The hand that a phone goes into."""
    return Side.LEFT if hand_of(person) is Side.RIGHT else Side.RIGHT


def draw_pose(chance: Chance, person: Person, view: View) -> Pose:
    """A pose in which the person is seen from `view`, doing what can be seen from there."""
    middle = {View.FRONT: 0.0, View.RIGHT: 90.0, View.BACK: 180.0, View.LEFT: 270.0}[view]
    spread = 32 if view in (View.FRONT, View.BACK) else 18
    actions: dict[Action, float] = {Action.WALKING: 6, Action.STANDING: 3}
    if view is not View.BACK:
        actions[Action.PHONE] = 1.5
    if view in (View.FRONT, View(free_hand(person).value)):
        actions[Action.CALL] = 1
    return Pose(
        action=chance.weigh(actions),
        yaw_degrees=round((middle + chance.between(-spread, spread)) % 360, 1),
        phase=round(chance.between(0, 1), 3) % 1.0,
    )


class Limb:
    """Three joints: shoulder, elbow, wrist or hip, knee, ankle."""

    def __init__(self, root: Point, middle: Point, end: Point) -> None:
        self.root, self.middle, self.end = root, middle, end

    def shifted(self, by: Point) -> "Limb":
        """The limb moved by `by`."""
        return Limb(self.root + by, self.middle + by, self.end + by)


class Skeleton:
    """Joint positions in the person's frame; limbs and toes by side.

    `drop` is how far (metres, negative) a stride lowers the pelvis, `lean` how far old age bends
    the head forward.
    """

    def __init__(self, person: Person, pose: Pose) -> None:
        legs = {side: _leg(person, pose, side) for side in Side}
        self.drop = -min(min(leg.end[1] - _ANKLE, toe[1] - 0.03) for leg, toe in legs.values())
        self.lean = 0.05 if person.age is Age.ELDERLY else 0.0
        down = np.array([0.0, self.drop, 0.0])
        self.legs = {side: leg.shifted(down) for side, (leg, _) in legs.items()}
        self.toes = {side: toe + down for side, (_, toe) in legs.items()}
        self.head = np.array([0.0, _HEAD - 0.2 * self.lean, 0.025 + 1.4 * self.lean]) + down
        lean = np.array([0.0, 0.0, 0.8 * self.lean])
        self.arms = {side: _arm(person, pose, side).shifted(down + lean) for side in Side}


_ANKLE, _HIP, _SHOULDER_Y, _HEAD = 0.085, 0.905, 1.392, 1.632
_THIGH, _SHIN, _UPPER_ARM, _FOREARM = 0.42, 0.40, 0.29, 0.26
_SHOULDER = {Sex.FEMALE: 0.138, Sex.MALE: 0.166}
_WIDER = {Build.SLIM: -0.008, Build.MEDIUM: 0.006, Build.HEAVY: 0.034}


def _sign(side: Side) -> float:
    return LEFT if side is Side.LEFT else RIGHT


def _leg(person: Person, pose: Pose, side: Side) -> tuple[Limb, Point]:
    """A leg in the sagittal plane, and its toe."""
    x = _sign(side) * (0.083 + 0.4 * _WIDER[person.build])
    turn = 2 * math.pi * (pose.phase + (0.0 if side is Side.LEFT else 0.5))
    thigh, bend = 0.42 * math.sin(turn), 0.10 + 0.85 * max(0.0, math.cos(turn)) ** 1.5
    if pose.action is not Action.WALKING:
        thigh, bend = 0.03 * _sign(side) * math.sin(turn), 0.02
    hip = np.array([x, _HIP, 0.0])
    knee = hip + _THIGH * _swung(thigh)
    ankle = knee + _SHIN * _swung(thigh - bend)
    pitch = 0.75 * (thigh - bend) if thigh < bend else 0.3 * (thigh - bend)
    toe = ankle + np.array([0.02 * _sign(side), -0.055, 0.0])
    toe = toe + 0.165 * np.array([0.1 * _sign(side), math.sin(pitch), math.cos(pitch)])
    return Limb(hip, knee, ankle), toe


def _swung(angle: float) -> Point:
    """A downward unit vector swung forward by `angle` radians."""
    return np.array([0.0, -math.cos(angle), math.sin(angle)])


def _arm(person: Person, pose: Pose, side: Side) -> Limb:
    sign = _sign(side)
    half = _SHOULDER[person.sex] + _WIDER[person.build]
    shoulder = np.array([sign * half, _SHOULDER_Y, 0.0])
    target = _hand_target(person, pose, side, shoulder)
    raised = bool(target[1] > shoulder[1])
    elbow = np.array([0.45 * sign, -1.0, 0.3]) if raised else np.array([0.3 * sign, -0.3, -1.0])
    return _reach(shoulder, target, elbow_towards=elbow)


def _hand_target(person: Person, pose: Pose, side: Side, shoulder: Point) -> Point:
    sign = _sign(side)
    busy = pose.action in (Action.PHONE, Action.CALL) and side is free_hand(person)
    if busy and pose.action is Action.CALL:
        return np.array([sign * 0.130, 1.470, 0.105])
    if busy:
        return np.array([sign * 0.07, 1.24, 0.30])
    if _holds_open_umbrella(person.carried, side):
        return np.array([sign * 0.25, 1.24, 0.20])
    swing = _arm_swing(person, pose, side)
    hanging: Point = shoulder + np.array([sign * 0.07, 0.0, 0.02]) + 0.528 * _swung(swing)
    return hanging


def _arm_swing(person: Person, pose: Pose, side: Side) -> float:
    """The angle of a hanging arm, in radians: against the leg of its side, little with a load."""
    if pose.action is not Action.WALKING:
        return 0.04
    turn = 2 * math.pi * (pose.phase + (0.5 if side is Side.LEFT else 0.0))
    return (0.12 if side is hand_of(person) else 0.45) * math.sin(turn) + 0.05


def _holds_open_umbrella(carried: Carried | None, side: Side) -> bool:
    return carried is not None and carried.kind == "umbrella" and carried.side is side


def _reach(shoulder: Point, target: Point, elbow_towards: Point) -> Limb:
    """An arm whose wrist is at `target`, or as near to it as the arm is long (law of cosines)."""
    line = target - shoulder
    span = min(float(np.linalg.norm(line)), _UPPER_ARM + _FOREARM - 0.002)
    line = line / np.linalg.norm(line)
    along = (_UPPER_ARM**2 - _FOREARM**2 + span**2) / (2 * span)
    off = elbow_towards - line * float(elbow_towards @ line)
    off = off / np.linalg.norm(off) * math.sqrt(max(0.0, _UPPER_ARM**2 - along**2))
    return Limb(shoulder, shoulder + line * along + off, shoulder + line * span)


# A posed person in front of the camera: where each point of the body falls in the picture.

CAMERA_PITCH = 0.13
"""How much lower, per metre, a nearer point appears: the camera looks down a little."""


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

    def limb(self, limb: Limb) -> list[Flat]:
        """The three joints in the picture."""
        return [self.seen(limb.root), self.seen(limb.middle), self.seen(limb.end)]
