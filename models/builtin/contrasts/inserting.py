"""Puts true details of a still into a caption, where they belong in its wording."""

from collections.abc import Iterator
from typing import NamedTuple

from models.builtin.captioner.confusing import aligned
from models.builtin.captioner.still import PLACE_PHRASES, RELATION_WORDS, joined, number_word
from models.builtin.stills.lexicon import PLURALS
from models.builtin.stills.reading import Mention, Reading, read_still_text
from models.builtin.stills.saying import Content, Group


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
