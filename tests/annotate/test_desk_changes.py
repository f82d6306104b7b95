"""Changes while a queue is in use: annotators, overlap, items and gold items."""

from collections import Counter

from sqlalchemy import update

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.audits import draw_audit_sample
from loupe.annotate.gold import GoldLine, add_known_answers
from loupe.annotate.interfaces.page import (
    ANSWERS,
    adjudication_data,
    adjudication_instructions,
)
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.pull import pull, reconcile
from loupe.annotate.queues import SHARED, Queue, shipped
from loupe.db.decisions import append_decisions
from loupe.db.entities import AgentRef, NewDecision, fetch
from loupe.db.gold import KnownAnswer, add_gold_items, reopen_items
from loupe.db.reviews import WAITING, review_tasks, set_annotator_state
from loupe.db.tables import Entity
from loupe.db.withdrawal_traces import close_reviews
from tests.annotate.answering import accepting, rejecting
from tests.annotate.interfaces.proposed import one_of_each_kind
from tests.annotate.memory_desk import MemoryOffice
from tests.annotate.office import hire, push, work
from tests.annotate.world import DATASET, REWRITE, World

ONE = shipped().queue(DATASET, "rewrites")
TWO = ONE.model_copy(update={"overlap": 2})
RIGHT = {"verdict": "accept", "choices": {"verdict": ("accept",)}}


def waiting(world: World, queue: Queue = ONE) -> Counter[tuple[str, str]]:
    """Count the waiting tasks by assignee and purpose."""
    return Counter(
        (task.assignee, task.purpose)
        for task in review_tasks(world.store, queue.name).values()
        if task.state in WAITING
    )


def withdraw(world: World, *entity_ids: str) -> None:
    agent = AgentRef("person", "curator")
    with world.store.write() as connection:
        append_decisions(
            connection, [NewDecision(entity_id, "withdraw", agent) for entity_id in entity_ids]
        )


def test_a_known_answer_decides_an_undecided_item_so_that_it_is_no_conflict(
    world: World, office: MemoryOffice
) -> None:
    queue = ONE.model_copy(update={"gold_rate": 0.5})
    ann = hire(world.store, office, "ann")
    first, second, third = world.add_rewrites(3)
    lines = [
        (1, GoldLine(entity=first, answer=ReviewAnswer(verdict="accept"))),
        (2, GoldLine(entity=second, answer=ReviewAnswer(verdict="edit"))),
    ]
    added = add_known_answers(world.store, queue, interface_of(queue), lines, "given")
    assert (added.added, added.decided) == (2, 1)
    for _ in range(3):
        push(world.store, office, queue)
        work(world.store, office, ann, accepting)
        pull(world.store, office, queue)
    push(world.store, office, queue)
    states = {one.state for id_, one in fetch(world.store, [first, third]).items()}
    assert states == {"accepted"}
    answered = review_tasks(world.store, queue.name, entity_id=first).values()
    assert {task.gold for task in answered} <= {True}
    open_tasks = review_tasks(world.store, queue.name, state="open").values()
    assert {task.entity_id for task in open_tasks} <= {second}


def test_an_adjudicator_reads_that_nobody_answered_an_item_that_all_skipped() -> None:
    page = interface_of(ONE)
    panel = adjudication_data(page, one_of_each_kind()["rewrite"].shown, {})
    assert "Nobody answered this item" in panel[ANSWERS]
    assert "or nobody is left who could answer it" in adjudication_instructions(page)


def test_tasks_of_the_only_annotator_go_to_loupes_own_account(
    world: World, office: MemoryOffice
) -> None:
    ann = hire(world.store, office, "ann")
    items = world.add_rewrites(3)
    push(world.store, office, ONE)
    first = office(ann).open_tasks()[0]
    office(ann).annotate(first.id, accepting(REWRITE))
    set_annotator_state(world.store, "ann", "left")
    assert pull(world.store, office, ONE).decided == 1
    push(world.store, office, ONE)
    assert waiting(world) == {(SHARED, "review"): 2}
    assert work(world.store, office, SHARED, accepting) == 2
    pull(world.store, office, ONE)
    assert world.states()["proposed"] == 0
    assert len(items) == 3


