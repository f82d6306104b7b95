"""Three annotators, one of them careless, work through queues in a real Label Studio.

Label Studio runs on PostgreSQL. Nearly a third of our calls fail, and webhooks arrive twice and out
of order. The outcome must equal that of the same annotators in memory without faults. The test has
12 items in one queue; `make soak` runs it with 300 items in two queues.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Protocol, TypeVar

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import insert

from loupe.annotate.backend import Desks, LabelStudioDesk
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.pull import pull, reconcile
from loupe.annotate.queues import SHARED, Queue, shipped
from loupe.annotate.statistics.queue import queue_statistics
from loupe.db.annotations import annotations_of
from loupe.db.decisions import append_decisions
from loupe.db.entities import AgentRef, NewDecision, StoredEntity, fetch, find
from loupe.db.gold import KnownAnswer, add_gold_items, all_checks, revocations
from loupe.db.reviews import WAITING, review_tasks, tasks_by_key
from loupe.db.store import Store
from loupe.db.tables import Annotator, Pseudonym
from loupe.flows.engine.desks import Webhooks, webhook_server
from loupe.models.profiles.settings import load_settings
from loupe.schemas.base import digest_of
from loupe.schemas.errors import ServiceError
from loupe.services.credentials import desk_key
from loupe.services.label_studio import (
    NAME,
    WATCHER,
    add_workspaces,
    label_studio_token,
    start_label_studio,
)
from loupe.services.process import PLAIN_HTTP, free_port, record_path, stop
from tests.annotate.answering import Regions, about, accepting, editing, rejecting
from tests.annotate.fault_proxy import Fault, fault_proxy
from tests.annotate.memory_desk import MemoryOffice
from tests.annotate.office import push
from tests.annotate.world import DATASET, World
from tests.postgres import Postgres
from tests.services.fixtures import new_token
from tests.services.migrated import migrated_database

pytestmark = [  # one process, with its own server
    pytest.mark.xdist_group("scenario"),
    pytest.mark.timeout(1200),
]
SERVER_NAME = "scenario"
LATE_SECONDS = 10.0
"""Timeout for responses of Label Studio."""
ANNOTATORS, ADJUDICATOR = ("reviewer-ann", "reviewer-bea", "reviewer-cem"), "reviewer-dan"
CARELESS = "reviewer-cem"
RULES = {"overlap": 2, "gold_rate": 0.35, "batch": 1000}
QUEUES = tuple(
    shipped().queue(DATASET, step).model_copy(update=RULES) for step in ("rewrites", "captions")
)
T = TypeVar("T")


class Size(NamedTuple):
    """The queues, and the number of items and gold items in each."""

    queues: tuple[Queue, ...]
    items: int
    gold: int


SIZES = (
    pytest.param(Size(QUEUES[:1], 12, 7), id="12 items"),
    pytest.param(Size(QUEUES, 150, 40), id="300 items", marks=pytest.mark.soak),
)
Work = Callable[[str, Callable[[StoredEntity], Regions]], int]
"""Answers all open tasks of an annotator and returns how many there were."""


def share(*parts: str) -> float:
    """Return a number from 0 to 1 that depends only on the parts."""
    return int(digest_of("scenario 0", *parts), 16) / (1 << 128)


def truth(entity: StoredEntity) -> str:
    return ("accept", "edit", "reject")[int(3 * share("truth", entity.id))]


def opinion(person: str, entity: StoredEntity) -> Regions:
    """Return the true answer; annotators err on one of twenty, the careless one is random."""
    text = str(entity.payload).partition('"text":"')[2].partition('"')[0]
    verdict, chance = truth(entity), share(person, entity.id)
    if person == CARELESS:
        verdict = ("accept", "edit", "reject")[int(3 * chance)]
    elif person in ANNOTATORS and chance < 0.05:
        verdict = {"accept": "reject", "edit": "accept", "reject": "accept"}[verdict]
    make_answer = {"accept": accepting, "edit": editing, "reject": rejecting}[verdict]
    return about(entity.kind, make_answer(f"{text} Corrected." if verdict == "edit" else text))


def new_world(folder: Path, size: Size) -> World:
    """Return a store with filled queues, gold items and annotators."""
    folder.mkdir()
    world = World(folder)
    for number in range(size.items):
        world.add(f"Rewrite {number}.", source=f"Caption {number}.", suspect=number % 5 == 0)
    for number in range(size.gold):
        world.add(f"Gold {number}.", source=f"Gold caption {number}.", checked=False)
    for queue in size.queues:
        gold = [e for e in find(world.store, DATASET, queue.kind) if '"text":"Gold ' in e.payload]
        items = [KnownAnswer(e.id, known_answer(queue, e), "given") for e in gold]
        assert add_gold_items(world.store, queue.name, items) == size.gold
        known = AgentRef("software", "scenario", "1")
        with world.store.write() as connection:  # decided already, so that they are not candidates
            append_decisions(connection, [NewDecision(e.id, "accept", known) for e in gold])
    return world


def known_answer(queue: Queue, entity: StoredEntity) -> dict[str, Any]:
    answer = interface_of(queue).read_annotation(opinion("nobody", entity), entity)
    return answer.model_dump(mode="json")


def hire(store: Store, server: str, user_ids: Mapping[str, int]) -> None:
    for person, user_id in user_ids.items():
        role = "adjudicator" if person == ADJUDICATOR else "annotator"
        user = {"server": server, "user_id": user_id}
        entry = {"roles": role, "state": "active", "added_at": datetime.now(UTC)}
        with store.write() as connection:
            connection.execute(insert(Pseudonym), {**user, "name": person})
            connection.execute(
                insert(Annotator), {**user, **entry, "pseudonym": person, "name": person[9:]}
            )


class Retry(Protocol):
    """Calls a function, and again if it fails."""

    def __call__(self, call: Callable[[], T]) -> T: ...


def call_once(call: Callable[[], T]) -> T:
    return call()


def play(store: Store, queues: Sequence[Queue], desks: Desks, work: Work, retry: Retry) -> None:
    """Push, let everybody work, and pull, until no tasks are left."""
    for _ in range(12):
        for queue in queues:
            retry(partial(push, store, desks, queue))
        people = (*ANNOTATORS, ADJUDICATOR)
        if not sum(work(person, partial(opinion, person)) for person in people):
            return
        for queue in queues:
            retry(partial(pull, store, desks, queue))
    pytest.fail("tasks are left after twelve rounds")


class Outcome(NamedTuple):
    """The result, without the accuracy at the time of revocation.

    That accuracy depends on which answers had been pulled by then.
    """

    tasks: frozenset[tuple[str, ...]]
    states: Mapping[str, str]
    checks: frozenset[tuple[str, str, bool]]
    returned: tuple[tuple[str, str, int], ...]
    answers: int


def outcome(store: Store, queues: Sequence[Queue]) -> Outcome:
    tasks = [task for queue in queues for task in review_tasks(store, queue.name).values()]
    answers = annotations_of(store, [task.key for task in tasks])
    return Outcome(
        frozenset((t.key, t.assignee, t.purpose, str(t.gold), t.state) for t in tasks),
        {e.id: e.state for queue in queues for e in find(store, DATASET, queue.kind)},
        frozenset(
            (check.assignee, check.entity_id, check.correct)
            for queue in queues
            for found in all_checks(store, queue.name).values()
            for check in found
        ),
        tuple((r.queue, r.assignee, r.tasks) for r in revocations(store)),
        sum(map(len, answers.values())),
    )


@pytest.fixture(scope="module", params=SIZES)
def size(request: pytest.FixtureRequest) -> Size:
    found: Size = request.param
    return found


@pytest.fixture(scope="module")
def outcome_without_faults(size: Size, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome without faults."""
    world = new_world(tmp_path_factory.mktemp("undisturbed") / "world", size)
    office = MemoryOffice()
    assignees = (SHARED, *ANNOTATORS, ADJUDICATOR)
    hire(world.store, office.server.url, {p: office(p).user_id for p in assignees if p})

    def work(person: str, answer_of: Callable[[StoredEntity], Regions]) -> int:
        waiting = [*office(person).open_tasks(), *office(person).open_tasks("adjudication")]
        shown = shown_in(world.store, [task.key for task in waiting])
        for task in waiting:
            office(person).annotate(task.id, answer_of(shown[task.key]))
        return len(waiting)

    play(world.store, size.queues, office, work, call_once)
    return outcome(world.store, size.queues)


