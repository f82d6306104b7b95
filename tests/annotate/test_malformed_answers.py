"""Answers that no page produces: a pull reports each one, counts none, and never fails."""

import random
from collections import Counter
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.backend import NewTask, ProjectCounts
from loupe.annotate.decisions import Answer, resolve
from loupe.annotate.interfaces.page import controls, malformed
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.projects import Seat, project_spec
from loupe.annotate.pull import discard, pull
from loupe.annotate.queues import SHARED, Queue, shipped
from loupe.annotate.statistics.queue import queue_statistics
from loupe.db.entities import NewEntity, find
from loupe.db.reviews import StoredTask, announce_tasks, place_tasks, review_tasks
from loupe.db.tables import Annotation
from loupe.schemas.base import entity_id
from loupe.schemas.errors import ServiceError, UsageError
from tests.annotate.answering import Regions, accepting, rejecting
from tests.annotate.interfaces.proposed import one_of_each_kind
from tests.annotate.interfaces.regions import ticked, written
from tests.annotate.interfaces.texts import DESCRIPTIONS
from tests.annotate.memory_desk import MemoryDesk, MemoryOffice
from tests.annotate.office import hire, push, work
from tests.annotate.world import DATASET, REWRITE, World

ANSWERS = 220
ONE = shipped().queue(DATASET, "rewrites")
TWO = ONE.model_copy(update={"overlap": 2})
GENUINE: dict[str, Regions] = {
    "tracklets": [ticked("verdict", "keep"), ticked("same_person", f"{1:032x}")],
    "descriptions": [ticked("verdict", "accept"), written("text", DESCRIPTIONS[0])],
    "rewrites": [ticked("verdict", "accept"), written("text", "A person walks.")],
    "images": [ticked("verdict", "reject"), ticked("problems", "other")],
    "selections": [ticked("verdict", "reject"), ticked("problems", "other")],
    "captions": [ticked("verdict", "edit"), written("text", "A person walks.")],
    "confusions": [ticked("fit", "left")],
    "duplicates": [ticked("verdict", "accept")],
    "strategies": [ticked("verdict", "accept"), ticked("type", "Entity Attribute")],
    "candidates": [ticked("verdict", "accept")],
    "groups": [ticked("verdict", "accept"), written("text_0_1", "A person walks.")],
    "choices": [ticked("pick", "3")],
}
JUNK: tuple[Any, ...] = (
    *(None, True, 5, -1.5, "x", "", [], {}, [[]], [5], [None], [["accept"]], [{"a": "b"}]),
    *({"choices": 5}, {"choices": "accept"}, {"choices": {"accept": 1}}, "\ud800", "a\0b"),
    *(["\ud800"], ["a\0b"], ["accept\ud800"], 10**400, float("inf"), float("nan")),
)


def deeply_nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def as_sent_by_the_page(queue: Queue, regions: Regions) -> Regions:
    """Return the regions as the page sends them, with their targets."""
    targets = {one.name: one.target for one in controls(interface_of(queue).config)}
    return [
        {**region, "to_name": target, "id": "Ab3", "origin": "manual"}
        for region in regions
        for name, target in targets.items()
        if name.fullmatch(region["from_name"])
    ]


def mutate(regions: Regions, chance: random.Random) -> Any:
    """Return the answer with one change that no page produces."""
    result: Any = deepcopy(regions)
    region = chance.choice(result)
    kind = "choices" if region["type"] == "choices" else "text"
    lists = [one for one in JUNK if not isinstance(one, list)] + [[5], [[]], ["\ud800"], ["a\0"]]
    match chance.randrange(10):
        case 0:
            return chance.choice([one for one in JUNK if one not in (None, [])])
        case 1:
            result.insert(chance.randrange(len(result) + 1), chance.choice(JUNK))
        case 2:
            region.pop(chance.choice(["from_name", "to_name", "type", "value"]))
        case 3:
            name = chance.choice(["from_name", "to_name", "type"])
            region[name] = chance.choice([*JUNK, "verdict_", "textarea ", "Choices"])
        case 4:
            region["value"] = chance.choice(JUNK)
        case 5:
            region["value"][kind] = chance.choice(lists)
        case 6:
            region["value"][kind].append(chance.choice([5, None, {}, [], "\ud800", "\0"]))
        case 7:
            region["value"] = {"rectanglelabels": region["value"][kind]}
        case 8:
            region["value"][kind] = deeply_nested(chance.choice([10, 150]))
        case _:
            choice = next(one for one in result if one["type"] == "choices")
            choice["value"]["choices"] = [chance.choice(["ACCEPT", " accept", "аccept", "", "0x"])]
    return result


