"""Push and pull with a real Label Studio, and the behaviour common to desks in memory."""

from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import httpx
import pytest
from pydantic import SecretStr

from loupe.annotate.backend import Desks, LabelStudioDesk
from loupe.annotate.pull import pull, reconcile
from loupe.annotate.queues import SHARED, Queue, shipped
from loupe.db.entities import fetch, find
from loupe.db.reviews import review_tasks
from loupe.schemas.errors import ServiceError
from loupe.schemas.records import Rewrite
from tests.annotate.answering import Regions, accepting, editing, new_sdk, rejecting
from tests.annotate.fault_proxy import Fault, fault_proxy
from tests.annotate.memory_desk import MemoryOffice
from tests.annotate.office import push
from tests.annotate.world import DATASET, REWRITE, World
from tests.services.fixtures import LabelStudioServer


class Annotator(Protocol):
    """An annotator who works on the desk."""

    def annotate(
        self,
        task_id: int,
        result: Regions,
        annotation_id: int | None = None,
        *,
        cancelled: bool = False,
    ) -> int: ...

    def delete_annotation(self, annotation_id: int) -> None: ...


class ApiAnnotator:
    """An annotator who works through Label Studio's API."""

    def __init__(self, url: str, token: SecretStr) -> None:
        limits = httpx.Limits(max_keepalive_connections=0)
        client = httpx.Client(trust_env=False, timeout=120, limits=limits)
        self.sdk = new_sdk(url, token, client)

    def annotate(
        self,
        task_id: int,
        result: Regions,
        annotation_id: int | None = None,
        *,
        cancelled: bool = False,
    ) -> int:
        fields: dict[str, Any] = {
            "result": result,
            "was_cancelled": cancelled,
            "lead_time": 3.5,
        }
        if annotation_id is None:
            return int(self.sdk.annotations.create(task_id, **fields).id)
        return int(self.sdk.annotations.update(annotation_id, **fields).id)

    def delete_annotation(self, annotation_id: int) -> None:
        self.sdk.annotations.delete(annotation_id)


@pytest.fixture
def queue() -> Queue:
    """A queue with a unique name, because the tests share a server."""
    queue = shipped().queue(DATASET, "rewrites")
    return queue.model_copy(update={"name": f"{uuid4().hex[:8]}-rewrites"})


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.label_studio)])
def office(request: pytest.FixtureRequest) -> tuple[Desks, Annotator]:
    """Desks, and an annotator who works on Loupe's own desk."""
    if request.param == "memory":
        desks = MemoryOffice()
        return desks, desks(SHARED)
    server: LabelStudioServer = request.getfixturevalue("label_studio")
    token = SecretStr(server.token)
    return at(LabelStudioDesk(server.url, token)), ApiAnnotator(server.url, token)


def at(desk: LabelStudioDesk) -> Desks:
    """Return desks that are all the same desk."""
    return lambda _: desk


def task_ids(world: World, queue: Queue) -> dict[str, int]:
    tasks = review_tasks(world.store, queue.name).values()
    return {task.entity_id: task.task_id for task in tasks if task.task_id is not None}


def states(world: World, *entity_ids: str) -> list[str]:
    found = fetch(world.store, entity_ids)
    return [found[entity_id].state for entity_id in entity_ids]


