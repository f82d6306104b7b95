"""Words of what stands behind people and things, with its usual place and colour."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from models.builtin.embedder.palette import Likeness, likeness_of_word
from models.builtin.embedder.space import Zone


class Scenery(NamedTuple):
    """Something in a picture that is no person: where it mostly is, and in which colour."""

    zone: Zone
    colour: Likeness


def sceneries(text: str) -> Iterator[tuple[int, Scenery]]:
    """(place in the text, what is named there), in order."""
    known, pattern = _lexicon()
    for match in pattern.finditer(text.casefold()):
        yield match.start(), known[match[0]]


@cache
def _lexicon() -> tuple[dict[str, Scenery], re.Pattern[str]]:
    data = tomllib.loads(files(__package__).joinpath("scenery.toml").read_text("utf-8"))
    known = {
        word: Scenery(Zone(entry["zone"]), _colour(entry["colour"]))
        for entry in data.values()
        for word in entry["words"]
    }
    longest_first = sorted(known, key=len, reverse=True)
    return known, re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")


def _colour(words: str) -> Likeness:
    shade, _, colour = words.rpartition(" ")
    return likeness_of_word(colour, shade)
