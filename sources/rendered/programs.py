"""Short programs that print one line, drawn from a grammar of several families.

A family gives one program in every language that it knows. What it prints is not computed here: the
program is run.
"""

from collections.abc import Callable, Mapping

from schemas.base import Record
from sources.demonstration.chance import Chance

Sources = Mapping[str, str]


class Program(Record):
    """A program in one language.

    Attributes:
        family: what it is about: `while loop`.
        language: a name of `languages.LANGUAGES`.
        text: its lines.
        file_stem: what its file is called, without suffix.
        facts: what can be said of it besides what it prints.
    """

    family: str
    language: str
    text: str
    file_stem: str
    facts: tuple[str, ...]


class Sketch(Record):
    """A program before its language is chosen: its text by language, Python always among them."""

    family: str
    file_stem: str
    texts: dict[str, str]
    facts: tuple[str, ...]

    def program(self, language: str) -> Program:
        """The program in `language`, or in Python where the family does not know that one."""
        chosen = language if language in self.texts else "python"
        return Program(
            family=self.family,
            language=chosen,
            text=self.texts[chosen].strip("\n"),
            file_stem=self.file_stem,
            facts=self.facts,
        )


Family = Callable[[Chance], Sketch]


def sketch(
    family: str, file_stem: str, facts: tuple[str, ...], python: str, **others: str
) -> Sketch:
    """A sketch from the texts of its languages."""
    texts = {"python": python, **others}
    return Sketch(family=family, file_stem=file_stem, texts=texts, facts=facts)
