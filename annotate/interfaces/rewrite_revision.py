"""The page on which a rewritten description is accepted, edited or rejected.

The image stands on the left; on the right the source description and the rewrite, with the words
that changed and the facts that the check suspects, the text to edit, and the verdict.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import (
    TEXT,
    LabellingPage,
    TaskContent,
    changed_words,
    finding_list,
    finding_marks,
    image_address,
    marked_text,
    read_text_verdict,
    resource,
    text_verdict_summary,
    with_text_keys,
)
from annotate.items import RewriteItem, load_rewrite_items
from db.entities import StoredEntity
from db.reviews import ShownImage
from db.store import Store
from schemas.base import EntityRecord
from schemas.records import Rewrite


class RewriteRevision(LabellingPage):
    """The labelling interface `rewrite-revision`."""

    name = "rewrite-revision"

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML."""
        return with_text_keys(resource("rewrite_revision.xml"))

    def pages(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """One page per rewrite, in order."""
        return [rewrite_page(item, images_url) for item in load_rewrite_items(store, entities)]

    def read_annotation(
        self, result: Sequence[dict[str, Any]], shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """What the regions of an annotation say about the rewrite that was shown."""
        return read_text_verdict(result, shown.record(Rewrite).text)

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """The rewrite as its reviewer left it, where it was edited."""
        if answer.verdict != "edit":
            return ()
        change = {"text": answer.texts[TEXT], "author": author}
        return (shown.record(Rewrite).model_copy(update=change),)

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> str:
        """The answer as a piece of HTML."""
        return text_verdict_summary(answer, shown.record(Rewrite).text)


def rewrite_page(item: RewriteItem, images_url: str) -> TaskContent:
    """What the page of a rewrite is filled with."""
    findings = item.report.findings if item.report is not None else ()
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
