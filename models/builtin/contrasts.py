"""A strategist and refiner of contrastive benchmarks that sees drawn stills."""

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from time import perf_counter
from typing import Any, NamedTuple, TypeVar, assert_never

import numpy as np
from PIL import Image

from models.builtin.captioner import (
    PLACE_PHRASES,
    RELATION_WORDS,
    aligned,
    confused,
    is_true,
    joined,
    number_word,
)
from models.builtin.drawing.pen import Draws
from models.builtin.drawing.vocabulary import KINDS
from models.builtin.editor.canvas import UneditableError
from models.builtin.editor.changes import (
    Act,
    Add,
    Change,
    Darken,
    Move,
    Rain,
    Recolour,
    Remove,
    Replace,
    Resettle,
    Respell,
    Restyle,
    Side,
    place_name,
    say,
    with_article,
)
from models.builtin.editor.model import Workplace
from models.builtin.editor.painting import is_coloured
from models.builtin.stills.reading import (
    ACTIONS,
    COLOURS,
    PLACES,
    PLURALS,
    Content,
    Group,
    Mention,
    Reading,
    content_of_image,
    content_of_text,
    read_still_text,
)
from models.builtin.stills.seeing import see_still
from models.embedding import plain_picture
from schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest, ModelRef
from schemas.errors import FormatError
from schemas.profile import BuiltinContraster
from schemas.requests import (
    CAPTION_FIELD,
    CAPTIONS_FIELD,
    DETAIL_FIELD,
    INSTRUCTION_FIELD,
    PLAN_FIELD,
    REFINEMENT_PURPOSE,
    STRATEGIES_FIELD,
    STRATEGY_PURPOSE,
    TYPE_FIELD,
    RefinementBrief,
    StrategyBrief,
)
from schemas.requests import REFINEMENT_REQUEST_REPAIR_PURPOSE as REPAIR_CAPTIONS
from schemas.requests import REPAIR_PURPOSE as REPAIR_STRATEGIES
from schemas.taxonomy import DifferenceType

# Says what a change is about: its type, the detail, and its new value.

PHOTOGRAPH, GREY_PHOTOGRAPH = "colour picture", "black-and-white picture"
FLAT = "flat drawing"

_PLAN = re.compile(r"\bThe (weather|style|light) changes from (.+) to (.+?)\.?$")
_PHRASES = {"weather": " in {} weather", "style": ", shown as {}", "light": " in {} light"}


class Wording(NamedTuple):
    """What is said of a change: its type, what it changes, and into what."""

    difference: DifferenceType
    detail: str
    plan: str


class Unseen(NamedTuple):
    """Something that tells two images apart but is not seen: `weather`, `style` or `light`."""

    aspect: str
    anchor: str
    sibling: str


def worded(change: Change, style: str = FLAT) -> Wording | None:
    """What is said of a change; None for one that is of no type in the taxonomy.

    `style` is that of the picture as it is.
    """
    kinds = DifferenceType
    match change:
        case Recolour(what, many, old, new):
            named = PLURALS[what] if many else what
            detail = f"the colour of the {named}"
            return Wording(kinds.ENTITY_ATTRIBUTE, detail, _from_to(detail, old, new))
        case Respell(old, new):
            detail = "the word on the sign"
            plan = _from_to(detail, f'"{old}"', f'"{new}"')
            return Wording(kinds.ENTITY_ATTRIBUTE, detail, plan)
        case Replace(colour, kind, many, new):
            one, two = (PLURALS[kind], PLURALS[new]) if many else (kind, with_article(new))
            detail = f"the {colour} {one}"
            becomes = "become" if many else "becomes"
            return Wording(kinds.ENTITY_TYPE, detail, f"The {colour} {one} {becomes} {two}.")
        case Move(colour, kind, side, other_colour, other):
            detail = f"where the {colour} {kind} is"
            plan = f"The {colour} {kind} goes to the {side} of the {other_colour} {other}."
            return Wording(kinds.ENTITY_RELATION, detail, plan)
        case Resettle(old, new):
            names = (with_article(place_name(place)) for place in (old, new))
            return Wording(kinds.SCENE_TYPE, "the place", _from_to("the place", *names))
        case Act(old, new):
            detail = "what the person does"
            return Wording(kinds.EVENT_TYPE, detail, _from_to(detail, old, new))
        case Rain():
            plan = _from_to("the weather", "dry", "rainy")
            return Wording(kinds.SCENE_ATTRIBUTE, "the weather", plan)
        case Restyle(manner):
            names = (with_article(one) for one in (style, manner))
            return Wording(kinds.STYLE, "the style", _from_to("the style", *names))
        case Darken():
            plan = _from_to("the light", "bright", "dim")
            return Wording(kinds.SCENE_ATTRIBUTE, "the light", plan)
        case Remove() | Add():
            return None
        case _:
            assert_never(change)


