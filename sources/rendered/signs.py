"""Signs in a scene: lists of texts, their look, and the translation task."""

import csv
import math
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Final, Literal

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from pydantic import TypeAdapter

from loupe.schemas.base import Record
from loupe.schemas.errors import FormatError, UsageError
from loupe.schemas.recos import RenderedTruth
from loupe.schemas.requests import SignCategory, SignPair
from loupe.schemas.taxonomy import RetrievalTask
from loupe.schemas.wording import with_article
from loupe.sources.chance import Chance
from loupe.sources.rendered.pen import (
    GENERATOR,
    LOOKS,
    Box,
    Colour,
    Draft,
    FontShelf,
    RenderedImage,
    rendered,
    shaded,
)

# The look of a sign, a notice or a menu: its place, its colours, its typeface.

_COLOURS = TypeAdapter(dict[str, Colour]).validate_python(LOOKS["colours"])
_LATIN = ("Open Sans", "DejaVu Sans", "Roboto Slab", "Lora", "EB Garamond")
_LINE = 1.28
_MOST_LINES = 4
_WORTH_A_LINE = 1.2  # how much larger: a line break may split a Chinese word
_MOST_LETTER_PX = 130

Shares = tuple[float, float, float, float]
"""Left, top, right and bottom in shares of an image."""


class _Place(Record):
    """A place of texts and its look; all lengths but `size` and `courses` are shares of the image.

    Attributes:
        name: its name in captions.
        category: of the texts.
        weight: relative frequency.
        fact: description for a caption.
        colours: colours of the background and the letters, by name.
        walls: colours of what is behind.
        courses: height and width of its bricks, tiles or planks, in pixels.
        size: size of the image, in pixels.
        panel: box of the background.
        room: the part of the panel to write in, if not all.
        behind: shapes behind the panel, each with a colour, `ground` and `letters` included.
        before: shapes on the panel or before it.
        together: the fewest and most texts shown together.
    """

    name: str
    category: SignCategory
    weight: float
    fact: str
    colours: tuple[tuple[str, str], ...]
    walls: tuple[Colour, ...]
    courses: tuple[int, int] | None = None
    size: tuple[int, int]
    panel: Shares
    room: Shares | None = None
    behind: tuple[tuple[Literal["polygon", "ellipse"], str, tuple[float, ...]], ...] = ()
    before: tuple[tuple[Literal["polygon", "ellipse"], str, tuple[float, ...]], ...] = ()
    together: tuple[int, int] = (1, 1)


_PLACES = {one["name"]: _Place.model_validate(one) for one in LOOKS["places"]}


