"""Legs, feet, torso and arms in their clothes."""

import math

import numpy as np

from sources.demonstration.body import arm_tube, leg_tube, skirt_rows, torso_rows
from sources.demonstration.people import CLOTH, SKIN, Garment, Jacket, Pattern, Side, cloth, plain
from sources.demonstration.poses import Frame, between
from sources.demonstration.strokes import Field, Mask, Surface, Texture

_LEG_RADII = {
    "jeans": (0.092, 0.066, 0.054),
    "trousers": (0.092, 0.070, 0.062),
    "leggings": (0.086, 0.056, 0.042),
    "shorts": (0.096, 0.092, 0.09),
    "skin": (0.082, 0.054, 0.036),
}
_ARM_RADII = {
    "skin": (0.047, 0.039, 0.027),
    "close": (0.056, 0.047, 0.037),
    "loose": (0.060, 0.054, 0.045),
    "outer": (0.064, 0.060, 0.050),
}
_HEM = {
    "t-shirt": 0.865,
    "polo shirt": 0.87,
    "shirt": 0.84,
    "sweater": 0.875,
    "hoodie": 0.86,
    "tank top": 0.89,
    "jacket": 0.855,
    "vest": 0.87,
    "blazer": 0.80,
}
_FAR = 0.80
"""Brightness of a limb on the side that is turned away."""


def skin(frame: Frame, brightness: float = 1.0) -> Texture:
    """The person's skin."""
    return plain(SKIN[frame.person.skin], 0.0, brightness)


def paint_leg(frame: Frame, side: Side) -> None:
    """One leg with what covers it, and its shoe."""
    light = _FAR if frame.is_far(side) else 1.0
    lower = frame.person.lower
    paint_skin = frame.layer.paint
    if lower is None or lower.length != "long" or lower.kind == "skirt":
        paint_skin(leg_tube(frame, side, _LEG_RADII["skin"], 2), skin(frame, light))
    _paint_shoe(frame, side, light)
    if lower is None or lower.kind == "skirt":
        return
    booted = frame.person.footwear.kind == "boots"
    until = {"short": 0.86, "cropped": 1.72}.get(lower.length or "long", 1.6 if booted else 2.0)
    surface = leg_tube(frame, side, _LEG_RADII[lower.kind], until)
    frame.layer.paint(surface, cloth(lower, light))
    if lower.kind in ("jeans", "shorts", "trousers"):
        frame.layer.darken(surface.part(surface.along > surface.length - 0.014), 0.15)
    if booted:
        _paint_boot_shaft(frame, side, light)


def _paint_shoe(frame: Frame, side: Side, light: float) -> None:
    shoe, layer = frame.person.footwear, frame.layer
    leg, toe = frame.bones.legs[side], frame.bones.toes[side]
    forward = (toe - leg.end) / np.linalg.norm(toe - leg.end)
    heel = leg.end + np.array([0.0, -0.046, 0.0]) - 0.035 * forward * [1, 0, 1]
    up = np.array([0.0, 0.012, 0.0])
    low = [frame.seen(heel), frame.seen(toe)]
    heel_top, toe_top = frame.seen(heel + up), frame.seen(toe + up)
    high = [heel_top, toe_top]
    if shoe.socks:
        knee, ankle = frame.seen(leg.middle), frame.seen(leg.end)
        sock = layer.tube([between(knee, ankle, 0.68), ankle], [0.042, 0.040])
        layer.paint(sock, plain(CLOTH[shoe.socks], 0.03, light))
    colour = plain(CLOTH[shoe.colour], 0.0, light)
    layer.paint(layer.tube(low, [0.040, 0.036]), plain(CLOTH[shoe.sole_colour], 0.0, light))
    if shoe.kind == "sandals":
        _paint_sandal(frame, high, colour, light)
        return
    if shoe.kind == "flats":
        layer.paint(layer.tube(high, [0.036, 0.033]), skin(frame, light))
        toes = [between(high[0], high[1], 0.55), high[1]]
        layer.paint(layer.tube(toes, [0.037, 0.035]), colour)
        return
    upper = layer.tube(high, [0.042, 0.037])
    layer.paint(upper, colour)
    ankle = frame.seen(leg.end)
    layer.paint(
        layer.tube([ankle, heel_top, between(heel_top, toe_top, 0.35)], [0.040, 0.043, 0.041]),
        colour,
    )
    if shoe.kind == "sneakers":
        laces = layer.tube(
            [between(heel_top, toe_top, 0.42), between(heel_top, toe_top, 0.62)], [0.012, 0.012]
        )
        layer.paint(laces, plain(CLOTH[shoe.sole_colour], 0.0, 0.95 * light), round_=0.3)


