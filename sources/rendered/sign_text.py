"""Sets a Chinese or English text into a box, as large as it fits, in as many lines as help."""

from PIL import ImageDraw, ImageFont

from sources.rendered.fonts import FontShelf
from sources.rendered.surfaces import Box, Colour

_LINE = {"zh": 1.22, "en": 1.28}
_MOST_LINES = {"zh": 3, "en": 4}
_WORTH_A_LINE = {"zh": 1.4, "en": 1.1}  # how much larger: a line break may part a Chinese word


class SignText:
    """Text in one typeface; `bold` thickens the strokes by that share of the letters' height."""

    def __init__(self, shelf: FontShelf, typeface: str, language: str, bold: float = 0.0) -> None:
        self._shelf = shelf
        self._typeface = typeface
        self._language = language
        self._bold = bold

    def draw(
        self, draw: ImageDraw.ImageDraw, box: Box, text: str, colour: Colour, most_px: int = 200
    ) -> None:
        """Draws `text` in the middle of `box`, at most `most_px` high."""
        size, lines = self._fitted(text, box[2] - box[0], box[3] - box[1], most_px)
        step = size * _LINE[self._language]
        middle, top = (box[0] + box[2]) / 2, (box[1] + box[3] - step * (len(lines) - 1)) / 2
        for number, line in enumerate(lines):
            place = (round(middle), round(top + number * step))
            self._line(draw, place, line, size, colour, "mm")

    def draw_left(
        self, draw: ImageDraw.ImageDraw, at: tuple[int, int], text: str, colour: Colour, size: int
    ) -> int:
        """Draws one line from its left end, at the height of its middle; gives its right end."""
        self._line(draw, at, text, size, colour, "lm")
        return at[0] + round(self._font(size).getlength(text))

    def size_for(self, texts: list[str], width: float, most_px: int) -> int:
        """The size, at most `most_px`, at which each of `texts` fits into one line."""
        longest = max(self._font(100).getlength(text) for text in texts)
        return int(min(most_px, 100 * width / longest))

    def _line(
        self,
        draw: ImageDraw.ImageDraw,
        at: tuple[int, int],
        text: str,
        size: int,
        colour: Colour,
        anchor: str,
    ) -> None:
        thick = round(self._bold * size)
        draw.text(
            at, text, colour, self._font(size), anchor, stroke_width=thick, stroke_fill=colour
        )

    def _font(self, size: float) -> ImageFont.FreeTypeFont:
        return self._shelf.font(self._typeface, size)

    def _fitted(self, text: str, width: int, height: int, most_px: int) -> tuple[int, list[str]]:
        """The largest size over all numbers of lines, and the lines; the fewer the better."""
        best: tuple[int, list[str]] = (0, [text])
        for count in range(1, _MOST_LINES[self._language] + 1):
            lines = self._broken(text, count)
            if lines is None:
                break
            high = int(height / (_LINE[self._language] * len(lines)))
            size = min(self.size_for(lines, width, most_px), high)
            if size > best[0] * _WORTH_A_LINE[self._language]:
                best = size, lines
        return max(best[0], 1), best[1]

    def _broken(self, text: str, count: int) -> list[str] | None:
        """The text in `count` lines of about the same width, or None if it cannot be broken so."""
        units = list(text) if self._language == "zh" else text.split(" ")
        if count > len(units) or (self._language == "zh" and len(units) < 2 * count):
            return [text] if count == 1 else None
        glue = "" if self._language == "zh" else " "
        lines, rest = [], units
        for left in range(count, 0, -1):
            wanted = self._font(100).getlength(glue.join(rest)) / left
            taken = 1
            while (
                taken <= len(rest) - left
                and self._font(100).getlength(glue.join(rest[: taken + 1])) <= 1.12 * wanted
            ):
                taken += 1
            taken = len(rest) if left == 1 else taken
            lines.append(glue.join(rest[:taken]))
            rest = rest[taken:]
        return lines
