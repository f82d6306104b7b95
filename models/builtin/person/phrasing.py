"""Words facts as English phrases: «a pair of black and pink sneakers», «short yellow hair»."""

import re
from random import Random

from models.builtin.person.description import Description, Place, Thing
from models.builtin.person.lexicon import load_lexicon
from schemas.faithfulness import Attribute, Fact, Span

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


class Phrasing:
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
