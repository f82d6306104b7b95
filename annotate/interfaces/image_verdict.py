"""What the pages have in common on which an image is accepted, or rejected for stated problems."""

from collections.abc import Sequence
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.comparison import definition_list
from annotate.interfaces.labelling_page import LabellingPage
from annotate.interfaces.page import only_choice
from annotate.interfaces.problems import accepted_despite, read_problems, ticked_problems
from annotate.interfaces.text_verdict import VERDICT
from db.entities import StoredEntity


class ImageVerdict(LabellingPage):
    """A verdict and, where it is a rejection, what is wrong; nothing shown can be changed."""

    def read_annotation(
        self,
        result: Sequence[dict[str, Any]],
        shown: StoredEntity,  # noqa: ARG002 - nothing in it can be changed
    ) -> ReviewAnswer | UnclearAnswer:
        """Whether the image fits, and what is wrong where it does not."""
        verdict = only_choice(result, VERDICT)
        if verdict == "reject":
            return read_problems(result)
        if verdict != "accept":
            return UnclearAnswer(problem="no verdict was chosen")
        if problems := ticked_problems(result):
            return accepted_despite(problems)
        return ReviewAnswer(verdict="accept", choices={VERDICT: ("accept",)})

    def summary(
        self,
        answer: ReviewAnswer,
        shown: StoredEntity,  # noqa: ARG002 - the answer says it all
    ) -> str:
        """The answer as a piece of HTML."""
        return definition_list([("Verdict", answer.verdict), ("Reason", answer.reason)])
