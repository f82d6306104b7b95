"""Images of programs, and the tasks that they are for."""

import shutil
from collections.abc import Collection
from functools import lru_cache

from PIL import Image, ImageColor, ImageDraw, ImageFont

from schemas.base import Record
from schemas.records import Rejection
from schemas.retrieval_task import RetrievalTask
from sources.demonstration.people import Chance
from sources.rendered.fonts import FontShelf
from sources.rendered.languages import LANGUAGES_BY_NAME, Language, Which
from sources.rendered.programs import Program, draw_program
from sources.rendered.sandbox import STAGE, Limits, ProgramResult, run_program
from sources.rendered.surfaces import Colour
from sources.rendered.task_image import RenderedImage, rendered, with_article

# Lays coloured program text into a picture, one cell a character.

_STYLES_DARK = ("monokai", "one-dark", "github-dark", "native", "gruvbox-dark", "dracula")
_STYLES_LIGHT = ("default", "vs", "xcode", "friendly", "tango", "gruvbox-light")
STYLES = {
    **dict.fromkeys(_STYLES_DARK, "dark"),
    **dict.fromkeys(_STYLES_LIGHT, "light"),
}
"""Colour schemes of Pygments, and whether they are dark or light."""

LINE_HEIGHT = 1.45


class CodePainter:
    """Colours text by a scheme of Pygments; `size` is the height of letters in pixels."""

    def __init__(self, language: str, style: str, font: ImageFont.FreeTypeFont, size: int) -> None:
        self._language = language
        self._colours = _colours(style)
        self._font = font
        self.cell_px = font.getlength("m")
        self.line_px = round(size * LINE_HEIGHT)

    @property
    def ground(self) -> Colour:
        """The colour behind the text."""
        return self._colours["ground"]

    @property
    def plain(self) -> Colour:
        """The colour of text without a meaning of its own."""
        return self._colours["Token"]

    @property
    def dim(self) -> Colour:
        """The colour of line numbers."""
        return mixed(self.ground, self.plain, 0.42)

    def paint(self, picture: Image.Image, at: tuple[int, int], text: str, *, numbers: bool) -> None:
        """Draws `text` with its upper left corner at `at`, line numbers to its left if wanted."""
        draw, (left, top) = ImageDraw.Draw(picture), at
        row, column = 0, 0
        for kind, piece in _tokens(self._language, text):
            colour = self._colour(kind)
            for part in piece.splitlines(keepends=True):
                shown = part.rstrip("\n")
                place = (round(left + column * self.cell_px), top + row * self.line_px)
                draw.text(place, shown, colour, self._font)
                row, column = (row + 1, 0) if part != shown else (row, column + len(shown))
        if numbers:
            for line in range(len(text.splitlines())):
                place = (round(left - 2 * self.cell_px), top + line * self.line_px)
                draw.text(place, str(line + 1), self.dim, self._font, "ra")

    def _colour(self, kind: str) -> Colour:
        """The colour of a token type, or of the nearest type above it."""
        while kind not in self._colours:
            kind = kind.rpartition(".")[0]
        return self._colours[kind]


def fitting_size(
    shelf: FontShelf, typeface: str, text: str, room: tuple[float, float], most: int
) -> int:
    """The largest letter height, at most `most` pixels, at which `text` fits into `room`."""
    lines = text.splitlines()
    columns = max(len(line) for line in lines)
    cell = shelf.font(typeface, 100).getlength("m") / 100
    return int(min(most, room[0] / (columns * cell), room[1] / (len(lines) * LINE_HEIGHT)))


