"""Head, face, hair, headwear and glasses."""

import math

import numpy as np

from sources.demonstration.clothing import skin
from sources.demonstration.people import CLOTH, HAIR, SKIN, Age, Headwear, Rgb, Sex, plain, strands
from sources.demonstration.poses import Frame, Rows
from sources.demonstration.strokes import Flat, Mask, Surface, Texture

# Rows of the head around its middle: height, half width, half depth, how far forward.
_SKULL = (
    (0.122, 0.006, 0.006, -0.012),
    (0.112, 0.042, 0.050, -0.010),
    (0.085, 0.068, 0.084, -0.006),
    (0.040, 0.079, 0.097, -0.004),
    (-0.010, 0.079, 0.096, -0.002),
    (-0.050, 0.070, 0.080, 0.012),
    (-0.085, 0.052, 0.058, 0.026),
    (-0.110, 0.030, 0.034, 0.042),
    (-0.119, 0.008, 0.008, 0.050),
)
_LIP = {"fair": (190, 92, 92), "tan": (164, 82, 76), "brown": (118, 62, 56), "dark": (84, 46, 44)}


def paint_hair_behind(frame: Frame) -> None:
    """What falls behind the shoulders of somebody who faces us."""
    if frame.cosine > 0.15:
        _paint_fall(frame)
        _paint_knot(frame)


def paint_head(frame: Frame) -> None:
    """The head with all that is on it."""
    if frame.cosine <= 0.15:
        _paint_fall(frame)
    _paint_ears(frame)
    face = frame.layer.body(_head_rows(frame, 0.0))
    frame.layer.paint(face, skin(frame))
    if frame.cosine > -0.35:
        _paint_face(frame)
    hair = frame.layer.body(_head_rows(frame, 0.012))
    frame.layer.paint(hair.part(_is_hair(frame, hair)), _hair_texture(frame))
    _paint_curls(frame)
    if frame.cosine <= 0.15:
        _paint_fall(frame, over_head=True)
        _paint_knot(frame)
    _paint_locks(frame)
    if frame.person.glasses and frame.cosine > -0.35:
        _paint_glasses(frame)
    if frame.person.headwear:
        _paint_headwear(frame, frame.person.headwear)


def _hair_texture(frame: Frame) -> Texture:
    return strands(HAIR[frame.person.hair.colour], frame.person.hair.style)


def _head_rows(frame: Frame, ease: float, low: float = -1.0, high: float = 1.0) -> Rows:
    rows: Rows = []
    for up, width, depth, forward in _SKULL:
        if low <= up <= high:
            x, y = _on_head(frame, 0, up + ease * (1 if up > 0 else 0.2), forward)
            half = frame.half(width + ease, depth + ease)
            rows.append((y, x - half, x + half))
    return rows


def _on_head(frame: Frame, left: float, up: float, forward: float) -> Flat:
    return frame.seen(frame.bones.head + np.array([left, up, forward]))


def _is_hair(frame: Frame, surface: Surface) -> Mask:
    """Which part of the skull hair grows on: above a line that goes down from brow to nape."""
    height = surface.y - _on_head(frame, 0, 0, 0)[1]
    around = np.abs(frame.azimuth(surface))
    female = frame.person.sex is Sex.FEMALE
    temple, nape = (-0.045, -0.080) if female else (-0.018, -0.075)
    brow = 0.052 if female else 0.064
    line = np.interp(
        around,
        (0, 0.5, 0.9, 1.15, 1.45, 1.8, 3.2),
        (brow + 0.006, brow, brow - 0.012, temple + 0.03, temple, -0.03, nape),
    )
    return np.asarray(height > line, np.bool_)


def _paint_ears(frame: Frame) -> None:
    for sign in (1, -1):
        if frame.sine * sign < 0.55:
            ear = frame.layer.disc(_on_head(frame, sign * 0.080, -0.012, -0.004), 0.017, 0.027)
            frame.layer.paint(ear, skin(frame, 0.92))


