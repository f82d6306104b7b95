"""The page on which a caption is found to be true of its image, mended, or rejected."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import (
    TEXT,
    LabellingPage,
    TaskContent,
    finding_list,
    finding_marks,
    image_address,
    marked_text,
    read_text_verdict,
    resource,
    text_verdict_summary,
    with_text_keys,
)
from annotate.interfaces.task_words import caption_heading
from annotate.items import CaptionItem, load_caption_items
from db.entities import StoredEntity
from db.reviews import ShownImage
from db.store import Store
from schemas.base import EntityRecord
from schemas.records import Caption


class CaptionVerification(LabellingPage):
    """The labelling interface `caption-verification`."""

    name = "caption-verification"

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML."""
        return with_text_keys(resource("caption_verification.xml"))

    def pages(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """One page per caption, in order."""
        return [caption_page(item, images_url) for item in load_caption_items(store, entities)]

    def read_annotation(
        self, result: Sequence[dict[str, Any]], shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """What the regions of an annotation say about the caption that was shown."""
        return read_text_verdict(result, shown.record(Caption).text)

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """The caption as its reviewer left it, where it was edited."""
        if answer.verdict != "edit":
            return ()
        change = {"text": answer.texts[TEXT], "author": author}
        return (shown.record(Caption).model_copy(update=change),)

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> str:
        """The answer as a piece of HTML."""
        return text_verdict_summary(answer, shown.record(Caption).text)


def caption_page(item: CaptionItem, images_url: str) -> TaskContent:
    """What the page of a caption is filled with; a check's suspicions are marked in the text.

    Of a caption of a task it says what it is to tell apart, and what speaks against it.
    """
    findings = item.report.findings if item.report is not None else ()
    # A check compares two texts; the caption that was checked is the one it calls the rewrite.
    marks = finding_marks(findings, "rewrite")
    examined = item.report is not None or item.doubts is not None
    noticed = (
        finding_list(findings, item.doubts or ()) if examined else "<p>It was not checked.</p>"
    )
    data = {
        "image": image_address(images_url, item.image.sha256),
        "heading": caption_heading(item.image.task),
        "caption_html": marked_text(item.caption.text, marks),
        "findings_html": noticed,
        "text": item.caption.text,
    }
    shown = ShownImage(item.image.sha256, item.image.media_type, item.image_id)
    return TaskContent(data, [], (shown,))