def mixed(one: Colour, other: Colour, share: float) -> Colour:
    """The colour `share` of the way from one to the other."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(one, other, strict=True))
    return red, green, blue


@lru_cache
def _colours(style: str) -> dict[str, Colour]:
    """The colours of all token types of a scheme, by dotted name, and its `ground`."""
    from pygments.styles import get_style_by_name  # a tenth of a second

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


def _tokens(language: str, text: str) -> list[tuple[str, str]]:
    from pygments import lex
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return [(str(kind), piece) for kind, piece in lex(text, lexer)]


# Draws programs: in the window of an editor, or on a slide.

_SIZES = ((800, 500), (800, 600), (880, 560), (960, 540), (720, 540))
_LOW_SIZES = ((800, 360), (860, 400), (720, 340), (960, 440))
_WIDE_SIZES = ((1000, 460), (1060, 540), (1080, 480))
_LOW_LINES = 4
_WIDE_COLUMNS = 52
_TITLES = (
    "What does this program print?",
    "Read the code",
    "Predict the output",
    "Quiz: what is the output?",
    "Tracing a program",
)
_BULLETS = (
    "Follow the values line by line",
    "Write down the output",
    "Mind where the loop ends",
    "Which value is printed?",
    "Do it without a computer",
)
_ACCENTS: dict[str, Colour] = {
    "blue": (36, 88, 164),
    "green": (30, 122, 84),
    "red": (172, 48, 44),
    "purple": (102, 62, 150),
    "orange": (206, 106, 24),
    "grey": (72, 80, 92),
}


class CodeLook(Record):
    """How a program is drawn. What belongs to slides only is empty in an editor."""

    size: tuple[int, int]
    place: str
    style: str
    typeface: str
    numbers: bool
    letters_px: int
    title_typeface: str
    title: str = ""
    bullet: str = ""
    accent: str

    @property
    def tone(self) -> str:
        """Whether the ground of the program is dark or light."""
        return STYLES[self.style]

    def named(self) -> dict[str, str]:
        """The look as names."""
        return {
            "place": self.place,
            "style": self.style,
            "tone": self.tone,
            "typeface": self.typeface,
            "line_numbers": "yes" if self.numbers else "no",
        }


def draw_code_look(chance: Chance, shelf: FontShelf, text: str) -> CodeLook:
    """A look for the program `text`: wider for long lines, lower for few."""
    is_slide, lines = chance.happens(0.4), text.splitlines()
    sizes: tuple[tuple[int, int], ...] = _SIZES
    if len(lines) <= _LOW_LINES and not is_slide:
        sizes = _LOW_SIZES
    if max(map(len, lines)) > _WIDE_COLUMNS:
        sizes = _WIDE_SIZES
    return CodeLook(
        size=chance.pick(sizes),
        place="slide" if is_slide else "editor",
        style=chance.pick(tuple(STYLES)),
        typeface=chance.pick(shelf.names("monospaced")),
        numbers=chance.happens(0.4 if is_slide else 0.85),
        letters_px=chance.whole(23, 38),
        title_typeface=chance.pick(shelf.names("sans-serif", "serif")),
        title=chance.pick(_TITLES) if is_slide else "",
        bullet=chance.pick(_BULLETS) if is_slide else "",
        accent=chance.pick(tuple(_ACCENTS)),
    )


def draw_code_picture(
    text: str, language: Language, file_name: str, look: CodeLook, shelf: FontShelf, chance: Chance
) -> Image.Image:
    """The picture of a program in this look."""
    if look.place == "slide":
        return _slide(text, language, look, shelf, chance)
    return _editor(text, language, file_name, look, shelf, chance)


def _painter(
    text: str, language: Language, look: CodeLook, shelf: FontShelf, room: tuple[float, float]
) -> CodePainter:
    size = fitting_size(shelf, look.typeface, text, room, look.letters_px)
    return CodePainter(language.name, look.style, shelf.font(look.typeface, size), size)


def _editor(
    text: str, language: Language, file_name: str, look: CodeLook, shelf: FontShelf, chance: Chance
) -> Image.Image:
    """A window with a bar of tabs above the program and a bar of facts about it below."""
    (width, height), bar = look.size, 44
    gutter = 84 if look.numbers else 34
    painter = _painter(text, language, look, shelf, (width - gutter - 60, height - 2 * bar - 50))
    picture = Image.new("RGB", look.size, painter.ground)
    draw = ImageDraw.Draw(picture)
    shade = mixed(painter.ground, (0, 0, 0), 0.28 if look.tone == "dark" else 0.1)
    draw.rectangle((0, 0, width, bar - 1), shade)
    left = 18
    if chance.happens(0.6):
        for place, colour in enumerate(((236, 94, 86), (242, 188, 62), (98, 196, 84))):
            draw.ellipse((16 + 22 * place, 15, 28 + 22 * place, 27), colour)
        left = 98
    small = shelf.font("Open Sans", 16)
    reach = left + round(small.getlength(file_name)) + 56
    draw.rectangle((left, 6, reach, bar), painter.ground)
    draw.rectangle((left, 6, reach, 8), _ACCENTS[look.accent])
    draw.text((left + 18, 13), file_name, painter.plain, small)
    top = bar + 22
    if chance.happens(0.5):
        _mark_line(draw, painter, width, top, chance.whole(0, len(text.splitlines()) - 1))
    _status(draw, look, shelf, language, chance)
    if look.numbers:
        draw.line((gutter - 16, bar, gutter - 16, height - 31), mixed(painter.ground, shade, 0.6))
    painter.paint(picture, (gutter, top), text, numbers=look.numbers)
    return picture


def _mark_line(
    draw: ImageDraw.ImageDraw, painter: CodePainter, width: int, top: int, line: int
) -> None:
    """A stripe behind the line that the cursor is in."""
    y = top + line * painter.line_px
    stripe = mixed(painter.ground, painter.plain, 0.08)
    draw.rectangle((0, y - 4, width, y + painter.line_px - 6), stripe)


def _status(
    draw: ImageDraw.ImageDraw, look: CodeLook, shelf: FontShelf, language: Language, chance: Chance
) -> None:
    width, height = look.size
    draw.rectangle((0, height - 30, width, height), _ACCENTS[look.accent])
    small, white = shelf.font("Open Sans", 14), (255, 255, 255)
    draw.text(
        (16, height - 24), f"Ln {chance.whole(1, 9)}, Col {chance.whole(1, 20)}", white, small
    )
    draw.text((width - 16, height - 24), f"UTF-8    {language.title}", white, small, "ra")


def _slide(
    text: str, language: Language, look: CodeLook, shelf: FontShelf, chance: Chance
) -> Image.Image:
    """A slide with a title, the program in a box, and a point to think about."""
    (width, height), margin = look.size, 46
    accent = _ACCENTS[look.accent]
    ground: Colour = chance.pick(
        ((255, 255, 255), (250, 249, 245), mixed((255, 255, 255), accent, 0.07))
    )
    picture = Image.new("RGB", look.size, ground)
    draw, title = ImageDraw.Draw(picture), shelf.font(look.title_typeface, 32)
    if chance.happens(0.5):
        draw.rectangle((0, 0, width, 78), accent)
        draw.text((margin, 40), look.title, (255, 255, 255), title, "lm")
    else:
        draw.text((margin, 42), look.title, accent, title, "lm")
        draw.rectangle((margin, 72, width - margin, 75), accent)
    gutter = 88 if look.numbers else 24
    box = (margin, 100, width - margin, height - 96)
    room = (box[2] - box[0] - gutter - 24, box[3] - box[1] - 40)
    painter = _painter(text, language, look, shelf, room)
    draw.rounded_rectangle(box, 10, painter.ground, mixed(painter.ground, painter.plain, 0.3), 2)
    spare = room[1] - len(text.splitlines()) * painter.line_px
    painter.paint(
        picture, (box[0] + gutter, box[1] + 20 + max(0, spare // 2)), text, numbers=look.numbers
    )
    body = shelf.font(look.title_typeface, 22)
    draw.ellipse((margin + 4, height - 62, margin + 14, height - 52), accent)
    draw.text((margin + 28, height - 57), look.bullet, (40, 42, 46), body, "lm")
    page = shelf.font(look.title_typeface, 15)
    draw.text((width - 20, height - 18), str(chance.whole(2, 60)), (120, 124, 130), page, "rm")
    return picture


# Code reasoning: programs that were run, how they look, and what can be said of the picture.

_LONGEST_ANSWER = 60


class CodeDraft:
    """A program that was neither run nor drawn yet."""

    def __init__(self, program: Program, shelf: FontShelf, limits: Limits, which: Which) -> None:
        self._program = program
        self._shelf = shelf
        self._limits = limits
        self._which = which

    @property
    def question(self) -> str:
        """The program."""
        return self._program.text

    def run(self) -> ProgramResult:
        """What the program does in the sandbox."""
        program = self._program
        return run_program(program.language, program.text, self._limits, self._which)

    def render(self, chance: Chance, seed: int) -> RenderedImage | Rejection:
        """The picture, with what the program printed; a rejection where that is no single line."""
        result, program = self.run(), self._program
        answer = result.output.rstrip("\n")
        refusal = result.refusal() or _answer_refusal(program, answer)
        if refusal is not None:
            return refusal
        language = LANGUAGES_BY_NAME[program.language]
        file_name = program.file_stem + language.suffix
        look = draw_code_look(chance, self._shelf, program.text)
        return rendered(
            RetrievalTask.CODE,
            seed,
            draw_code_picture(program.text, language, file_name, look, self._shelf, chance),
            question=program.text,
            answer=answer,
            look=look.named(),
            truth={"language": program.language, "family": program.family},
            facts=_facts(program, language.title, answer, look, file_name),
        )


def _answer_refusal(program: Program, answer: str) -> Rejection | None:
    """Why what a program printed is no answer: it is empty, has several lines or is too long."""
    if len(answer.splitlines()) == 1 and len(answer) <= _LONGEST_ANSWER:
        return None
    detail = f"the program printed {answer[:80]!r}, wanted one line of at most {_LONGEST_ANSWER}"
    context = {"language": program.language, "program": program.text}
    return Rejection(stage=STAGE, reason="no_answer", detail=detail, context=context)


def draw_code_task(
    chance: Chance,
    shelf: FontShelf,
    languages: Collection[str],
    limits: Limits | None = None,
    which: Which = shutil.which,
) -> CodeDraft:
    """A program in one of `languages`."""
    return CodeDraft(draw_program(chance, languages), shelf, limits or Limits(), which)


def _facts(
    program: Program, title: str, answer: str, look: CodeLook, file_name: str
) -> tuple[str, ...]:
    count = len(program.text.splitlines())
    place = "on a slide" if look.place == "slide" else f"in {with_article(look.tone)} code editor"
    facts = [
        f"{with_article(title)} program of {count} lines is shown {place}",
        f"the program prints {answer}",
        *program.facts,
    ]
    if look.place == "slide":
        facts.append(f"the title of the slide reads {look.title.rstrip('?')}")
        facts.append(f"the code stands in a {look.tone} box")
    else:
        facts.append(f"the file is called {file_name}")
    numbers = "line numbers stand" if look.numbers else "no line numbers stand"
    facts.append(f"{numbers} to the left of the code")
    return tuple(facts)
