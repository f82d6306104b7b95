"""Composes a new description from parsed facts: another order, other sentences, the same facts."""

from dataclasses import dataclass
from random import Random
from typing import Literal

from models.builtin.person.description import Description, Thing
from models.builtin.person.lexicon import load_lexicon
from models.builtin.person.phrasing import Phrasing, listed, with_article
from schemas.faithfulness import Attribute

Style = Literal["plain", "flowing", "brief"]

_WORN = frozenset(("upper", "outer", "lower", "whole", "clothing"))
_WORN_EXTRAS = frozenset(("head", "face", "mask", "neck", "wrist", "waist"))
_ADJECTIVES = {
    "young": "young",
    "middle-aged": "middle-aged",
    "elderly": "elderly",
    "teenage": "teenage",
}


@dataclass(frozen=True)
class Voice:
    """How the person is called: noun, pronoun, possessive, and the endings that go with them."""

    noun: str
    subject: str
    possessive: str
    plural_verb: bool

    def verb(self, singular: str, plural: str) -> str:
        """The form that agrees with the pronoun."""
        return plural if self.plural_verb else singular


def voice_of(description: Description) -> Voice:
    """The noun and pronouns for the person; neutral ones where no sex is stated."""
    sexes = set(description.person.values(Attribute.SEX))
    child = "child" in description.person.values(Attribute.AGE)
    if sexes == {"male"}:
        return Voice("boy" if child else "man", "he", "his", False)
    if sexes == {"female"}:
        return Voice("girl" if child else "woman", "she", "her", False)
    return Voice("child" if child else "person", "they", "their", True)