def unseen_difference(text: str) -> Unseen | None:
    """What a plan says of weather, style or light, as phrases that end a caption."""
    found = _PLAN.search(text)
    if found is None:
        return None
    aspect = found[1]
    return Unseen(aspect, _PHRASES[aspect].format(found[2]), _PHRASES[aspect].format(found[3]))


def _from_to(detail: str, old: str, new: str) -> str:
    return f"{detail[0].upper()}{detail[1:]} changes from {old} to {new}."


# Finds what could be changed in a picture, by the type of difference that it makes.

T = TypeVar("T")

_WORDS = ("TEA", "ICE", "OPEN", "SALE", "CAFE", "TAXI", "HOTEL", "PIZZA", "MUSIC", "BAKERY",
          "MUSEUM", "MARKET")  # fmt: skip
_OTHERS_TRIED = 3


def proposals(content: Content, draws: Draws) -> dict[DifferenceType, list[Change]]:
    """Changes of a drawing, of each type some, in a drawn order; types without any are left out.

    Weather is not changed, though the editor can: the built-in embedder sees none, so that nobody
    but people could tell whether captions fit.
    """
    found = {
        kind: _shuffled(propose(content, draws), draws) for kind, propose in _PROPOSERS.items()
    }
    return {kind: changes for kind, changes in found.items() if changes}


def photograph_proposals(draws: Draws) -> dict[DifferenceType, list[Change]]:
    """What can be done to a picture in which nothing is seen."""
    styles: list[Change] = [Restyle("pencil sketch"), Restyle("black-and-white picture")]
    return {
        DifferenceType.STYLE: _shuffled(styles, draws),
        DifferenceType.SCENE_ATTRIBUTE: [Darken()],
    }


def _attributes(content: Content, draws: Draws) -> list[Change]:
    changes: list[Change] = []
    for group in _lone_groups(content):
        if group.colour:
            new = _others(KINDS[group.kind].colours, (group.colour,), draws)
            changes += [
                Recolour(group.kind, (group.number or 1) > 1, group.colour, one) for one in new
            ]
    if _one_person(content):
        worn = tuple(colour for _, colour in content.clothes)
        for garment, colour in content.clothes:
            new = _others(COLOURS, worn, draws)
            changes += [Recolour(garment, False, colour, one) for one in new]
    if content.word and _count(content, "sign") == 1:
        fitting = [word for word in _WORDS if len(word) == len(content.word)]
        changes += [Respell(content.word, word) for word in fitting if word != content.word]
    return changes


def _types(content: Content, draws: Draws) -> list[Change]:
    there = [group.kind for group in content.groups]
    changes: list[Change] = []
    for group in _lone_groups(content):
        colour = group.colour
        if colour is None:
            continue
        fitting = tuple(
            kind
            for kind, about in KINDS.items()
            if colour in about.colours and about.flies == KINDS[group.kind].flies
        )
        many = (group.number or 1) > 1
        new = _others(fitting, tuple(there), draws)
        changes += [Replace(colour, group.kind, many, one) for one in new]
    return changes


def _relations(content: Content, _: Draws) -> list[Change]:
    single = {
        group.kind: group.colour
        for group in _lone_groups(content)
        if group.number == 1 and group.colour
    }
    changes: list[Change] = []
    for one, relation, two in content.relations:
        if one not in single or two not in single:
            continue
        left, right = single[one] or "", single[two] or ""
        if relation == "left":
            changes += [Move(left, one, "right", right, two), Move(right, two, "left", left, one)]
        else:
            sides: tuple[Side, Side] = ("left", "right")
            changes += [Move(left, one, side, right, two) for side in sides]
    return changes


