"""Draws programs: in the window of an editor, or on a slide."""

from PIL import Image, ImageDraw

from schemas.base import Record
from sources.demonstration.chance import Chance
from sources.rendered.code_text import STYLES, CodePainter, fitting_size, mixed
from sources.rendered.fonts import FontShelf
from sources.rendered.languages import Language
from sources.rendered.surfaces import Colour

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
