"""The pages on which a text is accepted, edited or rejected, and marked text.

A rewrite is shown beside its image with its source description; changed words and suspicious facts
are marked in both. A caption is compared with its image.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.candidates import latest_flags, newest_reports
from annotate.interfaces.image_pages import caption_heading
from annotate.interfaces.page import (
    NO_VERDICT,
    UNCHANGED,
    VERDICT,
    Interface,
    Regions,
    Summary,
    TaskContent,
    image_address,
    one_line,
    only_choice,
    read_rejection,
    values,
    verdict_answer,
)
from db.entities import StoredEntity, fetch, parents_of
from db.reviews import ShownImage
from db.store import Store
from schemas.base import EntityRecord
from schemas.contrast import WORD, PhraseKind, content_words, phrases
from schemas.errors import IntegrityError
from schemas.faithfulness import Finding
from schemas.provenance import Role
from schemas.records import Caption, Image, Rewrite

TEXT = "text"
"""The control of the text to edit."""


class TextVerdict(Interface):
    """A text that is accepted, edited, or rejected with a reason."""

    record: ClassVar[type[Caption] | type[Rewrite]]

    def read_annotation(self, result: Regions, shown: StoredEntity) -> ReviewAnswer | UnclearAnswer:
        """Parse the answer about a text.

        A changed text counts as an edit even with the verdict «accept», an unchanged one as
        accepted even with «edit». An empty text or a missing verdict is unclear.
        """
        verdict = only_choice(result, VERDICT)
        if verdict == "reject":
            return read_rejection(result)
        if verdict not in ("accept", "edit"):
            return NO_VERDICT
        text = one_line(" ".join(values(result, TEXT, "text")[-1:]))
        if not text:
            return UnclearAnswer(problem=f"the verdict is {verdict!r}, but the text is empty")
        if text == one_line(shown.record(self.record).text):
            return verdict_answer("accept", remark=UNCHANGED if verdict == "edit" else "")
        remark = "accepted with a changed text, which is an edit" if verdict == "accept" else ""
        return verdict_answer("edit", texts={TEXT: text}, remark=remark)

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the record with the reviewer's text, if it was edited."""
        if answer.verdict != "edit":
            return ()
        change = {"text": answer.texts[TEXT], "author": author}
        return (shown.record(self.record).model_copy(update=change),)

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """Return the answer in words."""
        shown_text = shown.record(self.record).text
        kept = "" if answer.verdict == "reject" else answer.texts.get(TEXT, shown_text)
        return [
            ("Verdict", self.labels(VERDICT, [answer.verdict])),
            ("Text", kept),
            ("Reason", answer.reason),
        ]