def _places(content: Content, draws: Draws) -> list[Change]:
    if content.place is None:
        return []
    return [Resettle(content.place, one) for one in _others(PLACES, (content.place,), draws)]


def _actions(content: Content, draws: Draws) -> list[Change]:
    if content.action is None or not _one_person(content):
        return []
    return [Act(content.action, one) for one in _others(ACTIONS, (content.action,), draws)]


def _styles(content: Content, _: Draws) -> list[Change]:
    if content.style != "flat drawing":
        return []
    return [Restyle("pencil sketch"), Restyle("poster"), Restyle("mosaic")]


_PROPOSERS: dict[DifferenceType, Callable[[Content, Draws], list[Change]]] = {
    DifferenceType.ENTITY_ATTRIBUTE: _attributes,
    DifferenceType.ENTITY_TYPE: _types,
    DifferenceType.ENTITY_RELATION: _relations,
    DifferenceType.SCENE_TYPE: _places,
    DifferenceType.EVENT_TYPE: _actions,
    DifferenceType.STYLE: _styles,
}


def _lone_groups(content: Content) -> list[Group]:
    """Groups of things, not people or signs, that are all there is of their kind."""
    return [
        group
        for group in content.groups
        if group.kind in KINDS and sum(one.kind == group.kind for one in content.groups) == 1
    ]


def _one_person(content: Content) -> bool:
    return _count(content, "person") == 1


def _count(content: Content, kind: str) -> int:
    return sum(group.number or 0 for group in content.groups if group.kind == kind)


def _others(options: tuple[str, ...], taken: tuple[str, ...], draws: Draws) -> list[str]:
    """A few drawn options that are not taken."""
    free = [option for option in options if option not in taken]
    return _shuffled(free, draws)[:_OTHERS_TRIED]


def _shuffled(items: list[T], draws: Draws) -> list[T]:
    left, found = list(items), []
    while left:
        one = draws.pick(left)
        left.remove(one)
        found.append(one)
    return found


# Puts true details of a still into a caption, where they belong in its wording.


class Insertion(NamedTuple):
    """A caption with one detail more; `name` is the kind of detail."""

    name: str
    text: str


def insertions(text: str, content: Content) -> Iterator[Insertion]:
    """`text`, which is true of `content`, with one true detail more that it leaves open."""
    reading = read_still_text(text)
    groups = _groups(reading, content)
    for mention, group in groups:
        if group.colour and mention.colour is None:
            yield Insertion("colour", _before(text, mention, group.colour))
    yield from _of_person(text, reading, content)
    signs = [mention for mention, group in groups if group.kind == "sign"]
    if signs and content.word and not reading.signs:
        yield Insertion("word", _at(text, signs[0].kind.end, f' that says "{content.word}"'))
    if content.place and not reading.places:
        yield Insertion("place", closed(text, f" {PLACE_PHRASES[content.place]}"))
    missing = [group for group in content.groups if group not in [one for _, one in groups]]
    if missing and len(reading.mentions) <= len(content.groups):
        phrases = joined([_phrase(group) for group in missing])
        yield Insertion("thing", closed(text, f", with {phrases}"))
    for mention, group in groups:
        if group.size and mention.size is None:
            yield Insertion("size", _before(text, mention, group.size, first=True))
    yield from _of_relations(text, reading, content)
    if content.style and not reading.styles:
        yield Insertion("style", closed(text, f", shown as a {content.style}"))


def closed(text: str, addition: str) -> str:
    """`text` with something added before its full stop, if it has one."""
    stem = text.rstrip(" .")
    return f"{stem}{addition}{text[len(stem) :].strip()}"


def _of_person(text: str, reading: Reading, content: Content) -> Iterator[Insertion]:
    people = [mention for mention in reading.mentions if mention.kind.value == "person"]
    if not people:
        return
    end = people[0].kind.end
    if content.clothes and not reading.garments:
        yield Insertion("clothes", _at(text, end, f" in {joined(_worn(content))}"))
    for garment in reading.garments:
        colour = dict(content.clothes).get(garment.kind.value)
        if colour and garment.colour is None:
            yield Insertion("garment colour", _before(text, garment, colour))
    if content.action and not reading.actions:
        after = max([end, *(garment.kind.end for garment in reading.garments)])
        yield Insertion("action", _at(text, after, f" who is {content.action}"))


