"""`LabelStudioDesk` with a real Label Studio."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest
from pydantic import SecretStr

from loupe.annotate.backend import (
    MARKER,
    LabelStudioDesk,
    NewTask,
    ProjectCounts,
    ProjectSpec,
)
from loupe.db.store import Store
from loupe.schemas.errors import ServiceError
from loupe.services.credentials import load_workspaces
from tests.services.fixtures import AnnotatorAccount, LabelStudioServer

pytestmark = pytest.mark.label_studio

CONFIG = '<View><Text name="text" value="$text"/><TextArea name="note" toName="text"/></View>'
LEAST = timedelta(microseconds=1)


class Workplace(NamedTuple):
    """A workspace as Loupe sees it, and its annotator."""

    desk: LabelStudioDesk
    person: AnnotatorAccount
    client: httpx.Client


@pytest.fixture(scope="module")
def workplace(
    label_studio: LabelStudioServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workplace]:
    store = Store.open(f"sqlite:///{tmp_path_factory.mktemp('desk') / 'loupe.db'}")
    (person,) = label_studio.annotators(store, "Emil Desk")
    store.close()
    token = load_workspaces(label_studio.home)[person.pseudonym].token
    with signed_in(label_studio.url, person.token) as client:
        yield Workplace(LabelStudioDesk(label_studio.url, token), person, client)


@contextmanager
def signed_in(url: str, token: SecretStr) -> Iterator[httpx.Client]:
    """A client with a token."""
    with httpx.Client(base_url=url, trust_env=False, timeout=120) as client:
        refresh = {"refresh": token.get_secret_value()}
        access = client.post("/api/token/refresh/", json=refresh).raise_for_status().json()
        client.headers["Authorization"] = f"Bearer {access['access']}"
        yield client


@pytest.fixture
def spec() -> ProjectSpec:
    """A new project for every test."""
    marker = f"loupe-queue: {uuid4().hex[:8]} (review)"
    return ProjectSpec(marker, "Loupe · test", CONFIG, "<b>Read this</b>")


@pytest.fixture
def project(workplace: Workplace, spec: ProjectSpec) -> int:
    return workplace.desk.ensure_project(spec)


def new_tasks(count: int) -> list[NewTask]:
    return [NewTask(f"key-{i}", {"key": f"key-{i}", "text": "a hat"}, []) for i in range(count)]


def answer(workplace: Workplace, task_id: int, text: str = "yes", **fields: Any) -> int:
    path = f"/api/tasks/{task_id}/annotations/"
    body = {"result": region(text), "lead_time": 2.5, **fields}
    return int(workplace.client.post(path, json=body).raise_for_status().json()["id"])


def region(text: str) -> list[dict[str, Any]]:
    value = {"text": [text]}
    return [{"from_name": "note", "to_name": "text", "type": "textarea", "value": value}]


def test_a_project_is_created_once_and_found_by_its_marker(
    workplace: Workplace, spec: ProjectSpec
) -> None:
    desk = workplace.desk
    assert desk.find_project(spec.marker) is None
    number = desk.ensure_project(spec)
    assert desk.ensure_project(spec) == desk.find_project(spec.marker) == number
    assert desk.find_project(spec.marker[:-1]) is None


def test_a_project_with_an_edited_description_is_found_by_its_id(
    workplace: Workplace, spec: ProjectSpec, project: int, label_studio: LabelStudioServer
) -> None:
    desk, marker = workplace.desk, f"{MARKER} {spec.marker}"
    other = desk.ensure_project(spec._replace(marker=f"{marker} other"))
    edited = {"description": "Ask Dana first."}
    token = load_workspaces(label_studio.home)[workplace.person.pseudonym].token
    with signed_in(label_studio.url, token) as owner:
        owner.patch(f"/api/projects/{project}/", json=edited).raise_for_status()
    assert desk.find_project(marker) is None
    assert desk.find_project(marker, other) is None
    assert desk.find_project(marker, project) == project
    assert desk.ensure_project(spec._replace(marker=marker), project) == project
    assert desk.find_project(marker) == project


def test_task_ids_are_in_order_over_several_batches(workplace: Workplace, project: int) -> None:
    desk = workplace.desk
    numbers = desk.import_tasks(project, new_tasks(1003))
    listed = list(desk.list_tasks(project))
    assert [task.id for task in listed] == numbers == sorted(numbers)
    assert [task.key for task in listed] == [f"key-{i}" for i in range(1003)]
    assert not any(task.touched for task in listed)
    assert desk.count(project) == ProjectCounts(tasks=1003, annotations=0)
    assert list(desk.list_tasks(project, listed[-1].updated_at + LEAST)) == []
    desk.delete_tasks(project, numbers[:1001])
    assert [task.id for task in desk.list_tasks(project)] == numbers[1001:]


def test_an_unreadable_answer_does_not_affect_other_answers(
    workplace: Workplace, label_studio: LabelStudioServer, project: int
) -> None:
    desk = workplace.desk
    first, spoilt, last = desk.import_tasks(project, new_tasks(3))
    for number in (first, spoilt, last):
        answer(workplace, number)
    kept = load_workspaces(label_studio.home)[workplace.person.pseudonym].token
    nested = "[" * 600 + "]" * 600
    body = f'{{"result": [{{"from_name": "note", "to_name": "text", "value": {nested}}}]}}'
    with signed_in(
        label_studio.url, kept
    ) as service_account:  # only the service account is permitted to do it
        path = f"/api/tasks/{spoilt}/annotations/"
        headers = {"Content-Type": "application/json"}
        annotation_id = (
            service_account.post(path, content=body, headers=headers)
            .raise_for_status()
            .json()["id"]
        )
    tasks = {task.id: task for task in desk.list_tasks(project)}
    assert list(tasks) == [first, spoilt, last]
    read = [one for task in tasks.values() for one in task.annotations if not one.fault]
    assert [one.result[0]["value"] for one in read] == [{"text": ["yes"]}] * 3
    (unread,) = [one for task in tasks.values() for one in task.annotations if one.fault]
    assert unread.id == annotation_id
    assert unread.user_id != workplace.person.user_id
    assert "recursion limit" in unread.fault
    assert nested in unread.result.replace(" ", "")


def test_a_skipped_task_counts_as_an_annotation(workplace: Workplace, project: int) -> None:
    first, second = workplace.desk.import_tasks(project, new_tasks(2))
    answer(workplace, first)
    answer(workplace, second, was_cancelled=True)
    assert workplace.desk.count(project) == ProjectCounts(tasks=2, annotations=2)
    cancelled = [task.annotations[0].cancelled for task in workplace.desk.list_tasks(project)]
    assert cancelled == [False, True]


def test_every_change_of_an_answer_updates_the_time_of_its_task(
    workplace: Workplace, project: int
) -> None:
    desk, client = workplace.desk, workplace.client
    number, other = desk.import_tasks(project, new_tasks(2))

    def updated_after(since: datetime) -> datetime:
        """Return the task's update time; listings since then contain it, later ones do not."""
        (task,) = desk.list_tasks(project, since + LEAST)
        assert task.id == number
        assert [one.id for one in desk.list_tasks(project, task.updated_at)] == [number]
        assert list(desk.list_tasks(project, task.updated_at + LEAST)) == []
        return task.updated_at

    created = max(task.updated_at for task in desk.list_tasks(project))
    given = answer(workplace, number)
    answered = updated_after(created)
    changed = {"result": region("no")}
    client.patch(f"/api/annotations/{given}/", json=changed).raise_for_status()
    updated = updated_after(answered)
    client.patch(f"/api/annotations/{given}/", json={"was_cancelled": True}).raise_for_status()
    cancelled = updated_after(updated)
    client.delete(f"/api/annotations/{given}/").raise_for_status()
    updated_after(cancelled)
    assert [task.touched for task in desk.list_tasks(project)] == [False, False]
    answer(workplace, other)
    assert [task.id for task in desk.list_tasks(project, cancelled + LEAST)] == [number, other]


