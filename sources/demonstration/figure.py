"""How a whole person is drawn, with what is carried."""

import math

import numpy as np

from sources.demonstration import clothing, head
from sources.demonstration.body import torso_rows
from sources.demonstration.people import CLOTH, Carried, Side, plain
from sources.demonstration.poses import Action, Frame, Rows, View, free_hand
from sources.demonstration.strokes import Flat, Texture

# Bags, the umbrella, and the phone.

_STITCH = (40, 38, 40)


def paint_backpack(frame: Frame, carried: Carried) -> None:
    """The bag on the back; its straps are painted by `paint_straps`."""
    layer, texture = frame.layer, plain(CLOTH[carried.colour], 0.03)
    lean = 0.6 * frame.bones.lean
    rows: Rows = []
    for up, width, depth in (
        (1.475, 0.07, 0.045),
        (1.455, 0.125, 0.07),
        (1.38, 0.152, 0.085),
        (1.18, 0.158, 0.100),
        (1.02, 0.152, 0.095),
        (0.985, 0.13, 0.075),
    ):
        x, y = frame.at(0, up, -0.205 + lean)
        rows.append((y, x - frame.half(width, depth), x + frame.half(width, depth)))
    surface = layer.body(rows)
    layer.paint(surface, texture, round_=0.8)
    behind = np.abs(np.abs(frame.azimuth(surface)) - math.pi)
    pocket = (behind < 0.75) & (surface.along > 0.27) & (surface.along < 0.46)
    layer.paint(surface.part(pocket), plain(CLOTH[carried.colour], 0.0, 0.86))
    rim = pocket & ((behind > 0.70) | (surface.along < 0.28) | (surface.along > 0.45))
    layer.darken(surface.part(rim), 0.3)
    zip_line = (np.abs(surface.along - (0.10 + 0.05 * behind**2)) < 0.007) & (behind < 1.2)
    layer.darken(surface.part(zip_line), 0.45)
    handle = layer.disc(frame.at(0, 1.478, -0.17 + lean), 0.028, 0.018)
    layer.paint(handle, plain(CLOTH[carried.colour], 0, 0.7))


def paint_straps(frame: Frame, carried: Carried) -> None:
    """A backpack's two straps over the chest."""
    surface = frame.layer.body(torso_rows(frame, 1.485, 0.90, 0.026))
    azimuth = np.abs(frame.azimuth(surface))
    centre = 0.60 + 0.55 * np.clip(surface.along - 0.2, 0, 1)
    strap = (np.abs(azimuth - centre) < 0.14) & (surface.along < 0.36)
    edge = strap & (np.abs(azimuth - centre) > 0.105)
    frame.layer.paint(surface.part(strap), plain(CLOTH[carried.colour], 0.0, 0.97))
    frame.layer.darken(surface.part(edge), 0.25)


def paint_shoulder_bag(frame: Frame, carried: Carried) -> None:
    """A bag at the hip that hangs from the shoulder of the same side."""
    layer, colour = frame.layer, CLOTH[carried.colour]
    sign = _sign(carried.side)
    x, y = frame.at(sign * 0.225, 1.00, 0.03)
    half = 0.085 * abs(frame.cosine) + 0.155 * abs(frame.sine)
    for forward in (0.05, -0.05):
        top = frame.at(sign * 0.115, 1.485, 0.3 * forward)
        strap = [top, (x + forward * frame.sine * 1.6, y + 0.09)]
        layer.paint(layer.tube(strap, [0.013, 0.013]), plain(colour, 0, 0.82))
    _paint_box(frame, (x, y), half, (0.10, 0.13), plain(colour, 0.02), flap=True)


