"""Words facts as English phrases: «a pair of black and pink sneakers», «short yellow hair»."""

import re
from random import Random

from models.builtin.person.description import Description, Place, Thing
from models.builtin.person.lexicon import load_lexicon
from schemas.faithfulness import Attribute, Fact, Span

SYNONYMS = {
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
_SINGULAR_S = ("dress", "glass", "canvas", "headdress")
_PAIRED = frozenset(("feet", "socks", "lower", "face"))
_HOLDERS = {
    "hand": "in",
    "arm": "on",
    "wrist": "on",
    "shoulder": "over",
    "shoulders": "over",
    "forearm": "on",
    "back": "on",
    "neck": "around",
    "chest": "on",
    "waist": "around",
}
_ARTICLE_AN = re.compile(r"^(?!uni|one|u[st]|eu)[aeiou]|^(?:hour|heir|honest|slr)", re.IGNORECASE)
_EDGE = re.compile(r"^(?:\w+ing,? and |\w+ing )")


def with_article(phrase: str) -> str:
    """`phrase` with «a» or «an»."""
    return f"{'an' if _ARTICLE_AN.match(phrase) else 'a'} {phrase}"


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
        """An item with article, colours and, unless `brief`, its parts and lengths."""
        phrase = self._noun(item)
        noun = self._counted(item, phrase)
        if brief:
            return noun
        return noun + self._lengths(item) + self._parts(item)

    def place(self, item: Thing) -> str:
        """« in his left hand», or "" when the description does not say."""
        for place in item.places:
            preposition = _HOLDERS.get(place.body)
            if preposition is None:
                continue
            if place.body in ("arm", "back", "wrist", "chest") or preposition:
                return f" {self._preposition(item, place)} {self._where(place)}"
        return ""

    def _preposition(self, item: Thing, place: Place) -> str:
        if place.body == "hand" and self._lexicon.slot(item.kind) == "wrist":
            return "on"
        return _HOLDERS[place.body]

    def _where(self, place: Place) -> str:
        side = f"{place.side} " if place.side else ""
        return f"{self._possessive} {side}{place.body}"

    def _noun(self, item: Thing) -> str:
        start, end = item.phrase
        phrase = _EDGE.sub("", " ".join(self.said(item.phrase).split()))
        outside = [
            fact
            for fact in item.all(Attribute.COLOUR)
            if not (start <= fact.span[0] and fact.span[1] <= end)
        ]
        if outside:
            phrase = f"{self.colours(outside)} {phrase}"
        return self._swap(phrase)

    def colours(self, facts: list[Fact]) -> str:
        """«blue and white», in the words of the source."""
        words: list[str] = []
        for one, other in zip(facts, [*facts[1:], None], strict=True):
            word = self.said(one.span)
            touching = other is not None and 0 <= other.span[0] - one.span[1] <= 1
            words.append(word + (" " if touching else "\0"))
        return listed("".join(words).rstrip("\0").split("\0"))

    def _swap(self, phrase: str) -> str:
        """Swaps words for synonyms, each with an even chance."""
        for word, choices in SYNONYMS.items():
            pattern = rf"(?<![\w-]){re.escape(word)}(?![\w-])"
            if re.search(pattern, phrase, re.IGNORECASE) and self._draw.random() < 0.5:
                return re.sub(pattern, self._draw.choice(choices), phrase, flags=re.IGNORECASE)
        return phrase

    def _counted(self, item: Thing, phrase: str) -> str:
        plural = phrase.endswith("s") and not phrase.lower().endswith(_SINGULAR_S)
        if not plural:
            return phrase if item.kind in ("clothing", "suitcase") else with_article(phrase)
        if self._lexicon.slot(item.kind) in _PAIRED and self._draw.random() < 0.4:
            return f"a pair of {phrase}"
        return phrase

    def _lengths(self, item: Thing) -> str:
        """Sleeves and ends that the noun phrase does not hold already."""
        said = ""
        for fact in item.all(Attribute.LENGTH):
            if item.phrase[0] <= fact.span[0] < item.phrase[1]:
                continue
            if fact.value.endswith("sleeves"):
                said += f" with {fact.value}"
            elif fact.value.endswith("-length") and " reach" not in said:
                said += f" that {self._reach(item)} {self._possessive} {self.said(fact.span)}"
        return said

    def _reach(self, item: Thing) -> str:
        plural = item.kind.endswith("s") and not item.kind.endswith(_SINGULAR_S)
        return "reach" if plural else "reaches"

    def _parts(self, item: Thing) -> str:
        parts = [self._part(part) for part in item.parts if part.values(Attribute.COLOUR)]
        return f" with {listed(parts)}" if parts else ""

    def _part(self, part: Thing) -> str:
        inside = part.phrase[0] <= part.facts[0].span[0] < part.phrase[1]
        noun = self.said(part.phrase)
        phrase = noun if inside else f"{self.colours(list(part.all(Attribute.COLOUR)))} {noun}"
        plural = phrase.endswith("s")
        return phrase if plural else with_article(phrase)

    def hair(self, hair: Thing) -> str:
        """«long brown hair, tied in a ponytail»; "" when nothing is said of the hair."""
        styles = hair.values(Attribute.HAIR)
        if "bald" in styles:
            return "a bald head"
        lengths = list(hair.values(Attribute.LENGTH))[:1]
        before = ["medium-length" if value == "medium" else value for value in lengths]
        before += [style for style in ("curly", "straight") if style in styles]
        colours = list(hair.all(Attribute.COLOUR))
        if colours:
            before.append(self.colours(colours))
        if not before and not styles:
            return ""
        return " ".join([*before, "hair"]) + self._style(styles)

    def _style(self, styles: tuple[str, ...]) -> str:
        for style, words in _STYLES:
            if style in styles:
                return words
        return ""


_STYLES = (
    ("ponytail", " tied in a ponytail"),
    ("bun", " tied in a bun"),
    ("braid", " tied in a braid"),
    ("bangs", " with bangs"),
    ("tied", " tied back"),
    ("loose", " worn loose"),
    ("parted", " with a parting"),
    ("cropped", " cut close"),
)
