"""What an annotator can reach in Label Studio: the annotator's own workspace and nothing else.

Every request of Label Studio's API description is made as an annotator: against the workspace of a
colleague with a browser session, and against that of the installation with a token. `make soak`
also tests the other two combinations.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from uuid import uuid4

import httpx
import pytest

from loupe.db.reviews import annotator_named
from loupe.db.store import Store
from loupe.schemas.errors import ServiceError
from loupe.services.credentials import load_workspaces
from loupe.services.label_studio import add_workspaces, log_in
from tests.services.fixtures import AnnotatorAccount, LabelStudioServer, new_token

pytestmark = pytest.mark.label_studio

CONFIG = '<View><Text name="text" value="$text"/><TextArea name="note" toName="text"/></View>'
REGION = {"from_name": "note", "to_name": "text", "type": "textarea"}
SECRET = "colleagues-must-not-read-this"
REFUSED = (401, 403, 404, 405)
# The kind of object that a path segment names. Requests without ids may succeed but must show
# nothing of other workspaces.
_KINDS = {
    "projects": "project",
    "tasks": "task",
    "annotations": "annotation",
    "drafts": "draft",
    "views": "view",
    "users": "user",
    "organizations": "organization",
}


class Belongings(NamedTuple):
    """The ids of the objects in a workspace; each object contains the secret."""

    organization: int
    user: int
    project: int
    task: int
    annotation: int
    draft: int
    view: int


class Workplace(NamedTuple):
    """A server with two annotators; the other workspaces contain secrets."""

    server: LabelStudioServer
    anna: AnnotatorAccount
    ben: AnnotatorAccount
    own: Belongings
    foreign: dict[str, Belongings]


@contextmanager
def program(server: LabelStudioServer, token: str) -> Iterator[httpx.Client]:
    """A program with a token."""
    with httpx.Client(base_url=server.url, trust_env=False, timeout=120) as client:
        answer = client.post("/api/token/refresh/", json={"refresh": token}).raise_for_status()
        client.headers["Authorization"] = f"Bearer {answer.json()['access']}"
        yield client


@contextmanager
def browser(server: LabelStudioServer, person: AnnotatorAccount) -> Iterator[httpx.Client]:
    """A browser in which a person is logged in."""
    with httpx.Client(base_url=server.url, trust_env=False, timeout=120) as client:
        log_in(client, person.email, person.password)
        yield client


def create_belongings(service_account: httpx.Client, person: httpx.Client) -> Belongings:
    """Create a project with all kinds of objects, to which `person` has access."""

    def created(client: httpx.Client, path: str, body: Any, **query: str) -> Any:
        return client.post(path, json=body, params=query).raise_for_status().json()

    about = service_account.get("/api/current-user/whoami").json()
    user = person.get("/api/current-user/whoami").json()
    settings = {"title": SECRET, "description": SECRET, "label_config": CONFIG}
    project = created(service_account, "/api/projects", settings)["id"]
    tasks = [{"data": {"text": SECRET}}]
    task = created(
        service_account, f"/api/projects/{project}/import", tasks, return_task_ids="true"
    )
    number = task["task_ids"][0]
    result = [{**REGION, "value": {"text": [SECRET]}}]
    draft = created(person, f"/api/tasks/{number}/drafts", {"result": result, "lead_time": 1})["id"]
    annotation = created(person, f"/api/tasks/{number}/annotations/", {"result": result})["id"]
    view = created(person, "/api/dm/views/", {"project": project, "data": {"title": SECRET}})["id"]
    return Belongings(
        about["active_organization"], user["id"], project, number, annotation, draft, view
    )


@pytest.fixture(scope="module")
def workplace(
    label_studio: LabelStudioServer, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workplace]:
    store = Store.open(f"sqlite:///{tmp_path_factory.mktemp('roles') / 'loupe.db'}")
    anna, ben = label_studio.annotators(store, "Anna Roles", "Ben Roles")
    kept = load_workspaces(label_studio.home)
    belongings = []
    for person in (anna, ben):
        token = kept[person.pseudonym].token.get_secret_value()
        with (
            program(label_studio, token) as service_account,
            program(label_studio, person.token.get_secret_value()) as own,
        ):
            belongings.append(create_belongings(service_account, own))
    with program(label_studio, label_studio.token) as own_account:
        own_belongings = create_belongings(own_account, own_account)
    yield Workplace(
        label_studio, anna, ben, belongings[0], {"ben": belongings[1], "house": own_belongings}
    )
    store.close()


class Operation(NamedTuple):
    """A request of Label Studio's API description."""

    method: str
    path: str

    def filled(self, belongings: Belongings) -> tuple[str, bool]:
        """Return the path with ids of `belongings`, and whether an id identifies an object."""
        words = self.path.strip("/").split("/")
        identifies = False
        for place, word in enumerate(words):
            if word.startswith("{"):
                kind = _KINDS.get(words[place - 1])
                words[place] = str(getattr(belongings, kind) if kind else belongings.project)
                identifies = True
        slash = "/" if self.path.endswith("/") else ""
        return "/" + "/".join(words) + slash, identifies


