"""Several annotators on one queue: overlap, conflicts, gold items, drift and daily caps."""

import math
from datetime import UTC, datetime
from itertools import combinations

import pytest

from loupe.annotate.audits import draw_audit_sample
from loupe.annotate.backend import DeskUnavailableError, ProjectCounts
from loupe.annotate.pull import pull, reconcile
from loupe.annotate.queues import SHARED, Queue, shipped
from loupe.annotate.statistics.overview import overview
from loupe.db.annotations import annotations_of
from loupe.db.decisions import append_decisions
from loupe.db.entities import NewDecision, fetch, find
from loupe.db.gold import KnownAnswer, add_gold_items, all_checks, reinstate_annotator, revocations
from loupe.db.review_audits import audited_draws
from loupe.db.reviews import StoredTask, review_tasks
from loupe.schemas.errors import ServiceError, UsageError
from loupe.schemas.records import Rewrite
from tests.annotate.answering import accepting, editing, rejecting
from tests.annotate.interfaces.regions import ticked
from tests.annotate.memory_desk import MemoryDesk, MemoryOffice
from tests.annotate.office import hire, push, work
from tests.annotate.world import DATASET, REWRITE, World

QUEUE = shipped().queue(DATASET, "rewrites").model_copy(update={"overlap": 2})


def tasks(world: World, queue: Queue = QUEUE) -> list[StoredTask]:
    return list(review_tasks(world.store, queue.name).values())


def test_each_item_goes_to_as_many_annotators_as_the_overlap(
    world: World, office: MemoryOffice
) -> None:
    people = [hire(world.store, office, name) for name in ("ann", "bea", "cem")]
    items = world.add_rewrites(12)
    assert push(world.store, office, QUEUE).pushed == 24
    assert push(world.store, office, QUEUE).known == 24
    by_item = {item: {t.assignee for t in tasks(world) if t.entity_id == item} for item in items}
    assert {len(found) for found in by_item.values()} == {2}
    assert {len(office(person).open_tasks()) for person in people} == {8}
    assert {frozenset(found) for found in by_item.values()} == set(
        map(frozenset, combinations(people, 2))
    )
    assert office(SHARED).sent == []


def test_too_few_annotators_are_an_error_that_says_how_to_add_some(
    world: World, office: MemoryOffice
) -> None:
    world.add_rewrites(1)
    hire(world.store, office, "ann")
    with pytest.raises(UsageError, match=r"wants 2 people .* has 1; .*loupe annotator add NAME"):
        push(world.store, office, QUEUE)


def test_an_item_is_decided_when_all_answers_agree(world: World, office: MemoryOffice) -> None:
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    world.add_rewrites(3)
    push(world.store, office, QUEUE)
    work(world.store, office, ann, accepting)
    assert (pull(world.store, office, QUEUE).decided, world.states()) == (0, {"proposed": 3})
    work(world.store, office, bea, editing)  # an edit that changes nothing
    report = pull(world.store, office, QUEUE)
    assert (report.decided, world.states()) == (3, {"accepted": 3})
    assert push(world.store, office, QUEUE).projects == ()


def test_a_conflict_goes_to_an_adjudicator_without_an_answer(
    world: World, office: MemoryOffice
) -> None:
    ann = hire(world.store, office, "ann", "annotator adjudicator")
    bea = hire(world.store, office, "bea")
    dan = hire(world.store, office, "dan", "adjudicator")
    world.add_rewrites(2)
    push(world.store, office, QUEUE)
    work(world.store, office, ann, accepting)
    work(world.store, office, bea, rejecting)
    assert pull(world.store, office, QUEUE).conflicts == 2
    assert push(world.store, office, QUEUE).conflicts == 2
    pages = [str(task.data["answers_html"]) for task in office(dan).sent]
    assert all("Answer A" in page and "Answer B" in page for page in pages)
    assert not any("reviewer" in page for page in pages)
    assert work(world.store, office, dan, lambda _: editing("Settled."), "adjudication") == 2
    assert pull(world.store, office, QUEUE).decided == 2
    accepted = list(find(world.store, DATASET, "rewrite", states=["accepted"]))
    assert {entity.record(Rewrite).text for entity in accepted} == {"Settled."}
    kept = annotations_of(world.store, [task.key for task in tasks(world)])
    assert sum(map(len, kept.values())) == 6


