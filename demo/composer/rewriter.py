"""The built-in rewriter: the parsed facts of a description in another order and other sentences."""

import json
import re
from random import Random
from typing import Literal

from loupe.checks.person.description import Description, Thing
from loupe.checks.person.lexicon import load_lexicon
from loupe.checks.person.parser import parse_description
from loupe.schemas.base import digest_of
from loupe.schemas.faithfulness import Attribute, Fact, Span
from loupe.schemas.profile import BuiltinRewriter
from loupe.schemas.validation import packaged_toml
from loupe.schemas.wording import joined, with_article
from loupe.testing import BuiltinChatModel, ChatRequest

Style = Literal["plain", "flowing", "brief"]

_WORN = frozenset(("upper", "outer", "lower", "whole", "clothing"))
_ADORNING = frozenset(("head", "face", "mask", "neck", "wrist", "waist"))
_ON_FEET = frozenset(("feet", "socks"))
_BEARD = frozenset(("beard",))
_NEVER_HELD = _ON_FEET | {"waist", "lower"}
_NEEDS_OBJECT = ("pushing", "pulling", "riding")
_TABLES = packaged_toml(__package__, "composer.toml")
_SWAPS = tuple(
    (re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])", re.IGNORECASE), choices)
    for word, choices in _TABLES["synonyms"].items()
)
_SINGULAR_S = ("dress", "glass", "canvas", "headdress", "cutlass")
_UNCOUNTED = ("clothing", "clothes", "attire", "apparel", "luggage", "footwear", "headwear", "hair")
_PAIRED_SLOTS = ("feet", "socks", "lower", "face")
_STRAY_START = re.compile(r"^(?:\w+ing,? and |(?:\w+ing|two|three|same|own) )")


