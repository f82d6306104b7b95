"""Images of short programs that print one line, and their tasks.

Programs are drawn from the families of `programs.toml`; a family has one program in each of its
languages. The output is not computed here: the program is run.
"""

import re
import tomllib
from collections.abc import Collection
from functools import cache, lru_cache
from importlib import resources
from typing import Any, NamedTuple

from PIL import Image, ImageColor, ImageDraw, ImageFont

from schemas.base import Record
from schemas.records import Rejection
from schemas.taxonomy import RetrievalTask
from sources.demonstration.people import Chance
from sources.rendered.pen import (
    Colour,
    Draft,
    FontShelf,
    RenderedImage,
    mixed,
    rendered,
    with_article,
)
from sources.rendered.sandbox import LANGUAGES, STAGE, Language, Limits, run_program

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


# Lays out coloured program text in an image, one cell per character.

STYLES = {
    **dict.fromkeys(("monokai", "one-dark", "github-dark", "native", "dracula"), "dark"),
    **dict.fromkeys(("default", "vs", "xcode", "friendly", "tango"), "light"),
}
"""Colour schemes of Pygments, and whether they are dark or light."""

_LINE_HEIGHT = 1.45


def _paint(
    draw: ImageDraw.ImageDraw,
    at: tuple[int, int],
    text: str,
    language: str,
    style: str,
    font: ImageFont.FreeTypeFont,
    line_px: int,
    *,
    numbers: bool,
) -> None:
    """Draw `text` with its upper left corner at `at`, with line numbers on its left if wanted."""
    from pygments import lex
    from pygments.lexers import get_lexer_by_name

    colours, cell_px, (left, top) = _colours(style), font.getlength("m"), at
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    row, column = 0, 0
    for token, piece in lex(text, lexer):
        kind = str(token)
        while kind not in colours:  # inherit the nearest ancestor's colour
            kind = kind.rpartition(".")[0]
        for part in piece.splitlines(keepends=True):
            shown = part.rstrip("\n")
            place = (round(left + column * cell_px), top + row * line_px)
            draw.text(place, shown, colours[kind], font)
            row, column = (row + 1, 0) if part != shown else (row, column + len(shown))
    if numbers:
        dim = mixed(colours["ground"], colours["Token"], 0.42)
        for line in range(len(text.splitlines())):
            place = (round(left - 2 * cell_px), top + line * line_px)
            draw.text(place, str(line + 1), dim, font, "ra")


def _fitting_size(
    shelf: FontShelf, typeface: str, text: str, room: tuple[float, float], most: int
) -> int:
    """Return the largest letter height, at most `most` pixels, at which `text` fits into `room`."""
    lines = text.splitlines()
    columns = max(len(line) for line in lines)
    cell = shelf.font(typeface, 100).getlength("m") / 100
    return int(min(most, room[0] / (columns * cell), room[1] / (len(lines) * _LINE_HEIGHT)))


@lru_cache
def _colours(style: str) -> dict[str, Colour]:
    """Return the colours of all token types of a scheme by dotted name, and its `ground`.

    `Token` is text without a specific type.
    """
    from pygments.styles import get_style_by_name  # takes a tenth of a second

    scheme = get_style_by_name(style)
    ground = _rgb(scheme.background_color)
    plain: Colour = (30, 30, 30) if sum(ground) > 384 else (225, 225, 225)
    colours = {"ground": ground}
    for kind, look in scheme:
        colours[str(kind)] = _rgb(f"#{look['color']}") if look["color"] else plain
    return colours


def _rgb(code: str) -> Colour:
    red, green, blue = ImageColor.getrgb(code)[:3]
    return red, green, blue


# Draws programs in the window of an editor or on a slide.

_SIZES = ((800, 500), (800, 600), (960, 540), (720, 540))
_WIDE_SIZES = ((1000, 460), (1060, 540))
_WIDE_COLUMNS = 52
_TITLES = (
    "What does this program print?", "Read the code", "Predict the output", "Tracing a program"
)  # fmt: skip
_ACCENTS: tuple[Colour, ...] = (
    (36, 88, 164), (30, 122, 84), (172, 48, 44), (102, 62, 150), (72, 80, 92)
)  # fmt: skip


class CodeLook(NamedTuple):
    """The look of a program; only a slide has a title."""

    size: tuple[int, int]
    style: str
    typeface: str
    numbers: bool
    letters_px: int
    title: str
    accent: Colour

    @property
    def tone(self) -> str:
        """Whether the background of the program is dark or light."""
        return STYLES[self.style]

    def named(self) -> dict[str, str]:
        """The look as names."""
        return {
            "place": "slide" if self.title else "editor",
            "style": self.style,
            "tone": self.tone,
            "typeface": self.typeface,
            "line_numbers": "yes" if self.numbers else "no",
        }


