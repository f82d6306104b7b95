"""The contents of a still as one value: of a scene, read from a text, or written as captions."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import combinations
from typing import NamedTuple

from loupe.demo.stills.scene import (
    ACTIONS,
    COLOURS,
    GARMENTS,
    KINDS,
    PERSON,
    PLACES,
    SIGN,
    SIZES,
    STYLES,
    TABLES,
    Scene,
    Thing,
)
from loupe.schemas.wording import joined, with_article

# The contents of a still, or those that a text states, as a value.


class Group(NamedTuple):
    """Things of one kind and colour; None is unstated."""

    kind: str
    colour: str | None = None
    number: int | None = None
    size: str | None = None


class Content(NamedTuple):
    """The contents of a still, as far as they are stated.

    `relations` are (kind, `left` | `above` | `on`, kind); `clothes` (garment, colour); `word` is
    the text of a sign.
    """

    groups: tuple[Group, ...] = ()
    clothes: tuple[tuple[str, str], ...] = ()
    action: str | None = None
    place: str | None = None
    style: str | None = None
    relations: tuple[tuple[str, str, str], ...] = ()
    word: str | None = None


Statement = tuple[str, ...]
"""`("kind", "car")`, `("coloured", "car", "red")`, `("place", "beach")` …"""

_ON_PX = 8.0
_OVERLAP = 0.3


def content_of(scene: Scene) -> Content:
    """Return the full contents of a scene; groups in the order of its things."""
    counts = Counter((thing.kind, thing.colour) for thing in scene.things)
    sizes = {(thing.kind, thing.colour): thing.size for thing in reversed(scene.things)}
    groups: list[Group] = []
    for (kind, colour), number in counts.items():
        size = sizes[kind, colour]
        groups.append(Group(kind, colour, number, None if size == "medium" else size))
    person = next((thing for thing in scene.things if thing.kind == PERSON), None)
    single = [thing for thing in scene.things if counts[thing.kind, thing.colour] == 1]
    return Content(
        groups=tuple(groups),
        clothes=person.clothes if person else (),
        action=person.action if person else None,
        place=scene.place,
        style=scene.style,
        relations=tuple(_relation(one, two) for one, two in combinations(single, 2)),
        word=next((thing.word for thing in scene.things if thing.word), None),
    )


def _relation(one: Thing, two: Thing) -> tuple[str, str, str]:
    """Return the relation of one thing to the other."""
    shared = min(one.box[2], two.box[2]) - max(one.box[0], two.box[0])
    width = min(one.box[2] - one.box[0], two.box[2] - two.box[0])
    if shared < _OVERLAP * width:
        left, right = sorted((one, two), key=lambda thing: thing.box[0] + thing.box[2])
        return left.kind, "left", right.kind
    upper, lower = sorted((one, two), key=lambda thing: thing.box[1] + thing.box[3])
    return upper.kind, "on" if lower.box[1] - upper.box[3] < _ON_PX else "above", lower.kind


@lru_cache(4096)
def statements(content: Content) -> frozenset[Statement]:
    """Return the single statements, which the embedder weighs and which make a text true."""
    found: set[Statement] = set()
    for group in content.groups:
        found.add(("kind", group.kind))
        if group.colour:
            found.add(("coloured", group.kind, group.colour))
        if group.size:
            found.add(("sized", group.kind, group.size))
    numbers: dict[str, list[int | None]] = {}
    for group in content.groups:
        numbers.setdefault(group.kind, []).append(group.number)
    for kind, counted in numbers.items():
        known = [number for number in counted if number is not None]
        if len(known) == len(counted):
            found.add(("counted", kind, str(sum(known))))
    found |= {("worn", *worn) for worn in content.clothes}
    for one, relation, two in content.relations:
        found.add(("related", one, relation, two))
        if relation == "on":
            found.add(("related", one, "above", two))
    for name in ("action", "place", "style", "word"):
        if value := getattr(content, name):
            found.add((name, value))
    return frozenset(found)


def is_true(text: str, content: Content) -> bool:
    """Whether every statement in `text` is in `content`."""
    return statements(read_text(text)) <= statements(content)


# Reading: the contents that a text states.

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_QUOTED = re.compile(r"[\"“”«»]([^\"“”«»]+)[\"“”«»]|(?<!\w)['‘]([^'‘’]+)['’](?!\w)")
_IS = frozenset({"is", "are", "was", "were"})
_FILLERS = frozenset({"the", "bright", "shiny", "old", "new", "other", "-"})
_ATTRIBUTES = ("number", "size", "colour")


class _Token(NamedTuple):
    """One or more words: their class and meaning; unknown words have no class."""

    name: str
    value: str


@cache
def _lexicon() -> tuple[dict[str, _Token], re.Pattern[str]]:
    """Return the meaning of each word, and the expression that splits a text into words."""
    plain: dict[str, Iterable[str]] = {
        "kind": KINDS,
        "garment": GARMENTS,
        "colour": COLOURS,
        "size": SIZES,
        "action": ACTIONS,
        "place": PLACES,
        "style": STYLES,
    }
    known: dict[str, _Token] = {}
    for name, words in plain.items():
        known |= {word: _Token(name, word) for word in words}
    known |= {kind.plural: _Token("kind", name) for name, kind in KINDS.items()}
    for name, values in TABLES["synonyms"].items():
        for value, words in values.items():
            known |= dict.fromkeys(words, _Token(name, value))
    for number, word in enumerate(_NUMBERS):
        known |= dict.fromkeys((word, str(number)), _Token("number", str(number)))
    known |= dict.fromkeys(("a", "an", "single"), _Token("number", "1"))
    longest_first = sorted(known, key=len, reverse=True)
    return known, re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b|\w+|[^\w\s]")


@lru_cache(4096)
def read_text(text: str) -> Content:
    """Read the contents that `text` states; a text in quotation marks is that of a sign."""
    quoted = [(found[1] or found[2]).strip().upper() for found in _QUOTED.finditer(text)]
    known, pattern = _lexicon()
    hidden = _QUOTED.sub(" _ ", text).casefold()
    tokens = [known.get(word, _Token("", word)) for word in pattern.findall(hidden)]
    places: dict[int, int] = {}
    groups: list[Group] = []
    clothes: list[tuple[str, str]] = []
    acts = False
    for at, token in enumerate(tokens):
        if token.name not in ("kind", "garment"):
            continue
        said = _attributes(tokens, at)
        acts = acts or token.name == "garment" or token.value == PERSON
        if token.name == "kind":
            number = int(said["number"]) if "number" in said else None
            places[at] = len(groups)
            groups.append(Group(token.value, said.get("colour"), number, said.get("size")))
        elif "colour" in said:
            clothes.append((token.value, said["colour"]))

    def first(name: str) -> str | None:
        return next((token.value for token in tokens if token.name == name), None)

    return Content(
        groups=tuple(groups),
        clothes=tuple(clothes),
        action=first("action") if acts else None,
        place=first("place"),
        style=first("style"),
        relations=tuple(_read_relations(tokens, places, groups)),
        word=quoted[0] if quoted else None,
    )


def _attributes(tokens: list[_Token], at: int) -> dict[str, str]:
    """Return the attributes before the noun at `at`, or after `is`."""
    found: dict[str, str] = {}
    for token in reversed(tokens[:at]):
        if token.name in _ATTRIBUTES:
            found.setdefault(token.name, token.value)
        elif token.value not in _FILLERS:
            break
        if token.name == "number":
            break
    after = tokens[at + 1 : at + 3]
    if len(after) > 1 and after[0].value in _IS and after[1].name == "colour":
        found.setdefault("colour", after[1].value)
    return found


def _read_relations(
    tokens: list[_Token], places: dict[int, int], groups: list[Group]
) -> Iterator[tuple[str, str, str]]:
    """Yield relations whose words are between two things, with only attributes between them."""
    for at, token in enumerate(tokens):
        if token.name != "relation":
            continue
        before = max((place for place in places if place < at), default=None)
        after = min((place for place in places if place > at), default=None)
        if before is None or after is None:
            continue
        is_apart = any(one.name in ("place", "garment") for one in tokens[before:at])
        between = tokens[at + 1 : after]
        if is_apart or not all(one.name in _ATTRIBUTES or one.value in _FILLERS for one in between):
            continue
        one = groups[places[before]].kind
        two = groups[places[after]].kind
        if token.value in ("right", "below"):
            yield two, "left" if token.value == "right" else "above", one
        else:
            yield one, token.value, two


# Writing: captions with some of the details of a content.

Detail = tuple[str, int]
"""A detail and its group or relation: `("colour", 0)`, `("place", 0)` …"""

_FRAMES = (
    "{subject} {place}.",
    "there {are} {subject} {place}.",
    "the picture shows {subject} {place}.",
)
_PLACE_FIRST = ("{place}, there {are} {subject}.", "{where} with {subject}.")
_STYLE_FRAME = "{a_style} of {subject} {place}."
_PREPOSITIONS = {"beach": "on", "street": "on"}
_RELATIONS = {
    "left": ("to the left of", "to the right of"),
    "above": ("above", "below"),
    "on": ("on", "under"),
}


def details_of(content: Content) -> tuple[Detail, ...]:
    """Return all possible details besides the kind of the first group, kind by kind."""
    groups = content.groups
    found: list[Detail] = [("thing", place) for place in range(1, len(groups))]
    found += [("number", place) for place, one in enumerate(groups) if (one.number or 1) > 1]
    found += [("colour", place) for place, one in enumerate(groups) if one.colour]
    found += _stated(content, "action", "word", "place")
    found += [(garment, 0) for garment, _ in content.clothes]
    found += [("relation", place) for place in range(len(content.relations))]
    found += [("size", place) for place, one in enumerate(groups) if one.size]
    found += _stated(content, "style")
    return tuple(found)


def _stated(content: Content, *names: str) -> Iterator[Detail]:
    """Yield those of the named details of the whole content that it has."""
    for name in names:
        if getattr(content, name):
            yield name, 0


def write(
    content: Content, details: Iterable[Detail], order: Sequence[int] = (), turned: bool = False
) -> list[str]:
    """Yield captions with these details, one for each frame that they fill; a style's own first.

    Groups come in `order`; `turned` states a relation from the other side.
    """
    wanted = set(details) & set(details_of(content))

    def is_shown(place: int) -> bool:
        return place == 0 or not wanted.isdisjoint(_about(content, place))

    places = dict.fromkeys((*order, *range(len(content.groups))))
    shown = list(filter(is_shown, places))
    subject = _subject(content, wanted, shown, turned=turned)
    where = content.place if ("place", 0) in wanted else None
    style = content.style if ("style", 0) in wanted else None
    filled = {
        "subject": subject,
        "are": "is" if subject.split()[0] in ("a", "an") else "are",
        "place": f"{_PREPOSITIONS.get(where, 'in')} {with_article(where)}" if where else "",
        "where": with_article(where) if where else "",
        "a_style": with_article(style) if style else "",
    }
    frames = [*_FRAMES, *_PLACE_FIRST] if where else list(_FRAMES)
    if style:
        frames = [_STYLE_FRAME, *(f"{one[:-1]}, shown as {{a_style}}." for one in frames)]
    texts = (" ".join(frame.format(**filled).split()) for frame in frames)
    return [re.sub(r" (?=[.,])", "", text[0].upper() + text[1:]) for text in texts]


def _about(content: Content, place: int) -> set[Detail]:
    """Return the details of one group."""
    kind = content.groups[place].kind
    own = {PERSON: ("action", *GARMENTS), SIGN: ("word",)}.get(kind, ())
    return {(name, place) for name in ("thing", *_ATTRIBUTES)} | {(name, 0) for name in own}


def phrase(content: Content, place: int, details: set[Detail]) -> str:
    """Return one group as a noun phrase, with the wanted details."""
    group = content.groups[place]
    number = group.number or 1
    words: list[str] = []
    if group.size and ("size", place) in details:
        words.append(group.size)
    if group.colour and ("colour", place) in details:
        words.append(group.colour)
    words.append(KINDS[group.kind].plural if number > 1 else group.kind)
    text = " ".join(words)
    if number == 1:
        text = with_article(text)
    elif ("number", place) in details:
        text = f"{_NUMBERS[number]} {text}"
    if group.kind == PERSON:
        worn: list[str] = []
        for garment, colour in content.clothes:
            if (garment, 0) in details:
                piece = f"{colour} {garment}"
                worn.append(piece if garment == "trousers" else with_article(piece))
        if worn:
            text += f" in {joined(worn)}"
        if ("action", 0) in details:
            text += f" who is {content.action}"
    if group.kind == SIGN and ("word", 0) in details:
        text += f' that says "{content.word}"'
    return text


def _subject(content: Content, details: set[Detail], shown: list[int], *, turned: bool) -> str:
    """Return all named groups, two of them joined by their relation if wanted."""
    for number, (one, relation, two) in enumerate(content.relations):
        kinds = [group.kind for group in content.groups]
        is_clear = kinds.count(one) == kinds.count(two) == 1
        if not is_clear or ("relation", number) not in details:
            continue
        pair = (kinds.index(one), kinds.index(two))
        before, after = (phrase(content, place, details) for place in pair)
        rest = [phrase(content, place, details) for place in shown if place not in pair]
        words, words_turned = _RELATIONS[relation]
        related = f"{after} {words_turned} {before}" if turned else f"{before} {words} {after}"
        return joined([related, *rest])
    return joined([phrase(content, place, details) for place in shown])


# Captions with nearly the words of another one.


def near(caption: str, content: Content, more: Iterable[Detail] = ()) -> str | None:
    """Return the true caption of `content` nearest to `caption`, with `more` details.

    None if the caption names no thing, or more than there are.
    """
    said = read_text(caption)
    order = aligned(said.groups, content.groups)
    if not order:
        return None
    details = {*_named(said, content, order), *more}
    texts = write(content, details, order)
    texts_turned = write(content, details, order, turned=True)
    if said.style is None and ("style", 0) in details:  # not the frame that begins with it
        texts = texts[1:]
        texts_turned = texts_turned[1:]
    true = [text for text in (*texts, *texts_turned) if is_true(text, content)]
    return nearest(caption, true)


def distinguished(
    caption: str, content: Content, others: Sequence[Content], further: int = 0
) -> str | None:
    """Return a caption near to `caption`, true for `content` and for none of the others.

    It states `further` plain details, and then as few as needed. None if no detail distinguishes
    the content, or if `near` returns None.
    """
    said = read_text(caption)
    order = aligned(said.groups, content.groups)
    named = set(_named(said, content, order)) if order else set()
    possible = [detail for detail in details_of(content) if detail not in named]
    plain = [detail for detail in possible if detail[0] not in ("relation", "style")]
    more = set(plain[:further])
    text = caption if not more and is_true(caption, content) else near(caption, content, more)
    while text is not None:
        left = [other for other in others if is_true(text, other)]
        if not left:
            return text
        fewest = len(left)
        for detail in possible:
            longer = near(caption, content, {*more, detail})
            if longer is None:
                continue
            remaining = sum(is_true(longer, other) for other in left)
            if remaining < fewest:
                text = longer
                best = detail
                fewest = remaining
        if fewest == len(left):
            return None
        more.add(best)
    return None


def nearest(caption: str, texts: Iterable[str]) -> str | None:
    """Return the text that differs from the caption in the fewest words; ties: the first."""
    from rapidfuzz.distance import Levenshtein

    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.casefold())

    wanted = words(caption)
    return min(texts, key=lambda text: Levenshtein.distance(wanted, words(text)), default=None)


def aligned(mentioned: Sequence[Group], groups: Sequence[Group]) -> list[int]:
    """Return the most similar group for each mention, without repetition; empty if too few.

    Kinds count more than colours; people and signs match other kinds least.
    """

    def likeness(one: Group, two: Group) -> int:
        same = one.kind == two.kind
        special = not same and bool({one.kind, two.kind} & {PERSON, SIGN})
        return 4 * same - 3 * special + 2 * (one.colour == two.colour)

    if len(mentioned) > len(groups):
        return []
    pairs: list[tuple[int, int, int]] = []
    for place, one in enumerate(mentioned):
        pairs += [(-likeness(one, two), place, other) for other, two in enumerate(groups)]
    found: dict[int, int] = {}
    for _, place, other in sorted(pairs):
        if place not in found and other not in found.values():
            found[place] = other
    return [found[place] for place in range(len(mentioned))]


def _named(said: Content, content: Content, order: list[int]) -> Iterator[Detail]:
    """Return the details of `content` that correspond to those stated."""
    for one, place in zip(said.groups, order, strict=True):
        yield "thing", place
        for name in _ATTRIBUTES:
            if getattr(one, name) is not None:
                yield name, place
    for garment, _ in said.clothes:
        yield garment, 0
    yield from _stated(said, "action", "place", "style", "word")
    kinds: dict[str, str] = {}
    for one, place in zip(said.groups, order, strict=True):
        kinds[one.kind] = content.groups[place].kind
    pairs = [{kinds[relation[0]], kinds[relation[2]]} for relation in said.relations]
    for number, relation in enumerate(content.relations):
        if {relation[0], relation[2]} in pairs:
            yield "relation", number
