"""A captioner of images: says the given facts, or what it sees in drawn stills."""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, permutations
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from PIL import Image

from models.builtin.describer import NAMES, lab_of, nearest_names
from models.builtin.stills.reading import (
    NUMBERS,
    PLURALS,
    Content,
    Group,
    Mention,
    Reading,
    Word,
    content_of_image,
    content_of_text,
    read_still_text,
)
from models.builtin.stills.seeing import see_still
from models.builtin.stills.space import vector_of_content
from models.embedding import plain_picture
from schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest, ModelRef
from schemas.errors import FormatError
from schemas.profile import BuiltinCaptioner
from schemas.requests import (
    CAPTION_FIELD,
    CAPTION_PURPOSE,
    CAPTIONS_FIELD,
    CONFUSION_FIELD,
    CONFUSION_PURPOSE,
    REVISION_PURPOSE,
    CaptionBrief,
    ConfusionBrief,
    Direction,
)
from schemas.retrieval_task import RetrievalTask

# What every teller gives: captions of an image, as long as is wanted.

T = TypeVar("T")


class Teller(Protocol):
    """Knows what can be said of one image."""

    def size_of(self, text: str) -> int:
        """How many details a caption gives, by any writer."""
        ...

    def captions(self, size: int) -> Iterator[str]:
        """True captions with `size` details, or as many as there are, the best first.

        There may be none, and none is there twice.
        """
        ...


def choices(details: Sequence[T], size: int, most: int = 60) -> Iterator[tuple[T, ...]]:
    """Choices of `size` details in their order, those with the most important ones first."""
    size = min(size, len(details))
    for number, places in enumerate(sorted(combinations(range(len(details)), size), key=_cost)):
        if number == most:
            return
        yield tuple(details[place] for place in places)


def distinct(teller: Teller, size: int, count: int, without: Sequence[str] = ()) -> list[str]:
    """Up to `count` different captions of about `size` details, none of them in `without`."""
    taken = {text.casefold() for text in without}
    found: list[str] = []
    for near in chain([size], *((size + step, size - step) for step in range(1, 12))):
        for text in teller.captions(near) if near > 0 else ():
            if text.casefold() not in taken:
                taken.add(text.casefold())
                found.append(text)
            if len(found) == count:
                return found
    return found