def test_an_adjudicator_can_adopt_an_answer(world: World, office: MemoryOffice) -> None:
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    dan = office(hire(world.store, office, "dan", "adjudicator"))
    world.add_rewrites(2)
    push(world.store, office, QUEUE)
    work(world.store, office, ann, lambda _: editing("A woman in a blue coat."))
    work(world.store, office, bea, rejecting)
    pull(world.store, office, QUEUE)
    push(world.store, office, QUEUE)
    first, second = dan.open_tasks("adjudication")
    takes = {task.key: task.data["takes"] for task in dan.sent}
    given = annotations_of(world.store, [task.key for task in tasks(world)])
    edits = {
        one.key for found in given.values() for one in found if one.answer["verdict"] == "edit"
    }
    (edit,) = (one["value"] for one in takes[first.key] if one["value"] in edits)
    dan.submit(first.id, [ticked("take", edit)])
    dan.submit(second.id, [ticked("take", edit)])  # not an answer to that item
    report = pull(world.store, office, QUEUE)
    assert (report.decided, len(report.unclear)) == (1, 1)
    assert "you took is not about this item" in report.unclear[0].detail
    assert world.states() == {"superseded": 1, "accepted": 1, "proposed": 1}
    dan.submit(second.id, [ticked("take", "own"), *rejecting("My own.", reason=None)])
    assert pull(world.store, office, QUEUE).unclear
    assert push(world.store, office, QUEUE).sent_back == 1
    (kept,) = dan.sent[-1].predictions
    assert {one["from_name"] for one in kept["result"]} == {"take", "text", "verdict"}
    (second,) = dan.open_tasks("adjudication")
    dan.submit(second.id, [ticked("take", "own"), *rejecting(REWRITE)])
    assert pull(world.store, office, QUEUE).decided == 1
    assert world.states() == {"superseded": 1, "accepted": 1, "rejected": 1}


def test_a_changed_answer_reopens_the_item(world: World, office: MemoryOffice) -> None:
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    world.add_rewrites(1)
    push(world.store, office, QUEUE)
    for person in (ann, bea):
        work(world.store, office, person, lambda _: editing("A woman in a red coat."))
    pull(world.store, office, QUEUE)
    assert world.states() == {"superseded": 1, "accepted": 1}
    (task,) = office(bea).only_project.values()
    office(bea).annotate(task.id, rejecting(REWRITE), task.annotations[0].id)
    assert pull(world.store, office, QUEUE).conflicts == 1
    assert world.states() == {"proposed": 1, "rejected": 1}
    assert push(world.store, office, QUEUE).conflicts == 1


def test_a_skipped_item_goes_to_another_annotator(world: World, office: MemoryOffice) -> None:
    ann, bea, cem = (hire(world.store, office, name) for name in ("ann", "bea", "cem"))
    (item,) = world.add_rewrites(1)
    push(world.store, office, QUEUE)
    first, second = sorted(task.assignee for task in tasks(world))
    (waiting,) = office(first).open_tasks()
    office(first).annotate(waiting.id, [], cancelled=True)
    assert pull(world.store, office, QUEUE).skipped == 1
    assert push(world.store, office, QUEUE).pushed == 1
    (third,) = {ann, bea, cem} - {first, second}
    for person in (second, third):
        assert work(world.store, office, person, accepting) == 1
    pull(world.store, office, QUEUE)
    assert fetch(world.store, [item])[item].state == "accepted"


