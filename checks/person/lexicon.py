"""The vocabulary of descriptions of persons, its words in a text, and statements without sense."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import chain, permutations, takewhile
from typing import Any, NamedTuple

from loupe.schemas.faithfulness import Attribute, Span
from loupe.schemas.validation import packaged_toml

# The words of descriptions of persons, with their meanings and relations.


class Tag(StrEnum):
    """The function of a word or phrase in a description."""

    COLOUR = auto()
    SHADE = auto()
    DETAIL = auto()
    NUMBER = auto()
    PAIR = auto()
    THING = auto()
    MEASURE = auto()
    LIKENING = auto()
    COVERING = auto()
    DEPICTING = auto()
    DEPICTED = auto()
    PATTERN = auto()
    PATTERN_NOUN = auto()
    MATERIAL = auto()
    SLEEVE = auto()
    REACH = auto()
    LEVEL = auto()
    SIZE = auto()
    AGE = auto()
    HEIGHT = auto()
    BUILD = auto()
    SKIN_TONE = auto()
    HAIR_STYLE = auto()
    ITEM = auto()
    PART = auto()
    PERSON = auto()
    YOUTH = auto()
    PRONOUN = auto()
    POSSESSIVE = auto()
    BODY = auto()
    FIGURE = auto()
    SKIN = auto()
    HAIR = auto()
    ACTION = auto()
    SIDE = auto()
    INDEFINITE = auto()
    DEFINITE = auto()
    IT = auto()
    BE = auto()
    AND = auto()
    OF = auto()
    WITH = auto()
    NEGATION = auto()
    DENIAL = auto()
    WEAR = auto()
    CARRY = auto()
    REACHES = auto()
    PREPOSITION = auto()
    FILLER = auto()
    COLOUR_NOUN = auto()
    IGNORED = auto()
    COMMA = auto()
    STOP = auto()
    OTHER = auto()


KEPT_WORDS = 65536
"""How many words functions remember their results for."""

INSIDE = frozenset((Tag.SHADE, Tag.PATTERN, Tag.MATERIAL, Tag.DETAIL, Tag.SIZE, Tag.REACH))
"""Words that may be between an attribute and its noun."""

Phrase = tuple[str, ...]
"""A phrase as lower-case words; hyphens count as spaces."""


class Meaning:
    """The functions of a phrase in a description, each with a canonical name."""

    def __init__(self, values: Mapping[Tag, str]) -> None:
        self.values, self.tags = values, frozenset(values)


class Kind(NamedTuple):
    """A kind of thing that a person wears or carries, and where (`upper`, `feet`, `bag` …).

    `parent` is the more general kind. A `claim` states more than its parent in a way that an image
    could contradict: «boots» for «shoes» is a new claim, «sneakers» for «shoes» is a closer word.
    """

    slot: str
    attribute: Attribute
    parent: str | None
    claim: bool


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Phrases with their meanings, kinds with their taxonomy, colours with their neighbours.

    `near` has the pairs of colours, materials, places, kinds or styles that careful annotators may
    use of the same thing, and the `opposites`, `opposite_styles` and `opposite_shades` that exclude
    each other; each pair in both orders. `implied` are facts that the name of a kind states,
    `suggested` phrases that say something («jogger» for running), `part_slots` the slots whose
    items alone have a part, `classes` what some things are in general, `renamed` the kinds that
    have another name in one length («short trousers» are shorts), `hair_reach` and `sleeve_reach`
    how long hair and sleeves are that reach a place, `cropped` where a cropped garment ends,
    `part_adjectives` words that give the colour before them to a part («white-soled»), `related`
    the synonyms and more general words of nouns, `alike` the words that may be used of the same
    thing as a word, `contrary` pairs of sets of words that exclude each other, both ways.
    """

    meanings: Mapping[Phrase, Meaning]
    kinds: Mapping[str, Kind]
    near: Mapping[str, frozenset[tuple[str, str]]]
    scales: Mapping[str, Sequence[str]]
    parts: frozenset[str]
    suggested: Mapping[str, Sequence[str]]
    implied: Mapping[str, Sequence[str]]
    part_slots: Mapping[str, Sequence[str]]
    classes: Mapping[str, str]
    renamed: Mapping[str, Mapping[str, str]]
    hair_reach: Mapping[str, str]
    sleeve_reach: Mapping[str, str]
    cropped: Mapping[str, str]
    part_adjectives: Mapping[str, str]
    related: Mapping[str, frozenset[str]]
    alike: Mapping[str, frozenset[str]]
    contrary: Sequence[tuple[frozenset[str], frozenset[str]]]

    @cached_property
    def beginnings(self) -> frozenset[Phrase]:
        """Return the first two, three … words of all phrases, up to whole phrases."""
        return frozenset(
            phrase[:words] for phrase in self.meanings for words in range(2, len(phrase) + 1)
        )

    def mention(self, phrase: str) -> "Mention":
        """Return a mention with this phrase, without its place in a text."""
        meaning = self.meanings.get(tuple(phrase.split())) or _PUNCTUATION.get(phrase, _OTHER)
        return Mention(phrase, (0, 0), meaning.tags, meaning.values)

    @cached_property
    def lineages(self) -> Mapping[str, tuple[str, ...]]:
        """Return each kind with its more general kinds, closest first."""

        def lineage(kind: str) -> tuple[str, ...]:
            parent = self.kinds[kind].parent
            return (kind, *(lineage(parent) if parent else ()))

        return {kind: lineage(kind) for kind in self.kinds}

    def is_a(self, kind: str, general: str) -> bool:
        """Whether every `kind` is a `general`."""
        return kind == general or general in self.lineages.get(kind, ())

    def slot(self, kind: str) -> str:
        """Return where a kind is worn or carried, or "" for unknown kinds."""
        known = self.kinds.get(kind)
        return known.slot if known else ""

    def attribute(self, kind: str) -> Attribute | None:
        """Return the attribute of a kind: garment, footwear, accessory …; None if unknown."""
        known = self.kinds.get(kind)
        return known.attribute if known else None

    def claims(self, specific: str, general: str) -> bool:
        """Whether `specific` instead of `general` is a new claim."""
        between = takewhile(lambda kind: kind != general, self.lineages.get(specific, ()))
        return any(self.kinds[kind].claim for kind in between)

    def are_near(self, table: str, one: str, other: str) -> bool:
        """Whether two careful annotators may mean the same by these values of a table of `near`."""
        return one == other or (one, other) in self.near[table]

    def has_near(self, table: str, values: Iterable[str], other: str) -> bool:
        """Whether one of `values` may be another word for `other`."""
        return any(self.are_near(table, value, other) for value in values)

    def are_opposed(self, one: str, other: str) -> bool:
        """Whether two details exclude each other: large and small, tight and loose."""
        return (one, other) in self.near["opposites"]

    def all_said(self, kind: str) -> frozenset[str]:
        """Return materials, details and places that an item's name states: jeans are denim."""
        return self._said.get(kind, frozenset())

    @cached_property
    def _said(self) -> Mapping[str, frozenset[str]]:
        return {
            kind: frozenset(said for name in names for said in self.implied.get(name, ()))
            for kind, names in self.lineages.items()
        }

    def places_said(self, kind: str) -> list[str]:
        """Return the places that an item's name states: a backpack's is the back."""
        return sorted(self.all_said(kind) & self._places)

    @cached_property
    def _places(self) -> frozenset[str]:
        return frozenset(place for pair in self.near["places"] for place in pair)

    def place(self, scale: str, value: str) -> int:
        """Return the position of a value on a scale, counted in steps from its first."""
        return self.scales[scale].index(value)


