"""The adjudicator's page: the annotators' page with their answers after the item.

The answers are anonymous and in an order that reveals nothing. Words that differ are marked. One of
them can be taken as it is.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from html import escape
from html.parser import HTMLParser
from itertools import groupby
from operator import itemgetter
from string import ascii_uppercase
from typing import Any, NamedTuple

from annotate.answers import ReviewAnswer
from annotate.interfaces.page import (
    Interface,
    definition_list,
    instructions,
    only_choice,
    resource,
)
from db.entities import StoredEntity
from schemas.base import digest_of

ANSWERS = "answers_html"
"""The variable of the panel."""
TAKES = "takes"
"""The variable of the choices to take one of the answers."""


TAKE = "take"
"""The control with which an answer is taken; its choices are keys of annotations, or `OWN`."""
OWN = "own"
_PLACES = {"loupe-answer", "loupe-decision"}
"""The classes of the views with the controls; the first of them gets the panel."""


def adjudication_config(interface: Interface) -> str:
    """The page of `interface` with the panel of the answers after the item.

    Nothing is required of the controls, as an answer may be taken instead.
    """
    page = ET.fromstring(interface.config)  # noqa: S314 - our own page
    for tag in page.iter("Choices"):
        tag.attrib.pop("required", None)
    panel = ET.fromstring(resource("adjudication.xml"))  # noqa: S314 - our own file
    tags = list(page.iter())
    place = next(one for one in tags if _PLACES & set(_classes(one)))
    if any(tag.get("name") for tag in tags[: tags.index(place)]):
        place.insert(0, panel)
    else:  # the item comes after the controls
        page.append(panel)
    return ET.tostring(page, encoding="unicode")


def _classes(view: ET.Element) -> list[str]:
    return view.get("className", "").split()


def taken_answer(result: Sequence[Mapping[str, Any]]) -> str | None:
    """The key of the annotation that an adjudicator took; None if they decided themselves."""
    taken = only_choice([dict(region) for region in result], TAKE)
    return None if taken == OWN else taken


def adjudication_instructions(interface: Interface) -> str:
    """The adjudicator's instructions, followed by those of the annotators."""
    return instructions("adjudication.html") + interface.instructions


def adjudication_data(
    interface: Interface, shown: StoredEntity, answers: Mapping[str, ReviewAnswer]
) -> dict[str, Any]:
    """The values of the panel: the answers as «Answer A», «Answer B» …, differences marked.

    A digest of their content and of the entity gives the order, so it reveals nothing.

    Args:
        interface: the page of the annotators.
        shown: what they answered about.
        answers: their answers by the keys of the annotations.
    """
    ordered = sorted(
        answers, key=lambda key: digest_of(shown.id, answers[key].model_dump_json(), key)
    )
    summaries = [definition_list(interface.summary(answers[key], shown)) for key in ordered]
    columns = "".join(
        f'<div class="loupe-given"><b>Answer {letter}</b>{summary}</div>'
        for letter, summary in zip(ascii_uppercase, marked_differences(summaries), strict=False)
    )
    takes = [
        {"value": key, "html": f"Take answer {letter}", "hotkey": f"alt+{number}"}
        for number, (letter, key) in enumerate(zip(ascii_uppercase, ordered, strict=False), start=1)
    ]
    own = {"value": OWN, "html": "My own answer, below", "hotkey": "alt+0"}
    return {ANSWERS: f'<div class="loupe-given-all">{columns}</div>', TAKES: [*takes, own]}


def marked_differences(fragments: Sequence[str]) -> list[str]:
    """Each piece of HTML with those words marked that some other one does not have in its place.

    In a definition list, a word has its place among the words of its term alone.
    """
    parsed = [_parsed(fragment) for fragment in fragments]
    return [
        _marked(one, [other for at, other in enumerate(parsed) if at != position])
        for position, one in enumerate(parsed)
    ]


class _Piece(NamedTuple):
    """A tag as it was written, a word, or the white space between words."""

    kind: str
    text: str


class _Pieces(HTMLParser):
    """Takes HTML apart."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[_Piece] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.pieces.append(_Piece("tag", self.get_starttag_text() or ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self.pieces.append(_Piece("tag", f"</{tag}>"))

    def handle_data(self, data: str) -> None:
        self.pieces += [
            _Piece("space" if text.isspace() else "word", text)
            for text in re.findall(r"\s+|\S+", data)
        ]


def _parsed(fragment: str) -> list[_Piece]:
    parser = _Pieces()
    parser.feed(fragment)
    parser.close()
    return parser.pieces


def _marked(one: Sequence[_Piece], others: Sequence[Sequence[_Piece]]) -> str:
    """The HTML of `one` with what differs in marks, one for words that follow each other."""
    differing = iter(_differing(_words(one), [_words(other) for other in others]))
    marked = [piece.kind == "word" and next(differing) for piece in one]
    for position in range(1, len(one) - 1):
        if one[position].kind == "space" and marked[position - 1]:
            marked[position] = marked[position + 1]
    html: list[str] = []
    for in_mark, group in groupby(zip(one, marked, strict=True), key=itemgetter(1)):
        text = "".join(
            piece.text if piece.kind == "tag" else escape(piece.text) for piece, _ in group
        )
        html.append(f'<mark class="loupe-differs">{text}</mark>' if in_mark else text)
    return "".join(html)


def _words(pieces: Sequence[_Piece]) -> list[tuple[str, str]]:
    """The words, each with the term (`<dt>`) that it is said of."""
    words: list[tuple[str, str]] = []
    term, in_term = "", False
    for kind, text in pieces:
        if kind == "tag" and text in ("<dt>", "</dt>"):
            in_term = text == "<dt>"
            term = "" if in_term else term
        elif kind == "word" and in_term:
            term += f" {text}"
        if kind == "word":
            words.append(("" if in_term else term, text))
    return words


def _differing(
    words: Sequence[tuple[str, str]], others: Sequence[Sequence[tuple[str, str]]]
) -> list[bool]:
    """For each word whether one of the others lacks it in its place."""
    from rapidfuzz.distance import LCSseq

    differs = [False] * len(words)
    for other in others:
        for change in LCSseq.opcodes(words, other):
            if change.tag != "equal":
                for position in range(change.src_start, change.src_end):
                    differs[position] = True
    return differs
