"""Short programs that print one line, drawn from the families of `programs.toml`.

A family gives one program in every language that it knows. What it prints is not computed here: the
program is run.
"""

import re
import tomllib
from collections.abc import Collection
from functools import cache
from importlib import resources
from typing import Any

from schemas.base import Record
from sources.demonstration.people import Chance

_FILE = "programs.toml"
_OTHER_LANGUAGES = ("javascript", "perl", "ruby", "bash")


class Program(Record):
    """A program in one language.

    Attributes:
        family: what it is about: `while loop`.
        language: a name of `sandbox.LANGUAGES`.
        text: its lines.
        file_stem: what its file is called, without suffix.
        facts: what can be said of it besides what it prints.
    """

    family: str
    language: str
    text: str
    file_stem: str
    facts: tuple[str, ...]


@cache
def families() -> tuple[dict[str, Any], ...]:
    """The families as they are in the file."""
    return tuple(_file()["family"])


def fill_family(family: dict[str, Any], chance: Chance) -> dict[str, Program]:
    """The same program in every language that the family knows, Python always among them."""
    values = {name: _value(value, chance) for name, value in family["values"].items()}

    def filled(text: str) -> str:
        return re.sub(r"<(\w+)>", lambda blank: values[blank[1]], text)

    stem, facts = chance.pick(family["files"]), tuple(map(filled, family["facts"]))
    return {
        language: Program(
            family=family["name"],
            language=language,
            text=filled(family[language]).strip("\n"),
            file_stem=stem,
            facts=tuple(fact.replace('"', "") for fact in facts),
        )
        for language in ("python", *_OTHER_LANGUAGES)
        if language in family
    }


def draw_program(chance: Chance, languages: Collection[str]) -> Program:
    """A program of any family: in about half of the draws in another language than Python.

    Where that language is not among `languages`, or the family does not know it, it is in Python:
    so what is drawn in Python on a machine with few interpreters is the same on one with many.
    """
    programs = fill_family(chance.pick(families()), chance)
    wanted = chance.pick(_OTHER_LANGUAGES) if chance.happens(0.6) else "python"
    return programs.get(wanted if wanted in languages else "python", programs["python"])


def _value(value: Any, chance: Chance) -> str:
    """One value of a family, as text; its kind is in the data file."""
    if isinstance(value, list):
        return chance.pick(value) if isinstance(value[0], str) else str(chance.whole(*value))
    count = chance.whole(*value["count"])
    items = (
        [str(chance.whole(*value["numbers"])) for _ in range(count)] if "numbers" in value else []
    )
    if "words" in value:
        words = [f'"{word}"' for word in chance.shuffled(_file()["words"][value["words"]])[:count]]
        pairs = zip(words, items, strict=True) if items else ()
        items = [f"{word}: {number}" for word, number in pairs] or words
    return ", ".join(items)


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(resources.files("sources.rendered").joinpath(_FILE).read_text("utf-8"))