def shown_in(store: Store, keys: list[str]) -> dict[str, StoredEntity]:
    tasks = tasks_by_key(store, keys)
    entities = fetch(store, [task.entity_id for task in tasks.values()])
    return {key: entities[task.entity_id] for key, task in tasks.items()}


def test_the_outcome_without_faults_is_as_expected(
    outcome_without_faults: Outcome, size: Size
) -> None:
    careless = [row for row in outcome_without_faults.returned if row[1] == CARELESS]
    assert {row[0] for row in careless} == {queue.name for queue in size.queues}
    assert all(row in careless for row in outcome_without_faults.returned)
    purposes = Counter(purpose for _, _, purpose, _, _ in outcome_without_faults.tasks)
    assert purposes["adjudication"] > size.items * len(size.queues) // 15
    assert "proposed" not in outcome_without_faults.states.values()
    assert not {state for *_, state in outcome_without_faults.tasks} & set(WAITING)


class Account:
    """A user of Label Studio's API with a token."""

    def __init__(self, url: str, token: SecretStr) -> None:
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(
            base_url=url, trust_env=False, timeout=120, limits=limits, verify=PLAIN_HTTP
        )
        self._token = token.get_secret_value()

    def sign_in(self) -> None:
        """Get a new access key, which is valid for a few minutes only."""
        answer = self._client.post("/api/token/refresh/", json={"refresh": self._token})
        self._client.headers["Authorization"] = (
            f"Bearer {answer.raise_for_status().json()['access']}"
        )

    def get(self, path: str, **parameters: Any) -> Any:
        return self._client.get(path, params=parameters).raise_for_status().json()

    def projects(self) -> list[int]:
        found = self.get("/api/projects", page_size=100)["results"]
        return [int(project["id"]) for project in found]

    def open_tasks(self) -> dict[str, int]:
        """Return the ids of the open tasks by Loupe's task key."""
        query = {"page_size": 1000, "fields": "all"}
        return {
            task["data"]["key"]: int(task["id"])
            for project in self.projects()
            for task in self.get("/api/tasks", project=project, **query)["tasks"]
            if not task["annotations"]
        }

    def answer(self, task_id: int, regions: Regions, seconds: float = 5.0) -> None:
        body = {"result": regions, "lead_time": seconds}
        self._client.post(f"/api/tasks/{task_id}/annotations/", json=body).raise_for_status()


