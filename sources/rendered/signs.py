"""Signs in a scene: lists of texts, how they look, and the translation task."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from PIL import Image, ImageDraw, ImageFilter, ImageFont

from schemas.base import Record
from schemas.errors import FormatError, UsageError
from schemas.retrieval_task import RetrievalTask
from schemas.sign_pairs import SignCategory, SignPair
from sources.demonstration.people import Chance
from sources.rendered.code import mixed
from sources.rendered.fonts import FontShelf
from sources.rendered.surfaces import Box, Colour, shaded
from sources.rendered.task_image import RenderedImage, rendered, with_article

# Sets a Chinese or English text into a box, as large as it fits, in as many lines as help.

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


# How a sign, a notice or a menu may look: its place, its colours, its typeface.

Size = tuple[int, int]

COLOURS: Mapping[str, Colour] = {
    "black": (28, 28, 30),
    "white": (250, 250, 248),
    "blue": (22, 84, 166),
    "green": (10, 112, 74),
    "yellow": (250, 206, 40),
    "red": (196, 30, 36),
    "brown": (110, 70, 42),
    "gold": (226, 190, 104),
    "dark grey": (58, 62, 68),
    "silver": (200, 204, 208),
    "cream": (248, 240, 218),
    "dark blue": (20, 36, 78),
    "dark red": (122, 20, 26),
    "wooden": (168, 122, 76),
}
_ON: Mapping[str, tuple[tuple[str, str], ...]] = {
    "road sign": (("blue", "white"), ("green", "white"), ("brown", "white")),
    "station sign": (
        ("dark grey", "white"),
        ("dark blue", "white"),
        ("yellow", "black"),
        ("white", "dark blue"),
    ),
    "shop sign": (
        ("red", "gold"),
        ("black", "gold"),
        ("green", "white"),
        ("wooden", "black"),
        ("white", "red"),
        ("dark blue", "white"),
        ("yellow", "red"),
    ),
    "door plate": (
        ("silver", "black"),
        ("gold", "black"),
        ("white", "blue"),
        ("blue", "white"),
        ("wooden", "black"),
        ("dark grey", "white"),
    ),
    "warning sign": (("yellow", "black"), ("red", "white"), ("white", "black")),
    "notice": (("white", "black"), ("white", "red"), ("cream", "black"), ("red", "white")),
    "notice board": (("white", "black"), ("white", "dark blue"), ("cream", "dark red")),
    "menu page": (
        ("cream", "dark red"),
        ("white", "black"),
        ("black", "gold"),
        ("dark red", "gold"),
        ("cream", "black"),
    ),
}
_FORBIDDING, _WARNING = (
    ("禁止", "停车让行"),
    ("注意", "前方", "急弯", "连续", "陡坡", "减速", "路面"),
)
_SIZES: Mapping[str, tuple[Size, ...]] = {
    "road sign": ((640, 560), (720, 540), (600, 640)),
    "station sign": ((800, 440), (860, 460), (760, 420)),
    "shop sign": ((800, 560), (720, 540), (860, 560)),
    "door plate": ((560, 560), (640, 520), (520, 600)),
    "warning sign": ((560, 640), (640, 640), (720, 520)),
    "notice": ((560, 700), (640, 560), (600, 640)),
    "notice board": ((800, 560), (860, 600), (760, 600)),
    "menu page": ((560, 720), (600, 700), (640, 680)),
}


class SignLook(Record):
    """How texts are shown; `ground` and `letters` are names of `COLOURS`."""

    place: str
    size: Size
    ground: str
    letters: str
    typeface: str
    language: str
    bold: float

    def named(self) -> dict[str, str]:
        """The look as names."""
        return {
            "place": self.place,
            "ground": self.ground,
            "letters": self.letters,
            "typeface": self.typeface,
            "language": self.language,
        }


def draw_sign_look(
    chance: Chance, shelf: FontShelf, place: str, language: str, chinese: str
) -> SignLook:
    """A look for a sign at `place` that says `chinese`, written in `language` (zh or en)."""
    ground, letters = chance.pick(_ON[place])
    if place == "road sign" and chinese.startswith(_FORBIDDING):
        ground, letters = "white", "red"
    elif place == "road sign" and chinese.startswith(_WARNING):
        ground, letters = "yellow", "black"
    print_faces = ("Open Sans", "DejaVu Sans") if place == "road sign" else ()
    latin = print_faces or ("Open Sans", "Roboto Slab", "Lora", "DejaVu Sans", "EB Garamond")
    is_official = place in ("road sign", "station sign", "warning sign")
    chinese_faces = shelf.names("chinese")[:1] if is_official else shelf.names("chinese")
    return SignLook(
        place=place,
        size=chance.pick(_SIZES[place]),
        ground=ground,
        letters=letters,
        typeface=chance.pick(chinese_faces if language == "zh" else latin),
        language=language,
        bold=0.025 if place in ("road sign", "shop sign", "warning sign") else 0.0,
    )


# Draws signs where they stand: beside a road, over a shop, on a door, in a station.

_WHITE: Colour = (250, 250, 248)
_BLACK: Colour = (26, 26, 28)


def draw_sign(text: str, look: SignLook, shelf: FontShelf, chance: Chance) -> Image.Image:
    """The picture of one text in its place."""
    picture = Image.new("RGB", look.size, (200, 200, 200))
    letters = SignText(shelf, look.typeface, look.language, look.bold)
    _SCENES[look.place](picture, text, letters, look, chance)
    shaded(picture, chance, 7, 1.2)
    return picture


def shadow_under(picture: Image.Image, box: Box, strength: int = 110, blur: int = 8) -> None:
    """Darkens what lies under a sheet or plate at `box`, a little to its lower right."""
    mask = Image.new("L", picture.size)
    ImageDraw.Draw(mask).rectangle((box[0] + 5, box[1] + 7, box[2] + 6, box[3] + 8), strength)
    picture.paste((16, 16, 18), (0, 0), mask.filter(ImageFilter.BoxBlur(blur)))


def within(box: Box, dx: int, dy: int) -> Box:
    """A box smaller by `dx` at the left and right and by `dy` above and below."""
    return box[0] + dx, box[1] + dy, box[2] - dx, box[3] - dy


def _gradient(picture: Image.Image, box: Box, top: Colour, bottom: Colour) -> None:
    draw = ImageDraw.Draw(picture)
    for y in range(box[1], box[3]):
        share = (y - box[1]) / max(1, box[3] - box[1])
        draw.line((box[0], y, box[2], y), mixed(top, bottom, share))


def _road(
    picture: Image.Image, text: str, letters: SignText, look: SignLook, chance: Chance
) -> None:
    width, height = look.size
    horizon = round(height * chance.between(0.62, 0.74))
    sky = chance.pick((((120, 174, 226), (220, 236, 248)), ((172, 182, 194), (226, 230, 234))))
    _gradient(picture, (0, 0, width, horizon), *sky)
    draw = ImageDraw.Draw(picture)
    hill: Colour = chance.pick(((86, 128, 82), (112, 138, 84), (128, 140, 128), (70, 106, 92)))
    x, up = -80, 0
    while x < width:
        up, reach = chance.whole(30, 90), chance.whole(160, 300)
        draw.ellipse((x, horizon - up, x + reach, horizon + up), mixed(hill, sky[1], 0.35))
        x += reach // 2
    draw.rectangle((0, horizon, width, height), hill)
    middle = chance.whole(width // 8, width // 3)
    road = [(middle, horizon), (middle + 26, horizon), (width, height), (-width // 3, height)]
    draw.polygon(road, (92, 94, 98))
    draw.line((middle + 13, horizon, round(width * 0.32), height), (236, 236, 226), 6)
    panel = (round(width * 0.1), round(height * 0.1), round(width * 0.9), round(height * 0.58))
    post = chance.pick(((width // 2,), (round(width * 0.27), round(width * 0.73))))
    for at in post:
        draw.rectangle((at - 8, panel[3] - 20, at + 8, height), (142, 146, 150))
        draw.line((at - 8, panel[3] - 20, at - 8, height), (180, 184, 188), 3)
    draw.rounded_rectangle(panel, 22, COLOURS[look.ground])
    border = COLOURS[look.letters]
    draw.rounded_rectangle(
        within(panel, 9, 9), 16, None, border, 8 if look.ground == "white" else 5
    )
    colour = _BLACK if look.ground == "white" else COLOURS[look.letters]
    letters.draw(draw, within(panel, 40, 32), text, colour, 130)


def _station(
    picture: Image.Image, text: str, letters: SignText, look: SignLook, chance: Chance
) -> None:
    (width, height), draw = look.size, ImageDraw.Draw(picture)
    wall: Colour = chance.pick(((222, 224, 222), (206, 214, 218), (228, 220, 204)))
    draw.rectangle((0, 0, width, height), wall)
    for y in range(height // 2, height, 46):
        draw.line((0, y, width, y), mixed(wall, _BLACK, 0.16), 2)
        for x in range((y // 46 % 2) * 45, width, 90):
            draw.line((x, y, x, y + 46), mixed(wall, _BLACK, 0.16), 2)
    panel = (36, round(height * 0.2), width - 36, round(height * 0.72))
    for x in (width // 4, 3 * width // 4):
        draw.rectangle((x - 4, 0, x + 4, panel[1]), (120, 124, 128))
    shadow_under(picture, panel)
    draw.rectangle(panel, COLOURS[look.ground])
    line: Colour = chance.pick(((208, 40, 50), (0, 128, 92), (238, 140, 20), (110, 60, 150)))
    if chance.happens(0.5):
        draw.rectangle((panel[0], panel[3] - 16, panel[2], panel[3]), line)
    side = panel[3] - panel[1]
    symbol = (panel[0] + 30, panel[1] + side // 4, panel[0] + 30 + side // 2, panel[3] - side // 4)
    _arrow(draw, symbol, COLOURS[look.letters], left=chance.happens(0.5))
    room = (symbol[2] + 24, panel[1] + 22, panel[2] - 26, panel[3] - 26)
    letters.draw(draw, room, text, COLOURS[look.letters], 96)


def _arrow(draw: ImageDraw.ImageDraw, box: Box, colour: Colour, *, left: bool) -> None:
    x0, y0, x1, y1 = box
    tip, tail = (x0, x1) if left else (x1, x0)
    y, back = (y0 + y1) // 2, (x0 + x1) // 2
    draw.line((tail, y, tip, y), colour, 11)
    draw.line((back, y0 + 8, tip, y, back, y1 - 8), colour, 11, joint="curve")


def _shop(
    picture: Image.Image, text: str, letters: SignText, look: SignLook, chance: Chance
) -> None:
    (width, height), draw = look.size, ImageDraw.Draw(picture)
    brick: Colour = chance.pick(((158, 92, 72), (186, 170, 146), (126, 130, 136), (206, 196, 176)))
    draw.rectangle((0, 0, width, height), brick)
    for row, y in enumerate(range(0, height, 22)):
        draw.line((0, y, width, y), mixed(brick, _BLACK, 0.18), 2)
        for x in range((row % 2) * 28, width, 56):
            draw.line((x, y, x, y + 22), mixed(brick, _BLACK, 0.18), 2)
    board = (44, 46, width - 44, round(height * 0.42))
    shadow_under(picture, board, 150, 10)
    draw.rectangle(board, COLOURS[look.ground])
    draw.rectangle(
        within(board, 8, 8), None, mixed(COLOURS[look.ground], COLOURS[look.letters], 0.5), 3
    )
    letters.draw(draw, within(board, 34, 22), text, COLOURS[look.letters], 130)
    awning = (30, board[3] + 14, width - 30, board[3] + 66)
    stripe = COLOURS[look.ground] if look.ground != "white" else COLOURS["red"]
    for number, x in enumerate(range(awning[0], awning[2], 38)):
        colour = stripe if number % 2 else _WHITE
        end = min(x + 38, awning[2])
        draw.rectangle((x, awning[1], end, awning[3] - 14), colour)
        draw.ellipse((x, awning[3] - 32, end, awning[3]), colour)
    glass: Colour = (96, 122, 138)
    door = chance.whole(width // 3, width // 2)
    for left, right in ((60, door - 12), (door, door + 120), (door + 132, width - 60)):
        _gradient(picture, (left, awning[3] + 12, right, height - 8), (168, 190, 200), glass)
        draw.rectangle((left, awning[3] + 12, right, height - 8), None, (60, 56, 52), 6)
    draw.rectangle((door + 100, height - 110, door + 106, height - 60), (220, 206, 160))


def _door(
    picture: Image.Image, text: str, letters: SignText, look: SignLook, chance: Chance
) -> None:
    (width, height), draw = look.size, ImageDraw.Draw(picture)
    door: Colour = chance.pick(
        ((146, 98, 60), (112, 72, 46), (214, 214, 208), (92, 112, 128), (178, 146, 108))
    )
    draw.rectangle((0, 0, width, height), door)
    if sum(door) < 520:
        for _ in range(70):
            x, shade = chance.whole(0, width), chance.between(0.02, 0.12)
            draw.line((x, 0, x + chance.whole(-14, 14), height), mixed(door, _BLACK, shade), 3)
    dark = mixed(door, _BLACK, 0.3)
    draw.rectangle((24, 24, width - 24, height + 40), None, dark, 5)
    draw.rounded_rectangle((width - 82, height - 120, width - 60, height - 10), 8, (196, 196, 192))
    draw.rounded_rectangle((width - 150, height - 92, width - 64, height - 72), 9, (222, 222, 218))
    high = round(height * chance.between(0.3, 0.42))
    plate = (
        round(width * 0.14),
        round(height * 0.2),
        round(width * 0.86),
        round(height * 0.2) + high,
    )
    shadow_under(picture, plate)
    ground = COLOURS[look.ground]
    if look.ground in ("silver", "gold"):
        _gradient(picture, plate, mixed(ground, _WHITE, 0.35), mixed(ground, _BLACK, 0.12))
        draw.rectangle(plate, None, mixed(ground, _BLACK, 0.35), 2)
        for x in (plate[0] + 16, plate[2] - 16):
            for y in (plate[1] + 16, plate[3] - 16):
                draw.ellipse((x - 6, y - 6, x + 6, y + 6), mixed(ground, _BLACK, 0.45))
    else:
        draw.rounded_rectangle(plate, 14, ground)
        draw.rounded_rectangle(within(plate, 7, 7), 10, None, COLOURS[look.letters], 3)
    letters.draw(draw, within(plate, 40, 26), text, COLOURS[look.letters], 150)


def _warning(
    picture: Image.Image, text: str, letters: SignText, look: SignLook, chance: Chance
) -> None:
    (width, height), draw = look.size, ImageDraw.Draw(picture)
    wall: Colour = chance.pick(((172, 174, 172), (146, 156, 164), (196, 186, 168), (120, 128, 124)))
    draw.rectangle((0, 0, width, height), wall)
    panel = (60, 44, width - 60, height - 44)
    shadow_under(picture, panel)
    draw.rounded_rectangle(panel, 18, COLOURS[look.ground])
    draw.rounded_rectangle(within(panel, 8, 8), 13, None, COLOURS[look.letters], 4)
    middle, top = width // 2, panel[1] + 34
    side = round((panel[3] - panel[1]) * 0.42)
    corners = [(middle, top), (middle - side * 0.6, top + side), (middle + side * 0.6, top + side)]
    fill = COLOURS["yellow"] if look.ground != "yellow" else COLOURS["black"]
    mark = COLOURS["black"] if look.ground != "yellow" else COLOURS["yellow"]
    draw.polygon(corners, fill)
    draw.line([*corners, corners[0]], mark, 7, joint="curve")
    draw.rounded_rectangle((middle - 8, top + side * 0.36, middle + 8, top + side * 0.7), 7, mark)
    draw.ellipse((middle - 9, top + side * 0.77, middle + 9, top + side * 0.77 + 18), mark)
    room = (panel[0] + 34, top + side + 16, panel[2] - 34, panel[3] - 26)
    letters.draw(draw, room, text, COLOURS[look.letters], 110)


def _notice(
    picture: Image.Image, text: str, letters: SignText, look: SignLook, chance: Chance
) -> None:
    (width, height), draw = look.size, ImageDraw.Draw(picture)
    wall: Colour = chance.pick(((226, 222, 210), (186, 200, 206), (204, 190, 164), (150, 160, 150)))
    draw.rectangle((0, 0, width, height), wall)
    sheet = (76, 62, width - 76, height - 62)
    shadow_under(picture, sheet, 90)
    draw.rectangle(sheet, COLOURS[look.ground])
    if chance.happens(0.5):
        draw.rectangle(within(sheet, 16, 16), None, COLOURS[look.letters], 4)
    letters.draw(draw, within(sheet, 44, 60), text, COLOURS[look.letters], 118)
    tape: Colour = (226, 216, 172)
    for x in (sheet[0], sheet[2]):
        draw.polygon(
            [
                (x - 34, sheet[1] + 18),
                (x + 20, sheet[1] - 22),
                (x + 34, sheet[1] - 2),
                (x - 20, sheet[1] + 38),
            ]
            if x == sheet[0]
            else [
                (x - 20, sheet[1] - 22),
                (x + 34, sheet[1] + 18),
                (x + 20, sheet[1] + 38),
                (x - 34, sheet[1] - 2),
            ],
            tape,
        )


_Scene = Callable[[Image.Image, str, SignText, SignLook, Chance], None]
_SCENES: Mapping[str, _Scene] = {
    "road sign": _road,
    "station sign": _station,
    "shop sign": _shop,
    "door plate": _door,
    "warning sign": _warning,
    "notice": _notice,
}


# Draws several texts together: sheets on a notice board, dishes with prices on a menu.

_PINS: tuple[Colour, ...] = ((206, 40, 44), (30, 96, 190), (36, 140, 70), (240, 190, 30))


def draw_notice_board(
    texts: Sequence[str], look: SignLook, shelf: FontShelf, chance: Chance
) -> Image.Image:
    """A board of cork, a sheet for each text, side by side, each held by a pin."""
    (width, height), picture = look.size, Image.new("RGB", look.size, (188, 142, 96))
    draw = ImageDraw.Draw(picture)
    for _ in range(900):
        x, y, shade = chance.whole(0, width), chance.whole(0, height), chance.between(0, 0.35)
        draw.ellipse((x, y, x + 4, y + 3), mixed((188, 142, 96), (96, 62, 36), shade))
    draw.rectangle((0, 0, width - 1, height - 1), None, (104, 74, 48), 16)
    letters = SignText(shelf, look.typeface, look.language, look.bold)
    each = (width - 72) // len(texts)
    for place, text in enumerate(texts):
        left, top = 36 + place * each + 10, 60 + chance.whole(0, 40)
        sheet = (left, top, left + each - 20, height - 60 - chance.whole(0, 50))
        shadow_under(picture, sheet, 100, 6)
        draw.rectangle(sheet, COLOURS[look.ground])
        letters.draw(draw, within(sheet, 20, 46), text, COLOURS[look.letters], 72)
        x, y, pin = (sheet[0] + sheet[2]) // 2, sheet[1] + 20, chance.pick(_PINS)
        draw.ellipse((x - 9, y - 7, x + 11, y + 13), (90, 84, 76))
        draw.ellipse((x - 10, y - 10, x + 10, y + 10), pin)
        draw.ellipse((x - 5, y - 6, x, y - 1), mixed(pin, (255, 255, 255), 0.6))
    shaded(picture, chance, 8, 1.4)
    return picture


def draw_menu(
    texts: Sequence[str], prices: Sequence[int], look: SignLook, shelf: FontShelf, chance: Chance
) -> Image.Image:
    """A page with a title and a line for each dish, dots up to its price in yuan."""
    (width, height), ground = look.size, COLOURS[look.ground]
    picture = Image.new("RGB", look.size, ground)
    draw, colour = ImageDraw.Draw(picture), COLOURS[look.letters]
    draw.rectangle((20, 20, width - 21, height - 21), None, colour, 3)
    draw.rectangle((28, 28, width - 29, height - 29), None, mixed(ground, colour, 0.6), 1)
    letters = SignText(shelf, look.typeface, look.language, look.bold)
    title = "菜单" if look.language == "zh" else "Menu"
    letters.draw(draw, (60, 52, width - 60, 132), title, colour, 58)
    draw.line((width // 3, 146, 2 * width // 3, 146), colour, 2)
    price = SignText(shelf, "Lora", "en")
    left, right, most = 60, width - 60, 38 if look.language == "zh" else 32
    size = letters.size_for(list(texts), right - left - 120, most)
    step = min(92, (height - 250) / len(texts))
    for number, (text, yuan) in enumerate(zip(texts, prices, strict=True)):
        y = round(196 + (number + 0.5) * step)
        end = letters.draw_left(draw, (left, y), text, colour, size)
        for x in range(end + 12, right - 76, 11):
            draw.ellipse((x, y + 8, x + 2, y + 10), mixed(ground, colour, 0.7))
        price.draw_left(draw, (right - 64, y), f"¥{yuan}", colour, 26)
    shaded(picture, chance, 6, 1.0)
    return picture


# Pairs of Chinese and English texts of signs, menus and notices.

_FILE = "sign_pairs.tsv"


@cache
def shipped_pairs() -> tuple[SignPair, ...]:
    """The pairs that come with the package, over two hundred, in a fixed order."""
    text = resources.files("sources.rendered").joinpath(_FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return checked_pairs(SignPair.model_validate(row) for row in rows)


def checked_pairs(pairs: Iterable[SignPair]) -> tuple[SignPair, ...]:
    """The pairs as they are, if no text has two translations.

    Raises:
        FormatError: a text stands twice.
        UsageError: there are no pairs.
    """
    kept = tuple(pairs)
    if not kept:
        raise UsageError("there are no pairs of texts to draw from, wanted at least one")
    for side in ("chinese", "english"):
        _refuse_twice([getattr(pair, side).casefold() for pair in kept])
    return kept


def _refuse_twice(texts: Sequence[str]) -> None:
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            raise FormatError(f"the text {text!r} is in two pairs, wanted one translation")
        seen.add(text)


# Text translation: what is written on signs and menus, and what it means in the other language.

BETWEEN = " / "
"""Stands between the texts of a question, and between those of its answer."""


class _Place(Record):
    """Where texts may stand: of which category, and how few and how many together."""

    name: str
    category: SignCategory
    weight: float
    least: int = 1
    most: int = 1


_PLACES = (
    _Place(name="road sign", category=SignCategory.ROAD, weight=3),
    _Place(name="station sign", category=SignCategory.TRANSPORT, weight=2),
    _Place(name="shop sign", category=SignCategory.SHOP, weight=3),
    _Place(name="door plate", category=SignCategory.DOOR, weight=3),
    _Place(name="warning sign", category=SignCategory.WARNING, weight=2),
    _Place(name="notice", category=SignCategory.NOTICE, weight=2.5),
    _Place(name="notice board", category=SignCategory.NOTICE, weight=2, least=2, most=3),
    _Place(name="menu page", category=SignCategory.MENU, weight=3.5, least=3, most=6),
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_TASK_SCENES = {
    "road sign": "the sign stands on a post beside a road",
    "station sign": "the sign hangs from a ceiling, with an arrow beside the text",
    "shop sign": "the sign hangs over a shop front with a striped awning",
    "door plate": "the plate is fixed to a door with a handle",
    "warning sign": "a triangle with an exclamation mark stands above the text",
    "notice": "the sheet is taped to a wall",
    "notice board": "the sheets are pinned to a cork board",
    "menu page": "dotted lines lead to the prices at the right",
}
_LANGUAGES = {"zh": "Chinese", "en": "English"}


class TranslationDraft:
    """Texts that are not yet drawn; `language` (zh or en) is the one that is shown."""

    def __init__(
        self, place: str, language: str, pairs: Sequence[SignPair], shelf: FontShelf
    ) -> None:
        self._place = place
        self._language = language
        self._pairs = tuple(pairs)
        self._shelf = shelf

    @property
    def question(self) -> str:
        """What is written."""
        return BETWEEN.join(self._texts(self._language))

    @property
    def answer(self) -> str:
        """The same in the other language."""
        return BETWEEN.join(self._texts("en" if self._language == "zh" else "zh"))

    def render(self, chance: Chance, seed: int) -> RenderedImage:
        """The picture in a drawn look."""
        first = self._pairs[0].chinese
        look = draw_sign_look(chance, self._shelf, self._place, self._language, first)
        texts = self._texts(self._language)
        prices = [chance.whole(3, 88) for _ in texts] if look.place == "menu page" else []
        if prices:
            picture = draw_menu(texts, prices, look, self._shelf, chance)
        elif look.place == "notice board":
            picture = draw_notice_board(texts, look, self._shelf, chance)
        else:
            picture = draw_sign(texts[0], look, self._shelf, chance)
        return rendered(
            RetrievalTask.TRANSLATION,
            seed,
            picture,
            question=self.question,
            answer=self.answer,
            look=look.named(),
            truth=self._truth(prices),
            facts=tuple(self._facts(look, prices)),
        )

    def _texts(self, language: str) -> list[str]:
        return [pair.chinese if language == "zh" else pair.english for pair in self._pairs]

    def _truth(self, prices: list[int]) -> dict[str, Any]:
        truth: dict[str, Any] = {
            "shown": self._language,
            "pairs": [pair.model_dump(mode="json") for pair in self._pairs],
        }
        return {**truth, "prices_yuan": prices} if prices else truth

    def _facts(self, look: SignLook, prices: list[int]) -> list[str]:
        thing, shown = f"{look.ground} {look.place}", _LANGUAGES[self._language]
        if len(self._pairs) == 1:
            facts = [*self._facts_of_one(thing), f"the text is written in {shown}"]
        else:
            facts = self._facts_of_many(look, prices)
        colours = f"the writing is {look.letters} on {with_article(look.ground)} ground"
        if look.place == "road sign" and look.letters == "red":
            colours = "the writing is black on a white ground with a red border"
        return [*facts, colours, _TASK_SCENES[look.place]]

    def _facts_of_one(self, thing: str) -> list[str]:
        pair = self._pairs[0]
        if self._language == "zh":
            count = len(pair.chinese)
            characters = f"{count} Chinese characters are" if count > 1 else "one character is"
            return [
                f"{with_article(thing)} in Chinese says {pair.english}",
                f"the characters read {pair.chinese}",
                f"{characters} written there",
            ]
        return [
            f"{with_article(thing)} in English reads {pair.english}",
            f"in Chinese the text is {pair.chinese}",
        ]

    def _facts_of_many(self, look: SignLook, prices: list[int]) -> list[str]:
        shown, count = _LANGUAGES[self._language], len(self._pairs)
        english = ", ".join(pair.english for pair in self._pairs)
        what = "lists" if prices else "holds sheets that say"
        facts = [f"{with_article(look.place)} in {shown} {what} {english}"]
        for number, pair in enumerate(self._pairs):
            name = f"the {_ORDINALS[number]} {'line' if prices else 'sheet'}"
            if self._language == "zh":
                facts.append(f"{name} reads {pair.chinese}, which means {pair.english}")
            else:
                facts.append(f"{name}, {pair.english}, is {pair.chinese} in Chinese")
            if prices:
                facts.append(f"{name} costs {prices[number]} yuan")
        things = "dishes and drinks are listed" if prices else "sheets hang side by side"
        return [facts[0], f"{count} {things}", *facts[1:]]


def draw_translation_task(
    chance: Chance, shelf: FontShelf, pairs: Sequence[SignPair]
) -> TranslationDraft:
    """One text on a sign, or some on a notice board or a menu; three of four are in Chinese.

    Raises:
        UsageError: no place can be filled from `pairs`.
    """
    by_category: dict[SignCategory, list[SignPair]] = {}
    for pair in pairs:
        by_category.setdefault(pair.category, []).append(pair)
    places = {
        place: place.weight
        for place in _PLACES
        if len(by_category.get(place.category, ())) >= place.least
    }
    if not places:
        raise UsageError("no sign can be drawn from these pairs, wanted at least three for a menu")
    place = chance.weigh(places)
    known = by_category[place.category]
    count = chance.whole(place.least, min(place.most, len(known)))
    language = "zh" if chance.happens(0.75) else "en"
    return TranslationDraft(place.name, language, chance.shuffled(known)[:count], shelf)
