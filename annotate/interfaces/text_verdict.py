"""The form below a text: accept it, edit it, or reject it with a reason.

The pages that have it name their controls so: `text`, `verdict`, `reason` and `note`.
"""

from collections.abc import Sequence
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer, Verdict
from annotate.interfaces.comparison import definition_list
from annotate.interfaces.page import one_line, only_choice, values

TEXT, VERDICT, REASON, NOTE = "text", "verdict", "reason", "note"


def read_text_verdict(
    result: Sequence[dict[str, Any]], shown_text: str
) -> ReviewAnswer | UnclearAnswer:
    """What the regions of an annotation say about the text that was shown.

    A changed text counts as an edit also where «accept» was chosen, an unchanged one as accepted
    also where «edit» was. An empty text or a missing verdict is no answer.
    """
    verdict = only_choice(result, VERDICT)
    if verdict == "reject":
        return read_rejection(result)
    if verdict not in ("accept", "edit"):
        return UnclearAnswer(problem="no verdict was chosen")
    texts = values(result, TEXT, "text")
    text = one_line(texts[-1]) if texts else ""
    if not text:
        return UnclearAnswer(problem=f"the verdict is {verdict!r}, but the text is empty")
    if text == one_line(shown_text):
        return _answer("accept", remark="an edit that changed nothing" if verdict == "edit" else "")
    remark = "accepted with a changed text, which is an edit" if verdict == "accept" else ""
    return _answer("edit", {TEXT: text}, remark)


def read_rejection(result: Sequence[dict[str, Any]]) -> ReviewAnswer | UnclearAnswer:
    """The rejection that the regions of an annotation tell, with its reason and its note."""
    reason = only_choice(result, REASON)
    if reason is None:
        return UnclearAnswer(problem="rejected without a reason")
    note = " ".join(one_line(text) for text in values(result, NOTE, "text")).strip()
    return ReviewAnswer(
        verdict="reject",
        choices={VERDICT: ("reject",), REASON: (reason,)},
        reason=f"{reason}: {note}" if note else reason,
    )


def text_verdict_summary(answer: ReviewAnswer, shown_text: str) -> str:
    """The answer as a piece of HTML."""
    kept = "" if answer.verdict == "reject" else answer.texts.get(TEXT, shown_text)
    return definition_list([("Verdict", answer.verdict), ("Text", kept), ("Reason", answer.reason)])


def _answer(
    verdict: Verdict, texts: dict[str, str] | None = None, remark: str = ""
) -> ReviewAnswer:
    return ReviewAnswer(
        verdict=verdict, choices={VERDICT: (verdict,)}, texts=texts or {}, remark=remark
    )