def _cost(places: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    return sum(places), places


# Captions of a picture of which only colours are known, and where they are.

_BANDS = ("at the top", "in the middle", "at the bottom")
_SIDES = ("on the left", "on the right")
_SIDE_PX = 48


class ColourTeller:
    """Says which colour prevails where; a detail is a colour at a place."""

    def __init__(self, image: Image.Image) -> None:
        small = image.resize((_SIDE_PX, _SIDE_PX), Image.Resampling.BOX)
        names = nearest_names(lab_of(np.asarray(small, np.uint8)).reshape(-1, 3))
        field = names.reshape(_SIDE_PX, _SIDE_PX)
        third = _SIDE_PX // 3
        parts = [field[place * third : (place + 1) * third] for place in range(3)]
        sides = [field[:, :third], field[:, -third:]]
        order = (0, 2, 1, 3, 4)
        found = [
            f"{_prevailing(part)} {where}"
            for part, where in zip(parts + sides, _BANDS + _SIDES, strict=True)
        ]
        self._details = tuple(found[place] for place in order)

    def size_of(self, text: str) -> int:
        """How many places a caption names."""
        return max(1, sum(where in text for where in _BANDS + _SIDES))

    def captions(self, size: int) -> Iterator[str]:
        """The colours of `size` places."""
        for details in choices(self._details, size):
            for order in list(permutations(details))[:3]:
                *first, last = order
                joined = f"{', '.join(first)} and {last}" if first else last
                yield f"A picture that is {joined}."


def _prevailing(part: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> str:
    return NAMES[int(np.bincount(part.ravel(), minlength=len(NAMES)).argmax())]


# Captions made of given facts: the facts themselves, a few at a time.

_MOST_FACTS = 10


class FactTeller:
    """Joins facts to sentences; a detail is a fact."""

    def __init__(self, facts: Sequence[str]) -> None:
        self._facts = tuple(dict.fromkeys(clause(fact) for fact in facts))[:_MOST_FACTS]

    def size_of(self, text: str) -> int:
        """How many of the facts are in a caption, word by word; at least one."""
        folded = text.casefold()
        return max(1, sum(fact.casefold() in folded for fact in self._facts))

    def captions(self, size: int) -> Iterator[str]:
        """One sentence of `size` facts, in any of their orders."""
        chosen = list(choices(self._facts, size))
        for turn in range(2):
            for facts in chosen:
                orders = list(permutations(facts)) if len(facts) < 4 else [facts, facts[::-1]]
                if turn == 0 or len(orders) > 1:
                    yield sentence(orders[-1 if turn else 0])


def clause(fact: str) -> str:
    """A fact without what ends a sentence, as it is written in the middle of one."""
    plain = " ".join(fact.split()).rstrip(".")
    first, _, rest = plain.partition(" ")
    starts = first in ("The", "A", "An", "There", "It", "Three", "Two", "No")
    return f"{first.lower()} {rest}" if starts and rest else plain


def sentence(clauses: Sequence[str]) -> str:
    """Clauses joined by commas and `and`."""
    joined = clauses[0]
    if len(clauses) > 1:
        joined = f"{', '.join(clauses[:-1])}, and {clauses[-1]}"
    return f"{joined[0].upper()}{joined[1:]}."


# How many details a rewritten caption is to have.

_ENOUGH = 40


def revised(teller: Teller, brief: CaptionBrief) -> str | None:
    """A caption in the place of `brief.caption`, as far in the wanted direction as is known.

    What was tried before bounds the number of details from both sides; the next one lies halfway.
    None where there is nothing new to say.
    """
    caption = brief.caption or ""
    size = teller.size_of(caption)
    less = brief.direction is Direction.LESS_DETAIL
    high = [teller.size_of(text) for text in brief.too_detailed]
    low = [teller.size_of(text) for text in brief.too_general]
    (high if less else low).append(size)
    if less:
        wanted = size - 1 if not low else (size + max(low)) // 2
    else:
        wanted = size + 1 if not high else -(-(size + min(high)) // 2)
    tried = (caption, *brief.too_detailed, *brief.too_general, *brief.taken)
    found = distinct(teller, max(1, wanted), _ENOUGH, without=tried)
    fitting = (
        text
        for text in found
        if (teller.size_of(text) <= size if less else teller.size_of(text) >= size)
    )
    return next(fitting, None)


# Captions of what is seen in a drawn still.

Detail = tuple[str, int]
"""What may be said, and of which group or relation: `("colour", 0)`, `("place", 0)` …"""

PLACE_PHRASES = {
    "beach": "on a beach", "park": "in a park", "street": "on a street",
    "kitchen": "in a kitchen", "desert": "in a desert", "snow": "in the snow",
    "harbour": "in a harbour", "night city": "in a city at night",
}  # fmt: skip
RELATION_WORDS = {"left": "to the left of", "above": "above", "on": "on"}
_TURNED = {"left": "to the right of", "above": "below", "on": "under"}
_FIRST = {
    RetrievalTask.COLOR: ("thing", "colour"),
    RetrievalTask.COUNT: ("thing", "number"),
    RetrievalTask.LOCATION: ("thing", "relation", "colour"),
    RetrievalTask.FIGURE: ("shirt", "trousers", "hat", "thing"),
    RetrievalTask.OBJECT: ("thing", "colour", "size"),
    RetrievalTask.ACTION: ("action", "thing", "shirt"),
    RetrievalTask.SCENE: ("place", "colour"),
    RetrievalTask.OCR: ("word", "thing"),
}
_ORDER = ("thing", "number", "colour", "action", "word", "place", "shirt", "trousers", "hat",
          "relation", "size", "style")  # fmt: skip


class StillTeller:
    """Says what was seen; a detail is a thing, its number or its colour, a place, an action."""

    def __init__(self, content: Content, task: RetrievalTask) -> None:
        self._content = content
        self._details = _details(content, task)

    def size_of(self, text: str) -> int:
        """How many details a caption gives."""
        said = content_of_text(read_still_text(text))
        groups = said.groups
        return max(
            1,
            len(groups)
            - 1
            + sum(group.colour is not None for group in groups)
            + sum((group.number or 1) > 1 for group in groups)
            + sum(group.size is not None for group in groups)
            + len(said.clothes)
            + len(said.relations)
            + sum(bool(one) for one in (said.action, said.place, said.style, said.word)),
        )

    def captions(self, size: int) -> Iterator[str]:
        """True captions with `size` details, in several forms."""
        chosen = list(choices(self._details, size))
        for form in range(3):
            for place, details in enumerate(chosen[:20]):
                yield caption_of(self._content, frozenset(details), (form + place) % 3)


def _details(content: Content, task: RetrievalTask) -> tuple[Detail, ...]:
    """Everything that may be said, what the task is about first."""
    numbered = content.groups
    places = {
        "thing": list(range(1, len(numbered))),
        "number": [place for place, group in enumerate(numbered) if (group.number or 1) > 1],
        "colour": [place for place, group in enumerate(numbered) if group.colour],
        "size": [place for place, group in enumerate(numbered) if group.size],
        "relation": list(range(len(content.relations[:2]))),
    }
    single = {"action": content.action, "place": content.place, "style": content.style,
              "word": content.word, **dict.fromkeys(dict(content.clothes), "worn")}  # fmt: skip
    first = _FIRST.get(task, ())
    order = (*first, *(name for name in _ORDER if name not in first))
    details: list[Detail] = []
    for name in order:
        found = places.get(name, [0] if single.get(name) else [])
        details += [(name, place) for place in found]
    return tuple(details)


def caption_of(content: Content, details: frozenset[Detail], form: int) -> str:
    """A caption with these details; `form` counts from 0 to 2."""
    shown = [
        place for place in range(len(content.groups)) if place == 0 or _is_mentioned(place, details)
    ]
    phrases = {place: phrase(content, place, details) for place in shown}
    subject = _subject(content, phrases, details, turned=form == 2)
    where = PLACE_PHRASES[content.place] if content.place and ("place", 0) in details else ""
    if ("style", 0) in details and content.style:
        subject = f"{_article(content.style)} {content.style} of {subject}"
    elif form == 1 and where:
        return f"{_capital(where)} there {_is(subject)} {subject}."
    elif form:
        subject = f"there {_is(subject)} {subject}"
    return _capital(f"{subject} {where}".strip()) + "."


def _is_mentioned(place: int, details: frozenset[Detail]) -> bool:
    """A thing is named where anything is said of it."""
    return any((name, place) in details for name in ("thing", "number", "colour", "size"))


def phrase(content: Content, place: int, details: frozenset[Detail]) -> str:
    """One group as a noun phrase, with the details that are wanted of it."""
    group = content.groups[place]
    words = [
        *((group.size,) if group.size and ("size", place) in details else ()),
        *((group.colour,) if group.colour and ("colour", place) in details else ()),
        noun(group),
    ]
    text = " ".join(words)
    number = group.number or 1
    if number > 1:
        text = f"{number_word(number)} {text}" if ("number", place) in details else text
    else:
        text = f"{_article(text)} {text}"
    if group.kind == "person":
        text += _worn(content, details)
        if content.action and ("action", 0) in details:
            text += f" who is {content.action}"
    if group.kind == "sign" and content.word and ("word", 0) in details:
        text += f' that says "{content.word}"'
    return text


def noun(group: Group) -> str:
    """The kind, in the plural where there are several."""
    return PLURALS[group.kind] if (group.number or 1) > 1 else group.kind


def number_word(number: int) -> str:
    """A number in words up to ten."""
    return NUMBERS[number] if number < len(NUMBERS) else str(number)


def _worn(content: Content, details: frozenset[Detail]) -> str:
    worn = [
        f"{colour} {garment}" if garment == "trousers" else f"{_article(colour)} {colour} {garment}"
        for garment, colour in content.clothes
        if (garment, 0) in details
    ]
    return f" in {joined(worn)}" if worn else ""


def _subject(
    content: Content, phrases: dict[int, str], details: frozenset[Detail], *, turned: bool
) -> str:
    """All phrases, two of them joined by how they lie to each other if that is wanted."""
    for place, (one, relation, two) in enumerate(content.relations[:2]):
        first, second = _place_of(content, one), _place_of(content, two)
        wanted = ("relation", place) in details
        if not wanted or first is None or second is None or first == second:
            continue
        texts = {p: phrases.get(p) or phrase(content, p, details) for p in (first, second)}
        words = RELATION_WORDS[relation]
        if turned:
            first, second, words = second, first, _TURNED[relation]
        rest = [text for p, text in phrases.items() if p not in (first, second)]
        return joined([f"{texts[first]} {words} {texts[second]}", *rest])
    return joined(list(phrases.values()))


def _place_of(content: Content, kind: str) -> int | None:
    found = [place for place, group in enumerate(content.groups) if group.kind == kind]
    return found[0] if len(found) == 1 and content.groups[found[0]].number == 1 else None


def joined(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _article(words: str) -> str:
    return "an" if words[0] in "aeiou" else "a"


def _is(subject: str) -> str:
    return "is" if subject.split()[0] in ("a", "an") else "are"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


# Changes in the caption of another still what is not true of this one, and nothing else.

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
    text = _corrected(text)
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


def _corrected(text: str) -> str:
    """Articles that fit the words after them, verbs that fit their number, a capital in front."""
    text = _ARTICLE.sub(_fitting_article, text)
    text = _THERE_IS.sub(_fitting_verb, text)
    return text[0].upper() + text[1:]


def _fitting_article(match: re.Match[str]) -> str:
    fits = "an" if match[2] in "aeiouAEIOU" else "a"
    return f"{fits.capitalize() if match[1][0].isupper() else fits} "


def _fitting_verb(match: re.Match[str]) -> str:
    return f"{match[1]} {'is' if match[3] in ('a', 'an', 'one') else 'are'} "


# The built-in captioner: writes captions of drawn stills, and of given facts.


class StillsCaptioner:
    """A `ChatModel` that writes captions, rewrites them, and writes confusing ones.

    It reads the brief in a request's `subject` (`schemas.requests`,
    `schemas.requests`), not the prompt. Where facts are given it says these; else what is
    seen in a drawing; of any other picture only which colours are where. The same specification
    and request always give the same answer.
    """

    def __init__(self, specification: BuiltinCaptioner) -> None:
        self._specification = specification

    @property
    def ref(self) -> ModelRef:
        """Name and revision."""
        return self._specification.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """The level of detail."""
        return self._specification.parameters

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, answer) of each request, in order; requests are taken one by one."""
        for position, request in enumerate(requests):
            yield position, self._answer(request)

    def _answer(self, request: ChatRequest) -> ChatOutcome:
        started = perf_counter()
        try:
            answer = self._said(request)
        except FormatError as fault:
            return _refused(str(fault))
        except (OSError, Image.DecompressionBombError) as fault:
            return _refused(f"the image cannot be read: {fault}")
        if answer is None:
            return _refused(f"{self.ref} has nothing new to say of the image")
        text = json.dumps(answer, ensure_ascii=False)
        return ChatAnswer(text=text, tokens_in=0, tokens_out=0, seconds=perf_counter() - started)

    def _said(self, request: ChatRequest) -> dict[str, Any] | None:
        if request.purpose == CONFUSION_PURPOSE:
            caption = _confusion(request, ConfusionBrief.parse(request.subject))
            return {CONFUSION_FIELD: caption} if caption else None
        if request.purpose not in (CAPTION_PURPOSE, REVISION_PURPOSE):
            raise FormatError(f"{self.ref} writes captions; got a request for {request.purpose!r}")
        brief = CaptionBrief.parse(request.subject)
        teller, _ = _teller(request, brief.facts, brief.task)
        if brief.caption is not None:
            caption = revised(teller, brief)
            return {CAPTION_FIELD: caption} if caption else None
        details = self._specification.details
        size = max(2, details - 1) if brief.facts else details
        found = distinct(teller, size, brief.count)
        if len(found) < brief.count and request.images:  # little was seen, or given
            colours = ColourTeller(_picture(request))
            found += distinct(colours, 2, brief.count - len(found), without=found)
        return {CAPTIONS_FIELD: found} if len(found) == brief.count else None


def _teller(
    request: ChatRequest, facts: tuple[str, ...], task: RetrievalTask
) -> tuple[Teller, Content | None]:
    """Who knows most of the image, and what is seen in it where that is anything."""
    if facts:
        return FactTeller(facts), None
    if not request.images:
        raise FormatError("neither facts nor an image in the request")
    image = _picture(request)
    content = content_of_image(see_still(image))
    if content.groups:
        return StillTeller(content, task), content
    return ColourTeller(image), None


def _picture(request: ChatRequest) -> Image.Image:
    with Image.open(io.BytesIO(request.images[0].data)) as picture:
        return plain_picture(picture)


def _confusion(request: ChatRequest, brief: ConfusionBrief) -> str | None:
    """The caption nearest to the given one that is true of the image."""
    teller, content = _teller(request, brief.facts, brief.task)
    if content is not None and (text := confused(brief.caption, content)):
        return text
    return confused_facts(brief.caption, teller)


def _refused(detail: str) -> ChatFailure:
    return ChatFailure(reason="refused_request", detail=detail, retriable=False)
