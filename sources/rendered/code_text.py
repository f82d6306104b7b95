"""Lays coloured program text into a picture, one cell a character."""

from functools import lru_cache

from PIL import Image, ImageColor, ImageDraw, ImageFont

from sources.rendered.fonts import FontShelf
from sources.rendered.surfaces import Colour

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