def _of_relations(text: str, reading: Reading, content: Content) -> Iterator[Insertion]:
    said = {
        (reading.mentions[related.first].kind.value, reading.mentions[related.second].kind.value)
        for related in reading.related
    }
    for one, relation, two in content.relations:
        if (one, two) in said or one == two:
            continue
        first, second = (_definite(content, kind) for kind in (one, two))
        words = RELATION_WORDS[relation]
        yield Insertion("relation", closed(text, f", {first} {words} {second}"))


def _groups(reading: Reading, content: Content) -> list[tuple[Mention, Group]]:
    """Each mention with the group that it is of; none where that is not clear."""
    mentions = reading.mentions
    if len(mentions) > len(content.groups):
        return []
    pairs = zip(mentions, aligned(mentions, content.groups), strict=True)
    return [(mention, group) for mention, group in pairs if mention.kind.value == group.kind]


def _before(text: str, mention: Mention, word: str, *, first: bool = False) -> str:
    start = mention.kind.start
    if first and mention.colour and mention.colour.start < start:
        start = mention.colour.start
    return _articles(_at(text, start, f"{word} "), start, word)


def _articles(text: str, start: int, word: str) -> str:
    """The article right before `start` as it fits `word`."""
    fits = "an" if word[0] in "aeiou" else "a"
    for wrong in ("a ", "an "):
        before = text[start - len(wrong) : start]
        stands = before.casefold() == wrong and text[: start - len(wrong)][-1:] in ("", " ")
        if stands:
            right = fits.capitalize() if before[0].isupper() else fits
            return f"{text[: start - len(wrong)]}{right} {text[start:]}"
    return text


def _at(text: str, place: int, addition: str) -> str:
    return f"{text[:place]}{addition}{text[place:]}"


def _phrase(group: Group) -> str:
    """A group that was not named, with its number and colour."""
    colour = f"{group.colour} " if group.colour else ""
    if (group.number or 1) > 1:
        return f"{number_word(group.number or 1)} {colour}{PLURALS[group.kind]}"
    words = f"{colour}{group.kind}"
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _worn(content: Content) -> list[str]:
    return [
        f"{colour} {garment}"
        if garment == "trousers"
        else f"{'an' if colour[0] in 'aeiou' else 'a'} {colour} {garment}"
        for garment, colour in content.clothes
    ]


def _definite(content: Content, kind: str) -> str:
    colours = [group.colour for group in content.groups if group.kind == kind]
    colour = f"{colours[0]} " if colours and colours[0] else ""
    return f"the {colour}{kind}"


# A caption of one still that is true of no other one of its group.

_MOST_INSERTIONS = 8


def is_exactly_true(text: str, content: Content) -> bool:
    """Whether all that is read in `text` is in `content`, its style included."""
    style = content_of_text(read_still_text(text)).style
    return is_true(text, content) and style in (None, content.style)


def made_true(caption: str, content: Content) -> str | None:
    """The caption with those words changed that are not true of `content`; None if in vain."""
    if is_exactly_true(caption, content):
        return caption
    text = confused(caption, content)
    return text if text is not None and is_exactly_true(text, content) else None


def distinguished(caption: str, content: Content, others: list[Content]) -> str | None:
    """`caption`, true of `content`, with the fewest details that make it untrue of all others.

    None where nothing that is seen does so.
    """
    text = caption
    for _ in range(_MOST_INSERTIONS):
        left = [other for other in others if is_exactly_true(text, other)]
        if not left:
            return text
        best, most = text, 0
        for insertion in insertions(text, content):
            if not is_exactly_true(insertion.text, content):
                continue
            excluded = sum(not is_exactly_true(insertion.text, other) for other in left)
            if excluded > most:
                best, most = insertion.text, excluded
        if not most:
            return None
        text = best
    return None


def detailed(text: str, content: Content, details: int) -> str:
    """`text` with up to `details` true details more, of those that keep its sentence plain."""
    for _ in range(details):
        found = (
            insertion.text
            for insertion in insertions(text, content)
            if insertion.name not in ("relation", "style")
            and is_exactly_true(insertion.text, content)
        )
        text = next(found, text)
    return text


# Writes contrastive strategies for an image, of what it has seen done to it.

