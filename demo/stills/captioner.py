"""A captioner of given facts, of the scene in the strip of a drawn still, or of colours."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, permutations
from typing import Any, Protocol, TypeVar

import numpy as np
from PIL import Image

from loupe.demo.describer import NAMES, lab_of, nearest_names
from loupe.demo.stills.scene import read_scene
from loupe.demo.stills.text import (
    Content,
    Detail,
    content_of,
    details_of,
    is_true,
    near,
    nearest,
    read_text,
    write,
)
from loupe.schemas.profile import BuiltinCaptioner
from loupe.schemas.requests import (
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
from loupe.schemas.taxonomy import RetrievalTask
from loupe.schemas.wording import joined
from loupe.testing import BuiltinChatModel, ChatRequest, ConfigurationError, FormatError, picture_of

# The built-in captioner.


class StillsCaptioner(BuiltinChatModel[BuiltinCaptioner]):
    """Writes captions, rewrites them, and writes confusing ones.

    It reads the brief in a request's `subject` (`loupe.schemas.requests`), not the prompt. If
    facts are given it states these, and if these are few, colours as well; for a drawn still it
    states the contents of the strip along its lower edge. It refuses any other image.
    """

    def text_for(self, request: ChatRequest) -> str:
        """Return the captions as JSON."""
        answer = self._said(request)
        if answer is None:
            raise FormatError(f"{self.ref} has nothing new to say of the image")
        return json.dumps(answer, ensure_ascii=False)

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
        details = self._spec.details
        size = _size_between(teller, brief, max(2, details - 1) if brief.facts else details)
        tried = (*brief.too_detailed, *brief.too_general, *brief.rejected, *brief.taken)
        found = distinct(teller, size, brief.count, without=tried)
        if len(found) < brief.count and request.images:  # few facts are known or given
            colours, said = ColourTeller(picture_of(request.images[0])), [*found, *tried]
            found += distinct(colours, 2, brief.count - len(found), without=said)
        return {CAPTIONS_FIELD: found} if len(found) == brief.count else None


def _size_between(teller: "Teller", brief: CaptionBrief, usual: int) -> int:
    """Return a number of details that captions tried before did not have, or the usual one."""
    high = [teller.size_of(text) for text in brief.too_detailed]
    low = [teller.size_of(text) for text in brief.too_general]
    if high and low:
        return max(1, (min(high) + max(low)) // 2)
    if high:
        return max(1, min(high) - 1)
    return max(low) + 1 if low else usual


def _teller(
    request: ChatRequest, facts: tuple[str, ...], task: RetrievalTask
) -> tuple["Teller", Content | None]:
    """Return the teller that knows most about the image, and its contents if they are known."""
    if facts:
        return FactTeller(facts), None
    if not request.images:
        raise FormatError("neither facts nor an image in the request")
    image = picture_of(request.images[0])
    scene = read_scene(image)
    if scene is None:
        raise ConfigurationError(
            "the built-in captioner reads drawn stills and given facts, and can caption no "
            "photograph; choose a profile with a vision model, such as --profile hosted"
        )
    content = content_of(scene)
    return StillTeller(content, task), content


def _confusion(request: ChatRequest, brief: ConfusionBrief) -> str | None:
    """Return the caption nearest to the given one that is true of the image."""
    teller, content = _teller(request, brief.facts, brief.task)
    text = confused(brief.caption, content) if content is not None else None
    if text and text not in (*brief.tried, *brief.taken):
        return text
    size = max(1, teller.size_of(brief.caption))
    said = (brief.caption, *brief.tried, *brief.taken)
    found = (distinct(teller, one, 24, without=said) for one in range(size, size + 3))
    return nearest(brief.caption, chain.from_iterable(found))


def confused(caption: str, content: Content) -> str | None:
    """Return `caption` with other words where it is false for `content`; None if impossible.

    If the caption is true unchanged, the colours and the place that it leaves open are added, so
    that it may be false for its own still.
    """
    text = near(caption, content)
    if text is None or not is_true(caption, content):
        return text
    left_open = [detail for detail in details_of(content) if detail[0] in ("colour", "place")]
    text = near(caption, content, left_open)
    return None if text == caption else text


# Common interface of tellers: captions of an image, of the wanted length.

T = TypeVar("T")


class Teller(Protocol):
    """Writes true captions of one image."""

    def size_of(self, text: str) -> int:
        """Return the number of details in a caption by any writer."""
        ...

    def captions(self, size: int) -> Iterator[str]:
        """Return true captions with `size` details, or as many as there are, the best first."""
        ...


def distinct(teller: Teller, size: int, count: int, without: Sequence[str] = ()) -> list[str]:
    """Return up to `count` different captions of about `size` details, except `without`."""
    taken = {text.casefold() for text in without}
    found: list[str] = []
    for wanted in chain([size], *((size + step, size - step) for step in range(1, 12))):
        for text in teller.captions(wanted) if wanted > 0 else ():
            if text.casefold() not in taken:
                taken.add(text.casefold())
                found.append(text)
            if len(found) == count:
                return found
    return found


def revised(teller: Teller, brief: CaptionBrief) -> str | None:
    """Return a caption instead of `brief.caption`, changed in the wanted direction.

    Earlier attempts bound the number of details from both sides; the next one is halfway. None if
    there is no new caption.
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
    for text in distinct(teller, max(1, wanted), 40, without=tried):
        if teller.size_of(text) <= size if less else teller.size_of(text) >= size:
            return text
    return None