@pytest.fixture(scope="module")
def operations(workplace: Workplace) -> list[Operation]:
    with program(workplace.server, workplace.server.token) as own_account:
        described = own_account.get("/docs/api/schema/json/").raise_for_status().json()
    found = [
        Operation(method.upper(), path)
        for path, methods in described["paths"].items()
        for method in methods
        if method in ("get", "post", "put", "patch", "delete")
    ]
    hidden = [  # requests missing in the description
        Operation("GET", "/api/tasks/{id}/drafts"),
        Operation("POST", "/api/tasks/{id}/drafts"),
        Operation("GET", "/api/tasks/{id}/annotations/{id}/drafts"),
        Operation("GET", "/api/drafts/{id}/"),
        Operation("PATCH", "/api/drafts/{id}/"),
        Operation("DELETE", "/api/drafts/{id}/"),
        Operation("GET", "/api/dm/project/"),
        Operation("GET", "/api/projects/{id}/export/files"),
        Operation("POST", "/api/annotations/{id}/convert-to-draft"),
        Operation("GET", "/projects/{id}/settings/"),
        Operation("GET", "/projects/{id}/data/"),
        Operation("GET", "/tasks/{id}/presign/?fileuri=eA=="),
        Operation("GET", "/tasks/{id}/resolve/?fileuri=eA=="),
        Operation("GET", "/admin/"),
        Operation("GET", "/django-rq/"),
    ]
    return [*found, *hidden]


def workspace_content(server: LabelStudioServer, token: str, belongings: Belongings) -> Any:
    """Return the content of a workspace, as its service account sees it."""
    with program(server, token) as service_account:
        tasks = service_account.get(
            "/api/tasks/", params={"project": belongings.project, "fields": "all"}
        ).raise_for_status()
        project = (
            service_account.get(f"/api/projects/{belongings.project}").raise_for_status().json()
        )
        views = service_account.get("/api/dm/views/", params={"project": belongings.project}).json()
        draft = service_account.get(f"/api/tasks/{belongings.task}/drafts").json()
        members = sorted(service_account.get("/api/users/").json(), key=itemgetter("id"))
    return _without_timestamps([tasks.json()["tasks"], project, views, draft, members])


