"""Signs in a scene: lists of texts, their look, and the translation task."""

import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from pydantic import TypeAdapter

from schemas.base import Record
from schemas.errors import FormatError, UsageError
from schemas.recos import RenderedTruth
from schemas.requests import SignCategory, SignPair
from schemas.taxonomy import RetrievalTask
from sources.demonstration.people import Chance
from sources.rendered.pen import (
    Box,
    Colour,
    Draft,
    FontShelf,
    RenderedImage,
    looks,
    mixed,
    rendered,
    shaded,
    with_article,
)

# Sets a Chinese or English text into a box, as large as possible, in one or more lines.

_LINE = {"zh": 1.22, "en": 1.28}
_MOST_LINES = {"zh": 3, "en": 4}
_WORTH_A_LINE = {"zh": 1.4, "en": 1.1}  # how much larger: a line break may split a Chinese word


class SignText:
    """Text in one typeface and language (zh or en)."""

    def __init__(self, shelf: FontShelf, typeface: str, language: str) -> None:
        self._shelf = shelf
        self._typeface = typeface
        self.language = language

    def draw(
        self, draw: ImageDraw.ImageDraw, box: Box, text: str, colour: Colour, most_px: int = 200
    ) -> None:
        """Draw `text` in the middle of `box`, at most `most_px` high."""
        size, lines = self._fitted(text, box[2] - box[0], box[3] - box[1], most_px)
        step = size * _LINE[self.language]
        middle, top = (box[0] + box[2]) / 2, (box[1] + box[3] - step * (len(lines) - 1)) / 2
        for number, line in enumerate(lines):
            place = (round(middle), round(top + number * step))
            draw.text(place, line, colour, self._font(size), "mm")

    def draw_left(
        self, draw: ImageDraw.ImageDraw, at: tuple[int, int], text: str, colour: Colour, size: int
    ) -> int:
        """Draw one line from its left end, at the height of its middle; return its right end."""
        draw.text(at, text, colour, self._font(size), "lm")
        return at[0] + round(self._font(size).getlength(text))

    def size_for(self, texts: list[str], width: float, most_px: int) -> int:
        """Return the size, at most `most_px`, at which each of `texts` fits into one line."""
        longest = max(self._font(100).getlength(text) for text in texts)
        return int(min(most_px, 100 * width / longest))

    def _font(self, size: float) -> ImageFont.FreeTypeFont:
        return self._shelf.font(self._typeface, size)

    def _fitted(self, text: str, width: int, height: int, most_px: int) -> tuple[int, list[str]]:
        """Return the largest size over all numbers of lines, and the lines; fewer are preferred."""
        best: tuple[int, list[str]] = (0, [text])
        for count in range(1, _MOST_LINES[self.language] + 1):
            lines = self._broken(text, count)
            if lines is None:
                break
            high = int(height / (_LINE[self.language] * len(lines)))
            size = min(self.size_for(lines, width, most_px), high)
            if size > best[0] * _WORTH_A_LINE[self.language]:
                best = size, lines
        return max(best[0], 1), best[1]

    def _broken(self, text: str, count: int) -> list[str] | None:
        """Break the text into `count` lines of about the same width; None if not possible."""
        units = list(text) if self.language == "zh" else text.split(" ")
        if count > len(units) or (self.language == "zh" and len(units) < 2 * count):
            return [text] if count == 1 else None
        glue = "" if self.language == "zh" else " "
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


# The look of a sign, a notice or a menu: its place, its colours, its typeface.

COLOURS = TypeAdapter(dict[str, Colour]).validate_python(looks()["colours"])
_FORBIDDING, _WARNING = (
    ("禁止", "停车让行"),
    ("注意", "前方", "急弯", "连续", "陡坡", "减速", "路面"),
)


class _Place(Record):
    """A place of texts and its look.

    Attributes:
        category: of the texts.
        weight: relative frequency.
        fact: description for a caption.
        colours: colours of the background and the letters, by name.
        walls: colours of what is behind; `pattern` is drawn on it: bricks, tiles, planks or a
            landscape.
        size: size of the image.
        panel: box of the background in shares of the image.
        extra: a further element: an arrow, an awning, a triangle, a post, screws or tape.
        together: the fewest and most texts shown together.
    """

    name: str
    category: SignCategory
    weight: float
    fact: str
    colours: tuple[tuple[str, str], ...]
    walls: tuple[Colour, ...]
    pattern: str = ""
    size: tuple[int, int]
    panel: tuple[float, float, float, float]
    extra: str
    together: tuple[int, int] = (1, 1)


