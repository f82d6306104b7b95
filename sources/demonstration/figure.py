"""The figure of a person: its parts in the order in which they hide each other."""

from sources.demonstration import carrying, clothing, head
from sources.demonstration.frame import Frame
from sources.demonstration.people import Carried, Side
from sources.demonstration.poses import View


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
        carrying.paint_straps(frame, carried)
    clothing.paint_hood_or_scarf(frame)
    if carried and carried.kind == "backpack" and -0.9 < frame.cosine <= 0.1:
        carrying.paint_backpack(frame, carried)
    in_front = [side for side in arms if side not in behind]
    raised = [side for side in in_front if frame.bones.arms[side].end[1] > 1.45]
    for side in in_front:
        if side not in raised:
            clothing.paint_arm(frame, side)
    head.paint_head(frame)
    if carried and carried.kind == "backpack" and frame.cosine <= -0.9:
        carrying.paint_backpack(frame, carried)
    carrying.paint_phone(frame)
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
            carrying.paint_backpack(frame, carried)
        return
    if _is_hidden(frame, carried) is not behind:
        return
    if carried.kind == "umbrella":
        carrying.paint_umbrella(frame, carried)
    elif carried.kind == "shoulder bag":
        carrying.paint_shoulder_bag(frame, carried)
    else:
        carrying.paint_hand_carried(frame, carried)
