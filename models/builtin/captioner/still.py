"""Captions of what is seen in a drawn still."""

from collections.abc import Iterator

from models.builtin.captioner.telling import choices
from models.builtin.stills.lexicon import NUMBERS, PLURALS
from models.builtin.stills.reading import read_still_text
from models.builtin.stills.saying import Content, Group, content_of_text
from schemas.retrieval_task import RetrievalTask

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
                yield told(self._content, frozenset(details), (form + place) % 3)


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


def told(content: Content, details: frozenset[Detail], form: int) -> str:
    """A caption with these details; `form` counts from 0 to 2."""
    shown = [
        place for place in range(len(content.groups)) if place == 0 or _is_told(place, details)
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


def _is_told(place: int, details: frozenset[Detail]) -> bool:
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