_PLACES = {one["name"]: _Place.model_validate(one) for one in looks()["places"]}
_PINS: tuple[Colour, ...] = ((206, 40, 44), (30, 96, 190), (36, 140, 70), (240, 190, 30))


class SignLook(NamedTuple):
    """The look of texts; `ground` and `letters` are names of `COLOURS`."""

    place: str
    ground: str
    letters: str
    typeface: str
    language: str


def _draw_sign_look(
    chance: Chance, shelf: FontShelf, place: str, language: str, chinese: str
) -> SignLook:
    """Return a random look for a sign at `place` with `chinese`, in `language` (zh or en)."""
    ground, letters = chance.pick(_PLACES[place].colours)
    if place == "road sign" and chinese.startswith(_FORBIDDING):
        ground, letters = "white", "red"
    elif place == "road sign" and chinese.startswith(_WARNING):
        ground, letters = "yellow", "black"
    latin: tuple[str, ...] = ("Open Sans", "DejaVu Sans")
    if place != "road sign":
        latin += ("Roboto Slab", "Lora", "EB Garamond")
    faces = shelf.names("chinese") if language == "zh" else latin
    return SignLook(place, ground, letters, chance.pick(faces), language)


def _draw_signs(
    texts: Sequence[str], prices: Sequence[int], look: SignLook, shelf: FontShelf, chance: Chance
) -> Image.Image:
    """Draw texts in their place; `prices` are those of a menu, else empty."""
    place = _PLACES[look.place]
    picture, draw = _wall(place, chance)
    ground, letters = COLOURS[look.ground], COLOURS[look.letters]
    text = SignText(shelf, look.typeface, look.language)
    (width, height), shares = place.size, place.panel
    panel = (round(shares[0] * width), round(shares[1] * height),
             round(shares[2] * width), round(shares[3] * height))  # fmt: skip
    if place.extra == "pins":
        _write_sheets(picture, panel, texts, text, (ground, letters), chance)
    else:
        _shadow_under(picture, panel)
        draw.rectangle(panel, ground)
        draw.rectangle(_within(panel, 9, 9), None, letters, 5)
        room = _extra(draw, place, panel, (ground, letters))
        if prices:
            price = SignText(shelf, "Lora", "en")
            _write_menu(draw, room, texts, prices, (text, price), (ground, letters))
        else:
            is_bordered = (look.ground, look.letters) == ("white", "red")
            dark = COLOURS["black"] if is_bordered and look.place == "road sign" else letters
            text.draw(draw, _within(room, 34, 26), texts[0], dark, 130)
    shaded(picture, chance, 7, 1.2)
    return picture


