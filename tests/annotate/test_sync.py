from datetime import UTC, datetime, timedelta

import pytest

from loupe.annotate.answers import AnnotationRecord
from loupe.annotate.backend import Desks
from loupe.annotate.pull import OVERLAP, PullReport, moved, pull, reconcile
from loupe.annotate.push import PUSH_ATTEMPTS, PushReport
from loupe.annotate.push import push as push_patiently
from loupe.annotate.queues import SHARED, Policy, Queue, shipped
from loupe.db.annotations import annotations_of, unclear_annotations
from loupe.db.decisions import append_decisions, set_active
from loupe.db.entities import AgentRef, NewDecision, StoredEntity, fetch, find, parents_of
from loupe.db.reviews import Cursor, review_tasks
from loupe.db.store import Store
from loupe.db.withdrawal_traces import close_reviews
from loupe.schemas.base import canonical_json
from loupe.schemas.errors import ServiceError
from loupe.schemas.provenance import Role
from loupe.schemas.records import Rewrite
from tests.annotate.answering import Regions, accepting, editing, rejecting
from tests.annotate.memory_desk import MemoryDesk, MemoryOffice
from tests.annotate.world import DATASET, REWRITE, World
from tests.between import between

IMAGES = "http://127.0.0.1:8090/blobs"
QUEUE = shipped().queue(DATASET, "rewrites")


@pytest.fixture
def desk(office: MemoryOffice) -> MemoryDesk:
    """The workspace of Loupe's own account."""
    return office(SHARED)


def push(store: Store, desks: Desks, queue: Queue, images_url: str = IMAGES) -> PushReport:
    return push_patiently(store, desks, queue, images_url, pause_seconds=0)


def task_of(world: World, entity_id: str, queue: Queue = QUEUE) -> int:
    (task,) = (
        task
        for task in review_tasks(world.store, queue.name).values()
        if task.entity_id == entity_id
    )
    assert task.task_id is not None
    return task.task_id


def state_of(world: World, entity_id: str) -> str:
    return fetch(world.store, [entity_id])[entity_id].state


def rewrites(world: World) -> list[StoredEntity]:
    return list(find(world.store, DATASET, "rewrite"))


def push_and_answer(world: World, office: MemoryOffice, regions: Regions) -> tuple[str, int]:
    """Push a rewrite and answer it; return its id and the id of the annotation."""
    entity_id = world.add()
    push(world.store, office, QUEUE)
    return entity_id, office(SHARED).annotate(task_of(world, entity_id), regions)


def test_an_answer_to_an_inactive_item_counts_once_it_is_active(
    world: World, office: MemoryOffice
) -> None:
    entity_id, _ = push_and_answer(world, office, accepting(REWRITE))
    software = AgentRef("software", "loupe")
    set_active(world.store, [entity_id], software, active=False)
    for read in (pull, reconcile):
        read(world.store, office, QUEUE)
        assert state_of(world, entity_id) == "inactive"
    set_active(world.store, [entity_id], software, active=True)
    pull(world.store, office, QUEUE)
    assert state_of(world, entity_id) == "accepted"


def test_reactivated_items_keep_decisions_and_get_later_answers(
    world: World, office: MemoryOffice
) -> None:
    texts = [f"{REWRITE} {number}" for number in range(2)]
    kept, changed = map(world.add, texts)
    push(world.store, office, QUEUE)
    desk, tasks = office(SHARED), [task_of(world, one) for one in (kept, changed)]
    numbers = [
        desk.annotate(task, accepting(text)) for task, text in zip(tasks, texts, strict=True)
    ]
    pull(world.store, office, QUEUE)
    software = AgentRef("software", "loupe")
    set_active(world.store, [kept, changed], software, active=False)
    desk.annotate(tasks[1], rejecting(texts[1]), numbers[1])
    pull(world.store, office, QUEUE)
    set_active(world.store, [kept, changed], software, active=True)
    assert (state_of(world, kept), state_of(world, changed)) == ("accepted", "proposed")
    pull(world.store, office, QUEUE)
    assert (state_of(world, kept), state_of(world, changed)) == ("accepted", "rejected")


