"""Draws the figure of a person from flat shapes, the farthest first."""

import math

import numpy as np

from sources.demonstration.layer import CIRCLE, Flat, Paint, ellipse
from sources.demonstration.people import (
    CLOTH,
    HAIR,
    SKIN,
    Build,
    Carried,
    Garment,
    Jacket,
    Pattern,
    Sex,
    Side,
)
from sources.demonstration.poses import Action, Frame, View, free_hand


def _cloth(garment: Garment) -> Paint:
    second = CLOTH[garment.second_colour] if garment.second_colour else (0, 0, 0)
    return Paint(CLOTH[garment.colour], garment.pattern, second)


def paint_figure(frame: Frame) -> None:
    """Paints all parts of the person."""
    arms = sorted(Side, key=lambda side: frame.depth(frame.bones.arms[side].end))
    legs = sorted(Side, key=lambda side: frame.depth(frame.bones.legs[side].end))
    behind = [side for side in arms if _is_behind(frame, side)]
    raised = [side for side in arms if frame.bones.arms[side].end[1] > 1.45]
    carried = frame.person.carried
    backpack = carried if carried and carried.kind == "backpack" else None
    beside = carried if carried and carried.kind != "backpack" else None
    if backpack and frame.cosine > 0.1:
        _paint_backpack(frame, backpack)
    if beside and _is_hidden(frame, beside):
        _paint_carried(frame, beside)
    for side in behind:
        _paint_arm(frame, side)
    if frame.cosine > 0.15:
        _paint_loose_hair(frame)
    for side in legs:
        _paint_leg(frame, side)
    _paint_torso(frame)
    if backpack:
        for middle in (-0.6, 0.6):
            _paint_patch(
                frame, (middle - 0.14, middle + 0.14), (1.47, 1.12), _plain(backpack.colour)
            )
    if backpack and -0.9 < frame.cosine <= 0.1:
        _paint_backpack(frame, backpack)
    for side in arms:
        if side not in behind and side not in raised:
            _paint_arm(frame, side)
    _paint_head(frame)
    if backpack and frame.cosine <= -0.9:
        _paint_backpack(frame, backpack)
    _paint_phone(frame)
    for side in raised:
        if side not in behind:
            _paint_arm(frame, side)
    if beside and not _is_hidden(frame, beside):
        _paint_carried(frame, beside)


def _plain(colour: str) -> Paint:
    return Paint(CLOTH[colour])


def _is_behind(frame: Frame, side: Side) -> bool:
    """True for an arm that the body hides."""
    arm = frame.bones.arms[side]
    return frame.depth(arm.root) < -0.08 or frame.depth(arm.end) < -0.12


def _is_hidden(frame: Frame, carried: Carried) -> bool:
    """True for what hangs on the far side of somebody seen from the side, as captions assume."""
    view = frame.pose.view
    return view in (View.LEFT, View.RIGHT) and carried.side not in (None, view.value)


# Torso and legs.

# Height, half width of men and of women, half depth, in metres, from the neck to the hips.
_TORSO = np.array(
    [
        (1.535, 0.058, 0.047, 0.055),
        (1.475, 0.080, 0.070, 0.066),
        (1.440, 0.165, 0.135, 0.090),
        (1.400, 0.192, 0.158, 0.097),
        (1.235, 0.168, 0.142, 0.118),
        (1.090, 0.150, 0.120, 0.100),
        (0.960, 0.160, 0.160, 0.112),
        (0.835, 0.164, 0.170, 0.115),
    ]
)
_WIDER = {Build.SLIM: -0.010, Build.MEDIUM: 0.006, Build.HEAVY: 0.040}
_HEM = {"tank top": 0.89, "shirt": 0.84, "blazer": 0.80}
_LEG_RADII = {
    "jeans": (0.092, 0.066, 0.054),
    "trousers": (0.092, 0.072, 0.064),
    "leggings": (0.086, 0.056, 0.042),
    "shorts": (0.096, 0.092, 0.090),
}
_SKIRT_HEM = {"short": 0.62, "knee-length": 0.46, "long": 0.17}
_FAR = 0.82
"""Brightness of a limb on the side that is turned away."""