def test_an_item_that_all_skipped_goes_to_an_adjudicator(
    world: World, office: MemoryOffice
) -> None:
    people = [hire(world.store, office, name) for name in ("ann", "bea")]
    dan = hire(world.store, office, "dan", "adjudicator")
    world.add_rewrites(1)
    push(world.store, office, QUEUE)
    for person in people:
        (waiting,) = office(person).open_tasks()
        office(person).annotate(waiting.id, [], cancelled=True)
    pull(world.store, office, QUEUE)
    assert push(world.store, office, QUEUE).conflicts == 1
    assert len(office(dan).open_tasks("adjudication")) == 1


def test_items_beyond_the_daily_cap_are_not_pushed(world: World, office: MemoryOffice) -> None:
    people = [hire(world.store, office, name) for name in ("ann", "bea")]
    world.add_rewrites(5)
    capped = QUEUE.model_copy(update={"daily_cap": 3})
    report = push(world.store, office, capped)
    assert (report.pushed, report.short) == (6, 2)
    assert [len(office(person).open_tasks()) for person in people] == [3, 3]


@pytest.mark.parametrize("is_today", [True, False])
def test_answers_of_today_count_towards_the_daily_cap(
    world: World, office: MemoryOffice, is_today: bool
) -> None:
    ann = hire(world.store, office, "ann")
    world.add_rewrites(8)
    capped = QUEUE.model_copy(update={"daily_cap": 3, "overlap": 1})
    if is_today:
        office.server.now = datetime.now(UTC)
    assert push(world.store, office, capped).pushed == 3
    work(world.store, office, ann, accepting)
    pull(world.store, office, capped)
    assert push(world.store, office, capped).pushed == (0 if is_today else 3)


def test_gold_items_are_mixed_in_and_decide_nothing(world: World, office: MemoryOffice) -> None:
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    add_gold(world, 20)
    queue = QUEUE.model_copy(update={"gold_rate": 0.25, "batch": 100})
    world.add_rewrites(30)
    report = push(world.store, office, queue)
    assert (report.pushed, report.gold) == (80, 20)
    keys = {task.key for task in office(ann).sent}
    gold = {task.key for task in tasks(world) if task.gold}
    places = [n for n, task in enumerate(office(ann).sent) if task.key in gold]
    assert len(keys & gold) == 10
    assert places != list(range(10))
    assert {frozenset(task.data) for task in office(ann).sent} == {
        frozenset(office(ann).sent[0].data)
    }
    work(world.store, office, ann, accepting)
    pull(world.store, office, queue)
    checks = all_checks(world.store, queue.name)
    assert [check.correct for check in checks[ann]] == [True] * 10
    assert bea not in checks


def test_a_higher_floor_suspends_those_who_had_too_many_gold_items_wrong(
    world: World, office: MemoryOffice
) -> None:
    ann = hire(world.store, office, "ann")
    add_gold(world, 5)
    lenient = {"gold_rate": 0.2, "overlap": 1, "batch": 100, "accuracy_floor": 0.0}
    queue = QUEUE.model_copy(update=lenient)
    world.add_rewrites(20)
    push(world.store, office, queue)
    work(world.store, office, ann, rejecting)
    assert pull(world.store, office, queue).returned == 0
    answered = len(all_checks(world.store, queue.name)[ann])
    too_few = queue.model_copy(update={"accuracy_floor": 0.9, "accuracy_least": answered + 1})
    assert pull(world.store, office, too_few).returned == 0
    strict = too_few.model_copy(update={"accuracy_least": answered})
    assert pull(world.store, office, strict).returned > 0
    (found,) = revocations(world.store, queue.name)
    assert (found.assignee, found.answers, found.rule["floor"]) == (ann, answered, 0.9)
    assert pull(world.store, office, strict).returned == 0


