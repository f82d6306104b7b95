"""Text translation: what is written on signs and menus, and what it means in the other language."""

from collections.abc import Sequence
from typing import Any

from schemas.base import Record
from schemas.errors import UsageError
from schemas.retrieval_task import RetrievalTask
from schemas.sign_pairs import SignCategory, SignPair
from sources.demonstration.chance import Chance
from sources.rendered.fonts import FontShelf
from sources.rendered.sign_lists import draw_menu, draw_notice_board
from sources.rendered.sign_looks import SignLook, draw_sign_look
from sources.rendered.sign_scenes import draw_sign
from sources.rendered.task_image import RenderedImage, rendered, with_article

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
_SCENES = {
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
        return [*facts, colours, _SCENES[look.place]]

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
