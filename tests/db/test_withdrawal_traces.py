"""What a withdrawal erases besides files, and judgements that are withdrawn."""

import numpy as np

from db.annotations import undecided_items
from db.decisions import NewDecision, append_decisions
from db.embeddings import find_vectors, register_space, store_vectors
from db.store import Store
from db.withdrawal_traces import (
    close_reviews,
    forget_person,
    forget_vectors,
    judged_alone,
    return_answers,
)
from schemas.chat import ModelRef
from tests.db.review_samples import QUEUE, Desk, store_rewrites
from tests.db.samples import SOFTWARE


def judged(store: Store, person: str) -> list[str]:
    with store.read() as connection:
        return judged_alone(connection, person)


def test_items_judged_by_one_person_are_asked_again_and_others_stay(store: Store) -> None:
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


def test_a_rejection_is_a_judgement_too_and_one_that_was_overruled_is_none(store: Store) -> None:
    rejected, overruled = store_rewrites(store, 2)
    desk = Desk(store)
    desk.decide(rejected, "reject", desk.answer(rejected, "a", "reject"))
    desk.decide(overruled, "reject", desk.answer(overruled, "a", "reject"))
    desk.decide(overruled, "accept", None, person="b")
    assert judged(store, "a") == [rejected]


def test_where_others_disagree_the_remaining_answers_decide_again(store: Store) -> None:
    """An adjudicator's word stood above theirs; without it they may come to something else."""
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


def test_an_answer_to_a_gold_item_is_no_second_judgement(store: Store) -> None:
    (item,) = store_rewrites(store, 1)
    desk = Desk(store)
    desk.answer(item, "b", gold=True)
    desk.decide(item, "accept", desk.answer(item, "a"))
    assert judged(store, "a") == [item]


def test_no_answer_of_the_person_counts_any_more(store: Store) -> None:
    answered, waiting = store_rewrites(store, 2)
    desk = Desk(store)
    desk.answer(answered, "a")
    desk.answer(answered, "b")
    desk.give(waiting, "a")
    assert return_answers(store, "a") == 1
    assert desk.task_state(answered, "a") == "returned"
    assert desk.task_state(answered, "b") == "answered"
    assert desk.task_state(waiting, "a") == "closed"
    assert return_answers(store, "a") == 0


def test_questions_that_wait_are_closed_and_answers_are_kept(store: Store) -> None:
    answered, waiting, other = store_rewrites(store, 3)
    desk = Desk(store)
    desk.answer(answered, "a")
    desk.give(waiting, "a")
    desk.give(other, "a")
    assert close_reviews(store, [answered, waiting]) == 1
    assert desk.task_state(answered, "a") == "answered"
    assert desk.task_state(waiting, "a") == "closed"
    assert desk.task_state(other, "a") == "open"


def test_vectors_are_forgotten_in_every_space_and_of_one_kind(store: Store) -> None:
    spaces = [register_space(store, ModelRef(name=name, revision="1"), {}, 2) for name in "mn"]
    digests = ["a" * 64, "b" * 64]
    for space in spaces:
        store_vectors(store, space, "image", digests, np.ones((2, 2), np.float32))
        store_vectors(store, space, "text", digests, np.ones((2, 2), np.float32))
    assert forget_vectors(store, "image", digests[:1]) == 2
    for space in spaces:
        assert find_vectors(store, space, "image", digests).keys() == {digests[1]}
        assert find_vectors(store, space, "text", digests).keys() == set(digests)
    assert forget_vectors(store, "image", digests[:1]) == 0


def test_a_name_that_nobody_knows_cannot_be_forgotten(store: Store) -> None:
    assert not forget_person(store, "reviewer-1")