def paint_hand_carried(frame: Frame, carried: Carried) -> None:
    """What hangs from a hand."""
    layer, colour = frame.layer, CLOTH[carried.colour]
    arm = frame.bones.arms[carried.side or Side.RIGHT]
    hand = frame.seen(arm.end + 0.075 * (arm.end - arm.middle) / 0.26)
    wide, deep, high, drop = {
        "handbag": (0.150, 0.115, 0.21, 0.085),
        "briefcase": (0.215, 0.105, 0.27, 0.035),
        "shopping bag": (0.165, 0.120, 0.33, 0.095),
    }[carried.kind]
    half = deep * abs(frame.cosine) + wide * abs(frame.sine)
    top = (hand[0], hand[1] - drop)
    for sign in (-1, 1):
        points = [
            (top[0] + sign * half * 0.55, top[1] - 0.01),
            (top[0] + sign * half * 0.42, top[1] + drop * 0.8),
            (hand[0], hand[1] + 0.004),
        ]
        layer.paint(layer.tube(points, [0.009, 0.009, 0.009]), plain(colour, 0, 0.75))
    centre = (top[0], top[1] - high / 2)
    flap = carried.kind != "shopping bag"
    _paint_box(frame, centre, half, (high / 2, high / 2), plain(colour, 0.02), flap=flap)


def _paint_box(
    frame: Frame,
    centre: Flat,
    half: float,
    reach: tuple[float, float],
    texture: Texture,
    *,
    flap: bool,
) -> None:
    """A bag's body: `reach` is how far it goes up and down from its centre."""
    layer, (x, y) = frame.layer, centre
    up, down = reach
    narrow = 0.90 if flap else 1.0
    surface = layer.body(
        [
            (y + up, x - half * narrow, x + half * narrow),
            (y + up * 0.8, x - half * 0.95, x + half * 0.95),
            (y - down * 0.7, x - half, x + half),
            (y - down, x - half * 0.93, x + half * 0.93),
        ]
    )
    layer.paint(surface, texture, round_=0.55)
    depth = (up + down) * (0.45 - 0.12 * surface.turn**2)
    if flap:
        layer.darken(surface.part(np.abs(surface.along - depth) < 0.007), 0.35)
        clasp = layer.disc((x, y + up - (up + down) * 0.46), 0.014, 0.016)
        layer.paint(clasp, plain((206, 182, 110)), round_=0.3)
    else:
        layer.darken(surface.part(surface.along < 0.022), 0.15)
        layer.darken(surface.part((surface.turn > 0.55) & (surface.along > 0.022)), 0.12)
    rim = (np.abs(surface.turn) > 0.93) | (surface.along > surface.length - 0.010)
    layer.darken(surface.part(rim), 0.22)


def paint_umbrella(frame: Frame, carried: Carried) -> None:
    """An open umbrella above the head, its shaft in the hand."""
    layer = frame.layer
    arm = frame.bones.arms[carried.side or Side.RIGHT]
    hand = frame.seen(arm.end + 0.05 * (arm.end - arm.middle) / 0.26)
    top = (hand[0] * 0.75, frame.at(0, 2.12, 0)[1])
    layer.paint(layer.tube([(hand[0], hand[1] - 0.10), top], [0.009, 0.009]), plain((60, 58, 60)))
    handle = [(hand[0], hand[1] - 0.09), (hand[0] + 0.012, hand[1] - 0.13)]
    layer.paint(layer.tube(handle, [0.014, 0.014]), plain((96, 64, 42)))
    half, rise = 0.43, 0.21
    rows = [
        (top[1] - rise * s, top[0] - half * g, top[0] + half * g)
        for s, g in ((-0.10, 0.0), (0.0, 0.05), (0.06, 0.28), (0.25, 0.62), (0.6, 0.9), (1.0, 1.0))
    ]
    canopy = layer.body(rows)
    angle = np.arcsin(canopy.turn)
    scallop = 0.030 * np.abs(np.cos(angle * 3))
    cloth = canopy.part(canopy.along < canopy.length - scallop)
    layer.paint(cloth, plain(CLOTH[carried.colour], 0.02), round_=0.9)
    panel = np.arcsin(cloth.turn) * 3 / math.pi + 0.5
    layer.darken(cloth.part(np.asarray(np.floor(panel) % 2 == 0, bool)), 0.12)
    layer.darken(cloth.part(np.abs(panel - np.round(panel)) < 0.018), 0.25)


