"""Withdrawing an annotator's judgements, and erasing vectors."""

import numpy as np
import pytest

from loupe.db.decisions import append_decisions
from loupe.db.embeddings import find_vectors, space_of, store_vectors
from loupe.db.entities import NewDecision
from loupe.db.review_audits import undecided_items
from loupe.db.store import Store
from loupe.db.withdrawal_traces import (
    close_reviews,
    forget_person,
    forget_vectors,
    judged_alone,
    return_answers,
)
from loupe.schemas.chat import ModelRef
from tests.db.review_samples import QUEUE, Desk, store_rewrites
from tests.db.samples import SOFTWARE


def judged(store: Store, person: str) -> list[str]:
    with store.read() as connection:
        return judged_alone(connection, person)


def test_only_items_judged_by_one_person_alone_are_reopened(store: Store) -> None:
    alone, shared, others, _ = store_rewrites(store, 4)
    desk = Desk(store)
    desk.decide(alone, "accept", desk.answer(alone, "a"))
    desk.answer(shared, "b")
    desk.decide(shared, "accept", desk.answer(shared, "a"))
    desk.answer(others, "a")
    desk.decide(others, "accept", desk.answer(others, "b"), person="b")
    assert judged(store, "a") == [alone]
    assert judged(store, "b") == []
    assert judged(store, "nobody") == []


@pytest.mark.usefixtures("database_url")
def test_items_are_reopened_if_the_remaining_answers_disagree(store: Store) -> None:
    """An adjudicator overruled these answers; without the adjudicator they may decide otherwise."""
    against, split, behind, edited = store_rewrites(store, 4)
    desk = Desk(store)
    desk.answer(against, "b", "reject")
    desk.answer(split, "b", "reject")
    for item in (split, behind):
        desk.answer(item, "c")
    for item in (against, split, behind):
        desk.decide(item, "accept", desk.answer(item, "a", purpose="adjudication"))
    desk.answer(edited, "b", "edit")
    desk.decide(edited, "edit", desk.answer(edited, "a", "edit"))
    assert judged(store, "a") == sorted([against, split, edited])
    return_answers(store, "a")
    with store.write() as connection:
        reopened = [NewDecision(one, "reopen", SOFTWARE) for one in (against, split)]
        append_decisions(connection, reopened)
    assert undecided_items(store, QUEUE, 1) == sorted([against, split])


def test_rejections_count_as_judgements_but_overruled_and_gold_ones_do_not(
    store: Store,
) -> None:
    rejected, overruled, of_gold = store_rewrites(store, 3)
    desk = Desk(store)
    desk.decide(rejected, "reject", desk.answer(rejected, "a", "reject"))
    desk.decide(overruled, "reject", desk.answer(overruled, "a", "reject"))
    desk.decide(overruled, "accept", None, person="b")
    desk.answer(of_gold, "b", gold=True)
    desk.decide(of_gold, "accept", desk.answer(of_gold, "a"))
    assert judged(store, "a") == sorted([rejected, of_gold])


def test_returning_answers_of_an_annotator_closes_their_open_tasks(store: Store) -> None:
    answered, waiting, other = store_rewrites(store, 3)
    desk = Desk(store)
    desk.answer(answered, "a")
    desk.answer(answered, "b")
    for item in (waiting, other):
        desk.give(item, "a")
    assert close_reviews(store, [answered, waiting]) == 1
    assert desk.task_state(answered, "a") == "answered"
    assert desk.task_state(waiting, "a") == "closed"
    assert desk.task_state(other, "a") == "open"
    assert return_answers(store, "a") == 1
    assert desk.task_state(answered, "a") == "returned"
    assert desk.task_state(answered, "b") == "answered"
    assert desk.task_state(other, "a") == "closed"
    assert return_answers(store, "a") == 0
    assert not forget_person(store, "reviewer-1")


def test_vectors_are_forgotten_in_every_space(store: Store) -> None:
    spaces = [space_of(ModelRef(name=name, revision="1"), {}, "image") for name in "mn"]
    digests = ["a" * 64, "b" * 64]
    for space in spaces:
        store_vectors(store, space, digests, np.ones((2, 2), np.float32))
    assert forget_vectors(store, digests[:1]) == 2
    for space in spaces:
        assert find_vectors(store, space, digests).keys() == {digests[1]}
    assert forget_vectors(store, digests[:1]) == 0