def _without_timestamps(value: Any) -> Any:
    """Return `value` without the fields that change over time."""
    if isinstance(value, dict):
        volatile = {"last_activity", "activity_at", "created_ago"}
        return {
            name: _without_timestamps(one) for name, one in value.items() if name not in volatile
        }
    return [_without_timestamps(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("whose", "by"),
    [
        ("ben", "session"),
        ("house", "token"),
        pytest.param("ben", "token", marks=pytest.mark.soak),
        pytest.param("house", "session", marks=pytest.mark.soak),
    ],
)
def test_another_workspace_can_be_neither_read_nor_changed(
    workplace: Workplace, operations: list[Operation], whose: str, by: str
) -> None:
    server, foreign = workplace.server, workplace.foreign[whose]
    kept = load_workspaces(server.home)[workplace.ben.pseudonym].token.get_secret_value()
    service_account = kept if whose == "ben" else server.token
    before = workspace_content(server, service_account, foreign)
    query = {"project": foreign.project, "task": foreign.task, "view": foreign.view}
    body = {**query, "data": {"text": "forged"}, "result": [], "title": "forged", "ids": [1]}
    enter = (
        program(server, workplace.anna.token.get_secret_value())
        if by == "token"
        else browser(server, workplace.anna)
    )
    reached = []
    with enter as anna:
        for operation in operations:
            path, identifies = operation.filled(foreign)
            content = None if operation.method in ("GET", "DELETE") else body
            answer = anna.request(operation.method, path, params=query, json=content)
            shown = SECRET in answer.text or workplace.ben.email in answer.text
            if shown or (identifies and answer.status_code not in REFUSED):
                reached.append((operation, path, answer.status_code, answer.text[:200]))
    assert reached == []
    assert workspace_content(server, service_account, foreign) == before


def test_the_requests_cover_the_whole_server(operations: list[Operation]) -> None:
    assert len(operations) > 150
    paths = {operation.path for operation in operations}
    assert {"/api/projects/{id}/", "/api/tasks/{id}/", "/api/users/"} <= paths


FOR_MANAGERS: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/api/projects", {"title": "mine"}),
    ("PATCH", "/api/projects/{0.project}", {"title": "mine"}),
    ("DELETE", "/api/projects/{0.project}", None),
    ("DELETE", "/api/tasks/{0.task}/", None),
    ("POST", "/api/projects/{0.project}/import", [{"text": "mine"}]),
    ("GET", "/api/projects/{0.project}/export?exportType=JSON", None),
    ("POST", "/api/dm/actions?id=delete_tasks&project={0.project}", {"selectedItems": {}}),
    ("POST", "/api/dm/actions?id=predictions_to_annotations&project={0.project}", {}),
    ("POST", "/api/users/", {"email": "friend@example.org"}),
    ("GET", "/api/invite", None),
    ("POST", "/api/invite/reset-token", {}),
    ("POST", "/api/jwt/settings", {"legacy_api_tokens_enabled": True}),
    ("POST", "/api/webhooks/", {"url": "http://example.org"}),
)


def test_an_annotator_cannot_manage_the_workspace(workplace: Workplace) -> None:
    with program(workplace.server, workplace.anna.token.get_secret_value()) as anna:
        for method, path, body in FOR_MANAGERS:
            answer = anna.request(method, path.format(workplace.own), json=body)
            assert answer.status_code == 403, (method, path, answer.text)
        assert anna.get(f"/api/tasks/{workplace.own.task}/").is_success


def test_an_annotator_can_read_tasks_and_change_annotations(workplace: Workplace) -> None:
    own = workplace.own
    with program(workplace.server, workplace.anna.token.get_secret_value()) as anna:
        projects = anna.get("/api/projects").raise_for_status().json()["results"]
        shown = {project["id"] for project in projects}
        assert own.project in shown
        assert shown.isdisjoint(foreign.project for foreign in workplace.foreign.values())
        assert SECRET in anna.get(f"/api/tasks/{own.task}/").raise_for_status().text
        changed = {"result": [{**REGION, "value": {"text": ["changed"]}}]}
        anna.patch(f"/api/annotations/{own.annotation}/", json=changed).raise_for_status()
        answer = anna.get(f"/api/annotations/{own.annotation}/").json()
        assert answer["result"][0]["value"] == {"text": ["changed"]}
        assert answer["updated_by"] == workplace.anna.user_id