def _row(frame: Frame, up: float, ease: float) -> tuple[float, float, float]:
    """The torso at a height: the x of its middle, half its width as seen, and its y."""
    heights = _TORSO[::-1, 0]
    column = 1 if frame.person.sex is Sex.MALE else 2
    width, depth = (float(np.interp(up, heights, _TORSO[::-1, i])) for i in (column, 3))
    wider = ease + (_WIDER[frame.person.build] if up < 1.46 else 0.0)
    x, y = frame.at(0, up, frame.bones.lean * max(0.0, up - 0.95) / 0.55)
    return x, frame.half(width + wider, depth + wider), y


def _torso(frame: Frame, top: float, bottom: float, ease: float) -> list[Flat]:
    """The outline of what covers the torso, `ease` wider than the body."""
    inner = [row[0] for row in _TORSO if bottom < row[0] < top]
    rows = [_row(frame, up, ease) for up in (top, *inner, bottom)]
    return [(x - half, y) for x, half, y in rows] + [(x + half, y) for x, half, y in rows[::-1]]


def _skirt(frame: Frame, top: float, bottom: float, flare: float) -> list[Flat]:
    """The outline of what hangs from the hips to `bottom` and swings with the legs."""
    outline = _torso(frame, top, 0.88, 0.012)
    y = frame.at(0, bottom, 0)[1]
    legs = [frame.limb(leg)[::-1] for leg in frame.bones.legs.values()]
    feet = [float(np.interp(y, [p[1] for p in leg], [p[0] for p in leg])) for leg in legs]
    half = len(outline) // 2
    left = min(outline[half - 1][0] - flare, min(feet) - 0.07)
    right = max(outline[half][0] + flare, max(feet) + 0.07)
    return [*outline[:half], (left, y), (right, y), *outline[half:]]


def _paint_patch(
    frame: Frame, around: tuple[float, float], heights: tuple[float, float], paint: Paint
) -> None:
    """What of a patch on the torso shows: `around` in radians from ahead to the left."""
    middle, half = (around[0] + around[1]) / 2, (around[1] - around[0]) / 2
    facing = (middle + frame.yaw + math.pi) % (2 * math.pi) - math.pi
    edges = [max(-math.pi / 2, min(math.pi / 2, facing + sign * half)) for sign in (-1, 1)]
    if edges[1] - edges[0] < 0.02:
        return
    rows = [_row(frame, up, 0.012) for up in np.linspace(*heights, 5)]
    left, right = ([(x + h * math.sin(a), y) for x, h, y in rows] for a in edges)
    frame.layer.fill([left + right[::-1]], paint, edge=False)


def _paint_torso(frame: Frame) -> None:
    """Neck, what is worn on the hips, the upper garment, and the jacket over it."""
    person, layer = frame.person, frame.layer
    upper, lower, jacket = person.upper, person.lower, person.jacket
    layer.fill([_torso(frame, 1.56, 1.40, 0.0)], Paint(SKIN[person.skin]).shaded(0.93))
    if lower and lower.kind == "skirt":
        layer.fill([_skirt(frame, 1.08, _SKIRT_HEM[lower.length or "short"], 0.06)], _cloth(lower))
    elif lower:
        layer.fill([_torso(frame, 1.08, 0.835, 0.004)], _cloth(lower), edge=False)
    shape = _torso(frame, 1.48, _HEM.get(upper.kind, 0.865), 0.012)
    if upper.kind == "dress":
        shape = _skirt(frame, 1.48, _SKIRT_HEM[upper.length or "long"], 0.07)
    layer.fill([shape], _cloth(upper))
    neck = 0.07 if upper.kind in ("tank top", "dress") else 0.035
    _paint_patch(frame, (-0.9, 0.9), (1.5, 1.475 - neck), Paint(SKIN[person.skin]))
    if upper.kind in ("shirt", "polo shirt"):
        bottom = 0.86 if upper.kind == "shirt" else 1.34
        _paint_patch(frame, (-0.06, 0.06), (1.44, bottom), _plain(upper.colour).shaded(0.8))
        for sign in (-1, 1):
            ends = (0.1, 0.75) if sign > 0 else (-0.75, -0.1)
            _paint_patch(frame, ends, (1.49, 1.435), _plain(upper.colour).shaded(0.9))
    if upper.kind == "hoodie":
        _paint_patch(frame, (-0.75, 0.75), (1.08, 0.94), _plain(upper.colour).shaded(0.85))
        _paint_patch(frame, (2.0, 4.3), (1.5, 1.36), _plain(upper.colour).shaded(0.85))
    if upper.pattern is Pattern.PRINTED and upper.second_colour:
        for wide, top, bottom in ((0.6, 1.34, 1.22), (0.45, 1.19, 1.16), (0.6, 1.14, 1.11)):
            _paint_patch(frame, (-wide, wide), (top, bottom), _plain(upper.second_colour))
    if jacket:
        _paint_jacket(frame, jacket, _cloth(upper))
    if person.scarf:
        _paint_patch(frame, (-3.2, 3.2), (1.54, 1.43), _plain(person.scarf))
        _paint_patch(frame, (0.1, 0.5), (1.46, 1.18), _plain(person.scarf))


