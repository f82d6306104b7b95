"""What a labelling interface is, and which there are."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from annotate.answers import ReviewAnswer, UnclearAnswer
from db.entities import StoredEntity
from db.store import Store
from schemas.base import EntityRecord


class TaskContent(NamedTuple):
    """What the page is filled with: values of the configuration's variables, and predictions."""

    data: dict[str, Any]
    predictions: list[dict[str, Any]]


class Interface(Protocol):
    """A labelling interface: a page, how to fill it, and how to read what comes back."""

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

    def contents(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """One page per entity, in order; images lie at `<images_url>/<sha256>`."""
        ...

    def read_annotation(
        self, result: Sequence[dict[str, Any]], shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """What an annotation's regions say about the entity that was shown."""
        ...

    def edited(self, shown: StoredEntity, text: str, author: str) -> EntityRecord:
        """The record that takes the place of the one that was shown."""
        ...
