"""The shapes of the body: torso, arms, legs, hands and feet, and their clothes' outlines."""

from itertools import pairwise

from sources.demonstration.people import Build, Sex, Side
from sources.demonstration.poses import Frame, Rows, between
from sources.demonstration.strokes import Flat, Surface

# Rows of the torso: height, half width, half depth, how far forward; in metres.
_TORSO = {
    Sex.MALE: (
        (1.535, 0.058, 0.060, 0.005),
        (1.490, 0.066, 0.066, 0.000),
        (1.466, 0.110, 0.080, -0.005),
        (1.440, 0.172, 0.095, -0.005),
        (1.400, 0.194, 0.102, -0.005),
        (1.320, 0.182, 0.112, 0.000),
        (1.230, 0.168, 0.116, 0.005),
        (1.090, 0.150, 0.106, 0.005),
        (0.960, 0.160, 0.112, -0.005),
        (0.860, 0.164, 0.114, -0.010),
    ),
    Sex.FEMALE: (
        (1.535, 0.047, 0.050, 0.005),
        (1.490, 0.053, 0.056, 0.000),
        (1.466, 0.088, 0.070, -0.005),
        (1.440, 0.140, 0.085, -0.005),
        (1.400, 0.158, 0.092, -0.003),
        (1.320, 0.148, 0.104, 0.008),
        (1.235, 0.142, 0.120, 0.020),
        (1.090, 0.120, 0.094, 0.005),
        (0.960, 0.160, 0.112, -0.008),
        (0.860, 0.170, 0.118, -0.014),
    ),
}
_WIDER = {Build.SLIM: -0.010, Build.MEDIUM: 0.006, Build.HEAVY: 0.036}
_BELLY = {Build.SLIM: 0.0, Build.MEDIUM: 0.0, Build.HEAVY: 0.03}


def torso_rows(frame: Frame, top: float, bottom: float, ease: float) -> Rows:
    """Rows of what covers the torso from `top` down to `bottom`, `ease` wider than the body."""
    person, table = frame.person, _TORSO[frame.person.sex]
    heights = [top, *(row[0] for row in table if bottom < row[0] < top), bottom]
    rows: Rows = []
    for height in heights:
        width, depth, forward = _row_at(table, height)
        lower = 1.0 if height < 1.46 else 0.3
        belly = _BELLY[person.build] * max(0.0, 1 - abs(height - 1.06) / 0.3)
        width += lower * _WIDER[person.build] + 0.6 * belly + ease
        depth += lower * _WIDER[person.build] + belly + ease
        x, y = frame.at(0, height, forward + belly * 0.6 + _lean(frame, height))
        rows.append((y, x - frame.half(width, depth), x + frame.half(width, depth)))
    return rows


def _row_at(table: tuple[tuple[float, ...], ...], height: float) -> tuple[float, float, float]:
    """Width, depth and forward shift at a height, between the two rows around it."""
    for upper, lower in pairwise(table):
        if height >= lower[0]:
            share = min(1.0, max(0.0, (upper[0] - height) / (upper[0] - lower[0])))
            width, depth, forward = (
                a + share * (b - a) for a, b in zip(upper[1:], lower[1:], strict=True)
            )
            return width, depth, forward
    return table[-1][1], table[-1][2], table[-1][3]


def _lean(frame: Frame, height: float) -> float:
    return frame.bones.lean * max(0.0, height - 0.95) / 0.55


def skirt_rows(frame: Frame, top: float, bottom: float, flare: float, ease: float) -> Rows:
    """Rows of what hangs from the hips to `bottom` and swings with the legs."""
    rows = torso_rows(frame, top, 0.90, ease)
    y_hip, left_hip, right_hip = rows[-1]
    y_hem = frame.at(0, bottom, 0)[1]
    legs = [frame.limb(leg) for leg in frame.bones.legs.values()]
    spread = [_crossing(points, y_hem) for points in legs]
    left = min(left_hip - flare, min(spread) - 0.07)
    right = max(right_hip + flare, max(spread) + 0.07)
    for share in (0.45, 0.8, 1.0):
        rows.append(
            (
                y_hip + share * (y_hem - y_hip),
                left_hip + share * (left - left_hip),
                right_hip + share * (right - right_hip),
            )
        )
    return rows


def _crossing(points: list[Flat], y: float) -> float:
    """The x at which a leg passes the height `y`."""
    for upper, lower in pairwise(points):
        if lower[1] <= y:
            share = (upper[1] - y) / max(1e-6, upper[1] - lower[1])
            return upper[0] + min(1.0, max(0.0, share)) * (lower[0] - upper[0])
    return points[-1][0]


def leg_tube(frame: Frame, side: Side, radii: tuple[float, float, float], until: float) -> Surface:
    """A leg down to `until`: 1 is the knee, 2 the ankle."""
    points = frame.limb(frame.bones.legs[side])
    more = 0.5 * _WIDER[frame.person.build]
    return _partial_tube(frame, points, tuple(r + more for r in radii), until)


def arm_tube(frame: Frame, side: Side, radii: tuple[float, float, float], until: float) -> Surface:
    """An arm down to `until`: 1 is the elbow, 2 the wrist."""
    points = frame.limb(frame.bones.arms[side])
    more = 0.35 * _WIDER[frame.person.build] - (0.006 if frame.person.sex is Sex.FEMALE else 0.0)
    return _partial_tube(frame, points, tuple(r + more for r in radii), until)


def _partial_tube(
    frame: Frame, points: list[Flat], radii: tuple[float, ...], until: float
) -> Surface:
    whole = int(until)
    kept, widths = points[: whole + 1], list(radii[: whole + 1])
    share = until - whole
    if share > 0:
        kept = [*kept, between(points[whole], points[whole + 1], share)]
        widths.append(radii[whole] + share * (radii[whole + 1] - radii[whole]))
    return frame.layer.tube(kept, widths, cut=True)