def test_tasks_of_loupes_own_account_go_to_the_first_annotators(
    world: World, office: MemoryOffice
) -> None:
    world.add_rewrites(4)
    push(world.store, office, ONE)
    first = office(SHARED).open_tasks()[0]
    office(SHARED).annotate(first.id, accepting(REWRITE))
    pull(world.store, office, ONE)
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    report = push(world.store, office, ONE)
    assert (report.closed, report.pushed) == (3, 3)
    assert set(waiting(world)) == {(ann, "review"), (bea, "review")}
    assert office(SHARED).open_tasks() == []


def test_conflicts_of_an_adjudicator_who_left_are_reassigned(
    world: World, office: MemoryOffice
) -> None:
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    cem, dan = (hire(world.store, office, name, "adjudicator") for name in ("cem", "dan"))
    world.add_rewrites(2)
    push(world.store, office, TWO)
    work(world.store, office, ann, accepting)
    work(world.store, office, bea, rejecting)
    pull(world.store, office, TWO)
    push(world.store, office, TWO)
    assert waiting(world) == {(cem, "adjudication"): 1, (dan, "adjudication"): 1}
    set_annotator_state(world.store, "dan", "left")
    push(world.store, office, TWO)
    assert waiting(world) == {(cem, "adjudication"): 2}
    assert office(dan).open_tasks("adjudication") == []


def test_a_skipped_adjudication_goes_to_others_and_last_to_loupes_account(
    world: World, office: MemoryOffice
) -> None:
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    cem, dan = (hire(world.store, office, name, "adjudicator") for name in ("cem", "dan"))
    world.add_rewrites(1)
    push(world.store, office, TWO)
    work(world.store, office, ann, accepting)
    work(world.store, office, bea, rejecting)
    for person in (cem, dan, SHARED):
        pull(world.store, office, TWO)
        push(world.store, office, TWO)
        assert waiting(world) == {(person, "adjudication"): 1}
        (task,) = office(person).open_tasks("adjudication")
        office(person).annotate(task.id, [], cancelled=person != SHARED)
    office(SHARED).annotate(task.id, accepting(REWRITE))
    pull(world.store, office, TWO)
    assert world.states()["proposed"] == 0


def test_a_withdrawn_adjudication_task_may_return_to_the_same_adjudicator(
    world: World, office: MemoryOffice
) -> None:
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    dan = hire(world.store, office, "dan", "adjudicator")
    world.add_rewrites(1)
    push(world.store, office, TWO)
    work(world.store, office, ann, accepting)
    work(world.store, office, bea, rejecting)
    (task,) = office(bea).only_project.values()
    for answer, expected in (
        (None, {(dan, "adjudication"): 1}),
        (accepting(REWRITE + " 0"), {}),
        (rejecting(REWRITE), {(dan, "adjudication"): 1}),
    ):
        if answer is not None:
            office(bea).annotate(task.id, answer, task.annotations[0].id)
        pull(world.store, office, TWO)
        push(world.store, office, TWO)
        assert waiting(world) == expected


def test_an_item_that_loupes_account_settled_can_be_reopened(
    world: World, office: MemoryOffice
) -> None:
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    (item,) = world.add_rewrites(1)
    push(world.store, office, TWO)
    work(world.store, office, ann, accepting)
    work(world.store, office, bea, rejecting)
    pull(world.store, office, TWO)
    for answer, expected in ((accepting, "accepted"), (rejecting, "rejected")):
        push(world.store, office, TWO)
        assert work(world.store, office, SHARED, answer, "adjudication") == 1, expected
        report = pull(world.store, office, TWO)
        assert (report.decided, report.deleted, world.states()) == (1, (), {expected: 1})
        lead = AgentRef("software", "lead")
        assert reopen_items(world.store, TWO.name, [item], lead, "").reopened == 1


