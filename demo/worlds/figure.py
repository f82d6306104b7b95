"""Poses of people, and figures drawn of them from flat shapes, from back to front."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw

from loupe.demo.worlds.people import (
    CLOTH,
    HAIR,
    SKIN,
    TABLES,
    Carried,
    Garment,
    Jacket,
    Person,
    Rgb,
    Sex,
    Side,
)
from loupe.schemas.base import Record
from loupe.testing import Chance

# Poses: the direction that a person faces, and their action.


class Action(StrEnum):
    """What a person does in an image."""

    WALKING = "walking"
    STANDING = "standing"


class View(StrEnum):
    """The visible side of the person."""

    FRONT = "front"
    BACK = "back"
    LEFT = "left"
    RIGHT = "right"


YAW = {View.FRONT: 0.0, View.RIGHT: 90.0, View.BACK: 180.0, View.LEFT: 270.0}


class Pose(Record):
    """A moment of an action.

    `yaw_degrees` is 0 for a person facing the camera, 90 for one facing the right of the image
    (their right side is visible), 180 for a back view. `phase` in [0, 1) is the position in the
    step.
    """

    action: Action
    yaw_degrees: float
    phase: float

    @property
    def view(self) -> View:
        """Return the side that is most visible."""
        return tuple(YAW)[int((self.yaw_degrees + 45) % 360 // 90)]


def draw_pose(chance: Chance, view: View) -> Pose:
    """Draw a random pose seen from `view`."""
    spread = 32 if view in (View.FRONT, View.BACK) else 18
    return Pose(
        action=chance.weigh({Action.WALKING: 2, Action.STANDING: 1}),
        yaw_degrees=round((YAW[view] + chance.between(-spread, spread)) % 360, 1),
        phase=round(chance.between(0, 1), 3) % 1.0,
    )


# Flat shapes in plain or striped colours on a transparent image.

Point = NDArray[np.float64]
"""A point in the person's frame, in metres: (to the person's left, up, forward)."""

Flat = tuple[float, float]
"""A point in the plane of the image, in metres from between the feet: (to the right, up)."""

_CIRCLE = [(math.cos(t), math.sin(t)) for t in np.linspace(0, 2 * math.pi, 20, endpoint=False)]
_EDGE_METRES = 0.007


class Paint(NamedTuple):
    """A colour, and that of its stripes."""

    colour: Rgb
    stripes: Rgb | None = None

    def shaded(self, brightness: float) -> "Paint":
        """Return the paint made lighter or darker."""
        stripes = self.stripes and shaded(self.stripes, brightness)
        return Paint(shaded(self.colour, brightness), stripes)


def shaded(colour: Rgb, brightness: float) -> Rgb:
    """Return the colour made lighter or darker."""
    red, green, blue = (min(255, round(part * brightness)) for part in colour)
    return red, green, blue


def _cloth(worn: Garment) -> Paint:
    return Paint(CLOTH[worn.colour], CLOTH[worn.stripes] if worn.stripes else None)


def _ellipse(centre: Flat, wide: float, high: float) -> list[Flat]:
    return [(centre[0] + wide * x, centre[1] + high * y) for x, y in _CIRCLE]


def _between(start: Flat, end: Flat, share: float) -> Flat:
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


class _Row(NamedTuple):
    """A horizontal line: its middle, half its width, and its height."""

    x: float
    half: float
    y: float


def _outline(rows: Sequence[_Row]) -> list[Flat]:
    """Return the outline of rows."""
    left = [(row.x - row.half, row.y) for row in rows]
    right = [(row.x + row.half, row.y) for row in reversed(rows)]
    return left + right


class _Layer:
    """Shapes painted over each other; `scale` is in pixels per metre, `origin` is a pixel."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.origin = (round(0.95 * scale), round(1.98 * scale))
        self.picture = Image.new("RGBA", (2 * self.origin[0], round(2.2 * scale)))
        self._draw = ImageDraw.Draw(self.picture)

    def fill(self, pieces: Iterable[Sequence[Flat]], paint: Paint, *, edge: bool = True) -> None:
        """Paint a shape of polygons, with a darker edge around it."""
        outlines = [self._pixels_of(piece) for piece in pieces]
        if edge:
            dark = shaded(paint.colour, 0.72)
            wide = max(1, round(2 * _EDGE_METRES * self.scale))
            for outline in outlines:
                self._draw.line([*outline, outline[0]], dark, wide)
        for outline in outlines:
            self._draw.polygon(outline, paint.colour)
        if paint.stripes:
            self._paint_stripes(outlines, paint.stripes)

    def _pixels_of(self, piece: Sequence[Flat]) -> list[Flat]:
        left, top = self.origin
        return [(left + x * self.scale, top - y * self.scale) for x, y in piece]

    def _paint_stripes(self, outlines: Iterable[Sequence[Flat]], colour: Rgb) -> None:
        inside = Image.new("L", self.picture.size)
        for outline in outlines:
            ImageDraw.Draw(inside).polygon(outline, 255)
        rows = np.arange(self.picture.height) / self.scale % 0.08 > 0.045
        stripes = np.repeat(255 * rows[:, None], self.picture.width, axis=1)
        mask = ImageChops.multiply(inside, Image.fromarray(stripes.astype(np.uint8)))
        self.picture.paste((*colour, 255), mask=mask)

    def tube(self, points: Sequence[Flat], radii: Sequence[float], paint: Paint) -> None:
        """Paint a limb along `points`, with the radius given at each."""
        joints = list(zip(points, radii, strict=True))
        pieces = [_ellipse(point, radius, radius) for point, radius in joints]
        for (start, start_radius), (end, end_radius) in pairwise(joints):
            length = max(math.dist(start, end), 1e-6)
            x = (end[1] - start[1]) / length
            y = (start[0] - end[0]) / length
            corners = [
                (start, start_radius),
                (end, end_radius),
                (end, -end_radius),
                (start, -start_radius),
            ]
            pieces.append([(point[0] + side * x, point[1] + side * y) for point, side in corners])
        self.fill(pieces, paint)

    def disc(self, centre: Flat, wide: float, high: float, colour: Rgb) -> None:
        """Paint an upright ellipse given by its two radii, without an edge."""
        self.fill([_ellipse(centre, wide, high)], Paint(colour), edge=False)