class Composer:
    """Writes one description anew; `draw` decides among the forms."""

    def __init__(self, description: Description, style: Style, draw: Random) -> None:
        self._description = description
        self._style = style
        self._draw = draw
        self._voice = voice_of(description)
        self._phrasing = Phrasing(description, self._voice.possessive, draw)
        self._lexicon = load_lexicon()

    def compose(self) -> str:
        """The new description, one paragraph."""
        opening = self._opening()
        sections = [s for s in (self._clothes(), self._extras(), self._actions()) if s]
        if self._style != "brief":
            self._draw.shuffle(sections)
        return " ".join([opening, *(sentence for section in sections for sentence in section)])

    # Sentences

    def _opening(self) -> str:
        voice, features = self._voice, self._features()
        noun = self._person_noun()
        with_features = f" with {listed(features)}" if features else ""
        if self._worn() and (self._style == "brief" or self._draw.random() < 0.3):
            self._clothes_said = True
            wears = listed([self._phrasing.item(i, self._brief) for i in self._worn()])
            return self._draw.choice(
                (
                    f"{_capital(with_article(noun))}{with_features} is wearing {wears}.",
                    f"Dressed in {wears}, this is {with_article(noun)}{with_features}.",
                )
            )
        self._clothes_said = False
        if not features and noun == voice.noun:
            return f"The {self._draw.choice(('picture', 'image'))} shows {with_article(noun)}."
        return self._draw.choice(
            (
                f"This is {with_article(noun)}{with_features}.",
                (
                    f"The {self._draw.choice(('picture', 'image'))} shows {with_article(noun)}"
                    f"{with_features}."
                ),
                f"Here we see {with_article(noun)}{with_features}.",
            )
        )

    @property
    def _brief(self) -> bool:
        return self._style == "brief"

    def _person_noun(self) -> str:
        person = self._description.person
        words = [_ADJECTIVES[age] for age in person.values(Attribute.AGE)[:1] if age in _ADJECTIVES]
        builds = person.values(Attribute.BUILD)
        if "tall height" in builds:
            words.insert(0, "tall")
        if "slim build" in builds:
            words.insert(0, self._draw.choice(("slim", "slender")))
        return " ".join([*words, self._voice.noun])

    def _features(self) -> list[str]:
        person = self._description.person
        builds = person.values(Attribute.BUILD)
        features = []
        if not self._brief:
            if "average height" in builds:
                features.append("average height")
            if "short height" in builds:
                features.append("a short stature")
            if "medium build" in builds and "slim build" not in builds:
                features.append("a medium build")
            if "heavy build" in builds:
                features.append("a heavy build")
            features += [_SKIN[tone] for tone in person.values(Attribute.SKIN)[:1]]
        if hair := self._phrasing.hair(self._description.hair):
            features.append(hair)
        features += [
            self._phrasing.item(item, True)
            for item in self._positive()
            if self._lexicon.slot(item.kind) == "beard"
        ]
        return features

    def _clothes(self) -> list[str]:
        voice, feet = self._voice, self._in_slots(frozenset(("feet", "socks")))
        sentences = []
        if self._worn() and not self._clothes_said:
            wears = listed([self._phrasing.item(item, self._brief) for item in self._worn()])
            subject = _capital(voice.subject)
            sentences.append(
                self._draw.choice(
                    (
                        f"{subject} {voice.verb('is', 'are')} wearing {wears}.",
                        f"{subject} {voice.verb('is', 'are')} dressed in {wears}.",
                        f"{subject} {voice.verb('wears', 'wear')} {wears}.",
                    )
                )
            )
        if feet:
            shoes = listed([self._phrasing.item(item, self._brief) for item in feet])
            subject, wears = voice.subject, voice.verb("wears", "wear")
            sentences.append(
                self._draw.choice(
                    (
                        f"On {voice.possessive} feet, {subject} {wears} {shoes}.",
                        (
                            f"{_capital(subject)} {voice.verb('has', 'have')} {shoes} "
                            f"on {voice.possessive} feet."
                        ),
                        f"{_capital(voice.possessive)} footwear is {shoes}.",
                    )[: 3 if len(feet) == 1 else 2]
                )
            )
        return sentences

    def _extras(self) -> list[str]:
        voice = self._voice
        worn = [self._placed(item) for item in self._in_slots(_WORN_EXTRAS)]
        carried = [self._placed(item) for item in self._carried()]
        subject, sentences = _capital(voice.subject), []
        if worn:
            sentences.append(
                self._draw.choice(
                    (
                        f"{subject} also {voice.verb('wears', 'wear')} {listed(worn)}.",
                        f"{subject} {voice.verb('has', 'have')} {listed(worn)} on.",
                    )[: 1 if any(" on " in w or " around " in w for w in worn) else 2]
                )
            )
        if carried:
            sentences.append(
                self._draw.choice(
                    (
                        f"{subject} {voice.verb('is', 'are')} carrying {listed(carried)}.",
                        f"{subject} {voice.verb('carries', 'carry')} {listed(carried)}.",
                    )
                )
            )
        missing = [item.kind for item in self._description.items if item.negated]
        if missing and not self._brief:
            sentences.append(f"There is no {' and no '.join(missing)}.")
        return sentences

    def _actions(self) -> list[str]:
        actions = list(self._description.person.values(Attribute.ACTION))
        if not actions:
            return []
        voice = self._voice
        return [f"{_capital(voice.subject)} {voice.verb('is', 'are')} {listed(actions)}."]

    # Items

    def _placed(self, item: Thing) -> str:
        return self._phrasing.item(item, self._brief) + self._phrasing.place(item)

    def _positive(self) -> list[Thing]:
        return [item for item in self._description.items if not item.negated]

    def _in_slots(self, slots: frozenset[str]) -> list[Thing]:
        return [
            i for i in self._positive() if self._lexicon.slot(i.kind) in slots and not i.carried
        ]

    def _worn(self) -> list[Thing]:
        return [
            item
            for item in self._in_slots(_WORN)
            if item.kind != "clothing" or item.values(Attribute.COLOUR)
        ]

    def _carried(self) -> list[Thing]:
        elsewhere = _WORN | _WORN_EXTRAS | {"feet", "socks", "beard"}
        return [
            item
            for item in self._positive()
            if item.carried or self._lexicon.slot(item.kind) not in elsewhere
        ]


_SKIN = {"fair": "fair skin", "medium": "slightly yellow skin", "dark": "dark skin"}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