def _paint_jacket(frame: Frame, jacket: Jacket, under: Paint) -> None:
    bottom = _HEM.get(jacket.kind, 0.85)
    shape = _torso(frame, 1.485, bottom, 0.024)
    if jacket.kind == "coat":
        shape = _skirt(frame, 1.485, 0.50, 0.03)
    paint = _plain(jacket.colour)
    frame.layer.fill([shape], paint)
    gap = 0.42 if jacket.open else 0.03
    front = under if jacket.open else paint.shaded(0.75)
    _paint_patch(frame, (-gap, gap), (1.44, bottom), front)
    if jacket.kind in ("coat", "blazer"):
        for low in (-gap - 0.3, gap):
            _paint_patch(frame, (low, low + 0.3), (1.47, 1.22), paint.shaded(0.85))
    if jacket.kind == "vest":
        for up in np.arange(1.35, bottom, -0.12):
            for low in (gap, -gap - 1.5):
                _paint_patch(frame, (low, low + 1.5), (up, up - 0.012), paint.shaded(0.8))


def _paint_leg(frame: Frame, side: Side) -> None:
    """One leg with what covers it, and its shoe."""
    light = _FAR if frame.is_far(side) else 1.0
    person, layer, points = frame.person, frame.layer, frame.limb(frame.bones.legs[side])
    wider = 0.5 * _WIDER[person.build]
    lower, shoe = person.lower, person.footwear
    skin = Paint(SKIN[person.skin]).shaded(light)
    layer.tube(points, [0.082 + wider, 0.054 + wider, 0.036 + wider], skin)
    if shoe.socks:
        layer.tube(
            [_between(points[1], points[2], 0.7), points[2]], [0.042, 0.040], _plain(shoe.socks)
        )
    _paint_shoe(frame, side, light)
    if lower and lower.kind != "skirt":
        radii = [radius + wider for radius in _LEG_RADII[lower.kind]]
        share = {"short": 0.0, "cropped": 0.7}.get(lower.length or "long", 1.0)
        if lower.kind == "shorts":
            points = [points[0], _between(points[0], points[1], 0.8)]
            radii = radii[:2]
        else:
            points = [*points[:2], _between(points[1], points[2], share)]
        layer.tube(points, radii, _cloth(lower).shaded(light))
    if shoe.kind == "boots":
        knee, ankle = frame.limb(frame.bones.legs[side])[1:]
        paint = _plain(shoe.colour).shaded(light)
        layer.tube([_between(knee, ankle, 0.45), ankle], [0.064, 0.052], paint)