# A figure: a cut-out image that is pasted where a person stands.

STATURE_METRES = 1.76
_CAMERA_PITCH = 0.13
"""How much lower, per metre, a nearer point appears, because the camera looks slightly down."""

_FINE = 2  # supersampling factor of figures


class Sprite(NamedTuple):
    """A cut-out image (RGBA), and the position of its corner relative to its ground point."""

    picture: Image.Image
    left: int
    top: int

    def paste(self, canvas: Image.Image, foot: tuple[int, int]) -> tuple[int, int, int, int]:
        """Paste it onto `canvas` and return its box there (left, top, right, bottom)."""
        left = foot[0] + self.left
        top = foot[1] + self.top
        canvas.paste(self.picture, (left, top), self.picture)
        return left, top, left + self.picture.width, top + self.picture.height


def draw_figure(person: Person, pose: Pose, scale: float) -> Sprite:
    """Draw the person in a pose, at `scale` pixels per metre."""
    figure = _Figure(person, pose, _Layer(_FINE * scale))
    for _, paint in sorted(figure.parts(), key=lambda part: part[0]):
        paint()
    picture = figure.layer.picture.reduce(_FINE)
    x, y = figure.layer.origin
    left, top, right, bottom = picture.getchannel("A").getbbox() or (0, 0, 1, 1)
    cut = picture.crop((left, top, right, bottom))
    return Sprite(cut, round(left - x / _FINE), round(top - y / _FINE))


def draw_shadow(scale: float) -> Sprite:
    """Draw a soft shadow around the feet, at `scale` pixels per metre."""
    wide = max(2, round(0.62 * scale))
    high = max(1, round(0.15 * scale))
    across = (np.arange(2 * wide) + 0.5 - wide)[None, :] / wide * 1.8
    down = (np.arange(2 * high) + 0.5 - high)[:, None] / high * 1.8
    pixels = np.zeros((2 * high, 2 * wide, 4), np.uint8)
    pixels[..., 3] = np.clip(127 * np.exp(-(across**2) - down**2) - 5, 0, 255)
    return Sprite(Image.fromarray(pixels), -wide, -high - round(0.02 * scale))


_BODY: dict[str, Any] = TABLES["body"]
_TORSO = np.array(_BODY["torso"])[::-1]
_SIGN = {Side.LEFT: 1.0, Side.RIGHT: -1.0}


def _swung(angle: float, length: float) -> Point:
    """Return a downward vector, rotated forward by `angle` radians."""
    return np.array([0.0, -length * math.cos(angle), length * math.sin(angle)])