def test_failing_on_gold_items_revokes_unconfirmed_answers(
    world: World, office: MemoryOffice
) -> None:
    ann, bea, careless = (hire(world.store, office, name) for name in ("ann", "bea", "cem"))
    add_gold(world, 20)
    queue = QUEUE.model_copy(update={"gold_rate": 0.2, "overlap": 1, "batch": 100})
    items = set(world.add_rewrites(60))
    push(world.store, office, queue)
    for person, opinion in ((ann, accepting), (bea, accepting), (careless, rejecting)):
        work(world.store, office, person, opinion)
    report = pull(world.store, office, queue)
    assert report.returned == 20
    (found,) = revocations(world.store, queue.name)
    assert (found.assignee, found.accuracy, found.tasks) == (careless, 0.0, 20)
    assert world.states() == {"accepted": 40, "proposed": 20 + 20}  # 20 of them are gold items
    push(world.store, office, queue)
    assert office(careless).open_tasks() == []
    assert [spec.note[:24] for spec in office(careless).specs.values()] == [
        "Suspended: 0 of your las"
    ]
    assert not any(spec.note.startswith("Suspended") for spec in office(ann).specs.values())
    (problem,) = overview(world.store, [queue], datetime.now(UTC), names=True).problems
    assert problem.sentence.startswith(
        "cem is suspended from people-rewrites (0 of 5 gold answers right): loupe annotator report"
    )
    for person in (ann, bea):
        work(world.store, office, person, accepting)
    pull(world.store, office, queue)
    assert {fetch(world.store, [item])[item].state for item in items} == {"accepted"}
    assert reinstate_annotator(world.store, queue.name, careless) == 1
    world.add_rewrites(90)
    push(world.store, office, queue)
    assert office(careless).open_tasks() != []
    assert not any(spec.note.startswith("Suspended") for spec in office(careless).specs.values())


def test_annotators_get_no_ordinary_items_before_qualification(
    world: World, office: MemoryOffice
) -> None:
    ann, careless = (hire(world.store, office, name) for name in ("ann", "cem"))
    queue = QUEUE.model_copy(update={"qualification": 4, "overlap": 1})
    world.add_rewrites(10)
    add_gold(world, 3)
    with pytest.raises(UsageError, match="requires 4 gold items of everybody first"):
        push(world.store, office, queue)
    add_gold(world, 6, first=3)
    assert (push(world.store, office, queue).gold, len(office(ann).open_tasks())) == (8, 4)
    assert "first 4 items have a known answer" in next(iter(office(ann).specs.values())).note
    work(world.store, office, ann, accepting, most=3)
    pull(world.store, office, queue)
    assert push(world.store, office, queue).pushed == 0
    work(world.store, office, ann, accepting)
    work(world.store, office, careless, rejecting)
    pull(world.store, office, queue)
    report = push(world.store, office, queue)
    assert (report.gold, len(office(ann).open_tasks())) == (0, 10)
    assert [one.assignee for one in revocations(world.store, queue.name)] == [careless]
    assert office(careless).open_tasks() == []


def test_gold_items_count_towards_the_daily_cap(world: World, office: MemoryOffice) -> None:
    people = [hire(world.store, office, name) for name in ("ann", "bea")]
    add_gold(world, 20)
    world.add_rewrites(60)
    queue = QUEUE.model_copy(update={"daily_cap": 20, "gold_rate": 0.1, "batch": 100})
    for _ in range(2):
        push(world.store, office, queue)
        assert [len(office(person).open_tasks()) for person in people] == [20, 20]


def test_audits_count_towards_the_daily_cap(world: World, office: MemoryOffice) -> None:
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    queue = QUEUE.model_copy(update={"overlap": 1, "annotators": ("ann",)})
    world.add_rewrites(5)
    push(world.store, office, queue)
    work(world.store, office, ann, accepting)
    pull(world.store, office, queue)
    draw_audit_sample(world.store, queue, 5, seed=1, by=())
    capped = queue.model_copy(update={"annotators": ("bea",), "daily_cap": 3})
    assert [push(world.store, office, capped).pushed for _ in range(2)] == [3, 0]
    world.add(f"{REWRITE} of tomorrow")
    assert push(world.store, office, capped).short == 1
    assert (len(office(bea).open_tasks("audit")), office(bea).open_tasks()) == (3, [])


