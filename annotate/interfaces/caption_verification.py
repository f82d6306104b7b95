"""The page on which a caption is accepted, edited or rejected by comparison with its image."""

from collections.abc import Sequence

from annotate.interfaces.image_selection import caption_heading
from annotate.interfaces.page import (
    TaskContent,
    TextVerdict,
    finding_list,
    finding_marks,
    image_address,
    marked_text,
    shown_hints,
)
from annotate.items import CaptionItem, load_caption_items
from db.entities import StoredEntity
from db.reviews import ShownImage
from db.store import Store
from schemas.records import Caption


class CaptionVerification(TextVerdict):
    """The labelling interface `caption-verification`."""

    name = "caption-verification"

    record = Caption

    def pages(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """One page per caption, in order."""
        return [caption_page(item, images_url) for item in load_caption_items(store, entities)]


def caption_page(item: CaptionItem, images_url: str) -> TaskContent:
    """The content of a caption's page; what a check flagged is marked in the text.

    For a caption of a task, the heading says what it has to distinguish.
    """
    findings = shown_hints(item.report.findings) if item.report is not None else []
    # A check compares two texts; it calls the caption the rewrite.
    marks = finding_marks(findings, "rewrite")
    examined = item.report is not None or item.doubts is not None
    noticed = finding_list(findings, item.doubts or ()) if examined else "<p>Not checked.</p>"
    data = {
        "image": image_address(images_url, item.image.sha256),
        "heading": caption_heading(item.image.task),
        "caption_html": marked_text(item.caption.text, marks),
        "findings_html": noticed,
        "text": item.caption.text,
    }
    shown = ShownImage(item.image.sha256, item.image.media_type, item.image_id)
    return TaskContent(data, [], (shown,))
