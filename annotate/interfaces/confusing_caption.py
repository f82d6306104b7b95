"""The page that shows a caption with its own image and a similar one (ReCoS).

The images are in random order and without labels, so that annotators do not expect one of them. A
caption is accepted only if it fits its own image and not the other: if it fits both, a correct
search result would count as wrong.
"""

from collections.abc import Sequence

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.candidates import latest_flags
from annotate.interfaces.page import (
    Interface,
    Regions,
    Summary,
    TaskContent,
    image_address,
    only_choice,
    shown_image,
)
from annotate.interfaces.text_pages import finding_list, marked_text
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


def own_side(entity_id: str) -> str:
    """Return where a question shows the caption's own image, `left` or `right`, by a digest."""
    return "left" if int(digest_of("confusion-side", entity_id), 16) % 2 else "right"


def _outcomes(entity_id: str) -> dict[str, str]:
    """Return the outcome of each choice on a question's page."""
    left, right = ("own", "other") if own_side(entity_id) == "left" else ("other", "own")
    return {"left": left, "both": "both", "right": right, "neither": "neither"}


class ConfusingCaption(Interface):
    """The labelling interface `confusing-caption`."""

    name = "confusing-caption"

    def pages(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """Return one page per caption and pair of images, with warnings below the caption."""
        flags = latest_flags(store, [entity.id for entity in entities])
        contents = []
        for entity in entities:
            asked, warnings = entity.record(Confusion), flags.get(entity.id)
            shown = (asked.own, asked.other)
            left, right = shown if own_side(entity.id) == "left" else reversed(shown)
            data = {
                "left": image_address(images_url, left.sha256),
                "right": image_address(images_url, right.sha256),
                "caption_html": marked_text(asked.text)
                + (finding_list((), warnings) if warnings else ""),
            }
            contents.append(TaskContent(data, [], (shown_image(left), shown_image(right))))
        return contents

    def read_annotation(self, result: Regions, shown: StoredEntity) -> ReviewAnswer | UnclearAnswer:
        """Parse which images the caption fits."""
        outcome = _outcomes(shown.id).get(only_choice(result, FIT) or "")
        if outcome is None:
            return UnclearAnswer(problem="no choice of the images that the caption fits")
        choices = {FIT: (outcome,)}
        if outcome == "own":
            return ReviewAnswer(verdict="accept", choices=choices)
        return ReviewAnswer(verdict="reject", choices=choices, reason=OUTCOMES[outcome])

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """Return the answer in the words of the page."""
        chosen = [
            choice
            for choice, outcome in _outcomes(shown.id).items()
            if outcome in answer.choices[FIT]
        ]
        return [("The caption", self.labels(FIT, chosen))]