class RewriteRevision(TextVerdict):
    """The labelling interface `rewrite-revision`."""

    name = "rewrite-revision"
    record = Rewrite

    def pages(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """Return one page per rewrite, in order.

        Raises:
            IntegrityError: a rewrite has no source description, or the description has no image.
        """
        ids = [entity.id for entity in entities]
        captions = _only_parents(store, ids, Role.REWRITE_OF)
        images = _only_parents(store, [one.id for one in captions.values()], Role.DESCRIBES)
        reports = newest_reports(store, ids)
        contents = []
        for entity in entities:
            source = captions[entity.id].record(Caption).text
            rewrite = entity.record(Rewrite).text
            report = reports.get(entity.id)
            findings = shown_hints(report.findings) if report is not None else []
            removed, inserted = changed_words(source, rewrite)
            data = {
                "description_html": marked_text(
                    source, [*finding_marks(findings, "source"), *removed]
                ),
                "rewrite_html": marked_text(
                    rewrite, [*finding_marks(findings, "rewrite"), *inserted]
                ),
                "findings_html": finding_list(findings),
                TEXT: rewrite,
            }
            contents.append(_with_image(data, images[captions[entity.id].id], images_url))
        return contents


class CaptionVerification(TextVerdict):
    """The labelling interface `caption-verification`."""

    name = "caption-verification"
    record = Caption

    def pages(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """Return one page per caption, in order; flagged words are marked in the text.

        For a caption of a task, the heading says what it has to distinguish.

        Raises:
            IntegrityError: a caption has no image.
        """
        ids = [entity.id for entity in entities]
        images = _only_parents(store, ids, Role.DESCRIBES)
        reports, flags = newest_reports(store, ids), latest_flags(store, ids)
        contents = []
        for entity in entities:
            text = entity.record(Caption).text
            report = reports.get(entity.id)
            findings = shown_hints(report.findings) if report is not None else []
            examined = report is not None or entity.id in flags
            noticed = finding_list(findings, flags.get(entity.id, ()))
            data = {
                "heading": caption_heading(images[entity.id].record(Image).task),
                # A check compares two texts; it calls the caption the rewrite.
                "caption_html": marked_text(text, finding_marks(findings, "rewrite")),
                "findings_html": noticed if examined else "<p>Not checked.</p>",
                TEXT: text,
            }
            contents.append(_with_image(data, images[entity.id], images_url))
        return contents


def _with_image(data: dict[str, str], image: StoredEntity, images_url: str) -> TaskContent:
    record = image.record(Image)
    shown = ShownImage(record.sha256, record.media_type, image.id)
    return TaskContent({"image": image_address(images_url, record.sha256), **data}, [], (shown,))


def _only_parents(store: Store, ids: Sequence[str], role: Role) -> dict[str, StoredEntity]:
    """Return the only parent of each entity in that role."""
    parents = parents_of(store, ids, role)
    for entity_id in ids:
        if len(found := parents.get(entity_id, [])) != 1:
            raise IntegrityError(
                f"entity {entity_id} must have one parent in the role '{role}'; got {len(found)}"
            )
    stored = fetch(store, {parent for (parent,) in parents.values()})
    return {entity_id: stored[parent] for entity_id, (parent,) in parents.items()}


# Escaped text with marks on suspicious facts and changed words.

_WORD = re.compile(r"\w+(?:[-’']\w+)*")
_CHANGES = {"added": "added", "lost": "left out", "contradicted": "contradicts"}


class Mark(NamedTuple):
    """A span of a text (end exclusive), its style and its tooltip."""

    start: int
    end: int
    style: str
    title: str = ""


def marked_text(text: str, marks: Sequence[Mark] = ()) -> str:
    """Return `text` as a paragraph of HTML; marks may overlap."""
    edges = {0, len(text)}
    edges |= {min(edge, len(text)) for mark in marks for edge in (mark.start, mark.end)}
    pieces = [
        _piece(text[start:end], [mark for mark in marks if mark.start <= start and end <= mark.end])
        for start, end in pairwise(sorted(edges))
    ]
    return f"<p>{''.join(pieces)}</p>"


def _piece(text: str, marks: Sequence[Mark]) -> str:
    if not marks:
        return escape(text)
    styles = " ".join(dict.fromkeys(f"loupe-{mark.style}" for mark in marks))
    titles = [mark.title for mark in marks if mark.title]
    title = f' title="{escape(titles[0])}"' if titles else ""
    return f'<mark class="{styles}"{title}>{escape(text)}</mark>'


HintType = tuple[str, str]
"""The change that a hint reports (`added`, `lost`, `contradicted`), and its attribute."""

HINTS_NOT_SHOWN: frozenset[HintType] = frozenset()
"""Types of hint that are right less than nine times in ten, as `test_hints.py` measures them."""


def hint_type(finding: Finding) -> HintType:
    """Return the type of a hint; one that replaces a fact has the attribute of the old one."""
    fact = finding.source or finding.rewrite
    return finding.change, str(fact.attribute) if fact is not None else ""


def shown_hints(
    findings: Iterable[Finding], hidden: Collection[HintType] = HINTS_NOT_SHOWN
) -> list[Finding]:
    """Return the findings to show: those of a type that is right often enough."""
    return [finding for finding in findings if hint_type(finding) not in hidden]


def finding_marks(findings: Iterable[Finding], side: Literal["source", "rewrite"]) -> list[Mark]:
    """Return marks on the facts of findings in the source description or in the rewrite."""
    return [
        Mark(*fact.span, style=_style(finding), title=finding.message)
        for finding in findings
        if (fact := finding.source if side == "source" else finding.rewrite) is not None
    ]


def finding_list(findings: Sequence[Finding], flags: Sequence[str] = ()) -> str:
    """Return the messages of findings as HTML, major ones first, followed by flags."""
    rows = [
        f'<li><mark class="loupe-{_style(finding)}">{_CHANGES[finding.change]}</mark> '
        f"{escape(finding.message)}</li>"
        for finding in sorted(findings, key=lambda finding: (finding.minor, finding.change))
    ]
    rows += [f"<li>{escape(flag)}</li>" for flag in flags]
    return f"<ul>{''.join(rows)}</ul>" if rows else "<p>No warnings.</p>"


def _style(finding: Finding) -> str:
    return "minor" if finding.minor else finding.change


def changed_words(before: str, after: str) -> tuple[list[Mark], list[Mark]]:
    """Return marks on the words of `before` missing in `after`, and on the new words of `after`.

    Words that only moved are not marked.
    """
    return _surplus_words(before, after, "removed"), _surplus_words(after, before, "inserted")


def _surplus_words(text: str, other: str, style: str) -> list[Mark]:
    """Return marks on words that the other text lacks; on the last ones if it has fewer of them.

    Neighbouring words share a mark.
    """
    there = Counter(word.casefold() for word in _WORD.findall(other))
    marks: list[Mark] = []
    goes_on = False
    for word in _WORD.finditer(text):
        there[plain := word.group().casefold()] -= 1
        if is_missing := there[plain] < 0:
            start = marks.pop().start if goes_on else word.start()
            marks.append(Mark(start, word.end(), style))
        goes_on = is_missing
    return marks


# Marks on the words that distinguish captions.

_MARKS = {
    PhraseKind.OTHER_IMAGE: "compares",
    PhraseKind.COMPARISON: "compares",
    PhraseKind.ABSENCE: "absent",
}


def marked_captions(captions: Sequence[str]) -> list[str]:
    """Return each caption as HTML with its distinguishing words marked.

    `loupe-own` marks words of no other caption, `loupe-shared` words of some others,
    `loupe-compares` phrases about another image, `loupe-absent` phrases that name something absent.
    Function words are not marked.
    """
    having = Counter(word for caption in captions for word in content_words(caption))
    return [_marked(caption, having, len(captions)) for caption in captions]


def _marked(caption: str, having: Mapping[str, int], count: int) -> str:
    """Return the caption with marks; `having` of `count` captions contain each content word."""
    spoken = [(one.start, one.end, _MARKS[one.kind]) for one in phrases(caption)]
    spans = spoken.copy()
    for match in WORD.finditer(caption):
        captions = having.get(match.group().casefold(), count)
        if captions < count and not any(start <= match.start() < end for start, end, _ in spoken):
            spans.append((*match.span(), "own" if captions == 1 else "shared"))
    pieces, position = [], 0
    for start, end, kind in sorted(spans):
        pieces.append(escape(caption[position:start]))
        pieces.append(f'<mark class="loupe-{kind}">{escape(caption[start:end])}</mark>')
        position = end
    return "".join(pieces) + escape(caption[position:])