def _wall(place: _Place, chance: Chance) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Draw what is behind a sign: a wall, a door, or a road under a sky."""
    (width, height), wall = place.size, chance.pick(place.walls)
    picture = Image.new("RGB", place.size, wall)
    draw, dark = ImageDraw.Draw(picture), mixed(wall, (26, 26, 28), 0.18)
    high, wide = {"bricks": (22, 56), "tiles": (46, 90)}.get(place.pattern, (height, width))
    for row, y in enumerate(range(high, height, high)):
        draw.line((0, y, width, y), dark, 2)
        for x in range(row % 2 * wide // 2, width, wide):
            draw.line((x, y, x, y + high), dark, 2)
    if place.pattern == "planks":
        for _ in range(60):
            x = chance.whole(0, width)
            draw.line((x, 0, x + chance.whole(-14, 14), height), mixed(wall, dark, 0.6), 3)
    if place.pattern == "landscape":
        horizon, hill = round(height * 0.68), chance.pick(((86, 128, 82), (128, 140, 128)))
        draw.rectangle((0, horizon, width, height), hill)
        middle = chance.whole(width // 8, width // 3)
        road = [(middle, horizon), (middle + 26, horizon), (width, height), (-width // 3, height)]
        draw.polygon(road, (92, 94, 98))
    return picture, draw


def _extra(
    draw: ImageDraw.ImageDraw, place: _Place, panel: Box, colours: tuple[Colour, Colour]
) -> Box:
    """Draw the further element of a sign; return the remaining box of the panel."""
    (width, height), (ground, letters), (left, top, right, bottom) = place.size, colours, panel
    if place.extra == "post":
        draw.rectangle((width // 2 - 8, bottom, width // 2 + 8, height), (142, 146, 150))
    elif place.extra == "handle":
        draw.rounded_rectangle((width - 130, height - 92, width - 44, height - 72), 9, (222,) * 3)
    elif place.extra == "tape":
        for x in (left, right):
            draw.rectangle((x - 26, top - 14, x + 26, top + 10), (226, 216, 172))
    elif place.extra == "awning":
        for number, x in enumerate(range(30, width - 30, 38)):
            stripe = (COLOURS["white"], ground)[number % 2]
            draw.rectangle((x, bottom + 14, x + 38, bottom + 66), stripe)
        draw.rectangle((60, bottom + 80, width - 60, height - 8), (116, 142, 156), (60, 56, 52), 6)
    elif place.extra == "arrow":
        for x in (width // 4, 3 * width // 4):
            draw.rectangle((x - 4, 0, x + 4, top), (120, 124, 128))
        y, tip = (top + bottom) // 2, left + 40
        draw.line((tip, y, tip + 100, y), letters, 11)
        draw.line((tip + 46, y - 46, tip, y, tip + 46, y + 46), letters, 11, joint="curve")
        return left + 150, top, right, bottom
    elif place.extra == "triangle":
        middle, side, above = width // 2, round(0.42 * (bottom - top)), top + 34
        corners = [(middle, above), (middle - 0.6 * side, above + side),
                   (middle + 0.6 * side, above + side)]  # fmt: skip
        dark = COLOURS["black"]
        draw.polygon(corners, COLOURS["yellow"], dark, 7)
        draw.rectangle((middle - 8, above + side * 0.36, middle + 8, above + side * 0.7), dark)
        draw.ellipse((middle - 9, above + side * 0.77, middle + 9, above + side * 0.9), dark)
        return left, above + side, right, bottom
    return panel


def _write_sheets(
    picture: Image.Image,
    board: Box,
    texts: Sequence[str],
    text: SignText,
    colours: tuple[Colour, Colour],
    chance: Chance,
) -> None:
    """Draw a sheet for each text, side by side, each held by a pin."""
    draw, wide = ImageDraw.Draw(picture), (board[2] - board[0]) // len(texts)
    for number, line in enumerate(texts):
        left, top = board[0] + number * wide + 10, board[1] + chance.whole(-20, 20)
        sheet = (left, top, left + wide - 20, top + board[3] - board[1])
        _shadow_under(picture, sheet)
        draw.rectangle(sheet, colours[0])
        text.draw(draw, _within(sheet, 18, 40), line, colours[1], 70)
        middle = (sheet[0] + sheet[2]) // 2
        draw.ellipse((middle - 9, top + 8, middle + 9, top + 26), chance.pick(_PINS))


def _write_menu(
    draw: ImageDraw.ImageDraw,
    room: Box,
    texts: Sequence[str],
    prices: Sequence[int],
    writers: tuple[SignText, SignText],
    colours: tuple[Colour, Colour],
) -> None:
    """Write a title and a line for each dish, with dots up to its price in yuan."""
    (text, price), (ground, colour), (left, top, right, bottom) = writers, colours, room
    title, most = ("菜单", 38) if text.language == "zh" else ("Menu", 32)
    text.draw(draw, (left + 40, top + 32, right - 40, top + 112), title, colour, 58)
    left, right = left + 42, right - 42
    size = text.size_for(list(texts), right - left - 120, most)
    step = min(92, (bottom - top - 200) / len(texts))
    for number, (line, yuan) in enumerate(zip(texts, prices, strict=True)):
        y = round(top + 160 + (number + 0.5) * step)
        end = text.draw_left(draw, (left, y), line, colour, size)
        for x in range(end + 12, right - 76, 11):
            draw.ellipse((x, y + 8, x + 2, y + 10), mixed(ground, colour, 0.7))
        price.draw_left(draw, (right - 64, y), f"¥{yuan}", colour, 26)


def _shadow_under(picture: Image.Image, box: Box) -> None:
    """Darken the area under a sheet or plate at `box`, slightly to its lower right."""
    mask = Image.new("L", picture.size)
    ImageDraw.Draw(mask).rectangle((box[0] + 5, box[1] + 7, box[2] + 6, box[3] + 8), 110)
    picture.paste((16, 16, 18), (0, 0), mask.filter(ImageFilter.BoxBlur(8)))


def _within(box: Box, dx: int, dy: int) -> Box:
    """Return a box smaller by `dx` at the left and right and by `dy` at the top and bottom."""
    return box[0] + dx, box[1] + dy, box[2] - dx, box[3] - dy


# Pairs of Chinese and English texts of signs, menus and notices.


@cache
def shipped_pairs() -> tuple[SignPair, ...]:
    """Return the more than two hundred pairs of the package, in a fixed order."""
    text = (
        resources.files("sources.rendered").joinpath("sign_pairs.tsv").read_text(encoding="utf-8")
    )
    rows = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return checked_pairs(SignPair.model_validate(row) for row in rows)


def checked_pairs(pairs: Iterable[SignPair]) -> tuple[SignPair, ...]:
    """Return the pairs unchanged if no text has two translations.

    Raises:
        FormatError: a text occurs twice.
        UsageError: there are no pairs.
    """
    kept = tuple(pairs)
    if not kept:
        raise UsageError("there are no pairs of texts to draw from, wanted at least one")
    chinese = Counter(pair.chinese for pair in kept)
    english = Counter(pair.english.casefold() for pair in kept)
    for text, count in (*chinese.items(), *english.items()):
        if count > 1:
            raise FormatError(f"the text {text!r} is in two pairs, wanted one translation")
    return kept


# Text translation: the text on signs and menus, and its meaning in the other language.

BETWEEN = " / "
"""Separates the texts of a question and those of its answer."""


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_LANGUAGES = {"zh": "Chinese", "en": "English"}


def draw_translation_task(chance: Chance, shelf: FontShelf, pairs: Sequence[SignPair]) -> Draft:
    """Draw one text on a sign, or several on a notice board or menu; three of four in Chinese.

    Raises:
        UsageError: no place can be filled from `pairs`.
    """
    by_category: dict[SignCategory, list[SignPair]] = {}
    for pair in pairs:
        by_category.setdefault(pair.category, []).append(pair)
    places = {
        name: place.weight
        for name, place in _PLACES.items()
        if len(by_category.get(place.category, ())) >= place.together[0]
    }
    if not places:
        raise UsageError("no sign can be drawn from these pairs, wanted at least three for a menu")
    name = chance.weigh(places)
    known, (least, most) = by_category[_PLACES[name].category], _PLACES[name].together
    count = chance.whole(least, min(most, len(known)))
    language = "zh" if chance.happens(0.75) else "en"
    drawn = chance.shuffled(known)[:count]
    texts = {"zh": [pair.chinese for pair in drawn], "en": [pair.english for pair in drawn]}
    question = BETWEEN.join(texts[language])
    answer = BETWEEN.join(texts["en" if language == "zh" else "zh"])

    def render(chance: Chance, seed: int) -> RenderedImage:
        look = _draw_sign_look(chance, shelf, name, language, drawn[0].chinese)
        prices = [chance.whole(3, 88) for _ in drawn] if look.place == "menu page" else []
        truth = {"shown": language, "pairs": [pair.model_dump(mode="json") for pair in drawn]}
        return rendered(
            RetrievalTask.TRANSLATION,
            seed,
            _draw_signs(texts[language], prices, look, shelf, chance),
            question=question,
            answer=answer,
            look=look._asdict(),
            truth={**truth, "prices_yuan": prices} if prices else truth,
            facts=tuple(_facts(drawn, look, prices)),
        )

    return Draft(question, answer, render)


def _facts(pairs: Sequence[SignPair], look: SignLook, prices: Sequence[int]) -> list[str]:
    if len(pairs) == 1:
        facts = _facts_of_one(pairs[0], look)
    else:
        facts = _facts_of_many(pairs, look, prices)
    colours = f"the writing is {look.letters} on {with_article(look.ground)} ground"
    if look.place == "road sign" and look.letters == "red":
        colours = "the writing is black on a white ground with a red border"
    return [*facts, colours, _PLACES[look.place].fact]


def _facts_of_one(pair: SignPair, look: SignLook) -> list[str]:
    thing = with_article(f"{look.ground} {look.place}")
    written = f"the text is written in {_LANGUAGES[look.language]}"
    if look.language == "en":
        reads = f"{thing} in English reads {pair.english}"
        return [reads, f"in Chinese the text is {pair.chinese}", written]
    count = len(pair.chinese)
    characters = f"{count} Chinese characters are" if count > 1 else "one character is"
    return [
        f"{thing} in Chinese says {pair.english}",
        f"the characters read {pair.chinese}",
        f"{characters} written there",
        written,
    ]


def _facts_of_many(pairs: Sequence[SignPair], look: SignLook, prices: Sequence[int]) -> list[str]:
    english = ", ".join(pair.english for pair in pairs)
    what = "lists" if prices else "holds sheets that say"
    things = "dishes and drinks are listed" if prices else "sheets hang side by side"
    facts = [
        f"{with_article(look.place)} in {_LANGUAGES[look.language]} {what} {english}",
        f"{len(pairs)} {things}",
    ]
    for number, pair in enumerate(pairs):
        name = f"the {_ORDINALS[number]} {'line' if prices else 'sheet'}"
        if look.language == "zh":
            facts.append(f"{name} reads {pair.chinese}, which means {pair.english}")
        else:
            facts.append(f"{name}, {pair.english}, is {pair.chinese} in Chinese")
        if prices:
            facts.append(f"{name} costs {prices[number]} yuan")
    return facts


MOST_UNREAD: Final = 0.5
"""The largest share of unread characters: one of two, for the shortest signs.