def test_batch_sizes_do_not_reveal_gold_items(world: World, office: MemoryOffice) -> None:
    """Gold items added late are mixed in gradually, without changing the batch sizes."""
    ann = hire(world.store, office, "ann")
    world.add_rewrites(70)
    queue = QUEUE.model_copy(update={"gold_rate": 0.2, "batch": 10, "overlap": 1})
    sizes, sent, gold = [], [], []
    for round_number in range(5):
        if round_number == 2:
            add_gold(world, 20)
        report = push(world.store, office, queue)
        sizes.append(report.pushed - report.moved)
        sent.append(report.pushed)
        gold.append(report.gold)
        assert len(office(ann).open_tasks()) == 10
        work(world.store, office, ann, accepting, most=1)
        pull(world.store, office, queue)
        assert push(world.store, office, queue).pushed == 0  # more than half is open
        work(world.store, office, ann, accepting, most=5 + round_number % 4)
        pull(world.store, office, queue)
    assert sizes == [10, 6, 7, 8, 9]
    assert gold[:2] == [0, 0]
    assert all(
        0 < count <= math.ceil(0.4 * size) for count, size in zip(gold[2:], sent[2:], strict=True)
    )


def test_the_next_batch_comes_when_exactly_half_of_the_last_one_is_done(
    world: World, office: MemoryOffice
) -> None:
    ann = hire(world.store, office, "ann")
    world.add_rewrites(20)
    queue = QUEUE.model_copy(update={"batch": 6, "overlap": 1})
    sent = []
    for answers in (0, 2, 1, 2, 1):
        work(world.store, office, ann, accepting, most=answers)
        pull(world.store, office, queue)
        sent.append(push(world.store, office, queue).pushed)
    assert sent == [6, 0, 3, 0, 3]


def test_the_progress_note_never_tells_the_gold_items_of_today(
    world: World, office: MemoryOffice
) -> None:
    ann = hire(world.store, office, "ann")
    queue = QUEUE.model_copy(update={"gold_rate": 0.5, "batch": 8, "overlap": 1})
    world.add_rewrites(40)
    add_gold(world, 20)
    push(world.store, office, queue)
    before = work(world.store, office, ann, accepting)  # some days ago
    pull(world.store, office, queue)
    right = len(all_checks(world.store, queue.name)[ann])
    assert 0 < right < before
    push(world.store, office, queue)
    notes = {spec.note for spec in office(ann).specs.values()}
    (note,) = notes
    assert f"you answered {before} items" in note
    assert f"{right} of {right} answers" in note
    office.server.now = datetime.now(UTC)
    work(world.store, office, ann, accepting)
    pull(world.store, office, queue)
    assert len(all_checks(world.store, queue.name)[ann]) > right
    world.add_rewrites(60)
    push(world.store, office, queue)
    assert {spec.note for spec in office(ann).specs.values()} == notes


def test_a_task_of_an_item_with_enough_answers_is_closed(
    world: World, office: MemoryOffice
) -> None:
    """Two of three have answered, and the queue now wants two; they disagree."""
    people = [hire(world.store, office, name) for name in ("ann", "bea", "cem")]
    hire(world.store, office, "dan", "adjudicator")
    world.add()
    three = QUEUE.model_copy(update={"overlap": 3})
    assert push(world.store, office, three).pushed == 3
    work(world.store, office, people[0], accepting)
    work(world.store, office, people[1], rejecting)
    pull(world.store, office, three)
    report = push(world.store, office, QUEUE)
    assert (report.closed, report.conflicts) == (1, 1)
    assert office(people[2]).open_tasks() == []


def test_an_edit_stays_when_somebody_else_makes_the_same_one(
    world: World, office: MemoryOffice
) -> None:
    """The first answer decides again, with the text that it made before."""
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    item = world.add()
    push(world.store, office, QUEUE)
    one = QUEUE.model_copy(update={"overlap": 1})
    for person in (ann, bea):
        work(world.store, office, person, lambda _: editing("A woman in a red coat."))
        pull(world.store, office, one)
        found = {entity.id: entity.state for entity in find(world.store, DATASET, "rewrite")}
        assert found.pop(item) == "superseded"
        assert [*found.values()] == ["accepted"], person


