"""What of a person can be seen in an image: captions may say nothing else."""

from schemas.base import Record
from sources.demonstration.people import (
    Age,
    Build,
    Carried,
    Footwear,
    Garment,
    Hair,
    Headwear,
    Jacket,
    Pattern,
    Person,
    Sex,
)
from sources.demonstration.poses import Action, Pose, View


class Visible(Record):
    """The visible part of a person's attributes; None where an attribute does not show or exist.

    `open_jacket` is None where one cannot tell, or where there is no jacket.
    """

    sex: Sex
    age: Age | None
    build: Build
    skin: str | None
    hair: Hair
    beard: bool
    headwear: Headwear | None
    glasses: str | None
    scarf: str | None
    upper: Garment | None
    jacket: Jacket | None
    open_jacket: bool | None
    lower: Garment | None
    footwear: Footwear
    carried: Carried | None
    action: Action
    view: View


def visible_attributes(person: Person, pose: Pose) -> Visible:
    """What shows of `person` in `pose`."""
    back, front = pose.view is View.BACK, pose.view is View.FRONT
    return Visible(
        sex=person.sex,
        age=None if back and person.age is not Age.ELDERLY else person.age,
        build=person.build,
        skin=None if back else person.skin,
        hair=_hair(person.hair, front=front),
        beard=person.beard and not back,
        headwear=person.headwear,
        glasses=None if back else person.glasses,
        scarf=None if back and person.hair.length != "short" else person.scarf,
        upper=_upper(person, front=front),
        jacket=person.jacket,
        open_jacket=person.jacket.open if person.jacket and front else None,
        lower=person.lower,
        footwear=person.footwear,
        carried=_carried(person.carried, pose.view),
        action=pose.action,
        view=pose.view,
    )


def _hair(hair: Hair, *, front: bool) -> Hair:
    """From the front a ponytail only shows as hair that is tied back."""
    return hair.model_copy(update={"style": "tied"}) if front and hair.style == "ponytail" else hair


def _upper(person: Person, *, front: bool) -> Garment | None:
    """The upper garment without its print, which is on the chest, where that does not show."""
    jacket = person.jacket
    if jacket and jacket.kind != "vest" and not (front and jacket.open):
        return None
    garment = person.upper
    if jacket and jacket.kind != "vest":
        garment = garment.model_copy(update={"sleeve": None})
    if garment.pattern is Pattern.PRINTED and not front:
        plain = {"pattern": Pattern.PLAIN, "second_colour": None}
        garment = garment.model_copy(update=plain)
    return garment


def _carried(carried: Carried | None, view: View) -> Carried | None:
    """What hangs on the far side of somebody seen from the side is hidden; an umbrella never is."""
    if carried is None or carried.side is None or carried.kind == "umbrella":
        return carried
    hidden = {View.LEFT: "right", View.RIGHT: "left"}.get(view)
    return None if carried.side == hidden else carried