# Reads `lexicon.toml`, the file of words that ships with this package.


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    """The lexicon that ships with this package."""
    data = packaged_toml(__package__, "lexicon.toml")
    meanings: dict[Phrase, dict[Tag, str]] = defaultdict(dict)
    for words, tag, value, inflects in chain(_entries(data), _numbers(**data["years"])):
        for word in words:
            for phrase in (word, plural(word)) if inflects else (word,):
                meanings[tuple(phrase.split())].setdefault(tag, value)
    classes = {thing: name for name, things in data["classes"].items() for thing in things}
    nouns = list(_nouns())
    for thing in (*classes, *(noun for noun, is_thing, _ in nouns if is_thing)):
        for form in (thing, plural(thing)):
            if (key := tuple(form.split())) not in meanings:
                meanings[key][Tag.THING] = thing
    for by_tag in meanings.values():
        if Tag.THING in by_tag or Tag.MEASURE in by_tag:  # would be unknown words
            by_tag.setdefault(Tag.OTHER, "")
    near = {name: _both_ways(groups) for name, groups in data["near"].items()}
    near["colours"] |= _both_ways(
        (name, other)
        for name, colour in data["colours"].items()
        for other in colour.get("near", ())
    )
    return Lexicon(
        meanings={phrase: Meaning(by_tag) for phrase, by_tag in meanings.items()},
        kinds={
            name: Kind(slot, Attribute(table["attribute"]), kind.get("under"), "claim" in kind)
            for slot, table in data["items"].items()
            for name, kind in table["kinds"].items()
        },
        near=near,
        parts=frozenset(("marks", *data["parts"])),
        classes=classes,
        part_adjectives={
            word: part for part, words in data["part_adjectives"].items() for word in words
        },
        related={noun: words for noun, _, words in nouns},
        contrary=[
            (frozenset(one), frozenset(other))
            for pair in data["contrary"]["pairs"]
            for one, other in permutations(pair)
        ],
        alike=_groups(data["alike"]["groups"]),
        **{name: data[name] for name in _TAKEN_OVER},
    )