def test_an_answer_that_arrives_again_is_confirmed_and_stored_once(workplace: Workplace) -> None:
    """As its confirmation was lost; nobody else's answer is shown or changed."""
    number = str(uuid4())

    def send(account: AnnotatorAccount, task: int, text: str) -> httpx.Response:
        body = {"result": [{**REGION, "value": {"text": [text]}}], "unique_id": number}
        with program(workplace.server, account.token.get_secret_value()) as client:
            return client.post(f"/api/tasks/{task}/annotations/", json=body)

    own = workplace.own.task
    first, again, changed = (send(workplace.anna, own, text) for text in ("a", "a", "b"))
    assert [one.status_code for one in (first, again, changed)] == [201, 201, 201]
    assert first.json()["id"] == again.json()["id"] == changed.json()["id"]
    assert changed.json()["result"][0]["value"] == {"text": ["b"]}
    assert send(workplace.ben, workplace.foreign["ben"].task, "c").status_code == 409
    assert send(workplace.ben, own, "c").status_code == 403
    log = (workplace.server.home / "services" / "label-studio.log").read_text(encoding="utf-8")
    assert "Conflict: /api/tasks/" in log
    assert "unique id already exists" not in log, "a refusal takes a line, without a traceback"
    assert '" 201 ' not in log


def test_ids_of_another_workspace_in_request_bodies_are_refused(workplace: Workplace) -> None:
    own, foreign = workplace.own, workplace.foreign["ben"]
    with program(workplace.server, workplace.anna.token.get_secret_value()) as anna:
        in_body = anna.post(
            f"/api/dm/views/?project={own.project}", json={"project": foreign.project, "data": {}}
        )
        as_form = anna.post(f"/api/tasks/{own.task}/drafts", data={"task": str(foreign.task)})
        parent = anna.post(
            f"/api/tasks/{own.task}/annotations/",
            json={"result": [], "parent_annotation": foreign.annotation},
        )
    assert [in_body.status_code, as_form.status_code, parent.status_code] == [403, 403, 403]


def _forged_bodies(**numbers: int) -> Iterator[tuple[str, bytes]]:
    """Yield bodies that contain these ids for Label Studio, most of them not in plain UTF-8."""
    forged = dict(numbers)
    in_utf_7 = {
        f"+{b64encode(name.encode('utf-16-be')).decode().rstrip('=')}-": number
        for name, number in forged.items()
    }
    yield "application/json; charset=utf-7", json.dumps({"lead_time": 1, **in_utf_7}).encode()
    inside = "".join(f', "{name}": {number}' for name, number in forged.items())
    escaped = inside.replace('"', "\\u0022")
    text = f'{{"started_at": "\\u0022{escaped}, \\u0022comment\\u0022: \\u0022"}}'
    yield "application/json; charset=unicode_escape", text.encode()
    yield "application/json; charset=utf-8; charset=utf-7", json.dumps(in_utf_7).encode()
    yield "application/json", json.dumps(forged).encode("utf-16")
    yield "application/json", json.dumps(forged).encode()
    yield "application/x-www-form-urlencoded", urlencode(forged).encode()