_RARE = (DifferenceType.ENTITY_RELATION, DifferenceType.EVENT_TYPE)
_BRIGHT = 70.0  # of 255, on the mean: what is darker is dim already


def strategies(image: Image.Image, brief: StrategyBrief, seed: str) -> list[dict[str, str]]:
    """Up to `brief.count` strategies, of different types first."""
    draws = Draws("strategies", seed)
    workplace = Workplace(image)
    content = workplace.content
    found = photograph_proposals(draws) if content is None else proposals(content, draws)
    written: list[dict[str, str]] = []
    kinds = _in_turn(list(found), draws)
    rest: list[Iterator[dict[str, str]]] = []
    for kind in kinds:
        if len(written) == brief.count:
            break
        possible = _written(image, workplace, brief.caption, found[kind])
        if (first := next(possible, None)) is not None:
            written.append(first)
            rest.append(possible)
    if len(written) < min(3, brief.count):
        second = (one for row in zip_longest(*rest) for one in row if one is not None)
        for one in second:
            if len(written) == min(3, brief.count):
                break
            written.append(one)
    return written


def _in_turn(kinds: list[DifferenceType], draws: Draws) -> list[DifferenceType]:
    """The rare types first, then the others, of which another one begins each time."""
    rare = [kind for kind in kinds if kind in _RARE]
    others = [kind for kind in kinds if kind not in _RARE]
    turn = others.index(draws.pick(others)) if others else 0
    return rare + others[turn:] + others[:turn]


def _written(
    image: Image.Image, workplace: Workplace, caption: str, changes: list[Change]
) -> Iterator[dict[str, str]]:
    """A strategy for each change that can be made and said."""
    style = _style(workplace.content, image)
    for change in changes:
        if isinstance(change, Darken) and _light(image) < _BRIGHT:
            continue
        try:
            changed = workplace.changed(change, 0).image
        except UneditableError:
            continue
        wording = worded(change, style)
        text = _caption(caption, change, workplace.content, changed)
        if wording is None or text is None:
            continue
        yield {
            DETAIL_FIELD: wording.detail,
            TYPE_FIELD: wording.difference.value,
            PLAN_FIELD: wording.plan,
            CAPTION_FIELD: text,
            INSTRUCTION_FIELD: say(change),
        }


def _caption(
    caption: str, change: Change, before: Content | None, changed: Image.Image
) -> str | None:
    """The caption as it is true of the changed image and of no other."""
    if before is None or isinstance(change, Rain | Darken):
        wording = worded(change)
        unseen = unseen_difference(wording.plan) if wording else None
        return closed(caption, unseen.sibling) if unseen else None
    after = content_of_image(see_still(changed))
    text = made_true(caption, after)
    return distinguished(text, after, [before]) if text is not None else None


def _style(content: Content | None, image: Image.Image) -> str:
    """What the picture is called as it is."""
    if content is not None and content.style:
        return content.style
    return PHOTOGRAPH if is_coloured(np.asarray(image, np.float32)) else GREY_PHOTOGRAPH


def _light(image: Image.Image) -> float:
    from PIL import ImageStat

    return float(ImageStat.Stat(image.convert("L")).mean[0])


# Writes one fine caption for each image of a group, which tells it from all the others.

_MORE_DETAILS = 2


class _Member(NamedTuple):
    """An image of the group: what is seen, and what the brief says that is not seen."""

    content: Content
    aspect: str | None = None
    phrase: str = ""
    anchor_phrase: str = ""


def fine_captions(images: list[Image.Image], brief: RefinementBrief) -> list[str] | None:
    """A caption for each image; None where two of them cannot be distinguished.

    Where nothing is seen in the anchor, what the brief says of an image counts, not what seems to
    be in it.

    Raises:
        FormatError: the brief describes another number of images.
    """
    if len(images) != brief.images:
        raise FormatError(f"the brief describes {brief.images} images; got {len(images)}")
    unseen_parts: list[Unseen | None] = [None, *map(unseen_difference, brief.differences)]
    seen = [content_of_image(see_still(image)) for image in images]
    members = [
        _member(seen[0] if seen[0].style is None and unseen else content, unseen)
        for content, unseen in zip(seen, unseen_parts, strict=True)
    ]
    captions = [_fine(brief.caption, members, place) for place in range(len(members))]
    found = [caption for caption in captions if caption is not None]
    return found if len(set(found)) == len(images) else None


