"""What people are asked of an image before captions are written: does it fit the task?"""

from typing import ClassVar

from schemas.base import EntityRecord
from schemas.proposals import Picture
from schemas.retrieval_task import RetrievalTask


class Selection(EntityRecord):
    """An image that is proposed for a task of a benchmark (ReCoS, section 3.1).

    Attributes:
        source: the collection that the image is from.
        task: what it is proposed for.
        picture: the image.
        proposed_by: how it was found, in words.
    """

    kind: ClassVar[str] = "selection"
    source: str
    task: RetrievalTask
    picture: Picture
    proposed_by: str
