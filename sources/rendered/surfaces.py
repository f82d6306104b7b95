"""What is written on: paper, boards, notes and cards, and what is written with."""

from collections.abc import Callable, Mapping

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from schemas.base import Record
from sources.demonstration.people import Chance

Colour = tuple[int, int, int]
Size = tuple[int, int]
Box = tuple[int, int, int, int]


class Ink(Record):
    """What is written with. `grain` is how much of the ground shows through, from 0 to 1."""

    name: str
    colour: Colour
    grain: float = 0.0
    stroke: float = 2.0


class Surface(Record):
    """What is written on, the inks that fit it, and whether it may be printed on."""

    name: str
    phrase: str
    inks: tuple[Ink, ...]
    printed: bool = False
    handwritten: bool = True


_PENS = (
    Ink(name="blue ballpoint", colour=(32, 52, 148), grain=0.12),
    Ink(name="black ballpoint", colour=(34, 34, 40), grain=0.12),
    Ink(name="pencil", colour=(74, 74, 78), grain=0.42),
    Ink(name="red felt pen", colour=(190, 32, 40), stroke=2.8),
    Ink(name="green felt pen", colour=(22, 110, 62), stroke=2.8),
)
_CHALKS = (
    Ink(name="white chalk", colour=(238, 240, 236), grain=0.55, stroke=3.4),
    Ink(name="yellow chalk", colour=(246, 226, 128), grain=0.55, stroke=3.4),
    Ink(name="pink chalk", colour=(244, 178, 196), grain=0.55, stroke=3.4),
    Ink(name="light blue chalk", colour=(168, 212, 242), grain=0.55, stroke=3.4),
)
_MARKERS = (
    Ink(name="black marker", colour=(30, 30, 34), stroke=3.6),
    Ink(name="blue marker", colour=(24, 74, 172), stroke=3.6),
    Ink(name="red marker", colour=(204, 38, 44), stroke=3.6),
    Ink(name="green marker", colour=(14, 124, 70), stroke=3.6),
)
_PRINT = (
    Ink(name="black print", colour=(24, 24, 26)),
    Ink(name="dark blue print", colour=(24, 42, 96)),
)

SURFACES = (
    Surface(name="white paper", phrase="white paper", inks=_PENS),
    Surface(name="cream paper", phrase="cream paper", inks=_PENS),
    Surface(name="lined paper", phrase="lined paper", inks=_PENS),
    Surface(name="squared paper", phrase="squared paper", inks=_PENS),
    Surface(name="green blackboard", phrase="a green blackboard", inks=_CHALKS),
    Surface(name="blackboard", phrase="a blackboard", inks=_CHALKS),
    Surface(name="whiteboard", phrase="a whiteboard", inks=_MARKERS),
    Surface(name="yellow note", phrase="a yellow sticky note", inks=_PENS[:2] + _MARKERS[:1]),
    Surface(
        name="book page",
        phrase="a page of a textbook",
        inks=_PRINT,
        printed=True,
        handwritten=False,
    ),
    Surface(
        name="flash card",
        phrase="a flash card on a table",
        inks=(*_PRINT, Ink(name="dark red print", colour=(134, 24, 36))),
        printed=True,
        handwritten=False,
    ),
    Surface(
        name="screen",
        phrase="a slide with a coloured ground",
        inks=(Ink(name="white print", colour=(250, 250, 250)),),
        printed=True,
        handwritten=False,
    ),
)


def paint_surface(name: str, size: Size, chance: Chance) -> tuple[Image.Image, Box]:
    """The empty surface, and the box (left, top, right, bottom) that may be written on."""
    return _PAINTERS[name](size, chance)


def lay_ink(picture: Image.Image, mask: Image.Image, ink: Ink, chance: Chance) -> None:
    """Colours `picture` with `ink` where `mask` is; a grainy ink leaves gaps."""
    if ink.grain:
        fine = np.clip(chance.noise((mask.height, mask.width)) * 0.5 + 0.35, 0, 1)
        gaps = np.rint(255 * (1 - ink.grain * fine)).astype(np.uint8)
        cover = np.asarray(mask, np.uint16) * gaps // 255
        mask = Image.fromarray(cover.astype(np.uint8))
    picture.paste(ink.colour, (0, 0), mask)