def _paint_face(frame: Frame) -> None:
    layer, person = frame.layer, frame.person
    tone, near = SKIN[person.skin], 0.6 + 0.4 * abs(frame.cosine)
    hair = HAIR[person.hair.colour]
    cheek = plain((min(255, tone[0] + 4), int(tone[1] * 0.93), int(tone[2] * 0.92)))
    _paint_nose(frame, tone)
    for sign in (1, -1):
        if frame.sine * sign > 0.62:
            continue
        eye = _on_head(frame, sign * 0.033, 0.004, 0.084)
        layer.paint(layer.disc((eye[0], eye[1] - 0.036), 0.017 * near, 0.012), cheek, round_=0.1)
        layer.paint(layer.disc(eye, 0.0165 * near, 0.0092), plain((245, 243, 238)), round_=0)
        layer.paint(layer.disc(eye, 0.0088 * near, 0.0090), plain((52, 38, 30)), round_=0)
        up, tilt = eye[1] + 0.0205, 0.0015 * sign  # the inner ends higher, or all look angry
        brow = [(eye[0] - 0.020 * near, up + tilt), (eye[0] + 0.020 * near, up - tilt)]
        layer.paint(layer.tube(brow, [0.0042, 0.0042]), plain(hair, 0, 0.8), round_=0)
    if person.beard:
        _paint_beard(frame, hair)
    mouth = _on_head(frame, 0, -0.062, 0.088)
    lips = layer.disc(mouth, 0.023 * near, 0.0075 if person.sex is Sex.FEMALE else 0.0055)
    layer.paint(lips, plain(_LIP[person.skin]), round_=0)
    if person.age is not Age.YOUNG:
        _paint_lines(frame)


def _paint_nose(frame: Frame, tone: Rgb) -> None:
    layer = frame.layer
    points = [_on_head(frame, 0, 0.006, 0.092), _on_head(frame, 0, -0.026, 0.106)]
    layer.paint(layer.tube(points, [0.008, 0.0135]), plain(tone))
    shade = [_on_head(frame, -0.011, -0.034, 0.098), _on_head(frame, 0.011, -0.034, 0.098)]
    layer.darken(layer.tube(shade, [0.004, 0.004]), 0.2)


def _paint_beard(frame: Frame, hair: Rgb) -> None:
    surface = frame.layer.body(_head_rows(frame, 0.004))
    height = surface.y - _on_head(frame, 0, 0, 0)[1]
    around = np.abs(frame.azimuth(surface))
    jaw = (height < -0.040 - 0.012 * np.cos(around * 3)) & (around < 1.45)
    side = (around > 1.05) & (around < 1.4) & (height < 0.0)
    frame.layer.paint(surface.part(jaw | side), plain(hair, 0.05))


def _paint_lines(frame: Frame) -> None:
    """Folds from nose to mouth, and for the elderly lines on the forehead."""
    layer = frame.layer
    for sign in (1, -1):
        if frame.sine * sign < 0.4:
            fold = [
                _on_head(frame, sign * 0.026, -0.036, 0.086),
                _on_head(frame, sign * 0.035, -0.062, 0.078),
            ]
            layer.darken(layer.tube(fold, [0.0026, 0.0026]), 0.16)
    if frame.person.age is Age.ELDERLY:
        for up in (0.038, 0.050):
            line = [_on_head(frame, -0.035, up, 0.085), _on_head(frame, 0.035, up, 0.085)]
            layer.darken(layer.tube(line, [0.0022, 0.0022]), 0.13)


def _paint_curls(frame: Frame) -> None:
    hair = frame.person.hair
    if hair.style != "curly":
        return
    for number in range(44):
        turn, height = number * 2.399963, 0.128 - 0.155 * (number / 44)
        if abs((turn + math.pi) % (2 * math.pi) - math.pi) < 1.0 and height < 0.07:
            continue
        ring = 0.088 * math.sqrt(max(0.0, 1 - (max(height, 0) / 0.138) ** 2))
        point = frame.bones.head + np.array(
            [ring * math.sin(turn), height, 1.12 * ring * math.cos(turn) - 0.008]
        )
        if frame.depth(point) > frame.depth(frame.bones.head) - 0.03:
            shine = 0.9 + 0.25 * ((number * 7) % 5) / 5
            curl = frame.layer.disc(frame.seen(point), 0.021, 0.021)
            frame.layer.paint(curl, plain(HAIR[hair.colour], 0.0, shine))


