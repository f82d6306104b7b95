"""Composes a new description from parsed facts: another order, other sentences, the same facts."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from models.builtin.person.description import Description, Place, Thing
from models.builtin.person.lexicon import load_lexicon
from schemas.faithfulness import Attribute, Fact, Span

Style = Literal["plain", "flowing", "brief"]

_WORN = frozenset(("upper", "outer", "lower", "whole", "clothing"))
_ADORNING = frozenset(("head", "face", "mask", "neck", "wrist", "waist"))
_ON_FEET = frozenset(("feet", "socks"))
_NEVER_HELD = _ON_FEET | {"waist", "lower"}
_SKIN = {"fair": "fair skin", "medium": "a medium skin tone", "dark": "dark skin"}
_NOUNS = {
    "male": {"boy": "boy", "gentleman": "gentleman", "guy": "man", "lad": "boy"},
    "female": {"girl": "girl", "lady": "lady"},
}
_OBJECTS = {
    "riding": frozenset(("bicycle", "skateboard")),
    "pushing": frozenset(("stroller", "bicycle", "suitcase")),
    "pulling": frozenset(("suitcase", "stroller")),
    "reading": frozenset(("book", "paper")),
    "smoking": frozenset(("cigarette",)),
}
_NEEDS_OBJECT = frozenset(("pushing", "pulling", "riding"))


@dataclass(frozen=True)
class Voice:
    """How the person is called: noun, pronoun, possessive, and whether verbs are plural."""

    noun: str
    subject: str
    possessive: str
    plural: bool = False

    def verb(self, singular: str, plural: str) -> str:
        """The form that agrees with the pronoun."""
        return plural if self.plural else singular


def _voice_of(description: Description) -> Voice:
    """The noun and pronouns for the person; neutral ones where the text states no one sex."""
    person = description.person
    sexes = set(person.values(Attribute.SEX))
    child = "child" in person.values(Attribute.AGE)
    if len(sexes) != 1:
        return Voice("child" if child else "person", "they", "their", plural=True)
    sex = sexes.pop()
    start, end = person.all(Attribute.SEX)[0].span
    said = description.text[start:end].lower()
    usual = ("boy" if child else "man") if sex == "male" else ("girl" if child else "woman")
    noun = _NOUNS[sex].get(said, usual)
    return Voice(noun, *(("he", "his") if sex == "male" else ("she", "her")))


class Composer:
    """Rewrites one description; `draw` decides among the forms."""

    def __init__(self, description: Description, style: Style, draw: Random) -> None:
        self._items = [item for item in description.items if item.known and not item.negated]
        self._missing = [item for item in description.items if item.negated]
        self._person = description.person
        self._hair = description.hair
        self._brief = style == "brief"
        self._flowing = style == "flowing"
        self._draw = draw
        self._voice = _voice_of(description)
        self._phrasing = _Phrasing(description, self._voice.possessive, draw)
        self._lexicon = load_lexicon()
        self._clothes_described = False

    def compose(self) -> str:
        """The new description, one paragraph."""
        sentences = [self._opening()]
        sections: list[Callable[[], list[str]]] = [self._clothes, self._feet, self._extras]
        if not self._brief:
            self._draw.shuffle(sections)
        for section in sections:
            sentences += section()
        return " ".join([*sentences, *self._absences(), *self._actions()])

    # Sentences

    def _opening(self) -> str:
        features = self._features()
        who = self._noun() + (f" with {listed(features)}" if features else "")
        worn = self._worn()
        if worn and self._draw.random() < (0.6 if self._brief or self._flowing else 0.3):
            self._clothes_described = True
            wears = listed([self._phrasing.item(item, self._brief) for item in worn])
            return self._draw.choice(
                (
                    f"{_capital(with_article(who))} is wearing {wears}.",
                    f"Dressed in {wears}, this is {with_article(who)}.",
                    f"{_capital(with_article(who))} is dressed in {wears}.",
                    f"Wearing {wears}, {with_article(who)} can be seen.",
                )
            )
        return self._draw.choice(
            (
                f"This is {with_article(who)}.",
                f"The {self._draw.choice(('picture', 'image'))} shows {with_article(who)}.",
                f"Here we see {with_article(who)}.",
            )
        )

    def _clothes(self) -> list[str]:
        worn = self._worn()
        if not worn or self._clothes_described:
            return []
        self._clothes_described = True
        return [self._wearing([self._phrasing.item(item, self._brief) for item in worn])]

    def _wearing(self, phrases: list[str]) -> str:
        subject, verb = _capital(self._voice.subject), self._voice.verb
        forms = (
            f"{subject} {verb('is', 'are')} wearing {listed(phrases)}.",
            f"{subject} {verb('is', 'are')} dressed in {listed(phrases)}.",
            f"{subject} {verb('wears', 'wear')} {listed(phrases)}.",
            f"{_capital(self._voice.possessive)} outfit consists of {listed(phrases)}.",
        )
        return self._draw.choice(forms)

    def _feet(self) -> list[str]:
        shoes = [self._phrasing.item(i, self._brief) for i in self._in_slots(_ON_FEET)]
        if not shoes:
            return []
        subject, possessive = self._voice.subject, self._voice.possessive
        wears = self._voice.verb("wears", "wear")
        return [
            self._draw.choice(
                (
                    f"On {possessive} feet, {subject} {wears} {listed(shoes)}.",
                    f"On {possessive} feet are {listed(shoes).replace('a pair of ', '')}.",
                    f"{_capital(subject)} {wears} {listed(shoes)} on {possessive} feet.",
                )
            )
        ]

    def _extras(self) -> list[str]:
        subject, verb = _capital(self._voice.subject), self._voice.verb
        adorning = [self._placed(item) for item in self._in_slots(_ADORNING)]
        carried = [self._placed(item) for item in self._carried()]
        also = "also " if self._clothes_described else ""
        sentences = []
        if adorning:
            sentences.append(f"{subject} {also}{verb('wears', 'wear')} {listed(adorning)}.")
        if carried:
            forms = (
                f"{subject} {verb('is', 'are')} carrying {listed(carried)}.",
                f"{subject} {verb('carries', 'carry')} {listed(carried)}.",
                f"{subject} {verb('has', 'have')} {listed(carried)} with {self._object()}.",
            )
            has_place = any(item.places for item in self._carried())
            sentences.append(self._draw.choice(forms[:2] if has_place else forms))
        self._draw.shuffle(sentences)
        return sentences

    def _object(self) -> str:
        return {"he": "him", "she": "her"}.get(self._voice.subject, "them")

    def _absences(self) -> list[str]:
        """What is said not to be there: «He wears no glasses»."""
        if self._brief:
            return []
        subject, verb, sentences = _capital(self._voice.subject), self._voice.verb, []
        for item in self._missing:
            worn = self._lexicon.slot(item.kind) not in ("bag", "held")
            does = verb("wears", "wear") if worn else verb("carries", "carry")
            sentences.append(f"{subject} {does} no {item.kind}.")
        return sentences

    def _actions(self) -> list[str]:
        phrases = []
        for action in self._person.values(Attribute.ACTION):
            objects = [self._phrasing.item(i, self._brief) for i in self._objects_of(action)]
            if objects or action not in _NEEDS_OBJECT:
                phrases.append(" ".join([action, listed(objects)]).strip())
        if not phrases:
            return []
        return [
            f"{_capital(self._voice.subject)} {self._voice.verb('is', 'are')} {listed(phrases)}."
        ]

    # The person

    def _noun(self) -> str:
        """«tall young woman»."""
        ages = self._person.values(Attribute.AGE)
        builds = self._person.values(Attribute.BUILD)
        words = ["tall"] if "tall height" in builds else []
        if "slim build" in builds:
            words.append(self._draw.choice(("slim", "slender")))
        words += [age for age in ages[:1] if age != "child"]
        if "child" in ages:
            words.append("little")
        return " ".join([*words, self._voice.noun])

    def _features(self) -> list[str]:
        """Build, skin, hair and beard, as what follows «with»."""
        builds = self._person.values(Attribute.BUILD)
        features = []
        if not self._brief:
            features += [words for build, words in _BUILDS if build in builds]
            features += [_SKIN[tone] for tone in self._person.values(Attribute.SKIN)[:1]]
        features.append(self._phrasing.hair(self._hair))
        features += [self._phrasing.item(i, True) for i in self._in_slots(frozenset(("beard",)))]
        return [feature for feature in features if feature]

    # Items

    def _placed(self, item: Thing) -> str:
        return self._phrasing.item(item, self._brief) + self._phrasing.place(item)

    def _in_slots(self, slots: frozenset[str]) -> list[Thing]:
        return [
            item
            for item in self._items
            if self._lexicon.slot(item.kind) in slots and not self._is_held(item)
        ]

    def _is_held(self, item: Thing) -> bool:
        """Whether a thing that could be worn is carried; belts and trousers never are."""
        return item.carried and self._lexicon.slot(item.kind) not in _NEVER_HELD

    def _worn(self) -> list[Thing]:
        worn = self._in_slots(_WORN)
        return [i for i in worn if i.kind != "clothing" or i.values(Attribute.COLOUR)]

    def _carried(self) -> list[Thing]:
        elsewhere = _WORN | _ADORNING | _ON_FEET | {"beard"}
        actions = self._person.values(Attribute.ACTION)
        busy = [item for action in actions for item in self._objects_of(action)]
        return [
            item
            for item in self._items
            if (self._is_held(item) or self._lexicon.slot(item.kind) not in elsewhere)
            and item not in busy
        ]

    def _objects_of(self, action: str) -> list[Thing]:
        """What the person rides, pushes, pulls …; at most one thing."""
        kinds = _OBJECTS.get(action, frozenset())
        return [item for item in self._items if item.kind in kinds][:1]


_BUILDS = (
    ("average height", "average height"),
    ("short height", "a short stature"),
    ("medium build", "a medium build"),
    ("heavy build", "a heavy build"),
)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# Words facts as English phrases: «a pair of black and pink sneakers», «short yellow hair».

_SYNONYMS = {
    "trousers": ("pants",),
    "pants": ("trousers",),
    "sneakers": ("trainers",),
    "t-shirt": ("tee",),
    "tee": ("T-shirt",),
    "backpack": ("rucksack",),
    "rucksack": ("backpack",),
    "cell phone": ("mobile phone",),
    "mobile phone": ("cell phone",),
    "glasses": ("eyeglasses", "spectacles"),
    "purse": ("handbag",),
    "long-sleeved": ("long-sleeve",),
    "short-sleeved": ("short-sleeve",),
    "gray": ("grey",),
    "plaid": ("checked",),
}
_SWAPS = tuple(
    (re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])", re.IGNORECASE), choices)
    for word, choices in _SYNONYMS.items()
)
_SINGULAR_S = ("dress", "glass", "canvas", "headdress", "cutlass")
_UNCOUNTED = ("clothing", "clothes", "attire", "apparel", "luggage", "footwear", "headwear", "hair")
_PAIRED_SLOTS = frozenset(("feet", "socks", "lower", "face"))
_PREPOSITIONS = {
    "hand": ("in",),
    "arm": ("on", "under", "over"),
    "forearm": ("on", "over"),
    "wrist": ("on", "around"),
    "shoulder": ("over", "on", "across"),
    "back": ("on",),
    "neck": ("around",),
    "chest": ("on", "across", "around"),
    "waist": ("around",),
    "side": ("at", "by", "on"),
}
_STYLES = (
    ("ponytail", " tied in a ponytail"),
    ("bun", " tied in a bun"),
    ("braid", " in braids"),
    ("tied", " tied back"),
    ("loose", " worn loose"),
    ("parted", " with a parting"),
    ("cropped", " cut close"),
    ("bangs", " and bangs"),
)
_VOWEL_SOUND = re.compile(r"(?!uni|one|us[ei]|eu)[aeiou]|hour|heir|honest|slr\b", re.IGNORECASE)
_STRAY_START = re.compile(r"^(?:\w+ing,? and |(?:\w+ing|two|three|same|own) )")


def with_article(phrase: str) -> str:
    """`phrase` with «a» or «an»."""
    return f"{'an' if _VOWEL_SOUND.match(phrase) else 'a'} {phrase}"


def is_plural(phrase: str) -> bool:
    """Whether the head of a noun phrase («boots with a zip», «bunch of keys») is plural."""
    head = re.split(r" (?:of|with|that) ", phrase, maxsplit=1)[0].lower()
    return head.endswith("s") and not head.endswith(_SINGULAR_S)


def listed(phrases: list[str]) -> str:
    """«a, b and c»."""
    if len(phrases) < 2:
        return "".join(phrases)
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


class _Phrasing:
    """Noun phrases for the things of one description; the choice of words is drawn from `draw`."""

    def __init__(self, description: Description, possessive: str, draw: Random) -> None:
        self._text = description.text
        self._possessive = possessive
        self._draw = draw
        self._lexicon = load_lexicon()

    def said(self, span: Span) -> str:
        """The words of the source at `span`."""
        return self._text[span[0] : span[1]]

    def item(self, item: Thing, brief: bool = False) -> str:
        """An item with article, colours and, unless `brief`, its parts and where it ends."""
        noun = self._counted(item, self._noun(item, brief))
        return noun if brief else noun + self._parts(item) + self._reach(item)

    def place(self, item: Thing) -> str:
        """« in his left hand», or "" when the description does not say."""
        for place in item.places:
            body = place.body.removesuffix("s")
            if body in _PREPOSITIONS:
                return f" {self._preposition(item, place, body)} {self._where(place)}"
        return ""

    def _preposition(self, item: Thing, place: Place, body: str) -> str:
        if body == "hand" and self._lexicon.slot(item.kind) == "wrist":
            return "on"
        usual = _PREPOSITIONS[body]
        return place.preposition if place.preposition in usual else usual[0]

    def _where(self, place: Place) -> str:
        side = f"{place.side} " if place.side else ""
        return f"{self._possessive} {side}{place.body}"

    def _noun(self, item: Thing, brief: bool) -> str:
        phrase = " ".join(self.said(item.phrase).split()).replace(" ,", ",")
        phrase = _STRAY_START.sub("", phrase)
        if phrase[1:2].islower():  # a capital from the start of a sentence
            phrase = phrase[0].lower() + phrase[1:]
        outside = [f for f in item.all(Attribute.COLOUR) if not _within(f.span, item.phrase)]
        if outside:
            phrase = f"{self.colours(outside)} {phrase}"
        return self._swap(phrase if brief else self._sleeves(item) + phrase)

    def _sleeves(self, item: Thing) -> str:
        """«long-sleeved », where the noun phrase does not say it already."""
        for fact in item.all(Attribute.LENGTH):
            if fact.value.endswith("sleeves") and not _within(fact.span, item.phrase):
                return fact.value.replace(" sleeves", "-sleeved ")
        return ""

    def colours(self, facts: list[Fact]) -> str:
        """«blue and white», «reddish brown»: in the words of the source."""
        groups: list[str] = []
        previous: Fact | None = None
        for fact in facts:
            touches = previous is not None and 0 <= fact.span[0] - previous.span[1] <= 1
            if touches:
                groups[-1] += f" {self.said(fact.span)}"
            else:
                groups.append(self.said(fact.span))
            previous = fact
        return listed(groups)

    def _swap(self, phrase: str) -> str:
        """The phrase with at most one word swapped for a synonym, by an even chance."""
        for pattern, choices in _SWAPS:
            if pattern.search(phrase) and self._draw.random() < 0.5:
                return pattern.sub(self._draw.choice(choices), phrase)
        return phrase

    def _counted(self, item: Thing, phrase: str) -> str:
        if phrase.lower().endswith(_UNCOUNTED) and " of " not in phrase:
            return phrase
        if not is_plural(phrase):
            return with_article(phrase)
        if self._lexicon.slot(item.kind) in _PAIRED_SLOTS and self._draw.random() < 0.4:
            return f"a pair of {phrase}"
        return phrase

    def _reach(self, item: Thing) -> str:
        for fact in item.all(Attribute.LENGTH):
            if fact.value.endswith("-length") and not _within(fact.span, item.phrase):
                verb = "reach" if is_plural(self.said(item.phrase)) else "reaches"
                return f" that {verb} {self._possessive} {self.said(fact.span)}"
        return ""

    def _parts(self, item: Thing) -> str:
        parts = [self._part(part) for part in item.parts if part.values(Attribute.COLOUR)]
        return f" with {listed(parts)}" if parts else ""

    def _part(self, part: Thing) -> str:
        noun = self.said(part.phrase)
        if not _within(part.all(Attribute.COLOUR)[0].span, part.phrase):
            noun = f"{self.colours(list(part.all(Attribute.COLOUR)))} {noun}"
        uncounted = is_plural(noun) or noun.endswith(("lettering", "fur", "trim", "lace"))
        return noun if uncounted else with_article(noun)

    def hair(self, hair: Thing) -> str:
        """«long brown hair tied in a ponytail»; "" when nothing is said of the hair."""
        styles = hair.values(Attribute.HAIR)
        if "bald" in styles:
            return "a bald head"
        before = ["medium-length" if v == "medium" else v for v in hair.values(Attribute.LENGTH)]
        before = before[:1] + [style for style in ("curly", "straight") if style in styles]
        if colours := list(hair.all(Attribute.COLOUR)):
            before.append(self.colours(colours))
        after = next((words for style, words in _STYLES if style in styles), "")
        return " ".join([*before, "hair"]) + after if before or after else ""


def _within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
