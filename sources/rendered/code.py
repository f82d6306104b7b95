"""Images of short programs that print one line, and their tasks.

Programs are drawn from the families of `programs.toml`; a family has one program in each of its
languages, which all print the same.
"""

import re
from typing import Any, NamedTuple

from PIL import Image, ImageDraw

from loupe.schemas.base import Record
from loupe.schemas.recos import RenderedTruth
from loupe.schemas.taxonomy import RetrievalTask
from loupe.schemas.validation import packaged_toml
from loupe.schemas.wording import with_article
from loupe.sources.chance import Chance
from loupe.sources.rendered.pen import (
    GENERATOR,
    Draft,
    FontShelf,
    RenderedImage,
    rendered,
)

_TABLES = packaged_toml(__package__, "programs.toml")
FAMILIES: list[dict[str, Any]] = _TABLES["family"]


class Language(NamedTuple):
    """A programming language: its name for people, and the suffix of its files."""

    title: str
    suffix: str


LANGUAGES = {
    "python": Language("Python", ".py"),
    "javascript": Language("JavaScript", ".js"),
    "perl": Language("Perl", ".pl"),
    "ruby": Language("Ruby", ".rb"),
    "bash": Language("Bash", ".sh"),
}
"""By name, which is also that of the lexer in Pygments."""
_OTHER_LANGUAGES = tuple(LANGUAGES)[1:]


class Program(Record):
    """A program in one language.

    Attributes:
        family: its topic: `while loop`.
        language: a name of `LANGUAGES`.
        text: its source code.
        output: the line that it prints.
        file_stem: its file name without suffix.
        facts: facts other than its output.
    """

    family: str
    language: str
    text: str
    output: str
    file_stem: str
    facts: tuple[str, ...]


def fill_family(family: dict[str, Any], chance: Chance) -> dict[str, Program]:
    """Return the same program in every language of the family, which always include Python."""
    values = {name: _value(value, chance) for name, value in family["values"].items()}

    def filled(text: str) -> str:
        return re.sub(r"<(\w+)>", lambda blank: values[blank[1]], text)

    output = _printed(filled(family["python"]))
    stem, facts = chance.pick(family["files"]), tuple(map(filled, family["facts"]))
    return {
        language: Program(
            family=family["name"],
            language=language,
            text=filled(family[language]).strip("\n"),
            output=output,
            file_stem=stem,
            facts=tuple(fact.replace('"', "") for fact in facts),
        )
        for language in LANGUAGES
        if language in family
    }


def _printed(python: str) -> str:
    """Return what one of our Python programs prints, without the end of the line."""
    lines: list[str] = []

    def note(*values: object) -> None:
        lines.append(" ".join(map(str, values)))

    exec(compile(python, "program", "exec"), {"print": note})  # noqa: S102 - of `programs.toml`
    return "\n".join(lines)


def draw_program(chance: Chance) -> Program:
    """Return a random program of any family, in about half of the draws not in Python.

    If the family does not have the drawn language, the program is in Python.
    """
    programs = fill_family(chance.pick(FAMILIES), chance)
    wanted = chance.pick(_OTHER_LANGUAGES) if chance.happens(0.6) else "python"
    return programs.get(wanted, programs["python"])


def _value(value: Any, chance: Chance) -> str:
    """Return one value of a family as text; its kind is in the data file."""
    if isinstance(value, list):
        return chance.pick(value) if isinstance(value[0], str) else str(chance.whole(*value))
    count = chance.whole(*value["count"])
    items = (
        [str(chance.whole(*value["numbers"])) for _ in range(count)] if "numbers" in value else []
    )
    if "words" in value:
        words = [f'"{word}"' for word in chance.shuffled(_TABLES["words"][value["words"]])[:count]]
        pairs = zip(words, items, strict=True) if items else ()
        items = [f"{word}: {number}" for word, number in pairs] or words
    return ", ".join(items)


# Draws coloured program text in the window of an editor.

STYLES = {
    **dict.fromkeys(("monokai", "one-dark", "github-dark", "native", "dracula"), "dark"),
    **dict.fromkeys(("default", "vs", "xcode", "friendly", "tango"), "light"),
}
"""Colour schemes of Pygments, and whether they are dark or light."""

