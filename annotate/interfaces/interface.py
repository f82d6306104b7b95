"""What a labelling interface is: a page, how to fill it, and how to read what comes back."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from annotate.answers import ReviewAnswer, UnclearAnswer
from db.entities import StoredEntity
from db.reviews import ShownImage
from db.store import Store
from schemas.base import EntityRecord


class TaskContent(NamedTuple):
    """What the page is filled with: values of its variables, pre-annotations, and the images.

    `images` are all whose addresses are in `data`: the image server hands out no others.
    """

    data: dict[str, Any]
    predictions: list[dict[str, Any]]
    images: tuple[ShownImage, ...] = ()


class Interface(Protocol):
    """A labelling interface. It has no state; one object serves all queues.

    Every page tells annotators what to do (`instructions`), has keys for its choices, and opens
    with a pre-annotation where something is known. Foreign text is escaped before it is shown.
    """

    @property
    def name(self) -> str:
        """What queues call it."""
        ...

    @property
    def config(self) -> str:
        """The page in Label Studio's XML."""
        ...

    @property
    def instructions(self) -> str:
        """What an annotator reads first, as HTML."""
        ...

    @property
    def independent(self) -> bool:
        """Whether every answer stands for itself (two descriptions), so that none can conflict."""
        ...

    def contents(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """One page per entity, in order; images lie at `<images_url>/<sha256>`."""
        ...

    def with_draft(self, content: TaskContent, draft: StoredEntity) -> TaskContent:
        """The page as it opens for whoever gets a model's draft, marked as that model's."""
        ...

    def read_annotation(
        self, result: Sequence[dict[str, Any]], shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """What an annotation's regions say about the entity that was shown."""
        ...

    def same(self, one: ReviewAnswer, other: ReviewAnswer, text_agreement: float) -> bool:
        """Whether two answers agree; texts do from a similarity of `text_agreement` (0 to 1)."""
        ...

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """What an accepted or edited entity becomes: records that take its place, or none.

        Where the interface is `independent`, what the answer adds to it.
        """
        ...

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> str:
        """The answer as a piece of HTML, for whoever settles a conflict; all text is escaped."""
        ...
