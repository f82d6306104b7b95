"""Short programs that print one line, drawn from the families of `programs.toml`.

A family has one program in each of its languages. The output is not computed here: the program is
run.
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
        family: its topic: `while loop`.
        language: a name of `sandbox.LANGUAGES`.
        text: its source code.
        file_stem: its file name without suffix.
        facts: facts other than its output.
    """

    family: str
    language: str
    text: str
    file_stem: str
    facts: tuple[str, ...]


@cache
def families() -> tuple[dict[str, Any], ...]:
    """Return the families as in the file."""
    return tuple(_file()["family"])


def fill_family(family: dict[str, Any], chance: Chance) -> dict[str, Program]:
    """Return the same program in every language of the family, which always include Python."""
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
    """Return a random program of any family, in about half of the draws not in Python.

    If the drawn language is not in `languages`, or the family does not have it, the program is in
    Python. So the Python programs drawn on a machine with few interpreters are the same as on one
    with many.
    """
    programs = fill_family(chance.pick(families()), chance)
    wanted = chance.pick(_OTHER_LANGUAGES) if chance.happens(0.6) else "python"
    return programs.get(wanted if wanted in languages else "python", programs["python"])


def _value(value: Any, chance: Chance) -> str:
    """Return one value of a family as text; its kind is in the data file."""
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
