"""How a sign is drawn: a board on two posts, with a word on it."""

from PIL import ImageDraw, ImageFont

from models.builtin.drawing.pen import Pen
from models.builtin.drawing.vocabulary import Rgb

BOARD: Rgb = (252, 246, 226)
FRAME: Rgb = (178, 124, 78)
LETTERS: Rgb = (44, 58, 128)


def paint_sign(pen: Pen, word: str) -> None:
    """The sign, over the whole box of the pen."""
    for x in (0.18, 0.76):
        pen.box(x, 0.5, x + 0.06, 1, FRAME)
    pen.box(0, 0, 1, 0.6, FRAME, 0.05)
    pen.box(0.03, 0.05, 0.97, 0.55, BOARD, 0.03)
    width, height = pen.sheet.size
    font = ImageFont.load_default(size=round(0.44 * height))
    draw = ImageDraw.Draw(pen.sheet)
    draw.text((width / 2, 0.3 * height), word, font=font, fill=LETTERS, anchor="mm")
