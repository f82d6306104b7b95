"""The adjudicator's page: the annotators' page with their answers after the item.

The answers are anonymous and in an order that reveals nothing. Words that differ are marked. An
adjudicator can take one of the answers as it is.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from string import ascii_uppercase
from typing import Any

from annotate.answers import ReviewAnswer
from annotate.interfaces.page import Interface, Summary, instructions, only_choice, resource
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
    """Return the page of `interface` with the panel of the answers after the item.

    None of the controls is required, as an answer may be taken instead.
    """
    page = ET.fromstring(interface.config)  # noqa: S314 - our own page
    for tag in page.iter("Choices"):
        tag.attrib.pop("required", None)
    panel = ET.fromstring(resource("adjudication.xml"))  # noqa: S314 - our own file
    tags = list(page.iter())
    place = next(one for one in tags if _PLACES & set(one.get("className", "").split()))
    if any(tag.get("name") for tag in tags[: tags.index(place)]):
        place.insert(0, panel)
    else:  # the item comes after the controls
        page.append(panel)
    return ET.tostring(page, encoding="unicode")


def taken_answer(result: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the key of the annotation that an adjudicator took; None for their own answer."""
    taken = only_choice([dict(region) for region in result], TAKE)
    return None if taken == OWN else taken


def adjudication_instructions(interface: Interface) -> str:
    """Return the adjudicator's instructions, followed by those of the annotators."""
    return instructions("adjudication.html") + interface.instructions


def adjudication_data(
    interface: Interface, shown: StoredEntity, answers: Mapping[str, ReviewAnswer]
) -> dict[str, Any]:
    """Return the values of the panel: the answers as «Answer A», «Answer B» …, with marks.

    A digest of their content and of the entity determines the order, so it reveals nothing.

    Args:
        interface: the page of the annotators.
        shown: the entity that they answered about.
        answers: their answers by the keys of the annotations.
    """
    ordered = sorted(
        answers, key=lambda key: digest_of(shown.id, answers[key].model_dump_json(), key)
    )
    summaries = marked_differences([interface.summary(answers[key], shown) for key in ordered])
    columns = "".join(
        f'<div class="loupe-given"><b>Answer {letter}</b>{summary}</div>'
        for letter, summary in zip(ascii_uppercase, summaries, strict=False)
    )
    takes = [
        {"value": key, "html": f"Take answer {letter}", "hotkey": f"alt+{number}"}
        for number, (letter, key) in enumerate(zip(ascii_uppercase, ordered, strict=False), start=1)
    ]
    own = {"value": OWN, "html": "My own answer, below", "hotkey": "alt+0"}
    return {ANSWERS: f'<div class="loupe-given-all">{columns}</div>', TAKES: [*takes, own]}


_MARK = '<mark class="loupe-differs">'


def marked_differences(summaries: Sequence[Summary]) -> list[str]:
    """Return each summary as a list in HTML; words missing in another summary's value are marked.

    Consecutive words share a mark.
    """
    rows = [[row for row in summary if row[1].strip()] for summary in summaries]
    words = [[word for row in summary for word in _words_of(row)] for summary in rows]
    marked = []
    for position, summary in enumerate(rows):
        differs = iter(_differing(words[position], words))
        items = (
            f"<dt>{_marked(name, differs)}</dt><dd>{_marked(value, differs)}</dd>"
            for name, value in summary
        )
        marked.append(f"<dl>{''.join(items)}</dl>")
    return marked


def _marked(text: str, differs: Iterator[bool]) -> str:
    pieces = [
        f"{_MARK}{escape(piece)}</mark>" if piece.strip() and next(differs) else escape(piece)
        for piece in re.findall(r"\s+|\S+", text)
    ]
    return re.sub(rf"</mark>(\s+){_MARK}", r"\1", "".join(pieces))


def _words_of(row: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the words of a name and its value, each with the name of its row."""
    name, value = row
    return [("", word) for word in name.split()] + [(name, word) for word in value.split()]


def _differing(
    words: Sequence[tuple[str, str]], others: Sequence[Sequence[tuple[str, str]]]
) -> list[bool]:
    """Return, for each word, whether one of `others` lacks it under the same name."""
    from rapidfuzz.distance import LCSseq

    differs = [False] * len(words)
    for other in others:
        for change in LCSseq.opcodes(words, other):
            if change.tag != "equal":
                for position in range(change.src_start, change.src_end):
                    differs[position] = True
    return differs