def _draw_signs(
    texts: Sequence[str], look: dict[str, str], shelf: FontShelf, chance: Chance
) -> Image.Image:
    """Draw texts in their place, one below the other."""
    place = _PLACES[look["place"]]
    width, height = place.size
    wall = chance.pick(place.walls)
    named = {**_COLOURS, "ground": _COLOURS[look["ground"]], "letters": _COLOURS[look["letters"]]}
    picture = Image.new("RGB", place.size, wall)
    draw = ImageDraw.Draw(picture)

    def box_of(shares: Shares, margin: int = 0) -> Box:
        left, top, right, bottom = (
            round(s * side) for s, side in zip(shares, place.size * 2, strict=True)
        )
        return left + margin, top + margin, right - margin, bottom - margin

    def draw_shapes(shapes: Iterable[tuple[str, str, tuple[float, ...]]]) -> None:
        for form, colour, shares in shapes:
            points = [
                (x * width, y * height) for x, y in zip(shares[::2], shares[1::2], strict=True)
            ]
            put = draw.ellipse if form == "ellipse" else draw.polygon
            put(points, named[colour])

    if place.courses:
        high, wide = place.courses
        joint = tuple(round(0.8 * part) for part in wall)
        for row, y in enumerate(range(0, height, high)):
            for x in range(row % 2 * wide // 2, width, wide):
                draw.rectangle((x, y, x + wide, y + high), None, joint, 2)
    draw_shapes(place.behind)
    panel = box_of(place.panel)
    shadow = Image.new("L", picture.size)
    ImageDraw.Draw(shadow).rectangle((panel[0] + 5, panel[1] + 7, panel[2] + 6, panel[3] + 8), 110)
    picture.paste((16, 16, 18), (0, 0), shadow.filter(ImageFilter.BoxBlur(8)))
    draw.rectangle(panel, named["ground"])
    draw.rectangle(box_of(place.panel, 9), None, named["letters"], 5)
    draw_shapes(place.before)
    left, top, right, bottom = box_of(place.room or place.panel, 28)
    step = (bottom - top) / len(texts)
    for number, text in enumerate(texts):
        room = (left, round(top + number * step), right, round(top + (number + 1) * step))
        _write(draw, room, text, named["letters"], look["typeface"], shelf)
    shaded(picture, chance)
    return picture


def _write(
    draw: ImageDraw.ImageDraw, box: Box, text: str, colour: Colour, typeface: str, shelf: FontShelf
) -> None:
    """Write a text into the middle of a box, as large as possible, in one or more lines."""
    measure = shelf.font(typeface, 100)

    def size_of(lines: list[str]) -> float:
        widest = max(map(measure.getlength, lines)) / 100
        high = (box[3] - box[1]) / _LINE / len(lines)
        return min(_MOST_LETTER_PX, (box[2] - box[0]) / widest, high)

    layouts = (_broken(text, count) for count in range(1, _MOST_LINES + 1))
    lines = max(layouts, key=lambda lines: size_of(lines) / _WORTH_A_LINE ** len(lines))
    size = max(1, int(size_of(lines)))
    middle, top = (box[0] + box[2]) / 2, (box[1] + box[3] - size * _LINE * (len(lines) - 1)) / 2
    for number, line in enumerate(lines):
        place = (round(middle), round(top + number * size * _LINE))
        draw.text(place, line, colour, shelf.font(typeface, size), "mm")


def _broken(text: str, count: int) -> list[str]:
    """Break a text into about `count` lines of similar length; English only between words."""
    is_chinese = text[0] >= "\u4e00"
    width = math.ceil(len(text) / count) + (0 if is_chinese else 2)
    return textwrap.wrap(text, width, break_long_words=is_chinese, break_on_hyphens=False)


# Pairs of Chinese and English texts of signs, menus and notices.


@cache
def shipped_pairs() -> tuple[SignPair, ...]:
    """Return the more than two hundred pairs of the package, in a fixed order."""
    text = (
        resources.files("loupe.sources.rendered")
        .joinpath("sign_pairs.tsv")
        .read_text(encoding="utf-8")
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

_LANGUAGES = {"zh": "Chinese", "en": "English"}


def draw_translation_task(chance: Chance, shelf: FontShelf, pairs: Sequence[SignPair]) -> Draft:
    """Draw one text on a sign, or several on a notice board or menu; three of four in Chinese.

    Raises:
        UsageError: no place can be filled from `pairs`.
    """
    known = {kind: [pair for pair in pairs if pair.category is kind] for kind in SignCategory}
    places = {
        place: place.weight
        for place in _PLACES.values()
        if len(known[place.category]) >= place.together[0]
    }
    if not places:
        raise UsageError("no sign can be drawn from these pairs, wanted at least three for a menu")
    place = chance.weigh(places)
    drawn = chance.shuffled(known[place.category])[: chance.whole(*place.together)]
    language = "zh" if chance.happens(0.75) else "en"
    texts = {"zh": [pair.chinese for pair in drawn], "en": [pair.english for pair in drawn]}
    question = BETWEEN.join(texts[language])
    answer = BETWEEN.join(texts["en" if language == "zh" else "zh"])

    def render(chance: Chance, seed: int) -> RenderedImage:
        ground, letters = chance.pick(place.colours)
        typeface = chance.pick(shelf.names("chinese") if language == "zh" else _LATIN)
        look = {
            "place": place.name,
            "ground": ground,
            "letters": letters,
            "typeface": typeface,
            "language": language,
        }
        truth = RenderedTruth(
            task=RetrievalTask.TRANSLATION,
            generator=GENERATOR,
            seed=seed,
            question=question,
            answer=answer,
            look=look,
            truth={"shown": language, "pairs": [pair.model_dump(mode="json") for pair in drawn]},
            facts=_facts(drawn, look, place),
        )
        return rendered(_draw_signs(texts[language], look, shelf, chance), truth)

    return Draft(question, answer, render)


def _facts(pairs: Sequence[SignPair], look: dict[str, str], place: _Place) -> tuple[str, ...]:
    thing, language = with_article(f"{look['ground']} {place.name}"), look["language"]
    lines = ["the text"] if len(pairs) == 1 else [f"line {at}" for at in range(1, len(pairs) + 1)]
    meanings = (
        f"{line} reads {pair.chinese}, which means {pair.english}"
        if language == "zh"
        else f"{line}, {pair.english}, is {pair.chinese} in Chinese"
        for line, pair in zip(lines, pairs, strict=True)
    )
    return (
        f"{thing} in {_LANGUAGES[language]} says {', '.join(pair.english for pair in pairs)}",
        *meanings,
        f"the text is written in {_LANGUAGES[language]}",
        f"the writing is {look['letters']} on {with_article(look['ground'])} ground",
        place.fact,
    )


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