def test_with_a_lower_overlap_items_with_enough_answers_are_decided(
    world: World, office: MemoryOffice
) -> None:
    ann, _ = (hire(world.store, office, name) for name in ("ann", "bea"))
    world.add_rewrites(3)
    push(world.store, office, TWO)
    work(world.store, office, ann, accepting)
    pull(world.store, office, TWO)
    assert world.states() == {"proposed": 3}
    assert pull(world.store, office, ONE).decided == 3
    assert world.states() == {"accepted": 3}
    assert pull(world.store, office, ONE).decided == 0
    assert push(world.store, office, ONE).closed == 3


def test_an_answered_task_with_an_earlier_skip_stays_answered(
    world: World, office: MemoryOffice
) -> None:
    ann, _ = (hire(world.store, office, name) for name in ("ann", "bea"))
    world.add_rewrites(1)
    push(world.store, office, TWO)
    (task,) = office(ann).open_tasks()
    office(ann).annotate(task.id, [], cancelled=True)
    office(ann).annotate(task.id, accepting(REWRITE))
    for _ in range(2):
        pull(world.store, office, TWO)
        states_of = {t.assignee: t.state for t in review_tasks(world.store, TWO.name).values()}
        assert states_of[ann] == "answered"


def test_a_skip_is_reported_once(world: World, office: MemoryOffice) -> None:
    ann, _ = (hire(world.store, office, name) for name in ("ann", "bea"))
    world.add_rewrites(1)
    push(world.store, office, TWO)
    (task,) = office(ann).open_tasks()
    office(ann).annotate(task.id, [], cancelled=True)
    assert [pull(world.store, office, TWO).skipped for _ in range(2)] == [1, 0]


def test_if_an_answer_becomes_unclear_the_earlier_clear_one_counts(
    world: World, office: MemoryOffice
) -> None:
    world.add_rewrites(1)
    push(world.store, office, ONE)
    (task,) = office(SHARED).open_tasks()
    number = office(SHARED).annotate(task.id, accepting(REWRITE + " 0"))
    pull(world.store, office, ONE)
    office(SHARED).annotate(task.id, rejecting(REWRITE, reason=None), number)
    (remark,) = pull(world.store, office, ONE).remarks
    assert "the clear answer before it still counts" in remark.detail
    assert world.states() == {"accepted": 1}


def test_a_task_with_an_unclear_answer_is_closed_if_its_item_is_withdrawn(
    world: World, office: MemoryOffice
) -> None:
    ann, _ = (hire(world.store, office, name) for name in ("ann", "bea"))
    (item,) = world.add_rewrites(1)
    push(world.store, office, TWO)
    work(world.store, office, ann, lambda text: rejecting(text, reason=None))
    assert len(pull(world.store, office, TWO).unclear) == 1
    withdraw(world, item)
    assert push(world.store, office, TWO).closed == 2
    assert waiting(world) == {}
    assert pull(world.store, office, TWO).unclear == ()


def test_tasks_that_a_withdrawal_closed_are_removed_from_the_server(
    world: World, office: MemoryOffice
) -> None:
    items = world.add_rewrites(2)
    push(world.store, office, ONE)
    first, _ = office(SHARED).open_tasks()
    office(SHARED).annotate(first.id, rejecting(REWRITE, reason=None))
    assert len(pull(world.store, office, ONE).unclear) == 1
    withdraw(world, *items)
    assert close_reviews(world.store, items) == 2
    assert push(world.store, office, ONE).closed == 2
    assert office(SHARED).only_project == {}
    assert push(world.store, office, ONE).projects == ()


