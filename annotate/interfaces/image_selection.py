"""The page on which an image is accepted or rejected for a task of a benchmark (ReCoS)."""

from collections.abc import Sequence
from html import escape
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.comparison import definition_list
from annotate.interfaces.interface import TaskContent
from annotate.interfaces.labelling_page import LabellingPage
from annotate.interfaces.page import image_address, only_choice
from annotate.interfaces.pictures import shown_image
from annotate.interfaces.problems import accepted_despite, read_problems, ticked_problems
from annotate.interfaces.task_words import TOLD_APART
from annotate.interfaces.text_verdict import VERDICT
from db.entities import StoredEntity
from db.store import Store
from schemas.selection import Selection


class ImageSelection(LabellingPage):
    """The labelling interface `image-selection`."""

    name = "image-selection"

    def pages(
        self,
        store: Store,  # noqa: ARG002 - the record holds all that the page shows
        entities: Sequence[StoredEntity],
        images_url: str,
    ) -> list[TaskContent]:
        """One page per image, in order."""
        return [_content(entity.record(Selection), images_url) for entity in entities]

    def read_annotation(
        self,
        result: Sequence[dict[str, Any]],
        shown: StoredEntity,  # noqa: ARG002 - nothing in it can be changed
    ) -> ReviewAnswer | UnclearAnswer:
        """Whether the image fits its task, and what is wrong where it does not."""
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


def _content(selection: Selection, images_url: str) -> TaskContent:
    data = {
        "image": image_address(images_url, selection.picture.sha256),
        "task_html": (
            f'<p class="loupe-task"><b>{escape(selection.task)}</b></p>'
            f"<p>Captions for this task tell images apart by {TOLD_APART[selection.task]}.</p>"
            f'<p class="loupe-origin">From {escape(selection.source)}, '
            f"{escape(selection.proposed_by)}</p>"
        ),
    }
    return TaskContent(data, [], (shown_image(selection.picture),))
