"""What the labelling interfaces have in common; each says what is its own."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from annotate.answers import ReviewAnswer
from annotate.interfaces.comparison import same_answer
from annotate.interfaces.interface import TaskContent
from annotate.interfaces.page import resource, validate
from db.entities import StoredEntity
from db.store import Store
from schemas.base import EntityRecord


class LabellingPage(ABC):
    """A page and its instructions in files named after it, answers compared as most are."""

    name: ClassVar[str]
    independent: ClassVar[bool] = False

    @cached_property
    def config(self) -> str:
        """The page in Label Studio's XML."""
        return resource(f"{self._file_name}.xml")

    @cached_property
    def instructions(self) -> str:
        """What an annotator reads first."""
        return resource(f"{self._file_name}.html")

    @property
    def _file_name(self) -> str:
        return self.name.replace("-", "_")

    def contents(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """One page per entity, in order."""
        contents = self.pages(store, entities, images_url)
        validate(self.config, contents)
        return contents

    def with_draft(
        self,
        content: TaskContent,
        draft: StoredEntity,  # noqa: ARG002 - what is written on most pages begins with nothing
    ) -> TaskContent:
        """The page as it is."""
        return content

    @abstractmethod
    def pages(
        self, store: Store, entities: Sequence[StoredEntity], images_url: str
    ) -> list[TaskContent]:
        """One page per entity, in order; not validated yet."""

    def same(self, one: ReviewAnswer, other: ReviewAnswer, text_agreement: float) -> bool:
        """Whether the verdicts are the same, and the texts alike."""
        return same_answer(one, other, text_agreement)

    def successors(
        self,
        shown: StoredEntity,  # noqa: ARG002 - it stands as it is, or falls
        answer: ReviewAnswer,  # noqa: ARG002
        author: str,  # noqa: ARG002
    ) -> tuple[EntityRecord, ...]:
        """Nothing: what was shown stands as it is, or falls."""
        return ()