def push_two_tasks(world: World, office: MemoryOffice, step: str) -> tuple[Queue, list[int]]:
    """Create a queue with two tasks for Loupe's own account; return it and the task ids."""
    queue = shipped().queue("people", step).model_copy(update={"overlap": 1})
    shown, desk = one_of_each_kind()[queue.kind].shown, office(SHARED)
    kind, payload = shown.kind, shown.payload
    entities = [
        NewEntity(entity_id(name, kind, payload), name, kind, payload, None, None, (), None)
        for name in ("people", "others")
    ]
    world.keep(*entities)
    project = desk.ensure_project(project_spec(queue, Seat(SHARED, "review")))
    keys = {one.id: queue.task_key(one.id) for one in entities}
    tasks = [
        StoredTask(key, queue.name, about, SHARED, "review", False, desk.url, project, None, "open")
        for about, key in keys.items()
    ]
    announce_tasks(world.store, tasks, {})
    numbers = desk.import_tasks(project, [NewTask(key, {"key": key}, []) for key in keys.values()])
    place_tasks(world.store, desk.url, project, dict(zip(keys.values(), numbers, strict=True)))
    return queue, numbers


def states(world: World) -> dict[str, int]:
    """Count the annotations by state."""
    with world.store.read() as connection:
        return dict(Counter(connection.execute(select(Annotation.state)).scalars()))


