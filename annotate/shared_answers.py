"""Items of a queue that several people answered, to compute their agreement."""

from itertools import groupby
from typing import NamedTuple

from annotate.agreement import ItemAnswers
from annotate.answers import ReviewAnswer
from db.review_audits import given_answers
from db.store import Store


class SharedAnswers(NamedTuple):
    """The items with first opinions of two or more people, and the number of these people."""

    items: tuple[ItemAnswers, ...]
    annotators: int


def shared_answers(store: Store, queue: str) -> SharedAnswers:
    """The first opinions of a queue on items with two or more of them, without gold items."""
    shared = []
    given = given_answers(store, queue)
    for entity_id, group in groupby(given, key=lambda answer: answer.entity_id):
        opinions = {
            one.annotator: ReviewAnswer.model_validate(one.answer)
            for one in group
            if one.purpose == "review" and not one.gold and one.answer
        }
        if len(opinions) > 1:
            shared.append(ItemAnswers(entity_id, opinions))
    people = {annotator for item in shared for annotator in item.answers}
    return SharedAnswers(tuple(shared), len(people))
