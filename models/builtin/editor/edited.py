"""What an edit gives: the pixels, and what is to be seen in them."""

from typing import NamedTuple

from models.builtin.stills.preparing import Pixels
from models.builtin.stills.saying import Content, content_of_image
from models.builtin.stills.seeing import Seen, Thing
from schemas.proposals import Box

_MARGIN_PX = 7.0
"""Ink fades out around a thing, and a mosaic is drawn in whole stones."""


class Edited(NamedTuple):
    """An edited drawing, of shape (height, width, 3), and what must be seen in it."""

    pixels: Pixels
    expected: Seen


def intended_boxes(before: Seen, expected: Seen, margin_px: float = _MARGIN_PX) -> tuple[Box, ...]:
    """Where a picture is to change: around each thing that is to go, to come, or to be otherwise.

    That follows from what was told and seen, not from what was then done to the pixels. There is
    no box where the whole picture is to change.
    """
    if (before.place, before.style) != (expected.place, expected.style):
        return ()
    changed = set(before.things) ^ set(expected.things)
    return tuple(sorted(_box(thing, margin_px) for thing in changed))


def _box(thing: Thing, margin_px: float) -> Box:
    return (
        max(0.0, thing.left - margin_px),
        max(0.0, thing.top - margin_px),
        thing.right + margin_px,
        thing.bottom + margin_px,
    )


def departures(expected: Seen, found: Seen) -> list[str]:
    """What is seen otherwise than expected, by the names of its parts; sizes of things aside."""
    wanted, there = (content_of_image(seen) for seen in (expected, found))
    named = {
        "things": (_groups(wanted), _groups(there)),
        "clothes": (dict(wanted.clothes), dict(there.clothes)),
        "action": (wanted.action, there.action),
        "place": (wanted.place, there.place),
        "style": (wanted.style, there.style),
        "relations": (set(wanted.relations), set(there.relations)),
        "word": (wanted.word, there.word),
    }
    return [name for name, (one, two) in named.items() if one != two]


def _groups(content: Content) -> list[tuple[str, str, int]]:
    return sorted((group.kind, group.colour or "", group.number or 0) for group in content.groups)
