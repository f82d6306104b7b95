"""Foreign text as HTML, with stretches of it marked: suspected facts, and words that changed."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import Literal, NamedTuple

from schemas.faithfulness import Fact, Finding

REMOVED, INSERTED = "removed", "inserted"
_WORD = re.compile(r"\w+(?:[-’']\w+)*")
_CHANGES = {"added": "added", "lost": "left out", "contradicted": "contradicts"}


class Mark(NamedTuple):
    """A stretch of a text (end exclusive), its style, and what is said when one points at it."""

    start: int
    end: int
    style: str
    title: str = ""


class _Word(NamedTuple):
    start: int
    end: int
    plain: str


def marked_text(text: str, marks: Sequence[Mark] = ()) -> str:
    """`text` as a paragraph of HTML; marks may lie across each other."""
    within = [(place, mark) for place, mark in enumerate(marks) if mark.start < len(text)]
    edges = {0, len(text)}
    opening: dict[int, list[tuple[int, Mark]]] = defaultdict(list)
    for place, mark in within:
        edges |= {mark.start, min(mark.end, len(text))}
        opening[mark.start].append((place, mark))
    pieces: list[str] = []
    open_marks: list[tuple[int, Mark]] = []
    for start, end in pairwise(sorted(edges)):
        still = [(place, mark) for place, mark in open_marks if mark.end > start]
        open_marks = sorted(still + opening.get(start, []))
        pieces.append(_piece(text[start:end], [mark for _, mark in open_marks]))
    return f"<p>{''.join(pieces)}</p>"


def finding_marks(findings: Iterable[Finding], side: Literal["source", "rewrite"]) -> list[Mark]:
    """Where the facts of findings stand in the source description, or in the rewrite."""
    facts: list[tuple[Fact | None, Finding]] = [
        (finding.source if side == "source" else finding.rewrite, finding) for finding in findings
    ]
    return [
        Mark(*fact.span, style=_style(finding), title=finding.message)
        for fact, finding in facts
        if fact is not None
    ]


def finding_list(findings: Sequence[Finding], doubts: Sequence[str] = ()) -> str:
    """The messages of findings as HTML, the grave ones first, and what else is doubted."""
    rows = [
        f'<li><mark class="loupe-{_style(finding)}">{_CHANGES[finding.change]}</mark> '
        f"{escape(finding.message)}</li>"
        for finding in sorted(findings, key=lambda finding: (finding.minor, finding.change))
    ]
    rows += [f"<li>{escape(doubt)}</li>" for doubt in doubts]
    return f"<ul>{''.join(rows)}</ul>" if rows else "<p>Nothing stands out.</p>"


def changed_words(before: str, after: str) -> tuple[list[Mark], list[Mark]]:
    """The words of `before` that are gone in `after`, and those of `after` that are new.

    A word that only moved is neither: a rewrite may say the same in another order.
    """
    old, new = _words(before), _words(after)
    return _more_often(old, new, REMOVED), _more_often(new, old, INSERTED)


def _words(text: str) -> list[_Word]:
    return [_Word(*match.span(), match.group().casefold()) for match in _WORD.finditer(text)]


def _more_often(words: Sequence[_Word], elsewhere: Sequence[_Word], style: str) -> list[Mark]:
    """Marks on what is not elsewhere; of a word that is there less often, on the last ones.

    Neighbouring words share a mark.
    """
    there = Counter(word.plain for word in elsewhere)
    marks: list[Mark] = []
    goes_on = False
    for word in words:
        if there[word.plain] > 0:
            there[word.plain] -= 1
            goes_on = False
            continue
        start = marks.pop().start if goes_on else word.start
        marks.append(Mark(start, word.end, style))
        goes_on = True
    return marks


def _style(finding: Finding) -> str:
    return "minor" if finding.minor else finding.change


def _piece(text: str, marks: Sequence[Mark]) -> str:
    if not marks:
        return escape(text)
    styles = " ".join(dict.fromkeys(f"loupe-{mark.style}" for mark in marks))
    titles = [mark.title for mark in marks if mark.title]
    title = f' title="{escape(titles[0])}"' if titles else ""
    return f'<mark class="{styles}"{title}>{escape(text)}</mark>'