_TAKEN_OVER = (
    *("scales", "suggested", "implied", "part_slots"),
    *("renamed", "hair_reach", "sleeve_reach", "cropped"),
)


def plural(noun: str) -> str:
    """Return the plural; words that end in «s» are plurals."""
    if noun.endswith("s"):
        return noun
    if noun.endswith("y") and noun[-2] not in "aeou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("x", "ch", "sh")) else "s")


def _entries(data: dict[str, Any]) -> Iterator[tuple[list[str], Tag, str, bool]]:
    """Yield (words, tags, canonical name, whether they have plurals), table by table."""
    for name, colour in data["colours"].items():
        yield colour["words"], Tag.COLOUR, name, False
        alike = [word.removesuffix(" colored") for word in colour["words"]]
        forms = ("the color of {}", "the colour of {}", "{} coloured")
        yield [form.format(word) for word in alike for form in forms], Tag.COLOUR, name, False
    for slot in data["items"].values():
        for name, kind in slot["kinds"].items():
            yield kind["words"], Tag.ITEM, name, True
    for table, tag in data["tags"].items():
        for name, words in data[table].items():
            yield words, Tag(tag), name, table in data["inflected"]
    for name, words in data["grammar"].items():
        yield words, Tag(name), "", False
    for name, words in data["heads"].items():
        yield words, Tag(name), name, True