def _length(frame: Frame) -> float:
    """How far below the middle of the head loose hair ends, in metres; 0 where it is not loose."""
    hair = frame.person.hair
    if hair.style in ("ponytail", "bun"):
        return 0.0
    return {"short": 0.0, "medium": 0.185, "long": 0.40}[hair.length]


def _paint_fall(frame: Frame, *, over_head: bool = False) -> None:
    """Loose hair down the neck and the back."""
    length = _length(frame)
    if not length:
        return
    top = 0.085 if over_head else 0.06
    wave = 0.010 if frame.person.hair.style == "wavy" else 0.0
    rows: Rows = []
    for share in np.linspace(0, 1, 9):
        up = top - float(share) * (top + length)
        wide = 0.088 + 0.022 * math.sin(share * math.pi * 0.75) - (0.02 if share > 0.95 else 0)
        x, y = _on_head(frame, 0, up, -0.046 - 0.03 * share)
        half = frame.half(wide, 0.052 + 0.012 * share) + wave * math.sin(share * 22)
        rows.append((y, x - half, x + half))
    frame.layer.paint(frame.layer.body(rows), _hair_texture(frame))


def _paint_locks(frame: Frame) -> None:
    """Loose hair that frames the face and falls before the shoulders."""
    length = _length(frame)
    if not length or frame.cosine < -0.2:
        return
    for sign in (1, -1):
        if frame.sine * sign > 0.75:
            continue
        side = sign * 0.078
        points = [
            _on_head(frame, side * 0.92, 0.050, 0.030),
            _on_head(frame, side * 1.14, -0.045, 0.022),
            _on_head(frame, side * 1.22, -0.14, 0.028),
        ]
        radii = [0.020, 0.024, 0.026]
        if length > 0.3:
            points.append(_on_head(frame, side * 1.2, -0.33, 0.075))
            radii.append(0.014)
        else:
            radii[-1] = 0.018
        frame.layer.paint(frame.layer.tube(points, radii), _hair_texture(frame))


def _paint_knot(frame: Frame) -> None:
    """A ponytail or a bun."""
    hair, layer, texture = frame.person.hair, frame.layer, _hair_texture(frame)
    if hair.style == "bun":
        layer.paint(layer.disc(_on_head(frame, 0, 0.132, -0.045), 0.052, 0.044), texture)
    if hair.style == "ponytail":
        points = [
            (0.0, 0.050, -0.095),
            (0.0, 0.0, -0.150),
            (0.01, -0.14, -0.150),
            (0, -0.27, -0.12),
        ]
        seen = [_on_head(frame, *point) for point in points]
        layer.paint(layer.tube(seen, [0.024, 0.036, 0.034, 0.010]), texture)
        layer.paint(layer.disc(seen[0], 0.022, 0.022), plain((120, 40, 60)))


def _paint_glasses(frame: Frame) -> None:
    layer, person = frame.layer, frame.person
    near, frame_colour = 0.55 + 0.45 * abs(frame.cosine), plain((24, 24, 28))
    sun = person.glasses == "sunglasses"
    bridge = [_on_head(frame, -0.06, 0.008, 0.082), _on_head(frame, 0.06, 0.008, 0.082)]
    layer.paint(layer.tube(bridge, [0.0045, 0.0045]), frame_colour, round_=0)
    for sign in (1, -1):
        if frame.sine * sign < 0.3:
            arm = [
                _on_head(frame, sign * 0.066, 0.008, 0.07),
                _on_head(frame, sign * 0.082, 0.004, 0),
            ]
            layer.paint(layer.tube(arm, [0.0045, 0.0045]), frame_colour, round_=0)
        if frame.sine * sign > 0.62:
            continue
        eye = _on_head(frame, sign * 0.034, 0.002, 0.088)
        rim = layer.disc(eye, 0.0285 * near, 0.0225)
        if sun:
            layer.paint(rim, frame_colour, round_=0)
            layer.paint(
                layer.disc((eye[0] - 0.006, eye[1] + 0.007), 0.006, 0.004),
                plain((110, 115, 130)),
                round_=0,
            )
        else:
            hole = (rim.x - eye[0]) ** 2 / (0.0225 * near) ** 2 + (rim.y - eye[1]) ** 2 / 0.0165**2
            layer.paint(rim.part(hole > 1), frame_colour, round_=0)


