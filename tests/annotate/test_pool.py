"""Batches that people have not opened go to those who have nothing left."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from loupe.annotate.pull import pull
from loupe.db.entities import find
from loupe.db.gold import KnownAnswer, add_gold_items
from loupe.db.reviews import note_asked, review_tasks, set_priorities
from loupe.db.tables import Annotation, ReviewTask
from tests.annotate.answering import accepting, rejecting
from tests.annotate.memory_desk import MemoryOffice
from tests.annotate.office import hire, push, work
from tests.annotate.test_overlap import QUEUE as TWO_EACH
from tests.annotate.world import DATASET, World

QUEUE = TWO_EACH.model_copy(update={"overlap": 1})


def test_the_first_annotator_gets_a_batch_and_later_ones_get_theirs(
    world: World, office: MemoryOffice
) -> None:
    world.add_rewrites(50)
    ann = hire(world.store, office, "ann")
    assert push(world.store, office, QUEUE).short == 30
    bea = hire(world.store, office, "bea")
    push(world.store, office, QUEUE)
    assert [len(office(person).open_tasks()) for person in (ann, bea)] == [20, 20]


def test_nobody_is_without_work_while_others_have_unopened_tasks(
    world: World, office: MemoryOffice
) -> None:
    """Whoever joins at the end gets half of what the busiest have; nothing is doubled."""
    world.add_rewrites(20)
    ann = hire(world.store, office, "ann")
    push(world.store, office, QUEUE)
    bea = hire(world.store, office, "bea")
    report = push(world.store, office, QUEUE)
    assert (report.moved, report.pushed) == (10, 10)
    assert [len(office(person).open_tasks()) for person in (ann, bea)] == [10, 10]
    assert push(world.store, office, QUEUE).moved == 0
    for person in (ann, bea):
        work(world.store, office, person, accepting)
    assert pull(world.store, office, QUEUE).accepted == 20
    assert world.states() == {"accepted": 20}


def test_a_task_that_is_open_in_a_browser_stays_with_its_person(
    world: World, office: MemoryOffice
) -> None:
    world.add_rewrites(8)
    ann = hire(world.store, office, "ann")
    push(world.store, office, QUEUE)
    held = office(ann).open_tasks()
    office(ann).opened |= {task.id for task in held}
    hire(world.store, office, "bea")
    assert push(world.store, office, QUEUE).moved == 0
    assert office(ann).open_tasks() == held


def test_what_an_absent_person_holds_goes_to_those_who_work(
    world: World, office: MemoryOffice
) -> None:
    """Who comes back and asks gets tasks again."""
    world.add_rewrites(24)
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    push(world.store, office, QUEUE)
    pass_hours(world, 2)
    work(world.store, office, bea, accepting, most=12)
    office.server.now = datetime.now(UTC)
    pull(world.store, office, QUEUE)
    answer_now(world)
    push(world.store, office, QUEUE)
    assert [len(office(person).open_tasks()) for person in (ann, bea)] == [0, 12]
    assert push(world.store, office, QUEUE).moved == 0
    note_asked(world.store, office(ann).url, [office(ann).user_id], datetime.now(UTC))
    push(world.store, office, QUEUE)
    assert [len(office(person).open_tasks()) for person in (ann, bea)] == [6, 6]


def test_a_priority_set_later_comes_next(world: World, office: MemoryOffice) -> None:
    """The two tasks that the page may have loaded stay first."""
    world.add_rewrites(60)
    ann = hire(world.store, office, "ann")
    push(world.store, office, QUEUE)
    given = {task.entity_id for task in review_tasks(world.store, QUEUE.name).values()}
    late = sorted({item for item in ids(world) if item not in given})[:2]
    early = order(world, office, ann)[10]
    set_priorities(world.store, QUEUE.name, [*late, early], 5)
    push(world.store, office, QUEUE)
    assert set(order(world, office, ann)[2:5]) == {*late, early}
    assert len(office(ann).open_tasks()) == 20
    assert push(world.store, office, QUEUE).moved == 0


def test_gold_items_added_later_come_with_the_next_tasks(
    world: World, office: MemoryOffice
) -> None:
    world.add_rewrites(60)
    hire(world.store, office, "ann")
    push(world.store, office, QUEUE)
    gold = [world.add(f"gold {number}", checked=False) for number in range(20)]
    answer = {"verdict": "accept", "choices": {"verdict": ["accept"]}}
    add_gold_items(world.store, QUEUE.name, [KnownAnswer(one, answer, "given") for one in gold])
    with_gold = QUEUE.model_copy(update={"gold_rate": 0.2})
    assert push(world.store, office, with_gold).gold > 0
    assert push(world.store, office, with_gold).moved == 0


@pytest.mark.parametrize("first", ["", "dan"])
def test_conflicts_move_to_a_new_adjudicator(
    world: World, office: MemoryOffice, first: str
) -> None:
    """Those of the installation's own account all, those of a colleague half."""
    world.add_rewrites(10)
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    if first:
        hire(world.store, office, first, "adjudicator")
    push(world.store, office, TWO_EACH)
    work(world.store, office, ann, accepting)
    work(world.store, office, bea, rejecting)
    pull(world.store, office, TWO_EACH)
    assert push(world.store, office, TWO_EACH).conflicts == 10
    eve = hire(world.store, office, "eve", "adjudicator")
    push(world.store, office, TWO_EACH)
    assert len(office(eve).open_tasks("adjudication")) == (5 if first else 10)
    assert push(world.store, office, TWO_EACH).moved == 0


def ids(world: World) -> list[str]:
    return [entity.id for entity in find(world.store, DATASET, "rewrite")]


def order(world: World, office: MemoryOffice, person: str) -> list[str]:
    """Return the items of a person's open tasks in the order in which they open."""
    tasks = review_tasks(world.store, QUEUE.name)
    return [tasks[task.key].entity_id for task in office(person).open_tasks()]


def pass_hours(world: World, hours: int) -> None:
    """Make all tasks that much older."""
    before = datetime.now(UTC) - timedelta(hours=hours)
    with world.store.write() as connection:
        connection.execute(update(ReviewTask).values(pushed_at=before))


def answer_now(world: World) -> None:
    """Make all answers so far those of this moment."""
    with world.store.write() as connection:
        connection.execute(update(Annotation).values(annotated_at=datetime.now(UTC)))