class Site(NamedTuple):
    """A real Label Studio with a workspace for each annotator.

    `services` are the tokens of the workspaces, `people` those of the annotators. It posts to the
    URL that the file `watcher` has, with the `key` of the desk.
    """

    url: str
    services: Mapping[str, SecretStr]
    people: Mapping[str, SecretStr]
    user_ids: Mapping[str, int]
    watcher: Path
    key: str

    def desks(self, url: str) -> Desks:
        """Return the workspaces, accessed through `url`."""
        opened: dict[str, LabelStudioDesk] = {}

        def desk_of(assignee: str) -> LabelStudioDesk:
            if assignee not in opened:
                token = self.services[assignee]
                opened[assignee] = LabelStudioDesk(url, token, LATE_SECONDS, SERVER_NAME)
            return opened[assignee]

        return desk_of


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory,
    label_studio_environment: Path,
    postgres_server: Postgres,
) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("scenario")
    settings = load_settings(
        home=home,
        environments=label_studio_environment.parent,
        label_studio_database_url=migrated_database(label_studio_environment, postgres_server),
    )
    service = start_label_studio(
        home,
        free_port(),
        label_studio_environment,
        settings.label_studio_database_url,
    )
    try:
        assert service.url is not None
        people = (*ANNOTATORS, ADJUDICATOR)
        workspaces = add_workspaces(settings, people)
        services = {SHARED: label_studio_token(home, service.url)}
        logins, user_ids = {}, {}
        for person, one in zip(people, workspaces, strict=True):
            services[person], user_ids[person] = one.credentials.token, one.user_id
            email, password = one.credentials.email, one.credentials.password
            assert email is not None
            assert password is not None
            logins[person] = new_token(service.url, email, password)
        watcher, key = record_path(home, WATCHER), desk_key(home)
        yield Site(service.url, services, logins, user_ids, watcher, key)
    finally:
        stop(home, NAME)