def _paint_headwear(frame: Frame, headwear: Headwear) -> None:
    texture = plain(CLOTH[headwear.colour], 0.03)
    if headwear.kind == "knit hat":
        _paint_knit_hat(frame, texture)
    elif headwear.kind == "baseball cap":
        _paint_cap(frame, texture)
    else:
        _paint_sun_hat(frame, texture)


def _dome(frame: Frame, ease: float, low: float, top: float) -> Surface:
    """A hat's crown from `low` to `top` above the middle of the head."""
    rows: Rows = []
    for share in (0.0, 0.06, 0.25, 0.55, 1.0):
        up = top - share * (top - low)
        grown = math.sqrt(max(0.0, 1 - (1 - share) ** 2.6))
        half = frame.half((0.080 + ease) * grown, (0.098 + ease) * grown)
        x, y = _on_head(frame, 0, up, -0.006)
        rows.append((y, x - half, x + half))
    return frame.layer.body(rows)


def _paint_knit_hat(frame: Frame, texture: Texture) -> None:
    dome = _dome(frame, 0.014, 0.030, 0.168)
    layer = frame.layer
    layer.paint(dome, texture)
    layer.darken(dome.part(np.asarray((dome.turn * 9) % 1 < 0.18, bool)), 0.12)
    band = dome.part(dome.along > 0.095)
    layer.paint(band, texture)
    layer.darken(band.part((band.turn * 14) % 1 < 0.3), 0.15)
    layer.darken(band.part(band.along < 0.100), 0.3)
    x, y = _on_head(frame, 0, 0.172, -0.006)
    layer.paint(layer.disc((x, y), 0.026, 0.026), texture)


def _paint_cap(frame: Frame, texture: Texture) -> None:
    brim = [
        _on_head(
            frame, 0.078 * math.cos(t), 0.052 - 0.034 * math.sin(t), 0.070 + 0.095 * math.sin(t)
        )
        for t in np.linspace(-0.25, math.pi + 0.25, 24)
    ]
    layer = frame.layer
    if frame.cosine < 0:
        layer.paint(layer.polygon(brim), texture, round_=0.4)
    dome = _dome(frame, 0.012, 0.036, 0.150)
    layer.paint(dome, texture)
    seam = np.abs(np.sin(1.5 * frame.azimuth(dome))) < 0.05
    layer.darken(dome.part(np.asarray(seam, bool)), 0.18)
    if frame.cosine >= 0:
        shade = [(x, y - 0.014) for x, y in brim]
        layer.darken(layer.polygon(shade), 0.3)
        surface = layer.polygon(brim)
        layer.paint(surface, texture, round_=0.4)
        layer.darken(surface, 0.10)


def _paint_sun_hat(frame: Frame, texture: Texture) -> None:
    layer = frame.layer
    x, y = _on_head(frame, 0, 0.050, -0.004)
    layer.darken(layer.disc((x, y - 0.022), 0.19, 0.045), 0.25)
    brim = layer.disc((x, y), 0.195, 0.044)
    layer.paint(brim, texture, round_=0.7)
    layer.darken(brim.part(brim.along > 0.068), 0.18)
    dome = _dome(frame, 0.012, 0.052, 0.158)
    layer.paint(dome, texture)
    layer.paint(dome.part(dome.along > 0.078), plain((52, 46, 44)))