def test_answers_are_received_exactly_once(
    world: World, queue: Queue, office: tuple[Desks, Annotator]
) -> None:
    desks, annotator = office
    good, poor, bad, unsure = (world.add(f"{REWRITE} {number}") for number in range(4))
    assert push(world.store, desks, queue).pushed == 4
    before = task_ids(world, queue)
    assert push(world.store, desks, queue).known == 4
    assert task_ids(world, queue) == before
    annotator.annotate(before[good], accepting(f"{REWRITE} 0"))
    edited = annotator.annotate(before[poor], editing("A woman in a red coat."))
    annotator.annotate(before[bad], rejecting(f"{REWRITE} 2", "other", note="a mess"))
    annotator.annotate(before[unsure], [], cancelled=True)

    report = pull(world.store, desks, queue)
    counts = (report.accepted, report.edited, report.rejected, report.skipped, report.unclear)
    assert counts == (1, 1, 1, 1, ())
    expected = ["accepted", "superseded", "rejected", "proposed"]
    assert states(world, good, poor, bad, unsure) == expected
    again = pull(world.store, desks, queue)
    assert again.accepted + again.edited + again.rejected == 0

    annotator.annotate(before[poor], editing("A woman in a red coat and boots."), edited)
    assert pull(world.store, desks, queue).edited == 1
    accepted = find(world.store, DATASET, "rewrite", states=["accepted"])
    assert {entity.record(Rewrite).text for entity in accepted} == {
        f"{REWRITE} 0",
        "A woman in a red coat and boots.",
    }
    annotator.delete_annotation(edited)
    assert {notice.entity_id for notice in pull(world.store, desks, queue).deleted} == {poor}
    assert states(world, poor) == ["superseded"]


def test_lost_tasks_are_reported_missing_and_sent_again(
    world: World, queue: Queue, office: tuple[Desks, Annotator]
) -> None:
    desks, _ = office
    kept, lost = world.add(f"{REWRITE} 0"), world.add(f"{REWRITE} 1")
    push(world.store, desks, queue)
    before = task_ids(world, queue)
    (project_id,) = {task.project_id for task in review_tasks(world.store, queue.name).values()}
    desks(SHARED).delete_tasks(project_id, [before[lost], before[lost]])
    assert reconcile(world.store, desks, queue).missing == (lost,)
    assert push(world.store, desks, queue).pushed == 1
    assert task_ids(world, queue)[kept] == before[kept]


@pytest.mark.label_studio
def test_a_502_after_a_completed_request_changes_nothing(
    world: World, queue: Queue, label_studio: LabelStudioServer
) -> None:
    requests: list[str] = []

    def fails(method: str, path: str) -> Fault:
        """Fail every second request and the first import."""
        requests.append(f"{method} {path.partition('?')[0]}")
        imports = sum(line.endswith("/import") for line in requests)
        first_import = requests[-1].endswith("/import") and imports == 1
        fails = first_import or (method == "GET" and len(requests) % 2 == 0)
        return Fault.UNKNOWN if fails else Fault.NONE

    for number in range(5):
        world.add(f"{REWRITE} {number}")
    with fault_proxy(label_studio.url, fails) as url:
        report = push(world.store, at(LabelStudioDesk(url, SecretStr(label_studio.token))), queue)
    assert report.pushed == 5
    assert sum(line.endswith("/import") for line in requests) == 1
    direct = LabelStudioDesk(label_studio.url, SecretStr(label_studio.token))
    ((_, project_id),) = report.projects
    keys = [task.key for task in direct.list_tasks(project_id)]
    assert len(keys) == len(set(keys)) == 5
    assert reconcile(world.store, at(direct), queue).adopted == 5  # the same desk by another URL


@pytest.mark.label_studio
def test_a_wrong_token_is_a_short_error(
    world: World, queue: Queue, label_studio: LabelStudioServer
) -> None:
    world.add()
    desk = LabelStudioDesk(label_studio.url, SecretStr("0" * 40))
    with pytest.raises(ServiceError, match="did not accept its token: status 401"):
        push(world.store, at(desk), queue)


@pytest.mark.label_studio
def test_the_store_contains_no_email_addresses(
    world: World, queue: Queue, label_studio: LabelStudioServer, tmp_path: Path
) -> None:
    desks = at(LabelStudioDesk(label_studio.url, SecretStr(label_studio.token)))
    entity_id = world.add()
    push(world.store, desks, queue)
    annotator = ApiAnnotator(label_studio.url, SecretStr(label_studio.token))
    annotator.annotate(task_ids(world, queue)[entity_id], accepting(REWRITE))
    assert pull(world.store, desks, queue).accepted == 1
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("loupe.db*"))
    assert b"reviewer-" in stored
    assert label_studio.email.encode() not in stored