def test_only_the_given_tasks_are_deleted(workplace: Workplace, project: int) -> None:
    desk = workplace.desk
    first, second, third = desk.import_tasks(project, new_tasks(3))
    desk.delete_tasks(project, [])
    assert desk.count(project).tasks == 3
    desk.delete_tasks(project, iter([second]))
    desk.delete_tasks(project, [second])
    assert [task.id for task in desk.list_tasks(project)] == [first, third]


def test_tasks_of_another_project_are_not_deleted(
    workplace: Workplace, project: int, spec: ProjectSpec
) -> None:
    other = workplace.desk.ensure_project(spec._replace(marker=f"{spec.marker} other"))
    workplace.desk.import_tasks(project, new_tasks(1))
    (elsewhere,) = workplace.desk.import_tasks(other, new_tasks(1))
    workplace.desk.delete_tasks(project, [elsewhere])
    assert workplace.desk.count(other).tasks == workplace.desk.count(project).tasks == 1


def test_a_project_of_another_workspace_cannot_be_accessed(
    workplace: Workplace, label_studio: LabelStudioServer, spec: ProjectSpec
) -> None:
    shared_desk = LabelStudioDesk(label_studio.url, SecretStr(label_studio.token))
    foreign_project = shared_desk.ensure_project(spec)
    numbers = shared_desk.import_tasks(foreign_project, new_tasks(1))
    desk = workplace.desk
    assert desk.find_project(spec.marker) is None
    for access in (
        lambda: desk.import_tasks(foreign_project, new_tasks(1)),
        lambda: list(desk.list_tasks(foreign_project)),
        lambda: desk.count(foreign_project),
        lambda: desk.delete_tasks(foreign_project, numbers),
    ):
        with pytest.raises(ServiceError, match=r"status 40[34]"):
            access()
    assert shared_desk.count(foreign_project).tasks == 1


def test_only_tasks_that_nobody_opened_or_began_are_taken_back(
    workplace: Workplace, project: int
) -> None:
    """The person has one on the screen and one loaded ahead, began one, and answered one."""
    desk, client = workplace.desk, workplace.client
    answered, shown, ahead, begun, *free = desk.import_tasks(project, new_tasks(6))
    answer(workplace, answered)
    following = f"/api/dm/actions/?id=next_task&project={project}"
    assert client.post(following, json={}).json()["id"] == shown
    chosen = {"selectedItems": {"all": True, "excluded": [shown]}}
    assert client.post(following, json=chosen).json()["id"] == ahead
    client.post(f"/api/tasks/{begun}/drafts", json={"result": region("half")}).raise_for_status()
    everything = [answered, shown, ahead, begun, *free]
    assert desk.take_back(project, everything) == set(free)
    assert {task.id for task in desk.list_tasks(project)} == set(everything) - set(free)
    for path in ("annotations/", "drafts"):
        late = client.post(f"/api/tasks/{free[0]}/{path}", json={"result": region("late")})
        assert (late.status_code, late.json()) == (
            410,
            {"detail": "This task went to somebody else."},
        )
    answer(workplace, shown)
    chosen["selectedItems"]["excluded"] = [ahead, begun]
    assert client.post(following, json=chosen).status_code == 204, "nothing else is left"
    refused = client.post(following, json={"selectedItems": {"excluded": ["x"]}})
    assert (refused.status_code, "task numbers" in refused.text) == (403, True)