def test_items_that_need_no_review_are_not_sent(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    world.add("A woman in a red coat.", suspect=False)
    suspect = world.add()
    automatic = QUEUE.model_copy(update={"policy": Policy(policy="auto")})
    assert push(world.store, office, automatic).projects == ()
    sampled = QUEUE.model_copy(update={"policy": Policy(policy="sample", rate=0)})
    assert push(world.store, office, sampled).pushed == 1
    assert [task.key for task in desk.sent] == [sampled.task_key(suspect)]


def test_a_kill_between_import_and_commit_duplicates_nothing(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    entity_id = world.add()

    class Killed(MemoryDesk):
        def import_tasks(self, *arguments: object) -> list[int]:
            super().import_tasks(*arguments)  # type: ignore[arg-type]
            raise KeyboardInterrupt

    killed = Killed(office.server)
    with pytest.raises(KeyboardInterrupt):
        push(world.store, lambda _: killed, QUEUE)
    (task,) = review_tasks(world.store, QUEUE.name).values()
    assert task.task_id is None
    desk.specs, desk.tasks = killed.specs, killed.tasks
    report = push(world.store, office, QUEUE)
    assert (report.pushed, report.known, desk.sent) == (0, 1, [])
    assert task_of(world, entity_id) in desk.only_project


def test_an_item_that_somebody_decides_while_it_is_sent_is_taken_back(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    entity_id = world.add()

    def reject(other: Store) -> None:
        with other.write() as connection:
            decision = NewDecision(entity_id, "reject", AgentRef("person", "the lead"))
            append_decisions(connection, [decision])

    with between(world.store, "INSERT INTO review_task", "UPDATE review_task", reject):
        assert push(world.store, office, QUEUE).pushed == 1
    assert push(world.store, office, QUEUE).closed == 1
    assert desk.only_project == {}
    assert state_of(world, entity_id) == "rejected"


def test_a_closed_task_that_is_needed_again_is_not_removed(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    """It was closed in the store, and no push has removed it from the server since."""
    entity_id = world.add()
    push(world.store, office, QUEUE)
    close_reviews(world.store, [entity_id])
    for _ in range(2):
        push(world.store, office, QUEUE)
        assert [*desk.only_project] == [task_of(world, entity_id)]
        assert [one.state for one in review_tasks(world.store, QUEUE.name).values()] == ["open"]


def test_lost_responses_duplicate_and_lose_nothing(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    lost = ([True], [False], [False, True], [True, True], [False] * 3)
    for case, faults in enumerate(lost, start=1):
        desk.faults = list(faults)
        for number in range(4):
            world.add(f"{REWRITE} {case} {number}")
        report = push(world.store, office, QUEUE)
        assert report.pushed == 4, faults
        assert len(desk.only_project) == 4 * case, faults


def test_a_desk_that_stays_unavailable_is_a_short_error(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    desk.faults = [False] * PUSH_ATTEMPTS
    world.add()
    with pytest.raises(ServiceError, match=r"1 tasks of queue .* \(memory://desk answered 502\)$"):
        push(world.store, office, QUEUE)
    assert push(world.store, office, QUEUE).pushed == 1


def test_duplicate_tasks_without_answers_are_removed(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    entity_id = world.add()
    push(world.store, office, QUEUE)
    (project_id,) = desk.tasks
    (copy,) = desk.import_tasks(project_id, desk.sent[:1])
    desk.import_tasks(project_id, desk.sent[:1])
    desk.annotate(copy, accepting(REWRITE))
    report = reconcile(world.store, office, QUEUE)
    assert (report.duplicates, report.adopted, sorted(desk.only_project)) == (2, 1, [copy])
    assert (report.answers, pull(world.store, office, QUEUE).known) == (1, 1)
    assert state_of(world, entity_id) == "accepted"


def test_accept_and_reject_become_decisions_exactly_once(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    good, bad = world.add(), world.add("A man in a green shirt.")
    push(world.store, office, QUEUE)
    desk.annotate(task_of(world, good), accepting(REWRITE))
    desk.annotate(task_of(world, bad), rejecting("A man in a green shirt."), user_id=2)
    report = pull(world.store, office, QUEUE)
    assert (report.accepted, report.rejected, report.known) == (1, 1, 0)
    assert (state_of(world, good), state_of(world, bad)) == ("accepted", "rejected")
    again = pull(world.store, office, QUEUE)
    assert (again.accepted, again.rejected, again.decided) == (0, 0, 0)
    tasks = review_tasks(world.store, QUEUE.name)
    people = [found[0].agent_id for found in annotations_of(world.store, tasks).values()]
    assert len(set(people)) == 2
    assert push(world.store, office, QUEUE).projects == ()


def test_an_edit_supersedes_the_rewrite(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    shown, _ = push_and_answer(world, office, editing("A woman in a red coat has a black bag."))
    assert pull(world.store, office, QUEUE).edited == 1
    assert state_of(world, shown) == "superseded"
    _, edited = rewrites(world)
    record = edited.record(Rewrite)
    assert (edited.state, edited.split) == ("accepted", "test")
    assert record.text == "A woman in a red coat has a black bag."
    assert record.author.startswith("reviewer-")
    assert parents_of(world.store, [edited.id], Role.EDITED_FROM) == {edited.id: [shown]}
    captions = parents_of(world.store, [shown, edited.id], Role.REWRITE_OF)
    assert captions[shown] == captions[edited.id]
    (annotation_id,) = parents_of(world.store, [edited.id], Role.ANNOTATED_BY)[edited.id]
    annotation = fetch(world.store, [annotation_id])[annotation_id].record(AnnotationRecord)
    assert (annotation.author, annotation.answer.verdict) == (record.author, "edit")


def test_every_changed_answer_is_a_decision_and_the_last_one_counts(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    shown, annotation = push_and_answer(world, office, editing("First."))
    task = task_of(world, shown)
    pull(world.store, office, QUEUE)
    desk.annotate(task, editing("Second."), annotation)
    assert pull(world.store, office, QUEUE).edited == 1
    states = {entity.record(Rewrite).text: entity.state for entity in rewrites(world)}
    assert states == {REWRITE: "superseded", "First.": "superseded", "Second.": "accepted"}
    desk.annotate(task, rejecting(REWRITE), annotation)
    pull(world.store, office, QUEUE)
    states = {entity.record(Rewrite).text: entity.state for entity in rewrites(world)}
    assert states == {REWRITE: "rejected", "First.": "superseded", "Second.": "rejected"}
    desk.annotate(task, editing("First."), annotation)
    pull(world.store, office, QUEUE)
    states = {entity.record(Rewrite).text: entity.state for entity in rewrites(world)}
    assert states == {REWRITE: "superseded", "First.": "accepted", "Second.": "rejected"}
    tasks = review_tasks(world.store, QUEUE.name)
    assert [len(found) for found in annotations_of(world.store, tasks).values()] == [4]
    assert pull(world.store, office, QUEUE).known == 1


def test_saving_an_answer_again_without_changes_is_ignored(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    shown, annotation = push_and_answer(world, office, accepting(REWRITE))
    pull(world.store, office, QUEUE)
    desk.annotate(task_of(world, shown), accepting(REWRITE), annotation)
    report = pull(world.store, office, QUEUE)
    assert (report.accepted, report.known) == (0, 1)


def test_an_answer_that_is_skipped_later_counts_and_is_reported(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    shown, annotation = push_and_answer(world, office, accepting(REWRITE))
    pull(world.store, office, QUEUE)
    desk.annotate(task_of(world, shown), [], annotation, cancelled=True)
    report = pull(world.store, office, QUEUE)
    assert [notice.detail for notice in report.remarks] == [
        "skipped after an answer, which still counts"
    ]
    assert state_of(world, shown) == "accepted"


def test_a_deleted_annotation_is_reported_and_its_decision_stays(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    shown, annotation = push_and_answer(world, office, accepting(REWRITE))
    pull(world.store, office, QUEUE)
    desk.delete_annotation(annotation)
    (notice,) = pull(world.store, office, QUEUE).deleted
    assert (notice.entity_id, notice.annotation_id) == (shown, annotation)
    assert state_of(world, shown) == "accepted"


def test_an_answer_that_a_restored_server_lacks_is_reported(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    """Nothing there has changed since the last pull; only the number of answers tells."""
    first, second = (world.add(f"{REWRITE} {number}") for number in range(2))
    push(world.store, office, QUEUE)
    desk.annotate(task_of(world, first), accepting(f"{REWRITE} 0"))
    backup = {number: dict(tasks) for number, tasks in desk.tasks.items()}
    lost = desk.annotate(task_of(world, second), accepting(f"{REWRITE} 1"))
    assert pull(world.store, office, QUEUE).accepted == 2
    desk.tasks = backup
    (notice,) = pull(world.store, office, QUEUE).deleted
    assert (notice.entity_id, notice.annotation_id) == (second, lost)


def test_an_unclear_answer_is_sent_back_with_the_reason(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    regions = [one for one in editing(" ") if one["from_name"] in ("text", "verdict")]
    entity_id, _ = push_and_answer(world, office, regions)
    (notice,) = pull(world.store, office, QUEUE).unclear
    assert push(world.store, office, QUEUE).sent_back == 1
    again = desk.sent[-1]
    assert again.data["returned"].startswith("Your answer could not be used: the verdict is 'Edit'")
    (prediction,) = again.predictions
    assert prediction["result"] == sorted(regions, key=canonical_json)
    assert [len(task.annotations) for task in desk.only_project.values()] == [0]

    report = pull(world.store, office, QUEUE)
    assert (report.unclear, report.deleted) == ((notice,), ())
    assert [one.state for one in unclear_annotations(world.store, QUEUE.name)] == ["sent_back"]
    assert push(world.store, office, QUEUE).sent_back == 0
    desk.annotate(task_of(world, entity_id), accepting(REWRITE))
    report = pull(world.store, office, QUEUE)
    assert (report.accepted, report.unclear, report.decided) == (1, (), 1)


def test_an_unclear_answer_that_was_corrected_is_not_sent_back(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    entity_id, number = push_and_answer(world, office, editing(" "))
    assert pull(world.store, office, QUEUE).unclear
    desk.annotate(task_of(world, entity_id), accepting(REWRITE), number)
    assert push(world.store, office, QUEUE).sent_back == 0
    assert pull(world.store, office, QUEUE).accepted == 1


def test_an_answer_after_a_withdrawal_decides_nothing(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    shown, _ = push_and_answer(world, office, editing("A woman."))
    with world.store.write() as connection:
        append_decisions(connection, [NewDecision(shown, "withdraw", QUEUE.agent, "takedown")])
    report = pull(world.store, office, QUEUE)
    assert (report.edited, len(report.late)) == (0, 1)
    assert [entity.state for entity in rewrites(world)] == ["withdrawn"]
    assert pull(world.store, office, QUEUE).known == 1


def test_foreign_tasks_are_left_alone(world: World, office: MemoryOffice, desk: MemoryDesk) -> None:
    world.add()
    push(world.store, office, QUEUE)
    foreign_task = desk.sent[0]._replace(data={"key": "strange"})
    (project_id,) = desk.tasks
    (number,) = desk.import_tasks(project_id, [foreign_task])
    desk.annotate(number, accepting(REWRITE))
    assert pull(world.store, office, QUEUE).foreign == (number,)
    assert reconcile(world.store, office, QUEUE).foreign == (number,)
    assert len(desk.only_project) == 2


def test_a_restored_desk_with_an_unchanged_number_of_tasks_is_detected(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    kept, withdrawn = world.add(), world.add("A man in a green shirt.")
    push(world.store, office, QUEUE)
    (project_id,) = desk.tasks
    yesterday = dict(desk.only_project)
    with world.store.write() as connection:
        append_decisions(connection, [NewDecision(withdrawn, "withdraw", QUEUE.agent, "takedown")])
    new = world.add("A hat.")
    report = push(world.store, office, QUEUE)
    assert (report.pushed, report.closed, len(desk.only_project)) == (1, 1, len(yesterday))
    desk.tasks[project_id] = yesterday
    assert push(world.store, office, QUEUE).pushed == 1
    assert sorted(desk.only_project) == sorted([task_of(world, kept), task_of(world, new)])


def test_a_pull_without_a_project_is_empty(
    world: World, office: MemoryOffice, desk: MemoryDesk
) -> None:
    assert pull(world.store, office, QUEUE) == PullReport(queue=QUEUE.name)
    assert reconcile(world.store, office, QUEUE) == PullReport(queue=QUEUE.name)


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def test_the_cursor_overlaps_the_time_before_the_newest_change() -> None:
    first = moved(None, NOON, LATER)
    assert first == Cursor(NOON, LATER, NOON - OVERLAP, 0, 0)
    newer = NOON + timedelta(minutes=5)
    assert moved(first, newer, LATER) == Cursor(newer, LATER, newer - OVERLAP, 0, 0)


def test_after_the_overlap_has_passed_only_the_newest_change_is_read_again() -> None:
    first = moved(None, NOON, LATER)
    soon = moved(first, NOON, LATER + OVERLAP / 2)
    assert soon == first
    settled = moved(soon, NOON, LATER + OVERLAP)
    assert settled == first._replace(read_from=NOON)
    assert moved(settled, NOON, LATER + 2 * OVERLAP) == settled