class Composer:
    """Rewrites one description; `draw` decides among the forms."""

    def __init__(self, description: Description, style: Style, draw: Random) -> None:
        self._items = [item for item in description.items if item.known and not item.negated]
        self._missing = [item for item in description.items if item.negated]
        self._person, self._hair, self._text = (
            description.person,
            description.hair,
            description.text,
        )
        self._brief, self._flowing, self._draw = style == "brief", style == "flowing", draw
        self._lexicon = load_lexicon()
        self._name_person()

    def _name_person(self) -> None:
        """Return noun and pronouns for the person; neutral unless the text states one sex."""
        sexes = self._person.all(Attribute.SEX)
        child = "child" in self._person.values(Attribute.AGE)
        self._plural = len(sexes) != 1
        self._who, self._she, self._her = "child" if child else "person", "they", "their"
        if not self._plural:
            male = sexes[0].value == "male"
            usual = ("boy" if male else "girl") if child else "man" if male else "woman"
            self._who = _TABLES["nouns"].get(self.said(sexes[0].span).lower(), usual)
            self._she, self._her = ("he", "his") if male else ("she", "her")

    def compose(self) -> str:
        """Return the new description, one paragraph."""
        worn = [
            item
            for item in self._in_slots(_WORN)
            if item.kind != "clothing" or item.values(Attribute.COLOUR)
        ]
        clothes = self._listed(worn)
        features = self._features()
        who = self._noun() + (f" with {joined(features)}" if features else "")
        share = 0.6 if self._brief or self._flowing else 0.3
        dressed = bool(worn) and self._draw.random() < share
        opening = self._say("opening dressed" if dressed else "opening", clothes, who)
        carried = self._carried()
        sections = [
            [self._say("clothes", clothes)] if worn and not dressed else [],
            self._sentences("feet", self._listed(self._in_slots(_ON_FEET))),
            self._sentences("adorning", self._listed(self._in_slots(_ADORNING), placed=True)),
            self._sentences("carried", self._listed(carried, placed=True)),
        ]
        if not self._brief:
            self._draw.shuffle(sections)
            for item in self._missing:
                held = self._lexicon.slot(item.kind) in ("bag", "held")
                sections.append(self._sentences("missing bag" if held else "missing", item.kind))
        sections.append(self._sentences("doing", joined(self._actions())))
        return " ".join([opening, *(sentence for section in sections for sentence in section)])

    def _sentences(self, form: str, things: str) -> list[str]:
        return [self._say(form, things)] if things else []

    def _say(self, form: str, things: str, who: str = "") -> str:
        """Fill one of the forms of a sentence."""
        text = self._draw.choice(_TABLES["forms"][form]).format(
            A_person=_capital(with_article(who or "?")),
            a_person=with_article(who or "?"),
            clothes=things,
            things=things,
            she=self._she,
            She=_capital(self._she),
            her=self._her,
            Her=_capital(self._her),
        )
        return re.sub(r"\[(\w+)/(\w+)\]", r"\2" if self._plural else r"\1", text)

    def _actions(self) -> list[str]:
        phrases = []
        for action in self._person.values(Attribute.ACTION):
            objects = self._listed(self._objects_of(action))
            if objects or action not in _NEEDS_OBJECT:
                phrases.append(f"{action} {objects}".strip())
        return phrases

    def _noun(self) -> str:
        """«tall young woman»."""
        ages = self._person.values(Attribute.AGE)
        builds = self._person.values(Attribute.BUILD)
        words = ["tall"] if "tall height" in builds else []
        words += ["slim"] if "slim build" in builds else []
        words += [age for age in ages[:1] if age != "child"]
        words += ["little"] if "child" in ages else []
        return " ".join([*words, self._who])

    def _features(self) -> list[str]:
        """Return build, skin, hair and beard, as a phrase after «with»."""
        builds = self._person.values(Attribute.BUILD)
        features = []
        if not self._brief:
            features += [words for build, words in _TABLES["builds"].items() if build in builds]
            features += [_TABLES["skin"][tone] for tone in self._person.values(Attribute.SKIN)[:1]]
        features.append(self.hair(self._hair))
        features += [self.item(item, brief=True) for item in self._in_slots(_BEARD)]
        return [feature for feature in features if feature]

    # Items

    def _listed(self, items: list[Thing], *, placed: bool = False) -> str:
        return joined(
            [self.item(i, self._brief) + (self.place(i) if placed else "") for i in items]
        )

    def _in_slots(self, slots: frozenset[str]) -> list[Thing]:
        return [
            item
            for item in self._items
            if self._lexicon.slot(item.kind) in slots and not self._is_held(item)
        ]

    def _is_held(self, item: Thing) -> bool:
        """Whether an item that could be worn is carried; belts and trousers never are."""
        return item.carried and self._lexicon.slot(item.kind) not in _NEVER_HELD

    def _carried(self) -> list[Thing]:
        elsewhere = _WORN | _ADORNING | _ON_FEET | _BEARD
        actions = self._person.values(Attribute.ACTION)
        busy = [item for action in actions for item in self._objects_of(action)]
        return [
            item
            for item in self._items
            if (self._is_held(item) or self._lexicon.slot(item.kind) not in elsewhere)
            and item not in busy
        ]

    def _objects_of(self, action: str) -> list[Thing]:
        """Return the object that the person rides, pushes, pulls …; at most one."""
        return [item for item in self._items if item.kind in _TABLES["objects"].get(action, ())][:1]

    # Noun phrases: «a pair of black and pink sneakers», «short yellow hair».

    def said(self, span: Span) -> str:
        """Return the words of the source at `span`."""
        return self._text[span[0] : span[1]]

    def item(self, item: Thing, brief: bool = False) -> str:
        """Return an item with article, colours and, unless `brief`, its parts and length."""
        noun = self._counted(item, self._phrase(item, brief))
        return noun if brief else noun + self._parts(item) + self._reach(item)

    def place(self, item: Thing) -> str:
        """Return « in his left hand», or "" if the description does not state it."""
        for place in item.places:
            body = place.body.removesuffix("s")
            if body in _TABLES["prepositions"]:
                usual = _TABLES["prepositions"][body]
                preposition = place.preposition if place.preposition in usual else usual[0]
                if body == "hand" and self._lexicon.slot(item.kind) == "wrist":
                    preposition = "on"
                side = f"{place.side} " if place.side else ""
                return f" {preposition} {self._her} {side}{place.body}"
        return ""

    def _phrase(self, item: Thing, brief: bool) -> str:
        phrase = " ".join(self.said(item.phrase).split()).replace(" ,", ",")
        phrase = _STRAY_START.sub("", phrase)
        if phrase[1:2].islower():  # a capital from the start of a sentence
            phrase = phrase[0].lower() + phrase[1:]
        outside = [f for f in item.all(Attribute.COLOUR) if not _within(f.span, item.phrase)]
        if outside:
            phrase = f"{self.colours(outside)} {phrase}"
        return self._swap(phrase if brief else self._sleeves(item) + phrase)

    def _sleeves(self, item: Thing) -> str:
        """Return «long-sleeved », if the noun phrase does not state it already."""
        for fact in item.all(Attribute.LENGTH):
            if fact.value.endswith("sleeves") and not _within(fact.span, item.phrase):
                return fact.value.replace(" sleeves", "-sleeved ")
        return ""

    def colours(self, facts: list[Fact]) -> str:
        """Return «blue and white», «reddish brown»: in the words of the source."""
        groups: list[str] = []
        previous: Fact | None = None
        for fact in facts:
            touches = previous is not None and 0 <= fact.span[0] - previous.span[1] <= 1
            if touches:
                groups[-1] += f" {self.said(fact.span)}"
            else:
                groups.append(self.said(fact.span))
            previous = fact
        return joined(groups)

    def _swap(self, phrase: str) -> str:
        """Replace at most one word of the phrase by a synonym, with probability one half."""
        for pattern, choices in _SWAPS:
            if pattern.search(phrase) and self._draw.random() < 0.5:
                return pattern.sub(self._draw.choice(choices), phrase)
        return phrase

    def _counted(self, item: Thing, phrase: str) -> str:
        if phrase.lower().endswith(_UNCOUNTED) and " of " not in phrase:
            return phrase
        if not _is_plural(phrase):
            return with_article(phrase)
        if self._lexicon.slot(item.kind) in _PAIRED_SLOTS and self._draw.random() < 0.4:
            return f"a pair of {phrase}"
        return phrase

    def _reach(self, item: Thing) -> str:
        for fact in item.all(Attribute.LENGTH):
            if fact.value.endswith("-length") and not _within(fact.span, item.phrase):
                verb = "reach" if _is_plural(self.said(item.phrase)) else "reaches"
                return f" that {verb} {self._her} {self.said(fact.span)}"
        return ""

    def _parts(self, item: Thing) -> str:
        parts = [self._part(part) for part in item.parts if part.values(Attribute.COLOUR)]
        return f" with {joined(parts)}" if parts else ""

    def _part(self, part: Thing) -> str:
        noun, colour = self.said(part.phrase), part.all(Attribute.COLOUR)[0].span
        if _within(part.phrase, colour):  # the colour of «black-rimmed»
            noun = f"{noun} {part.kind}"
        if not _within(colour, part.phrase):
            noun = f"{self.colours(list(part.all(Attribute.COLOUR)))} {noun}"
        uncounted = _is_plural(noun) or noun.endswith(("lettering", "fur", "trim", "lace"))
        return noun if uncounted else with_article(noun)

    def hair(self, hair: Thing) -> str:
        """Return «long brown hair tied in a ponytail»; "" if nothing is stated of the hair."""
        styles = hair.values(Attribute.HAIR)
        if "bald" in styles:
            return "a bald head"
        before = ["medium-length" if v == "medium" else v for v in hair.values(Attribute.LENGTH)]
        before = before[:1] + [style for style in ("curly", "straight") if style in styles]
        if colours := list(hair.all(Attribute.COLOUR)):
            before.append(self.colours(colours))
        after = next(
            (words for style, words in _TABLES["hair_styles"].items() if style in styles), ""
        )
        return " ".join([*before, "hair"]) + after if before or after else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _is_plural(phrase: str) -> bool:
    """Whether the head of a noun phrase («boots with a zip», «bunch of keys») is plural."""
    head = re.split(r" (?:of|with|that) ", phrase, maxsplit=1)[0].lower()
    return head.endswith("s") and not head.endswith(_SINGULAR_S)