_TONES = {"dark": ("#e1e1e1", "#14141a"), "light": ("#1e1e1e", "#d8d8dc")}
"""Colours of plain text and of the window, by tone."""

_SIZES = ((800, 500), (800, 600), (960, 540), (1000, 460))
_ACCENTS = ("#2458a4", "#1e7a54", "#ac302c", "#663e96", "#48505c")
_LINE_HEIGHT = 1.45
_MOST_LETTER_PX = 32


def _draw_editor(
    program: Program, file_name: str, style: str, typeface: str, shelf: FontShelf, chance: Chance
) -> Image.Image:
    """Draw a window with the file name above the program, and line numbers beside it."""
    from pygments import lex
    from pygments.lexers import get_lexer_by_name
    from pygments.styles import get_style_by_name  # takes a tenth of a second

    scheme, (plain, window) = get_style_by_name(style), _TONES[STYLES[style]]
    (width, height), accent = chance.pick(_SIZES), chance.pick(_ACCENTS)
    picture = Image.new("RGB", (width, height), window)
    draw, small = ImageDraw.Draw(picture), shelf.font("Open Sans", 16)
    draw.rectangle((0, 44, width, height - 30), scheme.background_color)
    reach = 74 + round(small.getlength(file_name))
    draw.rectangle((18, 6, reach, 44), scheme.background_color)
    draw.rectangle((18, 6, reach, 8), accent)
    draw.text((36, 13), file_name, plain, small)
    draw.rectangle((0, height - 30, width, height), accent)
    title = LANGUAGES[program.language].title
    status = f"Ln {chance.whole(1, 9)}, Col {chance.whole(1, 20)}    {title}"
    draw.text((width - 16, height - 26), status, "white", small, "ra")

    # The text, one cell per character, as large as fits.
    lines = program.text.splitlines()
    cell = shelf.font(typeface, 100).getlength("m") / 100
    high = (height - 124) / len(lines) / _LINE_HEIGHT
    wide = (width - 124) / max(map(len, lines)) / cell
    font = shelf.font(typeface, int(min(high, wide, _MOST_LETTER_PX)))
    cell_px, line_px, left, top = font.getlength("m"), font.size * _LINE_HEIGHT, 84, 68
    for line in range(len(lines)):
        place = (left - 2 * cell_px, top + line * line_px)
        draw.text(place, str(line + 1), "#888888", font, "ra")
    colours = {token: look["color"] for token, look in scheme}
    lexer = get_lexer_by_name(program.language, stripnl=False, ensurenl=False)
    row, column = 0, 0
    for token, piece in lex(program.text, lexer):
        kind = next(one for one in reversed(token.split()) if one in colours)
        colour = f"#{colours[kind]}" if colours[kind] else plain
        for part in piece.splitlines(keepends=True):
            shown = part.rstrip("\n")
            draw.text((left + column * cell_px, top + row * line_px), shown, colour, font)
            row, column = (row + 1, 0) if part != shown else (row, column + len(shown))
    return picture


# Code reasoning: programs, their output and look, and facts about the image.


def draw_code_task(chance: Chance, shelf: FontShelf) -> Draft:
    """Draw a program, with what it prints."""
    program = draw_program(chance)

    def render(chance: Chance, seed: int) -> RenderedImage:
        style, typeface = chance.pick(tuple(STYLES)), chance.pick(shelf.names("monospaced"))
        file_name = program.file_stem + LANGUAGES[program.language].suffix
        count, title = len(program.text.splitlines()), LANGUAGES[program.language].title
        picture = _draw_editor(program, file_name, style, typeface, shelf, chance)
        truth = RenderedTruth(
            task=RetrievalTask.CODE,
            generator=GENERATOR,
            seed=seed,
            question=program.text,
            answer=program.output,
            look={"style": style, "tone": STYLES[style], "typeface": typeface},
            truth={"language": program.language, "family": program.family},
            facts=(
                f"{with_article(title)} program of {count} lines is shown in an editor",
                f"the background of the code is {STYLES[style]}",
                f"the program prints {program.output}",
                *program.facts,
                f"the file is called {file_name}",
            ),
        )
        return rendered(picture, truth)

    return Draft(program.text, program.output, render)
