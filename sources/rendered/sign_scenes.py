"""Draws signs where they stand: beside a road, over a shop, on a door, in a station."""

from collections.abc import Callable, Mapping

from PIL import Image, ImageDraw, ImageFilter

from sources.demonstration.chance import Chance
from sources.rendered.code_text import mixed
from sources.rendered.fonts import FontShelf
from sources.rendered.sign_looks import COLOURS, SignLook
from sources.rendered.sign_text import SignText
from sources.rendered.surfaces import Box, Colour, shaded

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
