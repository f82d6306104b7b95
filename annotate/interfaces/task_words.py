"""What captions are to tell apart, in words for people."""

from schemas.retrieval_task import RetrievalTask

TOLD_APART = {
    RetrievalTask.COLOR: "which thing has which colour",
    RetrievalTask.COUNT: "how many there are of each kind",
    RetrievalTask.LOCATION: "where things are",
    RetrievalTask.FIGURE: "what the people look like",
    RetrievalTask.OBJECT: "which things there are",
    RetrievalTask.ACTION: "what is being done",
    RetrievalTask.SCENE: "what place it is, and when",
    RetrievalTask.OCR: "what is written there",
    RetrievalTask.CELEBRITY: "who it is",
    RetrievalTask.CALCULATION: "the calculation and its result",
    RetrievalTask.CODE: "what the program does and prints",
    RetrievalTask.TRANSLATION: "what the writing says in the other language",
}
"""By which of the things that images show a caption of each task tells its own from others."""


def caption_heading(task: RetrievalTask | None) -> str:
    """The heading over a caption of that task, or of none."""
    return "Caption" if task is None else f"Caption for the task {task}: {TOLD_APART[task]}"