def shaded(picture: Image.Image, chance: Chance, strength: float = 10, grain: float = 1.6) -> None:
    """Lays uneven light and a fine grain over a picture, in place."""
    width, height = picture.size
    coarse = np.clip(chance.noise((4, 5)) * 40 + 128, 0, 255).astype(np.uint8)
    light = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    shade = (np.asarray(light, np.float32) - 128) * (strength / 60)
    shade += chance.noise((height, width)) * grain
    pixels = np.asarray(picture, np.int16) + np.rint(shade).astype(np.int16)[..., None]
    picture.paste(Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)))


def _paper(colour: Colour) -> Callable[[Size, Chance], tuple[Image.Image, Box]]:
    def paint(size: Size, chance: Chance) -> tuple[Image.Image, Box]:
        picture = Image.new("RGB", size, colour)
        shaded(picture, chance, 6, 1.2)
        return picture, _inside(size, 0.07)

    return paint


def _lined(size: Size, chance: Chance) -> tuple[Image.Image, Box]:
    picture = Image.new("RGB", size, (252, 251, 246))
    draw, step = ImageDraw.Draw(picture), chance.pick((34, 38, 42))
    for y in range(step, size[1], step):
        draw.line((0, y, size[0], y), (176, 200, 224), 1)
    margin = round(size[0] * 0.1)
    draw.line((margin, 0, margin, size[1]), (228, 150, 150), 2)
    shaded(picture, chance, 6, 1.2)
    return picture, (margin + 16, step, size[0] - 26, size[1] - step // 2)


def _squared(size: Size, chance: Chance) -> tuple[Image.Image, Box]:
    picture = Image.new("RGB", size, (252, 252, 249))
    draw, step = ImageDraw.Draw(picture), chance.pick((22, 26, 30))
    colour = chance.pick(((190, 208, 226), (198, 216, 200), (212, 208, 214)))
    for x in range(step // 2, size[0], step):
        draw.line((x, 0, x, size[1]), colour, 1)
    for y in range(step // 2, size[1], step):
        draw.line((0, y, size[0], y), colour, 1)
    shaded(picture, chance, 6, 1.2)
    return picture, _inside(size, 0.07)


def _board(colour: Colour) -> Callable[[Size, Chance], tuple[Image.Image, Box]]:
    def paint(size: Size, chance: Chance) -> tuple[Image.Image, Box]:
        picture = Image.new("RGB", size, colour)
        _smear(picture, chance, (225, 228, 222), 26)
        frame = chance.pick(((126, 88, 52), (150, 112, 70), (92, 66, 44)))
        _framed(picture, frame, 14)
        shaded(picture, chance, 8, 2.0)
        return picture, _inside(size, 0.09)

    return paint


def _whiteboard(size: Size, chance: Chance) -> tuple[Image.Image, Box]:
    picture = Image.new("RGB", size, (246, 248, 249))
    _smear(picture, chance, (150, 160, 176), 12)
    _framed(picture, (168, 172, 178), 11)
    shaded(picture, chance, 7, 0.8)
    return picture, _inside(size, 0.09)


def _note(size: Size, chance: Chance) -> tuple[Image.Image, Box]:
    desk = chance.pick(((164, 130, 96), (112, 84, 62), (196, 200, 204), (86, 98, 110)))
    picture = Image.new("RGB", size, desk)
    shaded(picture, chance, 14, 3.0)
    box = _inside(size, 0.09)
    _shadow(picture, box, 12)
    colour = chance.pick(((252, 236, 122), (250, 228, 104), (254, 242, 150)))
    ImageDraw.Draw(picture).rectangle(box, colour)
    shaded(picture, chance, 5, 0.8)
    return picture, (box[0] + 22, box[1] + 20, box[2] - 22, box[3] - 20)


def _book(size: Size, chance: Chance) -> tuple[Image.Image, Box]:
    picture = Image.new(
        "RGB", size, chance.pick(((253, 252, 248), (248, 243, 230), (255, 255, 255)))
    )
    draw = ImageDraw.Draw(picture)
    colour = chance.pick(((38, 92, 156), (158, 54, 50), (44, 120, 84), (110, 70, 140)))
    if chance.happens(0.6):
        draw.rectangle((0, 0, size[0], 16), colour)
        draw.rectangle((0, size[1] - 8, size[0], size[1]), colour)
    else:
        draw.rectangle((0, 0, 16, size[1]), colour)
    shaded(picture, chance, 5, 0.8)
    return picture, _inside(size, 0.09)


def _card(size: Size, chance: Chance) -> tuple[Image.Image, Box]:
    table = chance.pick(((150, 112, 78), (92, 112, 128), (128, 150, 122), (176, 160, 140)))
    picture = Image.new("RGB", size, table)
    shaded(picture, chance, 16, 3.0)
    box = _inside(size, 0.08)
    _shadow(picture, box, 10)
    draw = ImageDraw.Draw(picture)
    draw.rounded_rectangle(box, 22, (254, 253, 250))
    rim = chance.pick(((38, 92, 156), (200, 90, 40), (44, 120, 84), (140, 60, 120)))
    inner = (box[0] + 10, box[1] + 10, box[2] - 10, box[3] - 10)
    draw.rounded_rectangle(inner, 15, None, rim, 3)
    return picture, (box[0] + 30, box[1] + 28, box[2] - 30, box[3] - 28)


def _screen(size: Size, chance: Chance) -> tuple[Image.Image, Box]:
    top = chance.pick(((28, 58, 110), (18, 92, 96), (92, 40, 98), (150, 62, 34), (44, 48, 58)))
    shares = np.linspace(1.0, 0.68, size[1], dtype=np.float32)[:, None, None]
    rows = np.rint(np.asarray(top, np.float32) * shares).astype(np.uint8)
    picture = Image.fromarray(np.broadcast_to(rows, (size[1], size[0], 3)).copy())
    return picture, _inside(size, 0.07)


def _inside(size: Size, share: float) -> Box:
    dx, dy = round(size[0] * share), round(size[1] * share)
    return dx, dy, size[0] - dx, size[1] - dy


def _framed(picture: Image.Image, colour: Colour, width: int) -> None:
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, picture.width - 1, picture.height - 1), None, colour, width)
    dark: Colour = (colour[0] // 2, colour[1] // 2, colour[2] // 2)
    inner = (width, width, picture.width - 1 - width, picture.height - 1 - width)
    draw.rectangle(inner, None, dark, 2)


def _shadow(picture: Image.Image, box: Box, blur: int) -> None:
    mask = Image.new("L", picture.size)
    ImageDraw.Draw(mask).rectangle((box[0] + 6, box[1] + 9, box[2] + 7, box[3] + 10), 120)
    picture.paste((20, 18, 16), (0, 0), mask.filter(ImageFilter.BoxBlur(blur)))


def _smear(picture: Image.Image, chance: Chance, colour: Colour, strength: int) -> None:
    """Traces of what was wiped away."""
    mask = Image.new("L", picture.size)
    draw = ImageDraw.Draw(mask)
    for _ in range(chance.whole(4, 8)):
        x, y = chance.whole(0, picture.width), chance.whole(0, picture.height)
        dx, dy = chance.whole(-220, 220), chance.whole(-50, 50)
        draw.line((x, y, x + dx, y + dy), chance.whole(strength // 2, strength), 46)
    picture.paste(colour, (0, 0), mask.filter(ImageFilter.BoxBlur(22)))


_PAINTERS: Mapping[str, Callable[[Size, Chance], tuple[Image.Image, Box]]] = {
    "white paper": _paper((252, 252, 250)),
    "cream paper": _paper((247, 238, 214)),
    "lined paper": _lined,
    "squared paper": _squared,
    "green blackboard": _board((44, 84, 66)),
    "blackboard": _board((42, 46, 50)),
    "whiteboard": _whiteboard,
    "yellow note": _note,
    "book page": _book,
    "flash card": _card,
    "screen": _screen,
}
