"""Changes in the caption of another still what is not true of this one, and nothing else."""

import re
from typing import NamedTuple

from models.builtin.captioner.still import PLACE_PHRASES, RELATION_WORDS, number_word
from models.builtin.captioner.telling import Teller, distinct
from models.builtin.stills.lexicon import PLURALS
from models.builtin.stills.reading import Mention, Reading, Word, read_still_text
from models.builtin.stills.saying import Content, Group, content_of_text
from models.builtin.stills.space import vector_of_content

_PLACE_WORDS = {
    "beach": ("on", "beach"), "park": ("in", "park"), "street": ("on", "street"),
    "kitchen": ("in", "kitchen"), "desert": ("in", "desert"), "snow": ("in", "snowy landscape"),
    "harbour": ("in", "harbour"), "night city": ("in", "city at night"),
}  # fmt: skip
_BEFORE_PLACE = re.compile(r"\b(on|in|at) (a|an|the) $", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(a|an) (?=[\"“]?(\w))", re.IGNORECASE)
_THERE_IS = re.compile(r"\b(there|There) (is|are) (?=(\w+))")


class Exchange(NamedTuple):
    """What stands at text[start:end] is to become `by`."""

    start: int
    end: int
    by: str


def confused(caption: str, content: Content) -> str | None:
    """`caption` as it is true of `content`; None where it cannot be made so by changing words.

    Where all of it is true as it stands, what it leaves open of colours, numbers and the place is
    said, so that it may be wrong for the still that it was written of.
    """
    reading = read_still_text(caption)
    exchanges = _exchanges(caption, reading, content)
    if exchanges is None:
        return None
    exchanges = exchanges or _left_open(caption, reading, content)
    text = caption
    for start, end, by in sorted(exchanges, reverse=True):
        text = text[:start] + by + text[end:]
    text = _mended(text)
    return text if is_true(text, content) and text != caption else None


def confused_facts(caption: str, teller: Teller) -> str | None:
    """The caption that facts make which is nearest to `caption` in its words."""
    from rapidfuzz.distance import Levenshtein

    words = caption.casefold().split()
    size = teller.size_of(caption)
    found = [
        text
        for near in range(max(1, size), max(1, size) + 3)
        for text in distinct(teller, near, 24, without=(caption,))
    ]
    return min(
        found,
        key=lambda text: Levenshtein.distance(words, text.casefold().split()),
        default=None,
    )


def is_true(text: str, content: Content) -> bool:
    """Whether everything that is read in `text` is in `content`."""
    said = content_of_text(read_still_text(text))
    bare = said._replace(style=None, relations=())
    claims = vector_of_content(bare) > 0
    seen = vector_of_content(content._replace(relations=())) > 0
    styles = said.style in (None, content.style, "flat drawing")
    relations = set(said.relations) <= set(content.relations)
    return bool((seen | ~claims).all()) and relations and styles


def _exchanges(caption: str, reading: Reading, content: Content) -> list[Exchange] | None:
    if not reading.mentions or len(reading.mentions) > len(content.groups):
        return None
    fitting = aligned(reading.mentions, content.groups)
    found: list[Exchange] = []
    for mention, group in zip(reading.mentions, fitting, strict=True):
        found += _of_mention(mention, group)
    clothes = dict(content.clothes)
    for garment in reading.garments:
        if garment.kind.value not in clothes:
            return None
        if garment.colour:
            found.append(_put(garment.colour, clothes[garment.kind.value]))
    for words, value in ((reading.actions, content.action), (reading.signs, content.word)):
        if words and value is None:
            return None
        found += [_put(word, value) for word in words if value and word.value != value]
    if reading.places and content.place and reading.places[0].value != content.place:
        found += _of_place(caption, reading.places[0], content.place)
    for style in reading.styles[:1]:
        if content.style and style.value != content.style:
            found.append(_put(style, content.style))
    relations = _of_relations(caption, reading, fitting, content)
    return None if relations is None else found + relations


def _left_open(caption: str, reading: Reading, content: Content) -> list[Exchange]:
    """Colours before nouns that have none, and the place after all where none is named."""
    fitting = aligned(reading.mentions, content.groups)
    found = [
        Exchange(mention.kind.start, mention.kind.start, f"{group.colour} ")
        for mention, group in zip(reading.mentions, fitting, strict=True)
        if group.colour and mention.colour is None
    ]
    if content.place and not reading.places:
        end = len(caption.rstrip(" ."))
        found.append(Exchange(end, end, f" {PLACE_PHRASES[content.place]}"))
    return found


def aligned(mentions: tuple[Mention, ...], groups: tuple[Group, ...]) -> list[Group]:
    """For each mention the group that is most like it, none twice: kinds count above colours."""
    left = list(groups)
    found: list[Group | None] = [None] * len(mentions)
    pairs = sorted(
        ((_likeness(mention, group), -place, -other) for place, mention in enumerate(mentions)
         for other, group in enumerate(groups)),
        reverse=True,
    )  # fmt: skip
    for _, place, other in pairs:
        if found[-place] is None and groups[-other] in left:
            found[-place] = groups[-other]
            left.remove(groups[-other])
    return [group for group in found if group is not None]


def _likeness(mention: Mention, group: Group) -> int:
    """How well a group fits what is said; people and signs fit each other least."""
    colour = mention.colour.value if mention.colour else None
    special = {mention.kind.value, group.kind} & {"person", "sign"}
    same = mention.kind.value == group.kind
    return 4 * same - 3 * (bool(special) and not same) + 2 * (colour == group.colour)


def _of_mention(mention: Mention, group: Group) -> list[Exchange]:
    found = []
    number = group.number or 1
    several = number > 1
    was_several = mention.number is not None and mention.number.value != "1"
    noun = PLURALS[group.kind] if several else group.kind
    if mention.kind.value != group.kind or (mention.number and several != was_several):
        found.append(Exchange(mention.kind.start, mention.kind.end, noun))
    if mention.number and mention.number.value != str(number):
        word = number_word(number) if several else "a"
        found.append(Exchange(mention.number.start, mention.number.end, word))
    if mention.colour and group.colour and mention.colour.value != group.colour:
        found.append(_put(mention.colour, group.colour))
    elif mention.colour and not group.colour:
        found.append(Exchange(mention.colour.start, mention.colour.end + 1, ""))
    if mention.size and mention.size.value != group.size:
        by = group.size or ""
        found.append(Exchange(mention.size.start, mention.size.end + (not by), by))
    return found


def _of_place(caption: str, word: Word, place: str) -> list[Exchange]:
    """The name of the place, and the preposition before it."""
    preposition, name = _PLACE_WORDS[place]
    before = _BEFORE_PLACE.search(caption[: word.start])
    if before is None:
        plain = caption[: word.start].endswith(("the ", "The "))
        if caption[: word.start].endswith("in ") or (word.value == "snow" and plain):
            name = f"a {name}" if not plain else name
        return [Exchange(word.start, word.end, name)]
    is_first = before[1][0].isupper()
    text = preposition.capitalize() if is_first else preposition
    article = "a" if word.value == "snow" else before[2]
    return [Exchange(before.start(), word.end, f"{text} {article} {name}")]


def _of_relations(
    caption: str, reading: Reading, fitting: list[Group], content: Content
) -> list[Exchange] | None:
    """Other words for how two things lie to each other, where that is another way here."""
    found = []
    for first, relation, second in reading.related:
        one, two = fitting[first].kind, fitting[second].kind
        if (one, relation, two) in content.relations:
            continue
        turned = {"left": "to the right of", "above": "below", "on": "under"}
        words = [
            *(RELATION_WORDS[r] for a, r, b in content.relations if (a, b) == (one, two)),
            *(turned[r] for a, r, b in content.relations if (b, a) == (one, two)),
        ]
        place = _relation_place(caption, reading, first, second)
        if not words or place is None:
            return None
        start, end, said_turned = place
        if said_turned:
            flip = {**turned, "above": "below"}
            opposite = {v: RELATION_WORDS[k] for k, v in flip.items()}
            opposite |= {RELATION_WORDS[k]: v for k, v in flip.items()}
            words = [opposite[words[0]]]
        found.append(Exchange(start, end, words[0]))
    return found


_RELATION = re.compile(
    r"\b(?:on top of|(?:to|on) the (?:left|right) of|(?:left|right) of|above|over|below|under|"
    r"beneath|on)\b",
    re.IGNORECASE,
)


def _relation_place(
    caption: str, reading: Reading, first: int, second: int
) -> tuple[int, int, bool] | None:
    """Where the words of a relation stand, and whether its second thing is said first."""
    one, two = reading.mentions[first].kind, reading.mentions[second].kind
    turned = one.start > two.start
    start, end = (two.end, one.start) if turned else (one.end, two.start)
    matches = list(_RELATION.finditer(caption, start, end))
    return (matches[-1].start(), matches[-1].end(), turned) if matches else None


def _put(word: Word, value: str) -> Exchange:
    return Exchange(word.start, word.end, value)


def _mended(text: str) -> str:
    """Articles that fit the words after them, verbs that fit their number, a capital in front."""
    text = _ARTICLE.sub(_fitting_article, text)
    text = _THERE_IS.sub(_fitting_verb, text)
    return text[0].upper() + text[1:]


def _fitting_article(match: re.Match[str]) -> str:
    fits = "an" if match[2] in "aeiouAEIOU" else "a"
    return f"{fits.capitalize() if match[1][0].isupper() else fits} "


def _fitting_verb(match: re.Match[str]) -> str:
    return f"{match[1]} {'is' if match[3] in ('a', 'an', 'one') else 'are'} "