def _choices(details: Sequence[T], size: int, most: int = 60) -> list[tuple[T, ...]]:
    """Yield selections of `size` details in their order, the most important first."""
    size = min(size, len(details))
    places = sorted(combinations(range(len(details)), size), key=lambda one: (sum(one), one))

    def at(chosen: Iterable[int]) -> tuple[T, ...]:
        return tuple(details[place] for place in chosen)

    return [at(chosen) for chosen in places[:most]]


# The tellers.

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
_MOST_RELATIONS = 2


class StillTeller:
    """States the contents of a still by details: things, numbers, colours, places, actions.

    Details of the task come first.
    """

    def __init__(self, content: Content, task: RetrievalTask) -> None:
        self._content = content._replace(relations=content.relations[:_MOST_RELATIONS])
        first = _FIRST.get(task, ())
        self._details: list[Detail] = sorted(
            details_of(self._content),
            key=lambda one: first.index(one[0]) if one[0] in first else len(first),
        )

    def size_of(self, text: str) -> int:
        """Return the number of details in a caption."""
        return max(1, len(details_of(read_text(text))))

    def captions(self, size: int) -> Iterator[str]:
        """Return true captions with `size` details, in several forms."""
        written: list[list[str]] = []
        for details in _choices(self._details, size)[:20]:
            written.append(write(self._content, details))
            if any(name == "relation" for name, _ in details):
                written.append(write(self._content, details, turned=True))
        for form in range(5):
            for number, texts in enumerate(written):
                yield texts[(form + number) % len(texts)]


class FactTeller:
    """Joins facts into sentences; a detail is a fact."""

    _MOST_FACTS = 10

    def __init__(self, facts: Sequence[str]) -> None:
        self._facts = tuple(dict.fromkeys(map(_clause, facts)))[: self._MOST_FACTS]

    def size_of(self, text: str) -> int:
        """Return the number of facts in a caption, word by word; at least one."""
        folded = text.casefold()
        return max(1, sum(fact.casefold() in folded for fact in self._facts))

    def captions(self, size: int) -> Iterator[str]:
        """Yield sentences of `size` facts, in any of their orders."""
        for turn in range(2):
            for facts in _choices(self._facts, size):
                orders = list(permutations(facts)) if len(facts) < 4 else [facts, facts[::-1]]
                if turn == 0 or len(orders) > 1:
                    *others, last = orders[-1 if turn else 0]
                    text = f"{', '.join(others)}, and {last}" if others else last
                    yield f"{text[0].upper()}{text[1:]}."


def _clause(fact: str) -> str:
    """Return a fact without its final punctuation, as a clause."""
    plain = " ".join(fact.split()).rstrip(".")
    first, _, rest = plain.partition(" ")
    starts = first in ("The", "A", "An", "There", "It", "Three", "Two", "No")
    return f"{first.lower()} {rest}" if starts and rest else plain


class ColourTeller:
    """States the prevailing colours by position; a detail is a colour at a position."""

    _PLACES = ("at the top", "at the bottom", "in the middle", "on the left", "on the right")
    _SIDE_PX = 48

    def __init__(self, image: Image.Image) -> None:
        small = image.resize((self._SIDE_PX, self._SIDE_PX), Image.Resampling.BOX)
        names = nearest_names(lab_of(np.asarray(small, np.uint8)).reshape(-1, 3))
        field = names.reshape(self._SIDE_PX, self._SIDE_PX)
        third = self._SIDE_PX // 3
        parts = (
            field[:third],
            field[-third:],
            field[third:-third],
            field[:, :third],
            field[:, -third:],
        )
        self._details: list[str] = []
        for part, where in zip(parts, self._PLACES, strict=True):
            counts = np.bincount(part.ravel(), minlength=len(NAMES))
            self._details.append(f"{NAMES[int(counts.argmax())]} {where}")

    def size_of(self, text: str) -> int:
        """Return the number of positions in a caption."""
        return max(1, sum(where in text for where in self._PLACES))

    def captions(self, size: int) -> Iterator[str]:
        """Return the colours of `size` positions."""
        for details in _choices(self._details, size):
            for ordered in islice(permutations(details), 3):
                yield f"A picture that is {joined(ordered)}."