@contextmanager
def disorder(address: str) -> Iterator[str]:
    """Yield a URL whose webhooks are passed on to `address` late, twice and out of order."""
    waiting_bodies: list[tuple[bytes, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            waiting_bodies.append((body, self.headers["Authorization"]))
            self.send_response(204)
            self.end_headers()
            if len(waiting_bodies) >= 7:
                deliver()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    def deliver() -> None:
        with httpx.Client(trust_env=False, verify=PLAIN_HTTP) as client:
            while waiting_bodies:
                body, key = waiting_bodies.pop()
                for _ in range(2):
                    client.post(address, content=body, headers={"Authorization": key})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Faults:
    """Chooses a fault for three of ten calls; only one is slow, to save time."""

    def __init__(self, seed: int, most_slow: int = 1) -> None:
        self._random = random.Random(seed)
        self._slow_left = most_slow
        self.counts: Counter[Fault] = Counter()

    def __call__(self, method: str, path: str) -> Fault:
        fault = Fault.NONE
        if self._random.random() < 0.3:
            fault = self._random.choice([one for one in Fault if one is not Fault.NONE])
        if fault is Fault.SLOW:
            self._slow_left -= 1
            fault = Fault.UNKNOWN if self._slow_left < 0 else fault
        self.counts[fault] += 1
        return fault


def retry(call: Callable[[], T]) -> T:
    """Call a function again after every failure, as the user of a flow would."""
    for _ in range(60):
        try:
            return call()
        except ServiceError as error:
            assert "\n" not in str(error)  # noqa: PT017 - the test continues after it
    pytest.fail("it failed sixty times")


@pytest.mark.label_studio
@pytest.mark.postgres
def test_faults_and_webhooks_out_of_order_change_nothing(
    outcome_without_faults: Outcome, size: Size, site: Site, tmp_path: Path
) -> None:
    world, webhooks, faults = new_world(tmp_path / "world", size), Webhooks(), Faults(seed=7)
    store = world.store
    people = {person: Account(site.url, token) for person, token in site.people.items()}
    services = {person: Account(site.url, token) for person, token in site.services.items()}
    with (
        webhook_server(webhooks, site.key) as address,
        disorder(address) as hook,
        fault_proxy(site.url, faults, slow_seconds=LATE_SECONDS + 1) as url,
    ):
        desks = site.desks(url)
        hire(store, SERVER_NAME, site.user_ids)
        site.watcher.write_text(json.dumps({"url": hook}), encoding="utf-8")

        def work(person: str, answer_of: Callable[[StoredEntity], Regions]) -> int:
            people[person].sign_in()
            waiting = people[person].open_tasks()
            shown = shown_in(store, list(waiting))
            for key, task_id in waiting.items():
                people[person].answer(task_id, answer_of(shown[key]))
            while webhooks.wait(0.3):
                for queue in size.queues:
                    retry(partial(pull, store, desks, queue))
            return len(waiting)

        play(store, size.queues, desks, work, retry)
    assert outcome(store, size.queues) == outcome_without_faults
    assert min(faults.counts[fault] for fault in Fault) > 0
    assert 0.2 < 1 - faults.counts[Fault.NONE] / faults.counts.total() < 0.4
    direct = site.desks(site.url)
    for queue in size.queues:
        report = reconcile(store, direct, queue)
        assert (report.missing, report.answers, report.foreign) == ((), 0, ())
        pairs = assert_agreement_equals_that_of_the_export(store, queue, services)
        assert pairs > size.items // 2
    assert_annotators_see_only_their_tasks(store, size.queues, people)


def assert_agreement_equals_that_of_the_export(
    store: Store, queue: Queue, services: Mapping[str, Account]
) -> int:
    """Compare Krippendorff's alpha of the verdicts with that of Label Studio's raw export.

    Returns the number of items with two verdicts.
    """
    counted = {
        task.key: task.entity_id
        for task in review_tasks(store, queue.name).values()
        if task.purpose == "review" and task.state == "answered" and not task.gold
    }
    units: dict[str, list[str]] = {}
    for person in ANNOTATORS:
        services[person].sign_in()
        for project in services[person].projects():
            for task in services[person].get(f"/api/projects/{project}/export", exportType="JSON"):
                if task["data"]["key"] in counted:
                    units.setdefault(counted[task["data"]["key"]], []).append(verdict_of(task))
    pairs = [verdicts for verdicts in units.values() if len(verdicts) == 2]
    assert len(pairs) == len(units)
    assert any(len(set(pair)) == 2 for pair in pairs)
    values = Counter(verdict for pair in pairs for verdict in pair)
    total = values.total()
    observed = sum(2 for one, other in pairs if one != other) / total
    expected = sum(
        values[one] * values[other] for one in values for other in values if one != other
    ) / (total * (total - 1))
    (choice,) = [
        found
        for found in queue_statistics(store, queue, datetime.now(UTC)).agreement.choices
        if found.control == "verdict"
    ]
    assert choice.krippendorff.value == pytest.approx(1 - observed / expected)
    return len(pairs)


def verdict_of(task: Mapping[str, Any]) -> str:
    (annotation,) = task["annotations"]
    (chosen,) = [
        region["value"]["choices"][0]
        for region in annotation["result"]
        if region["from_name"] == "verdict"
    ]
    return str(chosen)


def assert_annotators_see_only_their_tasks(
    store: Store, queues: Sequence[Queue], people: Mapping[str, Account]
) -> None:
    """Assert that all annotators find exactly their own tasks in Label Studio."""
    expected: dict[str, set[int]] = {person: set() for person in people}
    for queue in queues:
        for task in review_tasks(store, queue.name).values():
            if task.state != "closed" and task.task_id is not None:
                expected[task.assignee].add(task.task_id)
    for person, someone in people.items():
        someone.sign_in()
        found = {
            int(task["id"])
            for project in someone.projects()
            for task in someone.get("/api/tasks", project=project, page_size=1000)["tasks"]
        }
        assert found == expected[person]
        foreign = next(iter(expected[next(other for other in people if other != person)]))
        with pytest.raises(httpx.HTTPStatusError, match=r"40[34]"):
            someone.get(f"/api/tasks/{foreign}")