def test_an_answer_cannot_be_moved_to_another_workspace_or_annotator(
    workplace: Workplace,
) -> None:
    own, foreign = workplace.own, workplace.foreign["ben"]
    kept = load_workspaces(workplace.server.home)[workplace.ben.pseudonym].token.get_secret_value()
    before = workspace_content(workplace.server, kept, foreign)
    answers = []
    with program(workplace.server, workplace.anna.token.get_secret_value()) as anna:
        forged = {"project": foreign.project, "task": foreign.task, "completed_by": foreign.user}
        for method, path in (
            ("PATCH", f"/api/annotations/{own.annotation}/"),
            ("PUT", f"/api/annotations/{own.annotation}/"),
            ("POST", f"/api/tasks/{own.task}/annotations/"),
            ("PATCH", f"/api/drafts/{own.draft}/"),
        ):
            for content_type, body in _forged_bodies(**forged):
                headers = {"Content-Type": content_type}
                answer = anna.request(method, path, content=body, headers=headers)
                answers.append((answer.status_code, method, path, content_type))
        headers = {"X-HTTP-Method-Override": "PATCH", "Content-Type": "application/json"}
        path = f"/api/annotations/{own.annotation}/?_method=PATCH&task={foreign.task}"
        forced = anna.post(path, content=b"{}", headers=headers)
        answers.append((forced.status_code, "POST", path, "overridden"))
        path = f"/api/annotations/{own.annotation}/?task={foreign.task}&task={own.task}"
        answers.append((anna.patch(path, json={}).status_code, "PATCH", path, "in the query"))
        mine = anna.get(f"/api/annotations/{own.annotation}/").raise_for_status().json()
    assert [one for one in answers if one[0] not in REFUSED] == []
    assert (mine["task"], mine["project"], mine["completed_by"]) == (
        own.task,
        own.project,
        own.user,
    )
    assert workspace_content(workplace.server, kept, foreign) == before


def tab_with(operator: str, value: str, project: int) -> dict[str, Any]:
    """Return a tab with a filter of the tasks' text."""
    column = {"filter": "filter:tasks:data.text", "type": "String"}
    items = [{**column, "operator": operator, "value": value}]
    filters = {"conjunction": "and", "items": items}
    return {"project": project, "data": {"title": "mine", "filters": filters}}


def test_an_annotator_cannot_filter_with_a_regular_expression(workplace: Workplace) -> None:
    own, server = workplace.own, workplace.server
    slow = tab_with("regex", "(x+x+)+y", own.project)
    filters = {"filters": slow["data"]["filters"]}
    query, project = json.dumps(filters), str(own.project)
    kept = load_workspaces(server.home)[workplace.anna.pseudonym].token.get_secret_value()
    with program(server, kept) as service_account:  # saved by somebody who may
        saved = service_account.post("/api/dm/views/", json=slow).raise_for_status().json()["id"]
    with program(server, workplace.anna.token.get_secret_value()) as anna:
        mine = {"project": project}
        action = {"project": project, "id": "next_task"}
        following = f"/api/projects/{project}/next"
        answers = [
            anna.post("/api/dm/views/", json=slow),
            anna.patch(f"/api/dm/views/{own.view}/", json=slow),
            anna.put(f"/api/dm/views/{own.view}/", json=slow),
            anna.get("/api/tasks/", params={**mine, "query": query}),
            anna.get("/api/tasks/", params={**mine, "query": quote(query)}),
            anna.request("GET", "/api/tasks/", params=mine, json=filters),
            anna.get("/api/tasks/", params={**mine, "view": saved}),
            anna.post("/api/dm/actions/", params=action, json=filters),
            anna.post("/api/dm/actions/", params={**action, "query": query}, json={}),
            anna.post("/api/dm/actions/", params={**action, "view": saved}, json={}),
            anna.get(following, params={"query": query}),
            anna.get(following, params={"view": saved}),
        ]
        assert [answer.status_code for answer in answers] == [403] * len(answers)
        assert "a filter must use one of" in answers[0].json()["detail"]

        def listed(**how: str) -> int:
            answer = anna.get("/api/tasks/", params={**mine, **how}).raise_for_status()
            return int(answer.json()["total"])

        for expected, value in ((1, SECRET[:5]), (0, "100%25")):
            fast = tab_with("contains", value, own.project)
            query = json.dumps({"filters": fast["data"]["filters"]})
            assert listed(query=query) == listed(query=quote(query)) == expected
        fast = tab_with("contains", SECRET[:5], own.project)
        anna.patch(f"/api/dm/views/{saved}/", json=fast).raise_for_status()
        assert listed(view=saved) == 1


