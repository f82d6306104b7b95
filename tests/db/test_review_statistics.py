"""Review statistics: which answers, items and tasks are counted."""

from datetime import timedelta

import pytest

from loupe.annotate.answers import UnclearAnswer
from loupe.db.annotations import given_answers
from loupe.db.review_audits import ItemProgress, TaskCount, item_progress, task_counts
from loupe.db.store import Store
from tests.annotate.review_history import (
    CAREFUL,
    SETTLER,
    START,
    STEADY,
    History,
    captions_queue,
    said,
)

QUEUE = captions_queue()
ANN, BO = CAREFUL.pseudonym, STEADY.pseudonym


@pytest.fixture
def history(store: Store) -> History:
    history = History(store, QUEUE)
    history.people(CAREFUL, STEADY, SETTLER)
    return history


@pytest.mark.usefixtures("database_url")
def test_the_last_clear_answer_of_a_task_counts(history: History, store: Store) -> None:
    (item,) = history.items(1)
    task = history.task(item, ANN, "answered")
    history.annotate(task, ANN, said("reject"), START, 9.0)
    history.annotate(task, ANN, said("accept"), START + timedelta(hours=1), 7.5)
    unclear = UnclearAnswer(problem="no verdict was chosen").model_dump()
    history.annotate(task, ANN, unclear, START + timedelta(hours=2), state="unclear")
    history.write()
    (given,) = given_answers(store, QUEUE.name)
    assert given.answer["verdict"] == "accept"
    assert given.lead_time_seconds == 7.5
    assert (given.entity_id, given.person, given.purpose, given.gold) == (
        item,
        ANN,
        "review",
        False,
    )
    assert given.annotated_at == START + timedelta(hours=1)


def test_only_answered_tasks_have_an_answer(history: History, store: Store) -> None:
    states = ("open", "unclear", "skipped", "returned", "closed")
    for item, state in zip(history.items(len(states)), states, strict=True):
        history.answer(item, CAREFUL, "accept", START, state=state)
    history.write()
    assert list(given_answers(store, QUEUE.name)) == []


def test_an_answer_to_an_unassigned_task_is_attributed_to_its_author(
    history: History, store: Store
) -> None:
    (item,) = history.items(1)
    history.annotate(history.task(item, "", "answered"), ANN, said("accept"), START)
    history.write()
    (given,) = given_answers(store, QUEUE.name)
    assert given.person == ANN


def test_answers_are_ordered_by_item(history: History, store: Store) -> None:
    items = history.items(30)
    for person in (CAREFUL, STEADY):
        for item in reversed(items):
            history.answer(item, person, "accept", START)
    history.write()
    given = [answer.entity_id for answer in given_answers(store, QUEUE.name)]
    assert given == [item for item in sorted(items) for _ in (ANN, BO)]


@pytest.mark.usefixtures("database_url")
def test_items_and_tasks_are_counted(history: History, store: Store) -> None:
    half, settled, gold = history.items(3)
    history.answer(half, CAREFUL, "accept", START)
    history.task(half, BO)
    history.answer(settled, CAREFUL, "accept", START)
    history.answer(settled, STEADY, "reject", START)
    history.task(settled, SETTLER.pseudonym, "unclear", "adjudication")
    history.answer(gold, CAREFUL, "accept", START, gold=True)
    history.write()
    history.decide([half], "accepted")
    assert item_progress(store, QUEUE.name) == {
        half: ItemProgress("accepted", answered=1, waiting=1, adjudicating=0),
        settled: ItemProgress("proposed", answered=2, waiting=0, adjudicating=1),
    }
    counts = task_counts(store, QUEUE.name)
    for is_gold, tasks in ((False, 2), (True, 1)):
        assert TaskCount(ANN, "review", is_gold, "answered", tasks, START) in counts
    assert sum(count.tasks for count in counts) == 6
