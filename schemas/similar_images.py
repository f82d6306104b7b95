"""Similar images of a benchmark: which were chosen, and what people say of them."""

from typing import ClassVar

from pydantic import Field, model_validator

from schemas.base import EntityRecord, Record
from schemas.proposals import Picture
from schemas.retrieval_task import RetrievalTask

# Similar images for a retrieval benchmark: which were chosen, and how many went at each step.


class ConfusionMatch(EntityRecord):
    """An image of D and the similar image that it is to be confused with (ReCoS, section 3.3).

    Attributes:
        image: the id of x.
        similar: the id of x′.
        similarity: the cosine of their embeddings.
        rank: which of the images of its source that x′ is by similarity to x, from 1; those that
            come before it were taken, or were duplicates.
        embedder: what made the embeddings, as `name@revision`.
    """

    kind: ClassVar[str] = "confusion_match"
    image: str
    similar: str
    similarity: float
    rank: int = Field(ge=1)
    embedder: str


class ExpansionSettings(Record):
    """How many similar images are looked for (ReCoS, section 3.4: twenty)."""

    neighbours: int = Field(default=20, ge=1)


class ExpansionReport(EntityRecord):
    """How many images there were at each step of an expansion (ReCoS: 20,000 found, 14,982 new).

    Attributes:
        images: images of v1.
        wanted: neighbours wanted for each of them.
        found: neighbours in all, an image counted for each that it is a neighbour of.
        distinct: images among them.
        outside: those that are not in v1 themselves.
        exact: those that went because another image has the same bytes.
        near: those that went because they look like one that stays.
        new: what is left, the images that v2 has more than v1.
        doubtful: pairs that people have to decide.
        short: images of v1 that had fewer neighbours than wanted.
        embedder: what made the embeddings, as `name@revision`.
        embedding_recall: that of the near-duplicates (`NearDuplicateReport`).
    """

    kind: ClassVar[str] = "expansion_report"
    images: int
    wanted: int
    found: int
    distinct: int
    outside: int
    exact: int
    near: int
    new: int
    doubtful: int
    short: int
    embedder: str
    embedding_recall: float | None = Field(default=None, exclude_if=lambda share: share is None)


class DuplicateQuestion(EntityRecord):
    """Two images of a benchmark of which people say whether they are the same (ReCoS, section 3.4).

    Attributes:
        first: the image that stays, whatever is said.
        second: the image that leaves if they are the same.
        mirrored: whether the second looks like the mirror image of the first.
        distance: the cosine distance of their spectra; None where their looks are not near.
        similarity: the cosine of their embeddings; None where either has none.
        embedder: what made the embeddings, as `name@revision`.
    """

    kind: ClassVar[str] = "duplicate_question"
    first: Picture
    second: Picture
    mirrored: bool = False
    distance: float | None = None
    similarity: float | None = None
    embedder: str

    @model_validator(mode="after")
    def _images_differ(self) -> "DuplicateQuestion":
        if self.first.sha256 == self.second.sha256:
            raise ValueError(
                f"first and second must be two images; got {self.first.sha256!r} twice"
            )
        return self


# What people are asked of an image before captions are written: does it fit the task?


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