docs/benchmarks.md has the measurements.
"""

_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_ALIKE: Final = str.maketrans({"l": "1", "i": "1", "|": "1", "o": "0", "×": "x", "−": "-"})
"""Characters that readers confuse."""


def drawn_texts(truth: RenderedTruth) -> tuple[str, ...]:
    """Return texts that a reader must find in the image, in pieces of one line each.

    Empty for handwritten calculations and fractions, which readers of printed text do not read, and
    for figures, whose few digits are not informative.
    """
    match truth.task:
        case RetrievalTask.TRANSLATION:
            texts = truth.question.split(BETWEEN)
            return tuple(word for text in texts for word in text.split())
        case RetrievalTask.CODE:
            return tuple(filter(str.strip, truth.question.splitlines()))
        case _:
            is_plain = truth.truth.get("kind") not in ("area", "fractions", None)
            is_typeset = truth.look.get("writing") == "typeset"
            return tuple(_NUMBER.findall(truth.question)) if is_plain and is_typeset else ()


def unread_share(drawn: Iterable[str], *readings: Sequence[str]) -> float:
    """Return the character error rate of the reading, in [0, 1], counting only `drawn`.

    Each text is compared with the nearest substring by edit distance in any of the `readings`,
    which have the lines in several orders. Spaces, letter case, similar characters and further text
    are ignored.
    """
    texts, read = list(map(_plain, drawn)), [_plain("".join(one)) for one in readings]
    wrong = sum(min(_distance(text, one) for one in read) for text in texts)
    return wrong / max(1, sum(map(len, texts)))


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(folded.split()).translate(_ALIKE)


def _distance(text: str, reading: str) -> int:
    """Return the least edit distance of `text` to any substring of `reading` (Sellers, 1980)."""
    codes = np.array([ord(one) for one in reading], np.int64)
    places = np.arange(len(codes) + 1)
    row = np.zeros(len(codes) + 1, np.int64)  # a substring may begin anywhere
    for number, character in enumerate(text, start=1):
        shorter = np.minimum(row[:-1] + (codes != ord(character)), row[1:] + 1)
        row = np.concatenate([[number], shorter])
        row = np.minimum.accumulate(row - places) + places
    return int(row.min())
