"""What the answers about one item come to: still waiting, agreed, in conflict, or settled."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from annotate.answers import ReviewAnswer


class Answer(NamedTuple):
    """An answer that counts: `person` is the pseudonym of who gave it."""

    person: str
    purpose: str
    answer: ReviewAnswer
    annotation_key: str
    annotated_at: datetime


class Outcome(NamedTuple):
    """What the answers come to.

    `standing` are the answers that decide: none while the item waits or is in conflict, one where
    people agree or an adjudicator settled it, all where the answers are independent.
    """

    state: Literal["waiting", "agreed", "conflict", "settled"]
    standing: tuple[Answer, ...] = ()


def resolve(
    answers: Sequence[Answer],
    overlap: int,
    same: Callable[[ReviewAnswer, ReviewAnswer], bool],
    *,
    independent: bool,
) -> Outcome:
    """The outcome of the answers about one item; their order does not matter.

    The last word of an adjudicator stands above all. Of several opinions of one person the last
    counts. Below `overlap` people the item waits. Where all agree with the first, the first stands:
    it is the one that nobody could have copied from.

    Args:
        answers: the answers that count, one a task.
        overlap: how many people have to answer.
        same: whether two answers agree.
        independent: every answer stands for itself, so that none can conflict.
    """
    in_order = sorted(answers, key=_by_time)
    if settled := [answer for answer in in_order if answer.purpose == "adjudication"]:
        return Outcome("settled", (settled[-1],))
    by_person = {answer.person: answer for answer in in_order if answer.purpose == "review"}
    opinions = sorted(by_person.values(), key=_by_time)
    if len(opinions) < overlap:
        return Outcome("waiting")
    if independent:
        return Outcome("agreed", tuple(opinions))
    first = opinions[0]
    if all(same(first.answer, other.answer) for other in opinions[1:]):
        return Outcome("agreed", (first,))
    return Outcome("conflict")


def _by_time(answer: Answer) -> tuple[datetime, str]:
    return (answer.annotated_at, answer.annotation_key)