def paint_phone(frame: Frame) -> None:
    """The phone in the free hand, where the action is about one."""
    if frame.pose.action not in (Action.PHONE, Action.CALL):
        return
    side = free_hand(frame.person)
    arm = frame.bones.arms[side]
    hand = frame.seen(arm.end + 0.06 * (arm.end - arm.middle) / 0.26)
    high = 0.062
    wide = 0.022 + 0.016 * abs(frame.cosine)
    x, y = (hand[0], hand[1] + (0.01 if frame.pose.action is Action.CALL else 0.045))
    outline = [
        (x - wide, y - high),
        (x + wide, y - high),
        (x + wide, y + high),
        (x - wide, y + high),
    ]
    frame.layer.paint(frame.layer.polygon(outline), plain((26, 27, 32)), round_=0.2)
    if frame.pose.action is Action.PHONE and frame.cosine < 0.5:
        inner = [(x + (px - x) * 0.75, y + (py - y) * 0.8) for px, py in outline]
        frame.layer.paint(frame.layer.polygon(inner), plain((150, 190, 220)), round_=0)


def _sign(side: Side | None) -> float:
    return 1.0 if side is Side.LEFT else -1.0


# The figure of a person: its parts in the order in which they hide each other.


def paint_figure(frame: Frame) -> None:
    """Paints all parts of the person, the farthest first."""
    carried = frame.person.carried
    arms = sorted(Side, key=lambda side: frame.depth(frame.bones.arms[side].end))
    legs = sorted(Side, key=lambda side: frame.depth(frame.bones.legs[side].end))
    behind = [side for side in arms if _is_behind(frame, side)]
    _paint_carried(frame, carried, behind=True)
    for side in behind:
        clothing.paint_arm(frame, side)
    head.paint_hair_behind(frame)
    for side in legs:
        clothing.paint_leg(frame, side)
    clothing.paint_hips(frame)
    clothing.paint_torso(frame)
    if carried and carried.kind == "backpack":
        paint_straps(frame, carried)
    clothing.paint_hood_or_scarf(frame)
    if carried and carried.kind == "backpack" and -0.9 < frame.cosine <= 0.1:
        paint_backpack(frame, carried)
    in_front = [side for side in arms if side not in behind]
    raised = [side for side in in_front if frame.bones.arms[side].end[1] > 1.45]
    for side in in_front:
        if side not in raised:
            clothing.paint_arm(frame, side)
    head.paint_head(frame)
    if carried and carried.kind == "backpack" and frame.cosine <= -0.9:
        paint_backpack(frame, carried)
    paint_phone(frame)
    for side in raised:
        clothing.paint_arm(frame, side)
    _paint_carried(frame, carried, behind=False)


def _is_behind(frame: Frame, side: Side) -> bool:
    """True for an arm that the body hides."""
    arm = frame.bones.arms[side]
    return frame.depth(arm.root) < -0.08 or (frame.depth(arm.end) < -0.12)


def _is_hidden(frame: Frame, carried: Carried) -> bool:
    """True for what hangs on the far side of somebody seen from the side, as captions assume."""
    from_the_side = frame.pose.view in (View.LEFT, View.RIGHT)
    return (
        from_the_side and carried.side is not None and carried.side.value != frame.pose.view.value
    )


def _paint_carried(frame: Frame, carried: Carried | None, *, behind: bool) -> None:
    if carried is None:
        return
    if carried.kind == "backpack":
        if behind and frame.cosine > 0.1:
            paint_backpack(frame, carried)
        return
    if _is_hidden(frame, carried) is not behind:
        return
    if carried.kind == "umbrella":
        paint_umbrella(frame, carried)
    elif carried.kind == "shoulder bag":
        paint_shoulder_bag(frame, carried)
    else:
        paint_hand_carried(frame, carried)