def _paint_sandal(
    frame: Frame, foot: list[tuple[float, float]], colour: Texture, light: float
) -> None:
    layer = frame.layer
    layer.paint(layer.tube(foot, [0.035, 0.033]), skin(frame, light))
    for share in (0.3, 0.75):
        place = between(foot[0], foot[1], share)
        strap = layer.tube([place, (place[0], place[1] + 0.01)], [0.036, 0.036])
        layer.paint(strap.part(np.abs(strap.x - place[0]) < 0.016), colour)


def _paint_boot_shaft(frame: Frame, side: Side, light: float) -> None:
    _, knee, ankle = frame.limb(frame.bones.legs[side])
    shaft = frame.layer.tube([between(knee, ankle, 0.42), ankle], [0.066, 0.052])
    frame.layer.paint(shaft, plain(CLOTH[frame.person.footwear.colour], 0.03, light))
    frame.layer.darken(shaft.part(shaft.along <= 0.012), 0.2)


def paint_hips(frame: Frame) -> None:
    """The seat of trousers, or a skirt, over the tops of the legs."""
    lower = frame.person.lower
    if lower is None:
        return
    if lower.kind == "skirt":
        hem = {"short": 0.62, "knee-length": 0.46, "long": 0.16}[lower.length or "short"]
        flare = {"short": 0.05, "knee-length": 0.06, "long": 0.08}[lower.length or "short"]
        surface = frame.layer.body(skirt_rows(frame, 1.08, hem, flare, 0.006))
        frame.layer.paint(surface, _pleated(cloth(lower)))
        return
    frame.layer.paint(frame.layer.body(torso_rows(frame, 1.08, 0.835, 0.004)), cloth(lower))


def _pleated(texture: Texture) -> Texture:
    def pleats(surface: Surface) -> Field:
        depth = np.clip((surface.along - 0.1) * 0.35, 0, 0.09)
        return np.asarray(
            texture(surface) * (1 + depth * np.sin(surface.turn * 14))[:, None], np.float32
        )

    return pleats


def paint_torso(frame: Frame) -> None:
    """Neck and upper garment, and the jacket over it."""
    upper, jacket = frame.person.upper, frame.person.jacket
    neck = frame.layer.body(torso_rows(frame, 1.56, 1.40, 0.0))
    frame.layer.paint(neck, skin(frame, 0.93))
    if upper.kind == "dress":
        hem = 0.46 if upper.length == "knee-length" else 0.17
        surface = frame.layer.body(skirt_rows(frame, 1.482, hem, 0.07, 0.010))
        frame.layer.paint(surface, cloth(upper))
    else:
        ease = 0.016 if upper.kind in ("sweater", "hoodie") else 0.010
        surface = frame.layer.body(torso_rows(frame, 1.488, _HEM[upper.kind], ease))
        frame.layer.paint(surface, cloth(upper))
    _finish_upper(frame, upper, surface)
    if jacket:
        _paint_jacket(frame, jacket)


def _finish_upper(frame: Frame, upper: Garment, surface: Surface) -> None:
    """Neckline, collar, buttons, pocket, print and hem."""
    azimuth, layer = frame.azimuth(surface), frame.layer
    ahead = np.abs(azimuth)
    dip = {"tank top": 0.105, "dress": 0.085, "t-shirt": 0.050}.get(upper.kind, 0.035)
    neckline = surface.along < dip * np.clip(1.15 - ahead / 1.2, 0.12, 1)
    layer.paint(surface.part(neckline), skin(frame, 0.97))
    if upper.kind in ("t-shirt", "sweater", "hoodie"):
        rim = surface.along < 0.014 + dip * np.clip(1.15 - ahead / 1.2, 0.12, 1)
        layer.darken(surface.part(rim & ~neckline), 0.16)
    if upper.kind in ("sweater", "hoodie"):
        layer.darken(surface.part(surface.along > surface.length - 0.045), 0.10)
    if upper.kind in ("shirt", "polo shirt"):
        _paint_collar(
            frame, surface, CLOTH[upper.colour], until=0.14 if "polo" in upper.kind else 9
        )
    if upper.kind == "hoodie":
        pouch = (ahead < 0.75) & (surface.along > 0.40) & (surface.along < 0.41 + 0.13)
        edge = pouch & ((ahead > 0.71) | (surface.along < 0.408))
        layer.darken(surface.part(pouch), 0.05)
        layer.darken(surface.part(edge), 0.2)
    if upper.kind == "dress":
        waist = np.abs(surface.along - 0.39) < 0.012
        layer.darken(surface.part(waist), 0.35)
    if upper.pattern is Pattern.PRINTED and upper.second_colour:
        _paint_print(frame, surface, upper.second_colour)


