"""The page that shows two possibly identical images side by side.

People decide where hashes and embeddings are uncertain: two different images are accepted, two
copies of the same image are rejected.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import (
    VERDICT,
    LabellingPage,
    Summary,
    TaskContent,
    image_address,
    only_choice,
    shown_image,
)
from db.entities import StoredEntity
from schemas.recos import DuplicateQuestion

SAME = "the same image"
OUTCOMES = {"accept": "different images", "reject": SAME}
"""The choices by their aliases."""


class DuplicateCheck(LabellingPage):
    """The labelling interface `duplicate-check`."""

    name = "duplicate-check"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """The page of one pair of images."""
        return _content(entity.record(DuplicateQuestion), images_url)

    def read_annotation(
        self,
        result: Sequence[dict[str, Any]],
        shown: StoredEntity,  # noqa: ARG002 - the answer says it all
    ) -> ReviewAnswer | UnclearAnswer:
        """Whether the two images differ."""
        verdict = only_choice(result, VERDICT)
        if verdict == "accept":
            return ReviewAnswer(verdict="accept", choices={VERDICT: ("accept",)})
        if verdict == "reject":
            return ReviewAnswer(verdict="reject", choices={VERDICT: ("reject",)}, reason=SAME)
        return UnclearAnswer(problem="no choice of whether the images differ")

    def summary(
        self,
        answer: ReviewAnswer,
        shown: StoredEntity,  # noqa: ARG002 - the answer says it all
    ) -> Summary:
        """The answer in words."""
        return [("These are", OUTCOMES[answer.verdict])]


def _content(asked: DuplicateQuestion, images_url: str) -> TaskContent:
    data = {
        "first": image_address(images_url, asked.first.sha256),
        "second": image_address(images_url, asked.second.sha256),
        "measured_html": f"<p>{escape(_measured(asked))}</p>",
    }
    return TaskContent(data, [], (shown_image(asked.first), shown_image(asked.second)))


def _measured(asked: DuplicateQuestion) -> str:
    """The measurements, in a line."""
    parts = ["Automatic checks are uncertain"]
    if asked.distance is not None:
        parts.append(f"visual distance {asked.distance:.3f}")
    if asked.similarity is not None:
        parts.append(f"similarity of content {asked.similarity:.3f}")
    if asked.mirrored:
        parts.append("one may be mirrored")
    return " · ".join(parts)
