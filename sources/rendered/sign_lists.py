"""Draws several texts together: sheets on a notice board, dishes with prices on a menu."""

from collections.abc import Sequence

from PIL import Image, ImageDraw

from sources.demonstration.chance import Chance
from sources.rendered.code_text import mixed
from sources.rendered.fonts import FontShelf
from sources.rendered.sign_looks import COLOURS, SignLook
from sources.rendered.sign_scenes import shadow_under, within
from sources.rendered.sign_text import SignText
from sources.rendered.surfaces import Colour, shaded

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
