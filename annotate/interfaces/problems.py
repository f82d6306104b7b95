"""The part of a form in which everything is ticked that is wrong with what is shown.

The pages that have it name their controls so: `verdict`, `problems` and `note`.
"""

from collections.abc import Sequence
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import one_line, values
from annotate.interfaces.text_verdict import NOTE, VERDICT

PROBLEMS = "problems"


def ticked_problems(result: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """What an annotation says is wrong, in the page's order."""
    return tuple(values(result, PROBLEMS, "choices"))


def read_problems(result: Sequence[dict[str, Any]]) -> ReviewAnswer | UnclearAnswer:
    """The rejection that an annotation tells, with all that is wrong as its reason."""
    problems = ticked_problems(result)
    if not problems:
        return UnclearAnswer(problem="rejected, but nothing is ticked as wrong")
    note = " ".join(one_line(text) for text in values(result, NOTE, "text")).strip()
    reason = ", ".join(problems)
    return ReviewAnswer(
        verdict="reject",
        choices={VERDICT: ("reject",), PROBLEMS: problems},
        reason=f"{reason}: {note}" if note else reason,
    )


def accepted_despite(problems: Sequence[str]) -> UnclearAnswer:
    """An acceptance that contradicts itself is no answer."""
    return UnclearAnswer(problem=f"accepted, but ticked as wrong: {', '.join(problems)}")