def _between(start: Flat, end: Flat, share: float) -> Flat:
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def _paint_shoe(frame: Frame, side: Side, light: float) -> None:
    shoe, layer = frame.person.footwear, frame.layer
    leg, toe = frame.bones.legs[side], frame.bones.toes[side]
    ankle, tip = frame.seen(leg.end), frame.seen(toe)
    heel = frame.seen(leg.end + np.array([0.0, -0.046, 0.0]))
    upper, sole = _plain(shoe.colour).shaded(light), _plain(shoe.sole_colour).shaded(light)
    layer.tube([heel, tip], [0.041, 0.037], sole)
    back, front = (heel[0], heel[1] + 0.013), (tip[0], tip[1] + 0.013)
    if shoe.kind in ("sandals", "flats"):
        layer.tube([back, front], [0.035, 0.033], Paint(SKIN[frame.person.skin]).shaded(light))
        end = 0.75 if shoe.kind == "sandals" else 1.0
        ends = [_between(back, front, 0.6), _between(back, front, end)]
        layer.tube(ends, [0.037, 0.036], upper)
        return
    layer.tube([ankle, back, front], [0.040, 0.043, 0.037], upper)
    if shoe.kind == "sneakers":
        layer.disc(_between(back, front, 0.55), 0.018, 0.010, sole)


# Arms, head and hair.


def _paint_arm(frame: Frame, side: Side) -> None:
    """One arm with its sleeve, and the hand."""
    light = _FAR if frame.is_far(side) else 1.0
    person, layer, arm = frame.person, frame.layer, frame.bones.arms[side]
    points = frame.limb(arm)
    skin = Paint(SKIN[person.skin]).shaded(light)
    forearm = (arm.end - arm.middle) / np.linalg.norm(arm.end - arm.middle)
    layer.tube([points[2], frame.seen(arm.end + 0.07 * forearm)], [0.026, 0.028], skin)
    upper, jacket = person.upper, person.jacket
    wider = 0.35 * _WIDER[person.build] - (0.006 if person.sex is Sex.FEMALE else 0.0)
    if upper.sleeve != "long":
        layer.tube(points, [0.047 + wider, 0.039 + wider, 0.027], skin)
    if upper.sleeve == "short":
        half = [points[0], _between(points[0], points[1], 0.6)]
        layer.tube(half, [0.060 + wider, 0.060 + wider], _cloth(upper).shaded(light))
    elif upper.sleeve == "long":
        radii = [0.060 + wider, 0.053 + wider, 0.043 + wider]
        layer.tube(points, radii, _cloth(upper).shaded(light))
    if jacket and jacket.kind != "vest":
        radii = [0.064 + wider, 0.060 + wider, 0.050 + wider]
        layer.tube(points, radii, _plain(jacket.colour).shaded(light))


def _on_head(frame: Frame, left: float, up: float, forward: float) -> Flat:
    return frame.seen(frame.bones.head + np.array([left, up, forward]))


def _paint_head(frame: Frame) -> None:
    """The head with all that is on it."""
    person, layer = frame.person, frame.layer
    hair, skin = Paint(HAIR[person.hair.colour]), Paint(SKIN[person.skin])
    layer.fill([ellipse(_on_head(frame, 0, 0.005, -0.014), frame.half(0.090, 0.104), 0.128)], hair)
    if person.hair.style == "curly":
        for turn in np.linspace(0, 2 * math.pi, 11, endpoint=False):
            curl = _on_head(frame, 0.085 * math.sin(turn), 0.075, 0.085 * math.cos(turn) - 0.01)
            layer.disc(curl, 0.034, 0.034, hair.shaded(1.15))
    if frame.cosine > -0.45:
        _paint_face(frame, skin, hair)
    else:
        layer.disc(_on_head(frame, 0, -0.10, -0.02), 0.055, 0.035, skin)
        layer.disc(_on_head(frame, 0, -0.03, -0.03), 0.084, 0.07, hair)
    if frame.cosine <= 0.15:
        _paint_loose_hair(frame)
    for sign in (1, -1):  # locks that frame the face
        if person.hair.length != "short" and _is_loose(frame) and frame.sine * sign <= 0.75:
            down = -0.30 if person.hair.length == "long" else -0.13
            lock = [_on_head(frame, sign * 0.082, up, 0.02) for up in (0.04, down)]
            layer.tube(lock, [0.02, 0.022], hair)
    if person.headwear:
        _paint_headwear(frame, person.headwear.kind, _plain(person.headwear.colour))