def _within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


_LAST_PLACE = re.compile(
    r"^(?P<what>.+?) "
    r"(?P<where>(?:on|in|at|near|next to|under|behind) (?:an?|the)(?: (?!of\b)\w+){1,3})$"
)
_ENOUGH_FACTS = 3
_TOO_MUCH_UNKNOWN = 0.34
_SOME_PLACE = re.compile(r"\b(?:on|in|at|near|next|under|behind|by|that|of|and)$")
_COMMON_STARTS = frozenset((
    "a", "an", "the", "this", "these", "some", "there", "several", "many", "one", "two", "three",
    "four", "people", "men", "women", "kids", "children", "man", "woman", "view", "group",
))  # fmt: skip


class RuleRewriter(BuiltinChatModel[BuiltinRewriter]):
    """Rewrites the subject of each request and answers `{"rewrite": …}`.

    It parses the facts of the description and composes them again, in another order and other
    sentences. It leaves out what it did not parse, and adds nothing.
    """

    def text_for(self, request: ChatRequest) -> str:
        """Return the rewrite as JSON."""
        return json.dumps({"rewrite": self.rewrite(request.subject)}, ensure_ascii=False)

    def rewrite(self, description: str) -> str:
        """Rewrite `description` in other words."""
        specification = self._spec
        draw = Random(digest_of(str(specification.seed), specification.style, description))  # noqa: S311 - a choice of words
        parsed = parse_description(description)
        if _is_of_a_person(parsed):
            return Composer(parsed, specification.style, draw).compose()
        return _turned_around(description, draw)


def _is_of_a_person(parsed: Description) -> bool:
    """Whether the parsed facts cover enough of the text."""
    facts = parsed.facts()
    if len(facts) < _ENOUGH_FACTS or parsed.unknown_share >= _TOO_MUCH_UNKNOWN:
        return False
    return any(fact.attribute in (Attribute.GARMENT, Attribute.FOOTWEAR) for fact in facts)


def _turned_around(text: str, draw: Random) -> str:
    """Rewrite any other caption: its place first, or introduced as an image."""
    sentence = " ".join(text.split()).rstrip(".")
    place = _LAST_PLACE.match(sentence)
    if place is not None and not _SOME_PLACE.search(place["what"]) and draw.random() < 0.5:
        return f"{_capital(place['where'])}, {_lower(place['what'])}."
    opening = draw.choice(("In the image,", "In the picture,", "As the picture shows,"))
    return f"{opening} {_lower(sentence)}."


def _lower(text: str) -> str:
    """Lower-case the first word if it is a common one; names keep their capital."""
    common = text.split(" ", 1)[0].lower() in _COMMON_STARTS
    return text[:1].lower() + text[1:] if common else text