def _member(content: Content, unseen: Unseen | None) -> _Member:
    if unseen is None:
        return _Member(content)
    return _Member(content, unseen.aspect, unseen.sibling, unseen.anchor)


def _fine(caption: str, members: list[_Member], place: int) -> str | None:
    """The caption as it is true of one member and of no other."""
    me = members[place]
    others = [one for number, one in enumerate(members) if number != place]
    similar = [one for one in others if _looks_like(one.content, me.content)]
    unlike = [one.content for one in others if one not in similar]
    phrases = _phrases(me, similar, is_anchor=place == 0)
    if phrases is None:
        return None
    if not me.content.groups:
        return closed(caption, "".join(phrases)) if phrases and not unlike else None
    text = made_true(caption, me.content)
    if text is None:
        return None
    text = closed(detailed(text, me.content, _MORE_DETAILS), "".join(phrases))
    return distinguished(text, me.content, unlike)


def _phrases(me: _Member, similar: list[_Member], *, is_anchor: bool) -> list[str] | None:
    """What the brief says that tells a member from those that look like it; None if not enough."""
    if not similar:
        return []
    if is_anchor:
        if any(one.aspect is None for one in similar):
            return None
        return list(dict.fromkeys(one.anchor_phrase for one in similar))
    if me.aspect is None or any(one.phrase == me.phrase for one in similar):
        return None
    return [me.phrase]


def _looks_like(one: Content, two: Content) -> bool:
    return one._replace(groups=()) == two._replace(groups=()) and sorted(
        (group.kind, group.colour or "", group.number or 0) for group in one.groups
    ) == sorted((group.kind, group.colour or "", group.number or 0) for group in two.groups)


# The built-in strategist and refiner: proposes contrasts of images, and writes fine captions.


class StillsContraster:
    """A `ChatModel` that proposes contrastive strategies, and refines the captions of a group.

    It reads the brief in a request's `subject` (`schemas.requests`,
    `schemas.requests`), not the prompt. In drawn stills it proposes what it has seen the
    built-in editor do; of photographs only another style, or dim light. It writes English alone.
    The same request always gives the same answer, a repair that of the first request.
    """

    def __init__(self, specification: BuiltinContraster) -> None:
        self._specification = specification

    @property
    def ref(self) -> ModelRef:
        """Name and revision."""
        return self._specification.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """Nothing beside the model."""
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
        text = json.dumps(answer, ensure_ascii=False)
        return ChatAnswer(text=text, tokens_in=0, tokens_out=0, seconds=perf_counter() - started)

    def _said(self, request: ChatRequest) -> dict[str, Any]:
        if request.purpose in (STRATEGY_PURPOSE, REPAIR_STRATEGIES):
            return {STRATEGIES_FIELD: self._strategies(request)}
        if request.purpose in (REFINEMENT_PURPOSE, REPAIR_CAPTIONS):
            return {CAPTIONS_FIELD: _captions(request)}
        raise FormatError(
            f"{self.ref} proposes strategies and refines captions; got a request for "
            f"{request.purpose!r}"
        )

    def _strategies(self, request: ChatRequest) -> list[dict[str, str]]:
        brief = StrategyBrief.parse(request.subject)
        if len(request.images) != 1:
            raise FormatError(f"strategies are made of one image; got {len(request.images)}")
        image = request.images[0].data
        digest = hashlib.blake2b(image, digest_size=16).hexdigest()
        found = strategies(_picture(image), brief, digest)
        if not found:
            raise FormatError("nothing is seen in the image that could be changed")
        return found


def _captions(request: ChatRequest) -> list[str]:
    brief = RefinementBrief.parse(request.subject)
    if brief.second_language is not None:
        raise FormatError(
            f"captions are written in English only; got a request for {brief.second_language!r}"
        )
    found = fine_captions([_picture(image.data) for image in request.images], brief)
    if found is None:
        raise FormatError("the images cannot be distinguished by what is seen in them")
    return found


def _picture(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as picture:
        return plain_picture(picture)


def _refused(detail: str) -> ChatFailure:
    return ChatFailure(reason="refused_request", detail=detail, retriable=False)