def test_tasks_that_a_paused_annotator_has_not_begun_are_reassigned_until_the_return(
    world: World, office: MemoryOffice
) -> None:
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    world.add_rewrites(6)
    named = ONE.model_copy(update={"annotators": ("ann", "bea")})
    push(world.store, office, named)
    on_screen, *_ = office(ann).open_tasks()
    office(ann).opened.add(on_screen.id)
    set_annotator_state(world.store, "ann", "paused")
    assert push(world.store, office, named).moved == 2
    assert waiting(world) == {(ann, "review"): 1, (bea, "review"): 5}
    office(ann).opened.clear()
    assert push(world.store, office, named).moved == 1
    assert waiting(world) == {(bea, "review"): 6}
    set_annotator_state(world.store, "bea", "paused")
    assert push(world.store, office, ONE).short == 6  # nothing goes to Loupe's own account
    assert waiting(world) == {}
    set_annotator_state(world.store, "ann", "active")
    push(world.store, office, ONE)
    assert waiting(world) == {(ann, "review"): 6}


def test_items_of_a_paused_annotator_are_no_conflicts(world: World, office: MemoryOffice) -> None:
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    world.add_rewrites(2)
    push(world.store, office, TWO)
    work(world.store, office, ann, accepting)
    pull(world.store, office, TWO)
    set_annotator_state(world.store, "bea", "paused")
    report = push(world.store, office, TWO)
    assert (report.conflicts, report.short, waiting(world)) == (0, 2, {})
    set_annotator_state(world.store, "bea", "active")
    push(world.store, office, TWO)
    assert waiting(world) == {(bea, "review"): 2}


def test_withdrawn_gold_and_audit_items_are_not_shown(world: World, office: MemoryOffice) -> None:
    hire(world.store, office, "ann")
    hire(world.store, office, "bea")
    items = world.add_rewrites(8)
    gold, accepted = items[:4], items[4:6]
    with world.store.write() as connection:
        agent = AgentRef("person", "curator")
        append_decisions(connection, [NewDecision(one, "accept", agent) for one in gold + accepted])
    add_gold_items(world.store, ONE.name, [KnownAnswer(one, RIGHT, "file") for one in gold])
    draw_audit_sample(world.store, ONE, 6, 1)
    queue = ONE.model_copy(update={"gold_rate": 0.5})
    push(world.store, office, queue)
    withdraw(world, *gold, *accepted)
    push(world.store, office, queue)
    left = [t.entity_id for t in review_tasks(world.store, ONE.name).values() if t.state == "open"]
    assert set(left) <= set(items[6:])


def test_reconcile_decides_items_with_enough_answers(world: World, office: MemoryOffice) -> None:
    ann = hire(world.store, office, "ann")
    world.add_rewrites(2)
    push(world.store, office, ONE)
    work(world.store, office, ann, accepting)
    pull(world.store, office, ONE)
    with world.store.write() as connection:  # as in a database that was repaired by hand
        connection.execute(update(Entity).values(state="proposed").where(Entity.kind == "rewrite"))
    assert reconcile(world.store, office, ONE).decided == 2


def test_an_answer_given_while_its_task_is_being_closed_counts(
    world: World, office: MemoryOffice
) -> None:
    for name in ("ann", "bea"):
        hire(world.store, office, name)
    world.add_rewrites(1)
    push(world.store, office, ONE)
    ((assignee, _),) = waiting(world)
    (task,) = office(assignee).open_tasks()
    desk = office(assignee)
    delete = desk.delete_tasks

    def delete_after_an_answer(project_id: int, task_ids: list[int]) -> None:
        desk.annotate(task.id, accepting(REWRITE))
        pull(world.store, office, ONE)
        delete(project_id, task_ids)

    desk.delete_tasks = delete_after_an_answer  # type: ignore[method-assign, assignment]
    set_annotator_state(world.store, assignee.removeprefix("reviewer-"), "left")
    push(world.store, office, ONE)
    stored = {t.assignee: t.state for t in review_tasks(world.store, ONE.name).values()}
    assert stored[assignee] == "answered"
