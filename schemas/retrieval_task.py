"""What images of a retrieval benchmark are for, and since which version (ReCoS, section 3)."""

from enum import StrEnum
from typing import Literal

Tier = Literal["v0", "v1", "v2"]
"""The version of a benchmark in which an image first stands: v0 within v1 within v2."""


class RetrievalTask(StrEnum):
    """The twelve tasks: seven of coarse recognition, two of fine recognition, three of thinking.

    Neither case nor space, hyphen or underscore matters.
    """

    COLOR = "color"
    COUNT = "count"
    LOCATION = "location"
    FIGURE = "figure"
    OBJECT = "object"
    ACTION = "action"
    SCENE = "scene"
    OCR = "OCR"
    CELEBRITY = "celebrity"
    CALCULATION = "numerical calculation"
    CODE = "code reasoning"
    TRANSLATION = "text translation"

    @classmethod
    def _missing_(cls, value: object) -> "RetrievalTask | None":
        return _BY_SPELLING.get(_plain(value)) if isinstance(value, str) else None


def _plain(spelling: str) -> str:
    return "".join(spelling.casefold().replace("-", " ").replace("_", " ").split())


_BY_SPELLING = {_plain(task.value): task for task in RetrievalTask}

RENDERED_TASKS = (RetrievalTask.CALCULATION, RetrievalTask.CODE, RetrievalTask.TRANSLATION)
"""The tasks whose images can be drawn, so that their answers are known."""
