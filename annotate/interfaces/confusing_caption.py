"""The page that shows a caption with its own image and a similar one (ReCoS).

The images are in random order and without labels, so that nobody expects one of them. A caption
is accepted only if it fits its own image and not the other: with one that fits both, a correct
search result would count as wrong.
"""

from collections.abc import Sequence
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.candidates import latest_flags
from annotate.interfaces.page import (
    LabellingPage,
    Summary,
    TaskContent,
    finding_list,
    image_address,
    marked_text,
    only_choice,
    shown_image,
)
from db.entities import StoredEntity
from db.store import Store
from schemas.base import digest_of
from schemas.quality import Confusion

FIT = "fit"
OUTCOMES = {
    "own": "fits its own image only",
    "both": "fits the other image as well",
    "other": "fits the other image only",
    "neither": "fits neither image",
}
"""The outcomes; only the first accepts the caption."""
_ON_THE_PAGE = {
    "left": "fits the left image only",
    "both": "fits both images",
    "right": "fits the right image only",
    "neither": "fits neither image",
}
"""The choices by their aliases."""


def own_side(entity_id: str) -> str:
    """Where a question shows the caption's own image: `left` or `right`; a digest decides."""
    return "left" if int(digest_of("confusion-side", entity_id), 16) % 2 else "right"


def _outcome(choice: str, own: str) -> str:
    """The outcome of a choice on a page that shows the caption's own image on side `own`."""
    if choice in ("left", "right"):
        return "own" if choice == own else "other"
    return choice


def _choice(outcome: str, own: str) -> str:
    return next(choice for choice in _ON_THE_PAGE if _outcome(choice, own) == outcome)


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
            confusion_page(entity, images_url, doubts.get(entity.id, ())) for entity in entities
        ]

    def read_annotation(
        self,
        result: Sequence[dict[str, Any]],
        shown: StoredEntity,
    ) -> ReviewAnswer | UnclearAnswer:
        """Which images the caption fits."""
        choice = only_choice(result, FIT)
        if choice not in _ON_THE_PAGE:
            return UnclearAnswer(problem="no choice of the images that the caption fits")
        outcome = _outcome(choice, own_side(shown.id))
        choices = {FIT: (outcome,)}
        if outcome == "own":
            return ReviewAnswer(verdict="accept", choices=choices)
        return ReviewAnswer(verdict="reject", choices=choices, reason=OUTCOMES[outcome])

    def summary(
        self,
        answer: ReviewAnswer,
        shown: StoredEntity,
    ) -> Summary:
        """The answer in the words of the page."""
        own = own_side(shown.id)
        return [
            ("The caption", _ON_THE_PAGE[_choice(outcome, own)]) for outcome in answer.choices[FIT]
        ]


def confusion_page(
    entity: StoredEntity, images_url: str, doubts: Sequence[str] = ()
) -> TaskContent:
    """The page's content; warnings about the caption are below it."""
    confusion = entity.record(Confusion)
    pictures = [confusion.own, confusion.other]
    left, right = pictures if own_side(entity.id) == "left" else reversed(pictures)
    data = {
        "left": image_address(images_url, left.sha256),
        "right": image_address(images_url, right.sha256),
        "caption_html": marked_text(confusion.text) + (finding_list((), doubts) if doubts else ""),
    }
    return TaskContent(data, [], (shown_image(left), shown_image(right)))