def _nouns() -> Iterator[tuple[str, bool, frozenset[str]]]:
    """Yield nouns from WordNet, whether they only mean a thing, and their general words."""
    for line in files(__package__).joinpath("nouns.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            noun, is_thing, related = line.split("\t")
            yield noun, bool(is_thing), frozenset(related.split())


_ABOUT = ("about", "around", "roughly", "perhaps", "maybe", "approximately", "aged", "age")


def _numbers(
    steps: dict[str, int], ones: list[str], tens: list[str]
) -> Iterator[tuple[list[str], Tag, str, bool]]:
    """Yield numbers and ages, in digits and in words: «6 year old», «twenty five years old»."""
    words = ones + [f"{ten} {one}".strip() for ten in tens for one in ones[:10]]
    for years in range(1, max(steps.values()) + 1):
        step = next(name for name, last in steps.items() if years <= last)
        forms = ("years old", "year old", "years of age", "years", "odd years old", "odd years")
        said = [f"{number} {form}" for number in (years, words[years]) for form in forms]
        said += [f"{form} {number}" for number in (years, words[years]) for form in _ABOUT]
        yield said, Tag.AGE, step, False
        yield (
            [str(years)] if years == 1 else [str(years), words[years]],
            Tag.NUMBER,
            str(years),
            False,
        )


def _groups(groups: Iterable[Sequence[str]]) -> Mapping[str, frozenset[str]]:
    """Return the words of the groups, singular and plural, by each of them.

    A first word with a colon is more general than the others, which are not alike each other.
    """
    alike: dict[str, set[str]] = defaultdict(set)
    for first, *others in groups:
        general = first.removesuffix(":")
        hub = {general, plural(general)}
        rest = {form for word in others for form in (word, plural(word))}
        for form in hub | rest:
            alike[form] |= (hub | rest if form in hub or general == first else hub) - {form}
    return {word: frozenset(others) for word, others in alike.items()}


def _both_ways(groups: Iterable[Iterable[str]]) -> frozenset[tuple[str, str]]:
    """Return every pair of each group, in both orders."""
    return frozenset(pair for group in groups for pair in permutations(group, 2))


# Cuts a text into mentions: words and phrases with all meanings in the lexicon.

_WORD = re.compile(
    r"(?=[^\W_]*+'t\b)[^\W\d_]+(?=n't\b)|n't\b"  # «does» and «n't»
    r"|[^\W_]+|'(?:s|re|ve|d|ll|m)\b"
    r"|[^\w\s-]|(?<!\S)-|-(?!\S)"  # any sign except the hyphen of «T-shirt»
)
_COMMA, _STOP, _OTHER = (Meaning({tag: ""}) for tag in (Tag.COMMA, Tag.STOP, Tag.OTHER))
_PUNCTUATION = dict.fromkeys(',()–—"“”[]/*-', _COMMA) | dict.fromkeys(".;:!?", _STOP)


class Mention(NamedTuple):
    """A word or phrase of the text; `span` is in characters, `phrase` in lower case."""

    phrase: str
    span: Span
    tags: frozenset[Tag]
    values: Mapping[Tag, str]

    def has(self, *tags: Tag) -> bool:
        """Whether one of the meanings is one of `tags`."""
        return not self.tags.isdisjoint(tags)

    def among(self, tags: frozenset[Tag]) -> bool:
        """Whether one of the meanings is in the set `tags`."""
        return not self.tags.isdisjoint(tags)

    def value(self, tag: Tag) -> str:
        """Return the canonical name under `tag`; "" if it has none."""
        return self.values.get(tag, "")


NOTHING = Mention("", (0, 0), frozenset(), {})
"""Stands before the first mention and after the last."""


def find_mentions(text: str, lexicon: Lexicon) -> list[Mention]:
    """Return the mentions of `text` in order, longest phrases first; unknown words are `OTHER`."""
    words: list[str] = []
    spans: list[Span] = []
    for match in _WORD.finditer(text.replace("’", "'")):
        words.append(match[0].lower())
        spans.append(match.span())
    meanings, beginnings = lexicon.meanings, lexicon.beginnings
    mentions: list[Mention] = []
    position = 0
    while position < len(words):
        word, span, end = words[position], spans[position], position + 1
        meaning = meanings.get((word,)) or _PUNCTUATION.get(word, _OTHER)
        longer = end
        while (phrase := tuple(words[position : longer + 1])) in beginnings:
            longer += 1
            if phrase in meanings:
                word, span, end = " ".join(phrase), (span[0], spans[longer - 1][1]), longer
                meaning = meanings[phrase]
            if longer == len(words):
                break
        mentions.append(Mention(word, span, meaning.tags, meaning.values))
        position = end
    return mentions


# Statements that make no sense: shoes that hold something, a capacity that is worn.

_MODIFIERS = INSIDE | {
    *(Tag.COLOUR, Tag.SLEEVE, Tag.AGE, Tag.HEIGHT, Tag.BUILD, Tag.SKIN_TONE, Tag.FILLER),
    *(Tag.NUMBER, Tag.SIDE, Tag.DEFINITE, Tag.INDEFINITE, Tag.POSSESSIVE, Tag.COLOUR_NOUN),
    Tag.HAIR_STYLE,
}
_NOUNS = {
    Tag.PERSON: "person",
    Tag.PRONOUN: "person",
    Tag.HAIR: "hair",
    Tag.SKIN: "organ",
    Tag.FIGURE: "body",
    Tag.PATTERN_NOUN: "part",
}
HELD = ("hold", "held", "carr", "grip", "clutch", "grasp", "tot")
"""The beginnings of verbs of holding."""

_WORDS = {Tag.WEAR: "wear", Tag.BE: "be", Tag.STOP: "."}


def find_nonsense(mentions: Sequence[Mention]) -> list[Span]:
    """Return the spans of statements that make no sense."""
    words, spans = [], []
    for word, span in _words(mentions):
        words.append(word)
        spans.append(span)
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word) + 1)
    text = " ".join(words)
    found = set[Span]()
    for pattern in _table()[0]:
        for match in pattern.finditer(text):
            first = bisect_right(starts, match.start()) - 1
            if words[first] == ".":
                first += 1
            last = bisect_right(starts, match.end() - 1) - 1
            found.add((spans[first][0], spans[last][1]))
    return sorted(found)