def pull_mutated_answers(world: World, answers: int, seed: int) -> dict[str, int]:
    """Pull mutated answers of every kind of queue; only the valid ones count.

    Returns:
        The number of annotations by state.
    """
    chance = random.Random(seed)
    office = MemoryOffice()
    good = 0
    for step, genuine in GENUINE.items():
        queue, (mutated, valid) = push_two_tasks(world, office, step)
        regions = as_sent_by_the_page(queue, genuine)
        assert len(regions) == len(genuine), step
        each = -(-answers // len(GENUINE))
        for _ in range(each):
            office(SHARED).annotate(mutated, mutate(regions, chance))
        office(SHARED).annotate(valid, regions)
        good += 1
        report = pull(world.store, office, queue)
        assert report.accepted + report.edited + report.rejected == 1, (step, report)
        (notice,) = report.unclear
        assert notice.detail
        assert pull(world.store, office, queue).unclear == report.unclear, step
    found = states(world)
    assert found == {"clear": good, "unclear": each * len(GENUINE)}
    return found


def test_mutated_answers_are_reported_and_never_counted(
    world: World,
) -> None:
    assert pull_mutated_answers(world, ANSWERS, seed=1)["unclear"] >= ANSWERS


@pytest.mark.soak
def test_20000_mutated_answers_are_reported_and_never_counted(world: World) -> None:
    assert pull_mutated_answers(world, 20_000, seed=2)["unclear"] >= 20_000


def test_a_value_that_is_not_an_object_is_malformed(subtests: pytest.Subtests) -> None:
    for step in GENUINE:
        with subtests.test(step=step):
            queue = shipped().queue("people", step)
            config = interface_of(queue).config
            for place in range(len(GENUINE[step])):
                for value in ([], ["accept"], "accept", 5, None):
                    regions = as_sent_by_the_page(queue, deepcopy(GENUINE[step]))
                    regions[place]["value"] = value
                    assert "must hold an object" in malformed(config, regions), value


def test_a_discarded_unclear_answer_reopens_its_task(
    world: World,
) -> None:
    office = MemoryOffice()
    queue, (mutated, valid) = push_two_tasks(world, office, "rewrites")
    desk = office(SHARED)
    broken = [{"from_name": "verdict", "value": "x"}, ticked("verdict", "accept")]
    number = desk.annotate(mutated, broken)
    desk.annotate(valid, as_sent_by_the_page(queue, GENUINE["rewrites"]))
    pull(world.store, office, queue)
    (shown,) = queue_statistics(world.store, queue, datetime.now(UTC)).unclear
    assert (shown.annotation_id, shown.state) == (number, "unclear")
    assert shown.problem == "region 1 (verdict) must be of the type choices; got None"
    assert '"value": "x"' in shown.given
    with pytest.raises(UsageError, match="has no unclear answer with the number 99"):
        discard(world.store, office, queue, [number, 99])
    before = dict(desk.only_project)
    desk.annotate(mutated, as_sent_by_the_page(queue, GENUINE["rewrites"]), number)
    with pytest.raises(UsageError, match=f"kept, as there are newer answers: {number}; "):
        discard(world.store, office, queue, [number])
    assert sorted(desk.only_project) == sorted([mutated, valid])
    desk.only_project.update(before)
    (discarded,) = discard(world.store, office, queue, [number])
    assert discarded.annotation_id == number
    assert sorted(desk.only_project) == [valid]
    assert pull(world.store, office, queue).unclear == ()
    assert states(world) == {"clear": 1, "discarded": 1}
    open_tasks = [
        one for one in review_tasks(world.store, queue.name).values() if one.state == "open"
    ]
    assert [(one.entity_id, one.task_id) for one in open_tasks] == [(discarded.entity_id, None)]


class BrokenDesk(MemoryDesk):
    """A workspace whose tasks cannot be listed."""

    def count(self, project_id: int) -> ProjectCounts:
        raise ServiceError(f"project {project_id} is not to be read")


def test_an_unreadable_workspace_does_not_block_answers_of_others(world: World) -> None:
    office = MemoryOffice()
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    world.add()
    push(world.store, office, TWO)
    work(world.store, office, bea, accepting)
    broken = BrokenDesk(office.server, specs=office(ann).specs, tasks=office(ann).tasks)

    def desks(assignee: str) -> MemoryDesk:
        return broken if assignee == ann else office(assignee)

    report = pull(world.store, desks, TWO)
    assert (report.accepted, len(report.unreached)) == (1, 1)
    assert report.unreached[0].startswith(f"review by {ann}: ")


def test_an_answer_counts_only_if_the_assignee_of_the_task_gave_it(world: World) -> None:
    office = MemoryOffice()
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    world.add()
    push(world.store, office, TWO)
    own, foreign = (office(name).open_tasks()[0].id for name in (ann, bea))
    anns = office(ann).user_id
    office(ann).annotate(own, accepting(REWRITE))
    forged = office(bea).annotate(foreign, accepting(REWRITE), user_id=anns)
    report = pull(world.store, office, TWO)
    assert (report.accepted, report.decided) == (1, 0)
    (notice,) = report.unclear
    assert notice.annotation_id == forged
    assert notice.detail == f"made or changed by {ann}, but the task is for {bea} alone"
    (entity,) = find(world.store, DATASET, "rewrite")
    assert entity.state == "proposed"

    office(bea).annotate(foreign, [], user_id=anns, cancelled=True)
    assert pull(world.store, office, TWO).skipped == 0
    office(bea).annotate(foreign, rejecting(REWRITE))
    assert pull(world.store, office, TWO).conflicts == 1
    office(bea).annotate(foreign, accepting(REWRITE), forged, user_id=anns)
    assert len(pull(world.store, office, TWO).unclear) >= 1
    (entity,) = find(world.store, DATASET, "rewrite")
    assert entity.state == "proposed"


def test_an_answer_under_another_name_does_not_count(world: World) -> None:
    office = MemoryOffice()
    ann, bea = (hire(world.store, office, name) for name in ("ann", "bea"))
    world.add()
    push(world.store, office, TWO)
    (task,) = office(bea).open_tasks()
    forged = office(bea).annotate(task.id, accepting(REWRITE), made_by=office(ann).user_id)
    report = pull(world.store, office, TWO)
    assert (report.accepted, [one.annotation_id for one in report.unclear]) == (0, [forged])


def test_an_annotators_answer_in_loupes_own_workspace_does_not_count(
    world: World,
) -> None:
    office = MemoryOffice()
    world.add()
    push(world.store, office, ONE)
    (task,) = office(SHARED).open_tasks()
    ann = hire(world.store, office, "ann")
    office(SHARED).annotate(task.id, accepting(REWRITE), user_id=office(ann).user_id)
    report = pull(world.store, office, ONE)
    assert (report.accepted, len(report.unclear)) == (0, 1)


def test_an_answer_moved_to_another_task_does_not_count(world: World) -> None:
    office = MemoryOffice()
    ann = hire(world.store, office, "ann")
    for number in range(2):
        world.add(f"{REWRITE} {number}")
    push(world.store, office, ONE)
    first, second = (task.id for task in office(ann).open_tasks())
    moved = office(ann).annotate(first, accepting(f"{REWRITE} 0"))
    assert pull(world.store, office, ONE).accepted == 1
    office(ann).move_annotation(moved, second)
    report = pull(world.store, office, ONE)
    assert report.accepted == 0
    (notice,) = report.unclear
    assert notice.annotation_id == moved
    assert "it was an answer to another task before" in notice.detail
    assert pull(world.store, office, ONE).unclear == (notice,)


def test_two_answers_of_one_annotator_count_as_one() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    yes = ReviewAnswer(verdict="accept")
    answers = [Answer("ann", "review", yes, key, noon) for key in ("a", "b")]
    outcome = resolve(answers, 2, lambda one, other: one == other, independent=False)
    assert outcome.state == "waiting"
