"""The page on which a rewritten description is accepted, edited or rejected.

The image is on the left. On the right are the source description and the rewrite with changed
words and suspicious facts marked, the text to edit, and the verdict.
"""

from collections.abc import Sequence

from annotate.interfaces.page import (
    TaskContent,
    TextVerdict,
    changed_words,
    finding_list,
    finding_marks,
    image_address,
    marked_text,
    shown_hints,
)
from annotate.items import RewriteItem, load_rewrite_items
from db.entities import StoredEntity
from db.reviews import ShownImage
from db.store import Store
from schemas.records import Rewrite


class RewriteRevision(TextVerdict):
    """The labelling interface `rewrite-revision`."""

    name = "rewrite-revision"

    record = Rewrite

    def pages(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """One page per rewrite, in order."""
        return [rewrite_page(item, images_url) for item in load_rewrite_items(store, entities)]


def rewrite_page(item: RewriteItem, images_url: str) -> TaskContent:
    """The content of a rewrite's page."""
    findings = shown_hints(item.report.findings) if item.report is not None else []
    removed, inserted = changed_words(item.caption.text, item.rewrite.text)
    in_source = [*finding_marks(findings, "source"), *removed]
    in_rewrite = [*finding_marks(findings, "rewrite"), *inserted]
    data = {
        "image": image_address(images_url, item.image.sha256),
        "description_html": marked_text(item.caption.text, in_source),
        "rewrite_html": marked_text(item.rewrite.text, in_rewrite),
        "findings_html": finding_list(findings),
        "text": item.rewrite.text,
    }
    shown = ShownImage(item.image.sha256, item.image.media_type, item.image_id)
    return TaskContent(data, [], (shown,))