def test_a_foreign_page_cannot_change_anything(workplace: Workplace) -> None:
    path = f"/api/annotations/{workplace.own.annotation}/"
    with browser(workplace.server, workplace.anna) as anna:
        own = anna.headers.pop("Referer")
        for headers in ({}, {"Origin": "http://attacker.example"}, {"Origin": "null"}):
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                answer = anna.request(method, path, json={"lead_time": 1}, headers=headers)
                assert (answer.status_code, "does not come from" in answer.text) == (403, True)
        anna.patch(path, json={"lead_time": 1}, headers={"Referer": own}).raise_for_status()
        origin = {"Origin": workplace.server.url}
        anna.patch(path, json={"lead_time": 1}, headers=origin).raise_for_status()


def test_failed_logins_of_an_account_slow_down_only_its_next_ones(workplace: Workplace) -> None:
    url = workplace.server.url
    form = {"email": "stranger@localhost", "password": "guessed"}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        client.get("/user/login/")
        form["csrfmiddlewaretoken"] = client.cookies["csrftoken"]
        answers = [
            client.post("/user/login/", data=form, headers={"Origin": url}) for _ in range(14)
        ]
    assert {one.status_code for one in answers[:5]} == {200}
    refused = [one for one in answers if one.status_code == 429]
    assert refused
    assert int(refused[-1].headers["Retry-After"]) >= 1
    with browser(workplace.server, workplace.ben) as ben:
        assert ben.get("/api/current-user/whoami").is_success


def test_an_unreadable_answer_is_refused_with_a_reason(
    workplace: Workplace,
) -> None:
    path = f"/api/tasks/{workplace.own.task}/annotations/"
    deep = b'{"result": [{"value": ' + b"[" * 600 + b"]" * 600 + b"}]}"
    large = json.dumps({"result": [{"value": "x" * (1 << 20)}]}).encode()
    with program(workplace.server, workplace.anna.token.get_secret_value()) as anna:
        for body, reason in ((deep, "at most 16 levels"), (large, "at most 1,048,576 bytes")):
            answer = anna.post(path, content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == 403
            assert reason in answer.json()["detail"]


def test_the_list_of_users_shows_only_the_own_workspace(workplace: Workplace) -> None:
    with browser(workplace.server, workplace.anna) as anna:
        addresses = {user["email"] for user in anna.get("/api/users/").json()}
    assert addresses == {workplace.anna.email, f"loupe+{workplace.anna.email}"}


def test_the_service_account_has_no_password(workplace: Workplace) -> None:
    with pytest.raises(ServiceError, match="does not accept the password"):
        new_token(workplace.server.url, f"loupe+{workplace.anna.email}", workplace.anna.password)


def test_adding_a_person_again_keeps_the_work_and_replaces_the_secrets(
    label_studio: LabelStudioServer, sqlite_store: Store
) -> None:
    (dora,) = label_studio.annotators(sqlite_store, "Dora Roles")
    before = load_workspaces(label_studio.home)[dora.pseudonym]
    with program(label_studio, before.token.get_secret_value()) as service_account:
        project = service_account.post(
            "/api/projects", json={"title": "kept", "label_config": CONFIG}
        )
    (again,) = add_workspaces(label_studio.settings, [dora.name])
    assert again.user_id == dora.user_id == annotator_named(sqlite_store, dora.name).user_id
    with program(label_studio, again.credentials.token.get_secret_value()) as service_account:
        found = service_account.get("/api/projects").json()["results"]
    assert [one["id"] for one in found] == [project.json()["id"]]
    with pytest.raises(ServiceError, match="does not accept the password"):
        new_token(label_studio.url, dora.email, dora.password)
    for earlier in (before.token, dora.token):  # of the service, and one that Dora made
        with (
            pytest.raises(httpx.HTTPStatusError),
            program(label_studio, earlier.get_secret_value()),
        ):
            pass
