"""The page on which an image is accepted or rejected for a task of a benchmark (ReCoS)."""

from collections.abc import Sequence
from html import escape

from annotate.interfaces.page import ImageVerdict, TaskContent, image_address, shown_image
from annotate.interfaces.task_words import TOLD_APART
from db.entities import StoredEntity
from db.store import Store
from schemas.similar_images import Selection


class ImageSelection(ImageVerdict):
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