def _paint_face(frame: Frame, skin: Paint, hair: Paint) -> None:
    person, layer = frame.person, frame.layer
    near = 0.6 + 0.4 * abs(frame.cosine)
    layer.disc(_on_head(frame, 0, -0.020, 0.022), frame.half(0.074, 0.078), 0.094, skin)
    if person.beard:
        layer.disc(_on_head(frame, 0, -0.072, 0.034), frame.half(0.062, 0.060), 0.046, hair)
    layer.disc(_on_head(frame, 0, -0.062, 0.09), 0.024 * near, 0.007, Paint((160, 80, 76)))
    layer.disc(_on_head(frame, 0, -0.022, 0.103), 0.012, 0.015, skin.shaded(0.88))
    frames = Paint((24, 24, 28))
    for sign in (1, -1):
        if frame.sine * sign > 0.62:
            continue
        eye = _on_head(frame, sign * 0.034, 0.004, 0.086)
        if person.glasses:
            layer.disc(eye, 0.030 * near, 0.023, frames)
            temple = [
                _on_head(frame, sign * 0.02, 0.008, 0.09),
                _on_head(frame, sign * 0.08, 0.008, 0),
            ]
            layer.tube(temple, [0.004, 0.004], frames)
        if person.glasses != "sunglasses":
            layer.disc(eye, 0.021 * near, 0.015, Paint((245, 243, 238)))
            layer.disc(eye, 0.009 * near, 0.010, Paint((52, 38, 30)))


def _is_loose(frame: Frame) -> bool:
    return frame.person.hair.style not in ("ponytail", "bun")


def _paint_loose_hair(frame: Frame) -> None:
    """Hair down the neck and the back, a ponytail or a bun."""
    hair, layer = frame.person.hair, frame.layer
    paint = Paint(HAIR[hair.colour])
    if hair.style == "bun":
        layer.disc(_on_head(frame, 0, 0.132, -0.045), 0.052, 0.044, paint.shaded(1.1))
    elif hair.style == "ponytail":
        tail = ((0, 0.050, -0.095), (0, 0.0, -0.150), (0.01, -0.14, -0.150), (0, -0.27, -0.12))
        layer.tube([_on_head(frame, *p) for p in tail], [0.024, 0.036, 0.034, 0.010], paint)
    elif hair.length != "short":
        low = -0.37 if hair.length == "long" else -0.17
        ups = np.linspace(0.04, low, 8)
        wave = 0.010 if hair.style == "wavy" else 0.0
        radii = [frame.half(0.092, 0.060) + wave * math.sin(4 * i) for i in range(8)]
        layer.tube([_on_head(frame, 0, up, -0.055) for up in ups], radii, paint)


def _paint_headwear(frame: Frame, kind: str, paint: Paint) -> None:
    layer, half = frame.layer, frame.half(0.094, 0.110)
    x, y = _on_head(frame, 0, 0.035, -0.006)
    high = 0.135 if kind == "knit hat" else 0.118
    dome = [(x + half * c, y + high * s) for c, s in CIRCLE if s > -0.01]
    brim = [_on_head(frame, 0.085 * s, 0.04 - 0.03 * c, 0.07 + 0.11 * c) for s, c in CIRCLE]
    if kind == "baseball cap" and frame.cosine < 0:
        layer.fill([brim], paint.shaded(0.9))
    layer.fill([dome], paint)
    if kind == "knit hat":
        layer.tube([(x - half, y), (x + half, y)], [0.018, 0.018], paint.shaded(0.85))
        layer.disc((x, y + high), 0.026, 0.026, paint.shaded(0.85))
    elif kind == "sun hat":
        layer.fill([ellipse((x, y), 0.195, 0.044)], paint)
        band = [(x - half * 0.95, y + 0.03), (x + half * 0.95, y + 0.03)]
        layer.tube(band, [0.014, 0.014], Paint((52, 46, 44)))
    elif frame.cosine >= 0:
        layer.fill([brim], paint.shaded(0.9))


