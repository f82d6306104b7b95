"""The page on which an image is accepted or rejected for a task of a benchmark (ReCoS)."""

from html import escape

from annotate.interfaces.page import ImageVerdict, TaskContent, image_address, shown_image
from db.entities import StoredEntity
from schemas.recos import Selection
from schemas.retrieval_task import RetrievalTask

DISTINGUISHES = {
    RetrievalTask.COLOR: "which thing has which colour",
    RetrievalTask.COUNT: "how many things of each kind there are",
    RetrievalTask.LOCATION: "where things are",
    RetrievalTask.FIGURE: "what the people look like",
    RetrievalTask.OBJECT: "which things there are",
    RetrievalTask.ACTION: "what is being done",
    RetrievalTask.SCENE: "what place it is, and when",
    RetrievalTask.OCR: "what the text in the image says",
    RetrievalTask.CELEBRITY: "who it is",
    RetrievalTask.CALCULATION: "the calculation and its result",
    RetrievalTask.CODE: "what the program does and prints",
    RetrievalTask.TRANSLATION: "what the text says in the other language",
}
"""What the captions of each task use to distinguish their image from others."""


def caption_heading(task: RetrievalTask | None) -> str:
    """The heading above a caption of that task, or of none."""
    return "Caption" if task is None else f"Caption for the task {task}: {DISTINGUISHES[task]}"


class ImageSelection(ImageVerdict):
    """The labelling interface `image-selection`."""

    name = "image-selection"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """The page of one image."""
        return _content(entity.record(Selection), images_url)


def _content(selection: Selection, images_url: str) -> TaskContent:
    data = {
        "image": image_address(images_url, selection.picture.sha256),
        "task_html": (
            f'<p class="loupe-task"><b>{escape(selection.task)}</b></p>'
            f"<p>Captions for this task distinguish images by {DISTINGUISHES[selection.task]}.</p>"
            f'<p class="loupe-origin">From {escape(selection.source)}, '
            f"{escape(selection.proposed_by)}</p>"
        ),
    }
    return TaskContent(data, [], (shown_image(selection.picture),))
