"""What can be changed in a picture, as plain values."""

from typing import Literal, NamedTuple

Side = Literal["left", "right"]
Manner = Literal["pencil sketch", "poster", "mosaic", "black-and-white picture"]

MANNERS: tuple[Manner, ...] = ("pencil sketch", "poster", "mosaic", "black-and-white picture")
"""The ways in which a picture can be drawn anew."""


class Recolour(NamedTuple):
    """A thing (all of that kind and colour) or a garment gets another colour.

    `many` says that there are several of them; a garment is one, trousers included.
    """

    what: str
    many: bool
    old: str
    new: str


class Respell(NamedTuple):
    """The sign says another word."""

    old: str
    new: str


class Replace(NamedTuple):
    """A thing (all of that kind and colour) becomes one of another kind, of the same colour."""

    colour: str
    kind: str
    many: bool
    new: str


class Remove(NamedTuple):
    """A thing (all of that kind and colour) goes away."""

    colour: str
    kind: str
    many: bool


class Add(NamedTuple):
    """A thing is drawn where there is room."""

    colour: str
    kind: str


class Move(NamedTuple):
    """A thing goes to a side of another one."""

    colour: str
    kind: str
    side: Side
    other_colour: str
    other: str


class Resettle(NamedTuple):
    """Everything is in another place."""

    old: str
    new: str


class Act(NamedTuple):
    """The person does something else."""

    old: str
    new: str


class Rain(NamedTuple):
    """It rains."""


class Restyle(NamedTuple):
    """The whole picture is drawn otherwise."""

    manner: Manner


class Darken(NamedTuple):
    """The light of the whole picture gets dim."""


Change = (
    Recolour | Respell | Replace | Remove | Add | Move | Resettle | Act | Rain | Restyle | Darken
)