def test_a_pull_fails_only_if_no_workspace_can_be_read(world: World, office: MemoryOffice) -> None:
    people = [hire(world.store, office, name) for name in ("ann", "bea")]
    world.add_rewrites(2)
    queue = QUEUE.model_copy(update={"overlap": 1})
    push(world.store, office, queue)
    for person in people:
        work(world.store, office, person, accepting)
    away = {people[0]}

    class Away(MemoryDesk):
        def count(self, project_id: int) -> ProjectCounts:
            raise DeskUnavailableError(f"{project_id} is away")

    def desks(person: str) -> MemoryDesk:
        desk = office(person)
        if person not in away:
            return desk
        return Away(desk.server, specs=desk.specs, tasks=desk.tasks)

    report = pull(world.store, desks, queue)
    assert (report.accepted, len(report.unreached)) == (1, 1)
    away.update(people)
    with pytest.raises(ServiceError, match="is away"):
        pull(world.store, desks, queue)
    away.clear()
    assert pull(world.store, desks, queue).accepted == 1


def test_audit_tasks_go_to_another_annotator(world: World, office: MemoryOffice) -> None:
    queue = QUEUE.model_copy(update={"overlap": 1})
    ann = hire(world.store, office, "ann")
    world.add_rewrites(8)
    push(world.store, office, queue)
    work(world.store, office, ann, accepting)
    pull(world.store, office, queue)
    assert draw_audit_sample(world.store, queue, 6, seed=1, by=()).drawn == 6
    assert push(world.store, office, queue).pushed == 0
    bea = hire(world.store, office, "bea")
    assert push(world.store, office, queue).pushed == 6
    assert push(world.store, office, queue).pushed == 0
    work(world.store, office, bea, rejecting, "audit")
    report = pull(world.store, office, queue)
    assert (report.rejected, report.decided) == (6, 0), "audits decide nothing"
    assert world.states() == {"accepted": 8}
    with world.store.read() as connection:
        (draw,) = audited_draws(connection, DATASET)
    assert len(draw.wrong_items) == 6


def test_tasks_of_decided_items_are_closed(world: World, office: MemoryOffice) -> None:
    people = [hire(world.store, office, name) for name in ("ann", "bea")]
    world.add_rewrites(2)
    push(world.store, office, QUEUE)
    (item, _) = sorted({task.entity_id for task in tasks(world)})
    with world.store.write() as connection:
        append_decisions(connection, [NewDecision(item, "withdraw", QUEUE.agent, "takedown")])
    assert push(world.store, office, QUEUE).closed == 2
    assert [len(office(person).open_tasks()) for person in people] == [1, 1]


def test_a_pull_without_changes_lists_almost_no_tasks(world: World, office: MemoryOffice) -> None:
    people = [hire(world.store, office, name) for name in ("ann", "bea")]
    world.add_rewrites(20)
    push(world.store, office, QUEUE)
    for person in people:
        work(world.store, office, person, accepting)
    pull(world.store, office, QUEUE)
    before = sum(office(person).listed for person in people)
    again = pull(world.store, office, QUEUE)
    assert (again.accepted, again.decided) == (0, 0)
    assert sum(office(person).listed for person in people) - before <= 2
    assert reconcile(world.store, office, QUEUE).answers == 0


def add_gold(world: World, count: int, first: int = 0) -> None:
    """Add gold items with the answer «accept»; they are unchecked and thus in no queue."""
    items = [world.add(f"gold {number}", checked=False) for number in range(first, first + count)]
    answer = {"verdict": "accept", "choices": {"verdict": ["accept"]}}
    found = [KnownAnswer(item, answer, "given") for item in items]
    add_gold_items(world.store, QUEUE.name, found)