def _draw_look(chance: Chance, shelf: FontShelf, text: str) -> CodeLook:
    """Return a random look for the program `text`: wider for long lines."""
    is_slide, is_wide = chance.happens(0.4), max(map(len, text.splitlines())) > _WIDE_COLUMNS
    return CodeLook(
        size=chance.pick(_WIDE_SIZES if is_wide else _SIZES),
        style=chance.pick(tuple(STYLES)),
        typeface=chance.pick(shelf.names("monospaced")),
        numbers=chance.happens(0.4 if is_slide else 0.85),
        letters_px=chance.whole(23, 38),
        title=chance.pick(_TITLES) if is_slide else "",
        accent=chance.pick(_ACCENTS),
    )


def _draw_picture(
    text: str, language: Language, file_name: str, look: CodeLook, shelf: FontShelf, chance: Chance
) -> Image.Image:
    """Draw a window with the file name above the program, or a slide with a title."""
    (width, height), gutter = look.size, 84 if look.numbers else 34
    box = (46, 100, width - 46, height - 50) if look.title else (0, 44, width, height - 30)
    room = (box[2] - box[0] - gutter - 40, box[3] - box[1] - 50)
    size = _fitting_size(shelf, look.typeface, text, room, look.letters_px)
    colours = _colours(look.style)
    ground, plain = colours["ground"], colours["Token"]
    shade = mixed(ground, (0, 0, 0), 0.28 if look.tone == "dark" else 0.1)
    picture = Image.new("RGB", look.size, (255, 255, 255) if look.title else shade)
    draw, small = ImageDraw.Draw(picture), shelf.font("Open Sans", 16)
    if look.title:
        draw.rectangle((0, 0, width, 78), look.accent)
        draw.text((46, 40), look.title, (255, 255, 255), shelf.font("Open Sans", 32), "lm")
        draw.rounded_rectangle(box, 10, ground, mixed(ground, plain, 0.3), 2)
        page = str(chance.whole(2, 60))
        draw.text((width - 20, height - 18), page, (120, 124, 130), small, "rm")
    else:
        draw.rectangle(box, ground)
        reach = 18 + round(small.getlength(file_name)) + 56
        draw.rectangle((18, 6, reach, 44), ground)
        draw.rectangle((18, 6, reach, 8), look.accent)
        draw.text((36, 13), file_name, plain, small)
        draw.rectangle((0, height - 30, width, height), look.accent)
        status = f"Ln {chance.whole(1, 9)}, Col {chance.whole(1, 20)}    {language.title}"
        draw.text((width - 16, height - 26), status, (255, 255, 255), small, "ra")
    at, font = (box[0] + gutter, box[1] + 24), shelf.font(look.typeface, size)
    line_px = round(size * _LINE_HEIGHT)
    _paint(draw, at, text, language.name, look.style, font, line_px, numbers=look.numbers)
    return picture


# Code reasoning: programs that were run, their look, and facts about the image.

_LONGEST_ANSWER = 60


def draw_code_task(
    chance: Chance, shelf: FontShelf, languages: Collection[str], limits: Limits
) -> Draft:
    """Draw a program in one of `languages`; rejected unless it prints a single line."""
    program = draw_program(chance, languages)
    language = LANGUAGES[program.language]
    file_name = program.file_stem + language.suffix

    def render(chance: Chance, seed: int) -> RenderedImage | Rejection:
        result = run_program(program.language, program.text, limits)
        answer = result.output.rstrip("\n")
        if (refusal := result.refusal()) is not None:
            return refusal
        if len(answer.splitlines()) != 1 or len(answer) > _LONGEST_ANSWER:
            wanted = f"wanted one line of at most {_LONGEST_ANSWER}"
            return Rejection(
                stage=STAGE,
                reason="no_answer",
                detail=f"the program printed {answer[:80]!r}, {wanted}",
                context={"language": program.language, "program": program.text},
            )
        look = _draw_look(chance, shelf, program.text)
        return rendered(
            RetrievalTask.CODE,
            seed,
            _draw_picture(program.text, language, file_name, look, shelf, chance),
            question=program.text,
            answer=answer,
            look=look.named(),
            truth={"language": program.language, "family": program.family},
            facts=_facts(program, language.title, answer, look, file_name),
        )

    return Draft(program.text, None, render)


def _facts(
    program: Program, title: str, answer: str, look: CodeLook, file_name: str
) -> tuple[str, ...]:
    count = len(program.text.splitlines())
    place = "on a slide" if look.title else f"in {with_article(look.tone)} code editor"
    facts = [
        f"{with_article(title)} program of {count} lines is shown {place}",
        f"the program prints {answer}",
        *program.facts,
    ]
    if look.title:
        facts.append(f"the title of the slide reads {look.title.rstrip('?')}")
        facts.append(f"the code stands in a {look.tone} box")
    else:
        facts.append(f"the file is called {file_name}")
    numbers = "line numbers stand" if look.numbers else "no line numbers stand"
    facts.append(f"{numbers} to the left of the code")
    return tuple(facts)
