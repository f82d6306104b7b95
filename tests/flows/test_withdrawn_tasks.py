"""Withdrawals delete the tasks of erased items on the review server, once it answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from pydantic import SecretStr

from loupe.annotate.backend import Desks, LabelStudioDesk
from loupe.annotate.pull import pull, reconcile
from loupe.annotate.queues import shipped
from loupe.db.entities import fetch, find
from loupe.db.reviews import review_tasks
from loupe.db.withdrawal_graph import Sort, WithdrawalTarget
from loupe.db.withdrawals import StoredWithdrawal, list_withdrawals
from loupe.flows.cli.withdrawal_display import residual_lines
from loupe.flows.engine.context import RunContext
from loupe.flows.withdrawal.execution import carry_out
from loupe.flows.withdrawal.plan import (
    ResidualCopies,
    confirm,
    plan_withdrawal,
    request_of,
    residual_copies,
)
from loupe.schemas.errors import ServiceError
from loupe.schemas.records import Rewrite
from loupe.schemas.withdrawal import Ground
from tests.annotate.answering import accepting, editing
from tests.annotate.memory_desk import MemoryDesk, MemoryOffice
from tests.annotate.office import hire, push, work
from tests.annotate.world import DATASET, REWRITE, World
from tests.flows.runs import context_of
from tests.flows.withdrawals import OPERATOR
from tests.services.fixtures import LabelStudioServer

QUEUE = shipped().queue(DATASET, "rewrites").model_copy(update={"overlap": 2})
SECRET = "Wearing her name on a badge, the woman has a black bag."


class Installation(NamedTuple):
    """A store with rewrites, the desks of two annotators, and a run."""

    world: World
    office: MemoryOffice
    run: RunContext
    people: tuple[str, str]

    def confirmed(self, sort: Sort, name: str, ground: Ground = "privacy") -> StoredWithdrawal:
        target = WithdrawalTarget(sort=sort, name=name)
        erases = True if sort == "annotator" else None
        plan = plan_withdrawal(self.world.store, request_of(target, ground, erases))
        return confirm(self.world.store, plan, "asked for", OPERATOR)

    def left(self) -> ResidualCopies:
        (withdrawal,) = list_withdrawals(self.world.store)
        return residual_copies(self.world.store, self.run.settings.home, withdrawal)

    def entities_on_desk(self) -> list[str]:
        """Return the entities of all tasks on the desks."""
        stored = review_tasks(self.world.store, QUEUE.name)
        desks: list[MemoryDesk] = [self.office(person) for person in self.people]
        return sorted(
            stored[task.key].entity_id
            for desk in desks
            for tasks in desk.tasks.values()
            for task in tasks.values()
        )


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installation]:
    world, office = World(tmp_path), MemoryOffice()
    run = context_of(world.store, tmp_path)
    yield Installation(
        world, office, run, (hire(world.store, office, "ann"), hire(world.store, office, "bea"))
    )
    world.store.close()


def unreachable_desk(_assignee: str) -> MemoryDesk:
    raise ServiceError("Label Studio is not running; start it with: loupe up")


def test_answered_tasks_are_deleted_once_an_unreachable_server_is_back(
    installed: Installation,
) -> None:
    world, office = installed.world, installed.office
    answered, other = world.add(), world.add(f"{REWRITE} too")
    push(world.store, office, QUEUE)
    for person in installed.people:
        work(world.store, office, person, accepting)
    pull(world.store, office, QUEUE)
    waiting = world.add(f"{REWRITE} later")
    push(world.store, office, QUEUE)
    answers = installed.confirmed("entity", answered)
    with pytest.raises(ServiceError, match="not running"):
        carry_out(installed.run, answers, desks=unreachable_desk)
    assert not list_withdrawals(world.store)[0].is_finished
    assert installed.left().on_desks == {office.server.url: 2}
    left = "\n".join(residual_lines(installed.left()))
    assert f"2 tasks of the review server {office.server.url}" in left
    carry_out(installed.run, answers, desks=office)
    assert list_withdrawals(world.store)[0].is_finished
    assert installed.left().on_desks == {}
    assert installed.entities_on_desk() == sorted([other, other, waiting, waiting])
    assert push(world.store, office, QUEUE).pushed == 0
    assert reconcile(world.store, office, QUEUE).deleted == ()
    assert fetch(world.store, [other])[other].state == "accepted"


def test_the_answers_that_contain_a_withdrawn_text_are_deleted(installed: Installation) -> None:
    world, office = installed.world, installed.office
    asked, other = world.add(), world.add(f"{REWRITE} too")
    push(world.store, office, QUEUE)
    for person in installed.people:
        work(world.store, office, person, lambda text: editing(SECRET if text == REWRITE else text))
    pull(world.store, office, QUEUE)
    (edit,) = (
        one.id
        for one in find(world.store, DATASET, "rewrite")
        if one.record(Rewrite).text == SECRET
    )
    carry_out(installed.run, installed.confirmed("entity", edit), desks=office)
    assert asked not in installed.entities_on_desk()
    assert installed.entities_on_desk() == [other, other]


def test_a_withdrawn_annotator_has_no_task_left_on_the_desk(installed: Installation) -> None:
    world, office = installed.world, installed.office
    item = world.add()
    push(world.store, office, QUEUE)
    for person in installed.people:
        work(world.store, office, person, accepting)
    pull(world.store, office, QUEUE)
    ann, bea = installed.people
    carry_out(installed.run, installed.confirmed("annotator", ann), desks=office)
    assert [tasks for tasks in office(ann).tasks.values() if tasks] == []
    assert len(office(bea).only_project) == 1
    assert installed.entities_on_desk() == [item]


def test_a_task_is_identified_by_its_key_if_its_number_was_reused(
    installed: Installation,
) -> None:
    world, office = installed.world, installed.office
    item, other = world.add(), world.add(f"{REWRITE} too")
    push(world.store, office, QUEUE)
    for person in installed.people:
        desk = office(person)
        (project,) = desk.tasks
        first, second = desk.tasks[project].values()  # the server was reset
        desk.tasks[project] = {
            first.id: second.model_copy(update={"id": first.id}),
            second.id: first.model_copy(update={"id": second.id}),
        }
    carry_out(installed.run, installed.confirmed("entity", item), desks=office)
    assert installed.entities_on_desk() == [other, other]


def test_a_different_review_server_is_an_error(installed: Installation) -> None:
    world = installed.world
    item = world.add()
    push(world.store, installed.office, QUEUE)
    elsewhere = MemoryOffice()
    elsewhere.server.url = "memory://other"
    with pytest.raises(ServiceError, match="LOUPE_LABEL_STUDIO_URL"):
        carry_out(installed.run, installed.confirmed("entity", item), desks=elsewhere)
    assert installed.left().on_desks == {"memory://desk": 2}


def _answer(server: LabelStudioServer, task: int) -> None:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=120) as client:
        access = client.post("/api/token/refresh/", json={"refresh": server.token}).json()
        client.headers["Authorization"] = f"Bearer {access['access']}"
        answer = {"result": accepting(SECRET), "lead_time": 1.0}
        client.post(f"/api/tasks/{task}/annotations/", json=answer).raise_for_status()


@pytest.mark.label_studio
def test_label_studio_deletes_the_answered_task_once_it_is_reachable(
    label_studio: LabelStudioServer, tmp_path: Path
) -> None:
    world = World(tmp_path)
    run = context_of(world.store, tmp_path)  # no Label Studio runs in this home
    desk = LabelStudioDesk(label_studio.url, SecretStr(label_studio.token))
    queue = QUEUE.model_copy(update={"overlap": 1, "dataset": DATASET, "name": "erased-rewrites"})
    item = world.add(SECRET)
    desks: Desks = lambda _assignee: desk  # noqa: E731 - one desk for all assignees
    (project,) = {number for _, number in push(world.store, desks, queue).projects}
    (task,) = desk.list_tasks(project)
    _answer(label_studio, task.id)
    pull(world.store, desks, queue)
    installed = Installation(world, MemoryOffice(), run, ("", ""))
    withdrawal = installed.confirmed("entity", item)
    with pytest.raises(ServiceError, match="not running"):
        carry_out(run, withdrawal)
    assert installed.left().on_desks == {desk.server_name: 1}
    assert len(list(desk.list_tasks(project))) == 1
    carry_out(run, withdrawal, desks=desks)
    assert list(desk.list_tasks(project)) == []
    assert review_tasks(world.store, erased_by=withdrawal.id) == {}
    world.store.close()
