"""What an edit gives: the pixels, and what is to be seen in them."""

from typing import NamedTuple

from models.builtin.stills.preparing import Pixels
from models.builtin.stills.saying import Content, content_of_image
from models.builtin.stills.seeing import Seen


class Edited(NamedTuple):
    """An edited drawing, of shape (height, width, 3), and what must be seen in it."""

    pixels: Pixels
    expected: Seen


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