@cache
def _table() -> tuple[list[re.Pattern[str]], dict[str, str]]:
    """Return the patterns, and the class of each part of the body that has one."""
    data = packaged_toml(__package__, "nonsense.toml")
    patterns = []
    for pattern in chain.from_iterable(data["patterns"].values()):
        for name, classes in data["sets"].items():
            pattern = pattern.replace(f"{{{name}}}", classes)
        patterns.append(re.compile(pattern))
    return patterns, {word: name for name, words in data["body"].items() for word in words}


def _words(mentions: Sequence[Mention]) -> Iterator[tuple[str, Span]]:
    """Return each noun phrase as its class in brackets, and each other word; with its span."""
    start, noun, end, before = None, "", 0, ""
    for mention in mentions:
        phrase, span = mention.phrase, mention.span
        kind, word, inside, opens = _sort_of(phrase)
        goes_on = noun == "unknown" and inside and not opens  # «a sleek black jacket»
        if noun and (opens or not kind) and not goes_on:
            yield f"[{noun}]", (start or 0, end)
            start, noun = None, ""
        if phrase == before and len(before) > 3:
            yield "twice", span
        if kind:
            start, noun, end = span[0] if start is None else start, kind, span[1]
        elif inside:
            start = span[0] if start is None or opens else start
        else:
            start = None
            yield word, span
        before = phrase
    if noun:
        yield f"[{noun}]", (start or 0, end)


@lru_cache(maxsize=KEPT_WORDS)
def _sort_of(phrase: str) -> tuple[str, str, bool, bool]:
    """Return a phrase's noun and word, and whether it is inside noun phrases, or opens one."""
    lexicon = load_lexicon()
    mention = lexicon.mention(phrase)
    return (
        _class_of(mention, lexicon),
        _word(mention),
        mention.among(_MODIFIERS),
        mention.has(Tag.DEFINITE, Tag.INDEFINITE, Tag.POSSESSIVE),
    )


def _word(mention: Mention) -> str:
    if Tag.ACTION in mention.tags:
        return f"do:{mention.value(Tag.ACTION).replace(' ', '_')}"
    if mention.phrase in ("has", "have", "had"):
        return "have"
    if Tag.CARRY in mention.tags and mention.phrase.startswith(("cover", *HELD)):
        name = "cover" if mention.phrase.startswith("cover") else "hold"
        return f"{name}ing" if mention.phrase.endswith("ing") else name
    if mention.phrase != "in":
        known = next((word for tag, word in _WORDS.items() if tag in mention.tags), "")
        if known:
            return "wearing" if mention.phrase == "wearing" else known
    return mention.phrase.replace(" ", "_")


def _class_of(mention: Mention, lexicon: Lexicon) -> str:
    """Return the class of a noun, "" for other words."""
    if Tag.ITEM in mention.tags:
        return lexicon.slot(mention.values[Tag.ITEM])
    for tag in (Tag.BODY, Tag.LEVEL, Tag.PART):
        if tag in mention.tags:
            return _table()[1].get(mention.phrase, "part" if tag is Tag.PART else "body")
    if Tag.MEASURE in mention.tags:
        return "measure"
    if Tag.THING in mention.tags:
        return lexicon.classes.get(mention.values[Tag.THING], "unknown")
    if Tag.OTHER in mention.tags:
        return "unknown" if mention.phrase.isalpha() and Tag.ACTION not in mention.tags else ""
    if Tag.AGE in mention.tags and Tag.PERSON not in mention.tags:
        return ""
    return next((name for tag, name in _NOUNS.items() if tag in mention.tags), "")