# Bags, the umbrella, and the phone.

_BAGS = {  # half width from the front and from the side, height, drop below the hand
    "handbag": (0.115, 0.150, 0.21, 0.085),
    "briefcase": (0.105, 0.215, 0.27, 0.035),
    "shopping bag": (0.120, 0.165, 0.33, 0.095),
    "shoulder bag": (0.085, 0.155, 0.23, 0.0),
}


def _paint_backpack(frame: Frame, carried: Carried) -> None:
    paint, rows = _plain(carried.colour), []
    for up, width in ((1.47, 0.08), (1.43, 0.145), (1.20, 0.16), (1.02, 0.155), (0.985, 0.13)):
        x, y = frame.at(0, up, -0.205 + 0.6 * frame.bones.lean)
        rows.append((x, frame.half(width, 0.09), y))
    left, right = ([(x + sign * half, y) for x, half, y in rows] for sign in (-1, 1))
    frame.layer.fill([left + right[::-1]], paint)
    x, half, y = rows[3]
    if frame.cosine < 0:
        pocket = [(x + 0.7 * sign * half, y + up) for sign, up in _CORNERS]
        frame.layer.fill([pocket], paint.shaded(0.9))


_CORNERS = ((-1, 0.0), (1, 0.0), (1, 0.16), (-1, 0.16))


def _hand(frame: Frame, side: Side) -> Flat:
    arm = frame.bones.arms[side]
    return frame.seen(arm.end + 0.28 * (arm.end - arm.middle))


def _paint_carried(frame: Frame, carried: Carried) -> None:
    """An umbrella, or a bag that hangs from a hand or a shoulder."""
    layer, paint = frame.layer, _plain(carried.colour)
    side = carried.side or Side.RIGHT
    hand = _hand(frame, side)
    if carried.kind == "umbrella":
        x, y = hand[0] * 0.75, frame.at(0, 2.12, 0)[1]
        layer.tube([(hand[0], hand[1] - 0.12), (x, y)], [0.012, 0.009], Paint((60, 58, 60)))
        for wide, brightness in ((0.43, 1.0), (0.26, 0.88), (0.09, 1.0)):
            dome = [(x + wide * c, y - 0.21 + 0.23 * s) for c, s in CIRCLE if s > -0.01]
            layer.fill([dome], paint.shaded(brightness))
        return
    front, aside, high, drop = _BAGS[carried.kind]
    half = front * abs(frame.cosine) + aside * abs(frame.sine)
    ends = [(hand[0] + sign * half * 0.5, hand[1] - drop) for sign in (-1, 1)]
    top, straps = (hand[0], hand[1] - drop), [[end, hand] for end in ends]
    if carried.kind == "shoulder bag":
        sign = 1 if side is Side.LEFT else -1
        top = frame.at(sign * 0.225, 1.10, 0.03)
        straps = [[frame.at(sign * 0.115, 1.485, f), (top[0], top[1])] for f in (-0.02, 0.02)]
    for strap in straps:
        layer.tube(strap, [0.010, 0.010], paint.shaded(0.8))
    x, y = top
    narrow = 1.0 if carried.kind == "shopping bag" else 0.9
    layer.fill(
        [
            [
                (x - half * narrow, y),
                (x + half * narrow, y),
                (x + half, y - high),
                (x - half, y - high),
            ]
        ],
        paint,
    )
    if carried.kind != "shopping bag":
        layer.disc((x, y - 0.45 * high), 0.014, 0.016, Paint((206, 182, 110)))


def _paint_phone(frame: Frame) -> None:
    """The phone in the free hand, where the action is about one."""
    if frame.pose.action in (Action.PHONE, Action.CALL):
        x, y = _hand(frame, free_hand(frame.person))
        y += 0.01 if frame.pose.action is Action.CALL else 0.045
        wide = 0.022 + 0.016 * abs(frame.cosine)
        outline = [(x + sign * wide, y - 0.08 + up) for sign, up in _CORNERS]
        frame.layer.fill([outline], Paint((26, 27, 32)))
