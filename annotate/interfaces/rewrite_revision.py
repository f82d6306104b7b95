"""The page on which a rewritten description is accepted, edited or rejected.

The image stands on the left; on the right the source description, the rewrite with the facts that
the check suspects in colour, the text to edit, and the verdict. Descriptions are foreign text: they
are escaped before they become part of the page.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from html import escape
from importlib.resources import files
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.interface import TaskContent
from annotate.items import RewriteItem, load_rewrite_items
from annotate.sdk import parse_config
from db.entities import StoredEntity
from db.store import Store
from schemas.errors import ServiceError
from schemas.faithfulness import Finding, Span
from schemas.records import Rewrite

VERDICTS = ("accept", "edit", "reject")
TEXT, VERDICT, REASON, NOTE = "text", "verdict", "reason", "note"
_CHANGES = {"added": "added", "lost": "left out", "contradicted": "contradicts"}


class RewriteRevision:
    """The labelling interface `rewrite-revision`."""

    name = "rewrite-revision"

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML."""
        return _resource("rewrite_revision.xml")

    @cached_property
    def instructions(self) -> str:
        """What an annotator reads first."""
        return _resource("rewrite_revision.html")

    def contents(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """One page per rewrite, in order.

        Raises:
            ServiceError: a page does not fit the configuration.
        """
        contents = [
            TaskContent(task_data(item, images_url), [prediction(item)])
            for item in load_rewrite_items(store, entities)
        ]
        _validate(self.config, contents)
        return contents

    def read_annotation(
        self, result: Sequence[dict[str, Any]], shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """What the regions of an annotation say about the rewrite that was shown."""
        return read_annotation(result, shown.record(Rewrite).text)

    def edited(self, shown: StoredEntity, text: str, author: str) -> Rewrite:
        """The rewrite as its reviewer left it."""
        return shown.record(Rewrite).model_copy(update={"text": text, "author": author})


def task_data(item: RewriteItem, images_url: str) -> dict[str, Any]:
    """The values of the page's variables; all foreign text in them is escaped."""
    findings = item.report.findings if item.report is not None else ()
    in_source = [(f.source.span, f) for f in findings if f.source is not None]
    in_rewrite = [(f.rewrite.span, f) for f in findings if f.rewrite is not None]
    return {
        "image": f"{images_url.rstrip('/')}/{item.image.sha256}",
        "description_html": _page_text(item.caption.text, in_source),
        "rewrite_html": _page_text(item.rewrite.text, in_rewrite),
        "findings_html": _finding_list(findings),
    }


def prediction(item: RewriteItem) -> dict[str, Any]:
    """What stands in the form when the page opens: the rewrite, ready to be edited."""
    return {"model_version": item.rewrite.author, "result": [_text_region(item.rewrite.text)]}


def read_annotation(
    result: Sequence[dict[str, Any]], shown_text: str
) -> ReviewAnswer | UnclearAnswer:
    """What the regions of an annotation say.

    A changed text counts as an edit also where «accept» was chosen, an unchanged one as accepted
    also where «edit» was. An empty text or a missing verdict is no answer.
    """
    verdict = _only_choice(result, VERDICT)
    if verdict not in VERDICTS:
        return UnclearAnswer(problem="no verdict was chosen")
    if verdict == "reject":
        return _rejection(result)
    texts = _values(result, TEXT, "text")
    text = _one_line(texts[-1]) if texts else ""
    if not text:
        return UnclearAnswer(problem=f"the verdict is {verdict!r}, but the text is empty")
    changed = text != _one_line(shown_text)
    if verdict == "accept" and changed:
        return ReviewAnswer(
            verdict="edit", text=text, remark="accepted with a changed text, which is an edit"
        )
    if verdict == "edit" and not changed:
        return ReviewAnswer(verdict="accept", remark="an edit that changed nothing")
    return ReviewAnswer(verdict="edit", text=text) if changed else ReviewAnswer(verdict="accept")


def _rejection(result: Sequence[dict[str, Any]]) -> ReviewAnswer | UnclearAnswer:
    reason = _only_choice(result, REASON)
    if reason is None:
        return UnclearAnswer(problem="rejected without a reason")
    note = " ".join(_one_line(text) for text in _values(result, NOTE, "text")).strip()
    return ReviewAnswer(verdict="reject", reason=f"{reason}: {note}" if note else reason)


def _values(result: Sequence[dict[str, Any]], control: str, kind: str) -> list[str]:
    return [
        str(value)
        for region in result
        if region.get("from_name") == control
        for value in region.get("value", {}).get(kind, [])
    ]


def _only_choice(result: Sequence[dict[str, Any]], control: str) -> str | None:
    chosen = _values(result, control, "choices")
    return chosen[0] if len(chosen) == 1 else None


def _one_line(text: str) -> str:
    """The text with single spaces, and without characters that cannot be seen."""
    visible = "".join(
        character for character in text if character.isprintable() or character.isspace()
    )
    return re.sub(r"\s+", " ", visible).strip()


def _text_region(text: str) -> dict[str, Any]:
    return {
        "from_name": TEXT,
        "to_name": "rewrite",
        "type": "textarea",
        "value": {"text": [text]},
    }


def _page_text(text: str, marks: Sequence[tuple[Span, Finding]]) -> str:
    """`text` as HTML in which findings are marked; where two overlap, the first stands."""
    pieces: list[str] = []
    position = 0
    for (start, end), finding in sorted(marks, key=lambda mark: mark[0]):
        if start >= position:
            pieces.append(escape(text[position:start]))
            pieces.append(_mark(text[start:end], finding))
            position = end
    return f"<p>{''.join(pieces)}{escape(text[position:])}</p>"


def _mark(text: str, finding: Finding) -> str:
    kind = "minor" if finding.minor else finding.change
    return f'<mark class="loupe-{kind}" title="{escape(finding.message)}">{escape(text)}</mark>'


def _finding_list(findings: Sequence[Finding]) -> str:
    rows = [
        f'<li><mark class="loupe-{"minor" if finding.minor else finding.change}">'
        f"{_CHANGES[finding.change]}</mark> {escape(finding.message)}</li>"
        for finding in sorted(findings, key=lambda finding: (finding.minor, finding.change))
    ]
    return f"<ul>{''.join(rows)}</ul>" if rows else "<p>Nothing stands out.</p>"


def _validate(config: str, contents: Sequence[TaskContent]) -> None:
    interface = parse_config(config)
    for content in contents:
        for guess in content.predictions:
            problems = interface.validate_prediction(guess, return_errors=True)
            if problems:
                raise ServiceError(f"a page does not fit its interface: {'; '.join(problems)}")


def _resource(name: str) -> str:
    return files("annotate.interfaces").joinpath(name).read_text(encoding="utf-8")
