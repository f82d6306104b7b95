"""The page that shows a caption with its own image and a similar one (ReCoS).

A caption is accepted only if it fits its own image and not the other: with one that fits both, a
correct search result would count as wrong.
"""

from collections.abc import Sequence
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.candidates import latest_flags
from annotate.interfaces.page import (
    LabellingPage,
    TaskContent,
    definition_list,
    finding_list,
    image_address,
    marked_text,
    only_choice,
    shown_image,
)
from db.entities import StoredEntity
from db.store import Store
from schemas.quality import Confusion

FIT = "fit"
OUTCOMES = {
    "own": "fits its own image only",
    "both": "fits the other image as well",
    "other": "fits the other image only",
    "neither": "fits neither image",
}
"""The choices by their aliases; only the first accepts the caption."""


class ConfusingCaption(LabellingPage):
    """The labelling interface `confusing-caption`."""

    name = "confusing-caption"

    def pages(
        self,
        store: Store,
        entities: Sequence[StoredEntity],
        images_url: str,
    ) -> list[TaskContent]:
        """One page per caption and pair of images, in order."""
        doubts = latest_flags(store, [entity.id for entity in entities])
        return [
            confusion_page(entity.record(Confusion), images_url, doubts.get(entity.id, ()))
            for entity in entities
        ]

    def read_annotation(
        self,
        result: Sequence[dict[str, Any]],
        shown: StoredEntity,  # noqa: ARG002 - the answer says it all
    ) -> ReviewAnswer | UnclearAnswer:
        """Which images the caption fits."""
        outcome = only_choice(result, FIT)
        if outcome not in OUTCOMES:
            return UnclearAnswer(problem="no choice of the images that the caption fits")
        choices = {FIT: (outcome,)}
        if outcome == "own":
            return ReviewAnswer(verdict="accept", choices=choices)
        return ReviewAnswer(verdict="reject", choices=choices, reason=OUTCOMES[outcome])

    def summary(
        self,
        answer: ReviewAnswer,
        shown: StoredEntity,  # noqa: ARG002 - the answer says it all
    ) -> str:
        """The answer as a piece of HTML."""
        return definition_list(
            [("The caption", OUTCOMES[outcome]) for outcome in answer.choices[FIT]]
        )


def confusion_page(
    confusion: Confusion, images_url: str, doubts: Sequence[str] = ()
) -> TaskContent:
    """The page's content; warnings about the caption are below it."""
    data = {
        "own": image_address(images_url, confusion.own.sha256),
        "other": image_address(images_url, confusion.other.sha256),
        "caption_html": marked_text(confusion.text) + (finding_list((), doubts) if doubts else ""),
    }
    return TaskContent(data, [], (shown_image(confusion.own), shown_image(confusion.other)))