def _paint_collar(
    frame: Frame, surface: Surface, colour: tuple[int, int, int], until: float
) -> None:
    azimuth, layer = frame.azimuth(surface), frame.layer
    ahead = np.abs(azimuth)
    placket = (ahead < 0.035) & (surface.along < until)
    layer.darken(surface.part(placket & (surface.along > 0.03)), 0.12)
    button = placket & (surface.along % 0.085 < 0.014) & (surface.along > 0.05) & (ahead < 0.028)
    layer.paint(surface.part(button), plain((232, 230, 222)), round_=0)
    flap = 0.030 + 0.045 * np.clip(1 - np.abs(ahead - 0.42) / 0.42, 0, 1)
    collar = (surface.along < flap) & (ahead > 0.10)
    layer.darken(surface.part((surface.along < flap + 0.008) & (ahead > 0.08)), 0.28)
    layer.paint(surface.part(collar), plain(colour, 0.0, 1.06))


def _paint_print(frame: Frame, surface: Surface, colour: str) -> None:
    """A bold emblem in the middle of the chest: a ring, a bar and two lines as of writing."""
    side = frame.azimuth(surface) * 0.17
    down = surface.along - 0.235
    radius = np.hypot(side, down)
    ring = (radius < 0.088) & (radius > 0.056)
    bar = (np.abs(down) < 0.020) & (np.abs(side) < 0.115)
    lines = (np.abs(down - 0.125) < 0.011) & (np.abs(side) < 0.09) & ((side * 40) % 1 < 0.72)
    ahead = np.abs(frame.azimuth(surface)) < 1.2
    emblem = surface.part((ring | bar | lines) & ahead)
    frame.layer.paint(emblem, plain(CLOTH[colour]), round_=0.8)


def _paint_jacket(frame: Frame, jacket: Jacket) -> None:
    layer = frame.layer
    if jacket.kind == "coat":
        rows = skirt_rows(frame, 1.492, 0.50, 0.03, 0.026)
    else:
        rows = torso_rows(frame, 1.492, _HEM[jacket.kind], 0.022)
    surface = layer.body(rows)
    azimuth = frame.azimuth(surface)
    ahead, along = np.abs(azimuth), surface.along
    gap = np.clip(0.33 + 0.30 * (along - 0.35), 0.30, 0.6) if jacket.open else np.zeros_like(along)
    gap = np.maximum(gap, np.clip(0.52 - 3.4 * along, 0, 0.5))
    covered = (ahead > gap) & (along > 0.045 - 0.04 * np.clip(ahead, 0, 1))
    texture = plain(CLOTH[jacket.colour], 0.05)
    cast = surface.part((ahead > gap - 0.07) & ~covered & (along > 0.05))
    layer.darken(cast, 0.22)
    layer.paint(surface.part(covered), texture)
    edge = covered & (ahead < gap + 0.05) & (ahead > 0.001)
    layer.darken(surface.part(edge), 0.22)
    _finish_jacket(frame, jacket, surface, covered, gap)


def _finish_jacket(
    frame: Frame, jacket: Jacket, surface: Surface, covered: Mask, gap: Field
) -> None:
    layer = frame.layer
    ahead, along = np.abs(frame.azimuth(surface)), surface.along
    if jacket.kind == "vest":
        quilted = covered & (along % 0.095 < 0.008)
        layer.darken(surface.part(quilted), 0.25)
    if jacket.kind in ("blazer", "coat"):
        lapel = covered & (along < 0.30) & (ahead < gap + np.clip(0.42 - 1.1 * along, 0.08, 0.36))
        layer.paint(surface.part(lapel), plain(CLOTH[jacket.colour], 0, 1.1))
        rim = covered & ~lapel & (along < 0.31)
        near = ahead < gap + np.clip(0.42 - 1.1 * along, 0.08, 0.36) + 0.05
        layer.darken(surface.part(rim & near), 0.25)
    if jacket.kind == "jacket":
        layer.darken(surface.part(covered & (along > surface.length - 0.05)), 0.16)
    pocket = covered & (np.abs(along - 0.46) < 0.006) & (np.abs(ahead - 1.05) < 0.25)
    layer.darken(surface.part(pocket), 0.35)


