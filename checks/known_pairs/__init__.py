"""Pairs of texts of which it is known whether the second keeps the facts of the first.

They describe people, were written by hand, and no check of Loupe was developed on them: two files
without knowledge of the checks, one by their author.
"""

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from loupe.schemas.base import Record
from loupe.schemas.errors import FormatError
from loupe.schemas.text_files import read_text
from loupe.schemas.validation import fault_of

_FILES = ("independent_pairs", "voices_pairs", "untouched_pairs")


class KnownPair(Record):
    """A text, and another made from it that keeps its facts, or in which one fact is wrong.

    `kind` is that of the wrong fact, such as `colour`.
    """

    source: str
    rewrite: str
    faithful: bool
    kind: str = ""


@cache
def shipped_pairs() -> tuple[KnownPair, ...]:
    """Return the pairs that come with Loupe: paraphrases, and texts with one wrong fact."""
    return tuple(pair for name in _FILES for pair in _read_shipped(name))


def _read_shipped(name: str) -> Iterator[KnownPair]:
    text = files(__package__).joinpath(f"{name}.toml").read_text("utf-8")
    for person in tomllib.loads(text)["person"]:
        texts = [person["description"], *person["faithful"]]
        for paraphrase in texts[1:]:
            yield KnownPair(source=texts[0], rewrite=paraphrase, faithful=True)
        for kind, place, old, new in person["changed"]:
            changed = texts[place].replace(old, new) if old else f"{texts[place]} {new}"
            yield KnownPair(source=texts[0], rewrite=changed, faithful=False, kind=kind)


def read_known_pairs(path: Path) -> tuple[KnownPair, ...]:
    """Read a JSON Lines file of pairs: `source`, `rewrite`, `faithful`, and optionally `kind`.

    Raises:
        FormatError: a line is no such pair, or there are not both faithful and other pairs.
    """
    found: list[KnownPair] = []
    lines = read_text(path, "pairs with known truth", name=str(path)).splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append(KnownPair.model_validate_json(line))
        except ValidationError as error:
            raise FormatError(
                f"{path}, line {number}: {fault_of(error)}; each line must be "
                '{"source": "…", "rewrite": "…", "faithful": true or false}'
            ) from error
    if len({pair.faithful for pair in found}) < 2:
        raise FormatError(
            f"{path} must have pairs that are faithful and pairs that are not; "
            f"got {len(found):,} of one kind"
        )
    return tuple(found)