class _Figure:
    """A posed person in front of the camera, and the painting of each part."""

    def __init__(self, person: Person, pose: Pose, layer: _Layer) -> None:
        self.person = person
        self.pose = pose
        self.layer = layer
        self.yaw = math.radians(pose.yaw_degrees)
        self.cosine = math.cos(self.yaw)
        self.sine = math.sin(self.yaw)
        self.wider: float = _BODY["wider"][person.build]
        self.skin = Paint(SKIN[person.skin])
        self.legs = {side: self._leg(side) for side in Side}
        self.arms = {side: self._arm(side) for side in Side}
        # A stride lowers the body until one foot is on the ground.
        self.drop = -min(min(leg[2][1] - 0.085, leg[3][1] - 0.03) for leg in self.legs.values())

    # Joints, and where they appear.

    def _turn(self, side: Side) -> float:
        """Return the angle of a step; a leg and the arm of the other side swing together."""
        return 2 * math.pi * (self.pose.phase + 0.5 * (side is Side.RIGHT))

    def _leg(self, side: Side) -> list[Point]:
        """Return hip, knee, ankle and toe."""
        sign = _SIGN[side]
        turn = self._turn(side)
        if self.pose.action is Action.WALKING:
            thigh = 0.42 * math.sin(turn)
            bend = 0.10 + 0.85 * max(0.0, math.cos(turn)) ** 1.5
        else:
            thigh = 0.0
            bend = 0.02
        hip = np.array([sign * (0.083 + 0.4 * self.wider), 0.905, 0.0])
        knee = hip + _swung(thigh, 0.42)
        ankle = knee + _swung(thigh - bend, 0.40)
        pitch = (0.75 if thigh < bend else 0.3) * (thigh - bend)
        toe = [0.036 * sign, 0.165 * math.sin(pitch) - 0.055, 0.165 * math.cos(pitch)]
        return [hip, knee, ankle, ankle + np.array(toe)]

    def _arm(self, side: Side) -> list[Point]:
        """Return shoulder, elbow, wrist and hand; an arm with a bag swings less."""
        sign = _SIGN[side]
        carried = self.person.carried
        loaded = carried is not None and carried.side is side
        swing = 0.05 - (0.12 if loaded else 0.45) * math.sin(self._turn(side))
        if self.pose.action is not Action.WALKING:
            swing = 0.04
        half = _BODY["shoulder"][self.person.sex] + self.wider
        shoulder = np.array([sign * half, 1.392, 0.0])
        elbow = shoulder + _swung(swing, 0.29) + [sign * 0.055, 0, 0]
        wrist = elbow + _swung(swing + 0.15, 0.25) + [sign * 0.05, 0, 0]
        return [shoulder, elbow, wrist, wrist + 0.28 * (wrist - elbow)]

    def seen(self, point: Sequence[float] | Point) -> Flat:
        """Project a point of the person's frame to the image, in metres."""
        x = float(point[0] * self.cosine + point[2] * self.sine)
        return x, float(point[1] + self.drop - _CAMERA_PITCH * self.depth(point))

    def depth(self, point: Sequence[float] | Point) -> float:
        """Return how near a point is to the camera, in metres from the centre of the person."""
        return float(point[2] * self.cosine - point[0] * self.sine)

    def half(self, width: float, depth: float) -> float:
        """Return half of the visible width of an upright elliptic cylinder."""
        return math.hypot(width * self.cosine, depth * self.sine)

    def on_head(self, left: float, up: float, forward: float) -> Flat:
        """Return the position of a point given relative to the centre of the head."""
        return self.seen((left, 1.632 + up, 0.025 + forward))

    def _light(self, side: Side) -> float:
        """A limb on the far side is darker."""
        return 0.82 if self.sine * _SIGN[side] > 0.5 else 1.0

    # Parts.

    def parts(self) -> Iterator[tuple[float, Callable[[], None]]]:
        """Return (depth, paint function) of each part."""
        for side in Side:
            yield -1 + 0.1 * self.depth(self.legs[side][2]), partial(self._paint_leg, side)
            yield self.depth(self.arms[side][1]) + 0.05, partial(self._paint_arm, side)
        yield 0.0, self._paint_torso
        yield 0.03, self._paint_head
        if self.person.hair.length != "short":
            yield 0.001 - 0.09 * self.cosine, self._paint_loose_hair
        carried = self.person.carried
        view = self.pose.view
        if carried and carried.side is None:
            yield 0.002 - 0.2 * self.cosine, partial(self._paint_backpack, carried)
        elif carried and carried.side:
            # Items on the far side of a person in profile are hidden, as captions assume.
            hidden = view in (View.LEFT, View.RIGHT) and carried.side != view.value
            nearness = self.depth(self.arms[carried.side][2]) + 0.2
            yield -2 if hidden else nearness, partial(self._paint_bag, carried, carried.side)

    def _paint_leg(self, side: Side) -> None:
        """Paint one leg with its clothing and shoe."""
        person = self.person
        layer = self.layer
        light = self._light(side)
        wider = 0.5 * self.wider
        hip, knee, ankle, toe = (self.seen(point) for point in self.legs[side])
        radii = [0.082 + wider, 0.054 + wider, 0.036 + wider]
        layer.tube([hip, knee, ankle], radii, self.skin.shaded(light))
        sole = Paint((238, 238, 234) if person.footwear.kind == "sneakers" else (40, 40, 45))
        layer.tube([(ankle[0], ankle[1] - 0.046), toe], [0.041, 0.037], sole.shaded(light))
        back = (ankle[0], ankle[1] - 0.033)
        front = (toe[0], toe[1] + 0.013)
        shoe = Paint(CLOTH[person.footwear.colour]).shaded(light)
        layer.tube([ankle, back, front], [0.040, 0.043, 0.037], shoe)
        if person.lower.kind in _BODY["legs"]:
            radii = [radius + wider for radius in _BODY["legs"][person.lower.kind]]
            points = [hip, knee, ankle] if len(radii) == 3 else [hip, _between(hip, knee, 0.8)]
            layer.tube(points, radii, _cloth(person.lower).shaded(light))

    def _paint_arm(self, side: Side) -> None:
        """Paint one arm with its sleeve, and the hand."""
        layer = self.layer
        light = self._light(side)
        wider = 0.35 * self.wider
        shoulder, elbow, wrist, hand = (self.seen(point) for point in self.arms[side])
        radii = [0.047 + wider, 0.039 + wider, 0.026, 0.028]
        layer.tube([shoulder, elbow, wrist, hand], radii, self.skin.shaded(light))
        worn = self.person.jacket or self.person.upper
        cloth = Paint(CLOTH[worn.colour]) if isinstance(worn, Jacket) else _cloth(worn)
        end = [_between(shoulder, elbow, 0.6)]
        if isinstance(worn, Jacket) or worn.sleeve == "long":
            end = [elbow, wrist]
        radii = [0.062 + wider, 0.058 + wider, 0.046 + wider]
        layer.tube([shoulder, *end], radii[: 1 + len(end)], cloth.shaded(light))

    def _row(self, up: float, ease: float) -> _Row:
        """Return the visible torso at a height."""
        heights = _TORSO[:, 0]
        widths = _TORSO[:, 1 if self.person.sex is Sex.MALE else 2]
        width = np.interp(up, heights, widths)
        depth = np.interp(up, heights, _TORSO[:, 3])
        wider = ease + (self.wider if up < 1.46 else 0.0)
        x, y = self.seen((0, up, 0))
        return _Row(x, self.half(width + wider, depth + wider), y)

    def _torso(self, top: float, bottom: float, ease: float) -> list[_Row]:
        """Return the rows of a garment on the torso, `ease` wider."""
        inner = [row[0] for row in _TORSO[::-1] if bottom < row[0] < top]
        return [self._row(up, ease) for up in (top, *inner, bottom)]

    def _paint_patch(
        self, middle: float, half: float, high: float, low: float, paint: Paint
    ) -> None:
        """Paint the visible part of a patch on the torso; `middle` is the angle to the left."""
        facing = (middle + self.yaw + math.pi) % (2 * math.pi) - math.pi
        first = max(-math.pi / 2, min(math.pi / 2, facing - half))
        last = max(-math.pi / 2, min(math.pi / 2, facing + half))
        if last - first < 0.02:
            return
        left: list[Flat] = []
        right: list[Flat] = []
        for up in np.linspace(high, low, 5):
            row = self._row(up, 0.012)
            left.append((row.x + row.half * math.sin(first), row.y))
            right.append((row.x + row.half * math.sin(last), row.y))
        self.layer.fill([left + right[::-1]], paint, edge=False)

    def _paint_torso(self) -> None:
        """Paint the neck, the garment on the hips, the upper garment, and the jacket over it."""
        person = self.person
        fill = self.layer.fill
        fill([_outline(self._torso(1.56, 1.40, 0.0))], self.skin.shaded(0.93))
        rows = self._torso(1.08, 0.835, 0.008)
        if person.lower.kind == "skirt":
            x, y = self.seen((0, _BODY["hems"][person.lower.length], 0))
            rows.append(_Row(x, 0.25, y))
        fill([_outline(rows)], _cloth(person.lower), edge=False)
        fill([_outline(self._torso(1.48, 0.86, 0.012))], _cloth(person.upper))
        self._paint_patch(0.0, 0.9, 1.5, 1.44, self.skin)
        if jacket := person.jacket:
            cloth = Paint(CLOTH[jacket.colour])
            fill([_outline(self._torso(1.485, 0.85, 0.024))], cloth)
            front = _cloth(person.upper) if jacket.open else cloth.shaded(0.75)
            self._paint_patch(0.0, 0.42 if jacket.open else 0.03, 1.44, 0.86, front)
        if person.carried and person.carried.side is None:
            for middle in (-0.6, 0.6):  # the straps of a backpack
                self._paint_patch(middle, 0.14, 1.47, 1.12, Paint(CLOTH[person.carried.colour]))

    def _paint_head(self) -> None:
        """Paint the head with everything on it."""
        person = self.person
        disc = self.layer.disc
        hair = Paint(HAIR[person.hair.colour])
        skull = _ellipse(self.on_head(0, 0.005, -0.014), self.half(0.090, 0.104), 0.128)
        self.layer.fill([skull], hair)
        if self.cosine > -0.45:
            face = self.on_head(0, -0.020, 0.022)
            disc(face, self.half(0.074, 0.078), 0.094, self.skin.colour)
            near = 0.6 + 0.4 * abs(self.cosine)
            disc(self.on_head(0, -0.062, 0.09), 0.024 * near, 0.007, (160, 80, 76))
            for sign in (1, -1):
                if self.sine * sign <= 0.62:
                    eye = self.on_head(sign * 0.034, 0.004, 0.086)
                    disc(eye, 0.021 * near, 0.015, (245, 243, 238))
                    disc(eye, 0.009 * near, 0.010, (30, 28, 32))
        if person.headwear:
            self._paint_hat(Paint(CLOTH[person.headwear.colour]))

    def _paint_hat(self, paint: Paint) -> None:
        brim = [self.on_head(0.085 * s, 0.04 - 0.03 * c, 0.07 + 0.11 * c) for s, c in _CIRCLE]
        self.layer.fill([brim], paint.shaded(0.9))
        half = self.half(0.094, 0.110)
        x, y = self.on_head(0, 0.035, -0.006)
        dome = [(x + half * c, y + 0.125 * s) for c, s in _CIRCLE if s > -0.01]
        self.layer.fill([dome], paint)

    def _paint_loose_hair(self) -> None:
        """Paint hair down the neck and the back."""
        low = -0.37 if self.person.hair.length == "long" else -0.17
        wide = self.half(0.092, 0.060)
        points = [self.on_head(0, up, -0.055) for up in (0.04, low)]
        self.layer.tube(points, [wide, wide], Paint(HAIR[self.person.hair.colour]))

    def _paint_backpack(self, carried: Carried) -> None:
        rows = []
        for up, width in ((1.47, 0.08), (1.43, 0.145), (1.20, 0.16), (1.02, 0.155), (0.985, 0.13)):
            x, y = self.seen((0, up, -0.205))
            rows.append(_Row(x, self.half(width, 0.09), y))
        self.layer.fill([_outline(rows)], Paint(CLOTH[carried.colour]))

    def _paint_bag(self, carried: Carried, side: Side) -> None:
        """Paint a bag that hangs from a hand."""
        paint = Paint(CLOTH[carried.colour])
        front, aside, high, drop = _BODY["bags"][carried.kind]
        half = front * abs(self.cosine) + aside * abs(self.sine)
        x, y = self.seen(self.arms[side][3])
        for sign in (-1, 1):
            handle = [(x + sign * half * 0.5, y - drop), (x, y)]
            self.layer.tube(handle, [0.010, 0.010], paint.shaded(0.8))
        top = _Row(x, 0.9 * half, y - drop)
        bottom = _Row(x, half, y - drop - high)
        self.layer.fill([_outline([top, bottom])], paint)