def paint_arm(frame: Frame, side: Side) -> None:
    """One arm with its sleeve, and the hand."""
    person, layer = frame.person, frame.layer
    light = _FAR if frame.is_far(side) else 1.0
    layer.darken(arm_tube(frame, side, (0.080, 0.072, 0.056), 2), 0.16)
    _paint_hand(frame, side, light)
    upper, jacket = person.upper, person.jacket
    sleeve = upper.sleeve
    if sleeve != "long":
        layer.paint(arm_tube(frame, side, _ARM_RADII["skin"], 2), skin(frame, light))
    if sleeve == "short":
        radii = (0.060, 0.062, 0.060)
        surface = arm_tube(frame, side, radii, 0.68)
        layer.paint(surface, cloth(upper, light))
        layer.darken(surface.part(surface.along > surface.length - 0.013), 0.15)
    if sleeve == "long":
        fit = "loose" if upper.kind in ("sweater", "hoodie", "shirt") else "close"
        _paint_sleeve(frame, side, fit, cloth(upper, light))
    if jacket and jacket.kind != "vest":
        _paint_sleeve(frame, side, "outer", plain(CLOTH[jacket.colour], 0.05, light))


def _paint_sleeve(frame: Frame, side: Side, fit: str, texture: Texture) -> None:
    surface = arm_tube(frame, side, _ARM_RADII[fit], 1.94)
    frame.layer.paint(surface, texture)
    frame.layer.darken(surface.part(surface.along > surface.length - 0.028), 0.13)


def _paint_hand(frame: Frame, side: Side, light: float) -> None:
    arm = frame.bones.arms[side]
    forearm = arm.end - arm.middle
    forearm = forearm / np.linalg.norm(forearm)
    points = [arm.end, arm.end + 0.045 * forearm, arm.end + 0.092 * forearm]
    thumb = [points[0] + 0.02 * forearm, points[1] + np.array([0.0, 0.0, 0.034])]
    layer, texture = frame.layer, skin(frame, light)
    layer.paint(layer.tube([frame.seen(p) for p in thumb], [0.013, 0.011]), texture)
    layer.paint(layer.tube([frame.seen(p) for p in points], [0.024, 0.030, 0.018]), texture)


def paint_hood_or_scarf(frame: Frame) -> None:
    """What lies around the neck, under the chin."""
    layer, person = frame.layer, frame.person
    if person.upper.kind == "hoodie":
        x, y = frame.at(0, 1.455, -0.055 + 0.7 * frame.bones.lean)
        half = frame.half(0.125, 0.095)
        rows = [
            (y + 0.055, x - 0.6 * half, x + 0.6 * half),
            (y + 0.02, x - half, x + half),
            (y - 0.05, x - 0.9 * half, x + 0.9 * half),
            (y - 0.10, x - 0.3 * half, x + 0.3 * half),
        ]
        if frame.cosine < 0.3:
            layer.paint(layer.body(rows), plain(CLOTH[person.upper.colour], 0.05, 0.9))
    if person.scarf:
        _paint_scarf(frame, CLOTH[person.scarf])


def _paint_scarf(frame: Frame, colour: tuple[int, int, int]) -> None:
    layer, lean = frame.layer, frame.bones.lean
    texture = plain(colour, 0.07)
    x, y = frame.at(0, 1.487, 0.008 + 0.8 * lean)
    half = frame.half(0.098, 0.100)
    ring = layer.body(
        [
            (y + 0.045, x - 0.74 * half, x + 0.74 * half),
            (y + 0.01, x - half, x + half),
            (y - 0.045, x - 0.9 * half, x + 0.9 * half),
        ]
    )
    if math.cos(frame.yaw) > -0.2:
        end = [frame.at(0.04, 1.46, 0.115 + lean), frame.at(0.055, 1.20, 0.135 + 0.5 * lean)]
        layer.paint(layer.tube(end, [0.036, 0.040]), texture)
    layer.paint(ring, texture)
    layer.darken(ring.part((ring.along + 0.25 * ring.across) % 0.033 < 0.006), 0.18)
