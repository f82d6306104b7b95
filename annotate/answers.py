"""The answers of annotators in a review queue."""

from typing import Literal

from pydantic import Field

from loupe.schemas.base import EntityRecord, Record

Verdict = Literal["accept", "edit", "reject"]


class ReviewAnswer(Record):
    """A verdict on the item, with all choices and texts of the page.

    Attributes:
        verdict: whether the entity is accepted, edited or rejected.
        choices: the choices in each control of the page, in the page's order, the verdict included;
            agreement on choices is computed over these.
        texts: the text in each control that asked for one.
        reason: why it was rejected, for the decision.
        remark: how an ambiguous answer was interpreted.
        opened_with: the id of the draft on the page; "" without one.
    """

    verdict: Verdict
    choices: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    texts: dict[str, str] = Field(default_factory=dict)
    reason: str = ""
    remark: str = ""
    opened_with: str = Field(default="", exclude_if=lambda draft: not draft)


class UnclearAnswer(Record):
    """An annotation that is not a valid answer; its task stays open and `problem` is reported."""

    problem: str


Parsed = ReviewAnswer | UnclearAnswer


class QuarantinedAnswer(UnclearAnswer):
    """An annotation that never counts, because it is not by the assignee of the task."""


class AnnotationRecord(EntityRecord, kind="annotation"):
    """An answer as an entity, from which a person's edit is derived.

    It has neither times nor numbers of the server, so that the same answer of the same person is
    the same entity.
    """

    queue: str
    author: str
    answer: ReviewAnswer
