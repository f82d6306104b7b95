"""A day at the review desk: six people, six queues, 500 items, and what the lead sees.

Two people are bad: one is too fast and accepts all, one does not see wrong materials. Gold items
come in the second hour. In the third, somebody joins and Label Studio is killed; somebody leaves
for the fourth and the fifth. Nearly every third of our calls to Label Studio fails. Most answers go
through its API, six an hour are given by keys in Chromium, over a connection that drops. At the end
the build that waited goes on by itself. The report compares decisions with the planted truth.
"""

import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from threading import Timer
from typing import Any, Literal, NamedTuple

import pytest

from loupe.annotate.backend import Desks
from loupe.annotate.interfaces.page import choice_region
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.pull import pull, reconcile
from loupe.annotate.push import push
from loupe.annotate.queues import Queue, shipped
from loupe.annotate.statistics.overview import overview
from loupe.annotate.statistics.queue import queue_statistics
from loupe.db.annotations import annotations_of
from loupe.db.decisions import append_decisions
from loupe.db.entities import AgentRef, NewDecision, StoredEntity, fetch, find, new_entity
from loupe.db.gold import KnownAnswer, add_gold_items
from loupe.db.reviews import review_tasks, set_annotator_state, tasks_by_key
from loupe.db.store import Store
from loupe.flows.continuing import Continuation
from loupe.flows.engine.waiting import note_waiting
from loupe.models.profiles.settings import Settings, load_settings
from loupe.schemas.base import EntityRecord
from loupe.schemas.errors import ServiceError
from loupe.schemas.proposals import Candidate, Strategy
from loupe.schemas.recos import DuplicateQuestion, Selection
from loupe.services.blob_server import store_app
from loupe.services.credentials import desk_key
from loupe.services.installation import builds_started
from loupe.services.label_studio import (
    NAME,
    WATCHER,
    Workspace,
    add_workspaces,
    label_studio_token,
    start_label_studio,
)
from loupe.services.process import free_port, record_path, running, stop
from tests.annotate.answering import Regions, about, accepting, rejecting
from tests.annotate.browser import FEWER_FRAMES, SAVED, SUBMIT, served
from tests.annotate.fault_proxy import Fault, fault_proxy
from tests.annotate.interfaces.proposed import (
    Proposal,
    a_candidate,
    a_duplicate_question,
    a_selection,
    a_strategy,
)
from tests.annotate.interfaces.regions import written
from tests.annotate.memory_desk import MemoryOffice
from tests.annotate.pictures import picture
from tests.annotate.test_scenario import (
    ADJUDICATOR,
    LATE_SECONDS,
    SERVER_NAME,
    Account,
    Faults,
    Retry,
    Site,
    call_once,
    hire,
    retry,
    share,
    shown_in,
)
from tests.annotate.world import DATASET, World
from tests.postgres import Postgres
from tests.services.fixtures import new_token
from tests.services.migrated import migrated_database

pytestmark = [
    pytest.mark.soak,
    pytest.mark.xdist_group("scenario"),
    pytest.mark.timeout(3600),
]
GOOD = ("reviewer-ann", "reviewer-bea", "reviewer-cem", "reviewer-joy")
FAST, BLIND = "reviewer-fay", "reviewer-mia"
PEOPLE = (*GOOD, FAST, BLIND)
AT_A_SCREEN = "reviewer-ann"
LEAVES, JOINS = "reviewer-cem", "reviewer-joy"
GOLD_IN, KILLED_IN, JOINED_IN, LEFT_IN, BACK_IN, LAST_HOUR = 2, 3, 3, 4, 6, 20
ITEMS = {"rewrites": 85, "captions": 85, "selections": 85, "strategies": 85}
ITEMS |= {"candidates": 80, "duplicates": 80}
GOLD = 8
PACE = dict.fromkeys(PEOPLE, 40) | {FAST: 80, ADJUDICATOR: 100}
"""The most answers of somebody in an hour."""
BY_KEYS = 6
"""How many tasks are answered by keys in an hour, of another queue each hour."""
READING_MS = 1_500
"""How long somebody at a screen looks at a task; meanwhile the page fetches the next one."""
RULES = {"overlap": 2, "gold_rate": 0.2, "batch": 12}
QUEUES = tuple(shipped().queue(DATASET, step).model_copy(update=RULES) for step in ITEMS)


class Page(NamedTuple):
    """How a page is answered: the regions of its controls, and the keys of a person."""

    target: str
    problem: str
    keys: tuple[str, ...]
    """Those of a rejection; 1 accepts."""
    always: tuple[dict[str, Any], ...] = ()
    fields: tuple[str, ...] = ()
    """Those of the record that the page has text fields for."""


PAGES = {
    "rewrites": Page("rewrite", "", ("3", "4")),
    "captions": Page("caption", "", ("3", "4")),
    "selections": Page("task", "too plain", ("2", "4")),
    "strategies": Page(
        "caption",
        "hallucinated",
        ("3", "4"),
        (choice_region("type", "caption", "Entity Attribute"),),
        ("detail", "plan", "contrastive_caption", "editing_instruction"),
    ),
    "candidates": Page("wanted", "poor quality", ("2", "5")),
    "duplicates": Page("measured", "", ("2",)),
}


def step_of(queue: str) -> str:
    return queue.removeprefix(f"{DATASET}-")


def fault_in(entity: StoredEntity) -> str:
    """The planted fault: none in 60 of 100 items, a wrong material in 25, another in the rest."""
    drawn = share("fault", entity.id)
    return "" if drawn < 0.6 else "material" if drawn < 0.85 else "other"


def truth(entity: StoredEntity) -> Literal["accept", "reject"]:
    return "reject" if fault_in(entity) else "accept"


def verdict_of(person: str, entity: StoredEntity) -> str:
    """What somebody says: good people err on one of 25, the adjudicator never does."""
    if person == FAST or (person == BLIND and fault_in(entity) == "material"):
        return "accept"
    errs = person != ADJUDICATOR and share(person, entity.id) < 0.04
    return {"accept": "reject", "reject": "accept"}[truth(entity)] if errs else truth(entity)


def seconds_of(person: str, entity: StoredEntity) -> float:
    return (2 if person == FAST else 9) * (0.6 + 0.8 * share("seconds", person, entity.id))


def answer_of(person: str, queue: str, entity: StoredEntity) -> Regions:
    return answer(step_of(queue), entity, verdict_of(person, entity))


def answer(step: str, entity: StoredEntity, verdict: str) -> Regions:
    page = PAGES[step]
    if step in ("rewrites", "captions"):
        text = str(entity.payload).partition('"text":"')[2].partition('"')[0]
        return about(page.target, accepting(text) if verdict == "accept" else rejecting(text))
    regions = [choice_region("verdict", page.target, verdict), *page.always]
    record = json.loads(entity.payload)
    regions += about(page.target, [written(name, record[name]) for name in page.fields])
    if verdict == "reject" and page.problem:
        regions.append(choice_region("problems", page.target, page.problem))
    return regions


# The store, with the truth planted in it.


def fill(folder: Path) -> World:
    folder.mkdir()
    world = World(folder)
    for number in range(ITEMS["rewrites"] + GOLD):
        drawn = picture(number)
        world.add(f"Rewrite {number}.", source=f"Caption {number}.", picture=drawn)
    makers: dict[str, tuple[type[EntityRecord], Callable[[int], Proposal]]] = {
        "selections": (Selection, lambda number: a_selection(source=f"coco {number}")),
        "strategies": (Strategy, lambda number: a_strategy(f"A blue bicycle, no. {number}.")),
        "candidates": (Candidate, lambda number: a_candidate(f"A blue bicycle, no. {number}.")),
        "duplicates": (
            DuplicateQuestion,
            lambda number: a_duplicate_question(distance=0.03 + number / 10_000),
        ),
    }
    for step, (record, make) in makers.items():
        made = [make(number) for number in range(ITEMS[step] + GOLD)]
        for data in {data for one in made for data in one.pictures.values()}:
            world.blobs.put(data, "image/png")
        world.keep(*(new_entity(one.shown.record(record), DATASET) for one in made))
    return world


def put_gold_aside(store: Store, queue: Queue) -> list[StoredEntity]:
    """Decides items of a queue of which the lead knows the answer; half of them are faulty."""
    found = sorted(find(store, DATASET, queue.kind), key=lambda one: one.id)
    faulty, right = ([one for one in found if bool(fault_in(one)) is has] for has in (True, False))
    gold = [*faulty[: GOLD // 2], *right[: GOLD // 2]]
    with store.write() as connection:
        known_by = AgentRef("software", "lead", "1")
        append_decisions(connection, [NewDecision(x.id, truth(x), known_by) for x in gold])
    return gold


def known(queue: Queue, entity: StoredEntity) -> KnownAnswer:
    regions = answer(step_of(queue.name), entity, truth(entity))
    said = interface_of(queue).read_annotation(regions, entity)
    return KnownAnswer(entity.id, said.model_dump(mode="json"), "given", fault_in(entity))


# Label Studio, which is killed, and the people in it.


class Office(NamedTuple):
    """A Label Studio that can be killed and started again, with the logins of people."""

    site: Site
    logins: dict[str, Workspace]
    start: Callable[[], None]
    kill: Callable[[], None]


@pytest.fixture
def office(
    tmp_path: Path, label_studio_environment: Path, postgres_server: Postgres
) -> Iterator[Office]:
    home, port = tmp_path / "home", free_port()
    home.mkdir()
    database = migrated_database(label_studio_environment, postgres_server)
    settings = load_settings(home=home, label_studio_database_url=database)

    def start() -> None:
        start_label_studio(home, port, label_studio_environment, database)

    def kill() -> None:
        service = running(home, NAME)
        assert service is not None
        stop(home, NAME, grace_seconds=0)

    start()
    try:
        url = f"http://127.0.0.1:{port}"
        everybody = (*PEOPLE, ADJUDICATOR)
        made = dict(zip(everybody, add_workspaces(settings, everybody), strict=True))
        services = {"": label_studio_token(home, url)}
        tokens = {}
        for person, one in made.items():
            services[person] = one.credentials.token
            email, password = one.credentials.email, one.credentials.password
            assert email is not None
            assert password is not None
            tokens[person] = new_token(url, email, password)
        ids = {person: one.user_id for person, one in made.items()}
        yield Office(
            Site(url, services, tokens, ids, record_path(home, WATCHER), desk_key(home)),
            made,
            start,
            kill,
        )
    finally:
        stop(home, NAME)


@contextmanager
def image_server(world: World, site: Site) -> Iterator[str]:
    app = store_app(world.store, world.blobs.read, SERVER_NAME, site.key, [site.url])
    with served(app) as url:
        yield f"{url}/blobs"


def drop_before(route: Any) -> None:
    """The answer does not reach Label Studio."""
    route.abort()


def drop_after(route: Any) -> None:
    """Label Studio stores the answer, and its confirmation does not arrive."""
    route.fetch()
    route.abort()


DROPS: dict[int, Callable[[Any], None]] = {0: drop_before, 1: drop_after}
"""What happens to the first tasks that are answered by keys in an hour."""


class Screen:
    """Somebody at a screen, who answers by keys; `costs` are (keys, seconds) by step."""

    def __init__(self, browser: Any, url: str, login: Workspace, store: Store) -> None:
        self.costs: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self._url, self._store = url, store
        self._page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        self._page.set_default_timeout(60_000)
        self._page.add_init_script(FEWER_FRAMES)
        self._page.goto(f"{url}/user/login/")
        password = login.credentials.password
        assert password is not None
        self._page.fill("input[name=email]", login.credentials.email)
        self._page.fill("input[name=password]", password.get_secret_value())
        self._page.click("button[type=submit]")
        self._page.wait_for_url("**/projects/**")

    def work(self, person: str, queue: str, project: int, waiting: int) -> int:
        """Answers some tasks of a project with the keyboard; gives how many."""
        page, count, step = self._page, min(BY_KEYS, waiting), step_of(queue)
        page.goto(f"{self._url}/projects/{project}/data?labeling=1")
        page.locator(SUBMIT).wait_for()
        key = self._shown("")
        if page.locator(".lsf-modal-ls__content").count():
            page.keyboard.press("Escape")
        for place in range(count):
            entity = shown_in(self._store, [key])[key]
            verdict = verdict_of(person, entity)
            keys = ("1",) if verdict == "accept" else PAGES[step].keys
            page.wait_for_timeout(READING_MS)
            for one in keys:
                page.keyboard.press(one)
            if place in DROPS:
                self._submit_in_vain(DROPS[place])
            started = time.perf_counter()
            page.keyboard.press("Control+Enter")
            if place + 1 < waiting:
                key = self._shown(key)
                self.costs[step].append((len(keys) + 1, time.perf_counter() - started))
            else:
                page.get_by_text(SAVED, exact=True).first.wait_for()
        return count

    def _submit_in_vain(self, drop: Callable[[Any], None]) -> None:
        """Submit while the connection drops; the page keeps the answer."""
        page = self._page
        page.route("**/api/tasks/*/annotations/?*", drop, times=1)
        with page.expect_event("requestfailed", lambda request: request.method == "POST"):
            page.keyboard.press("Control+Enter")
        page.wait_for_function("() => !window.Htx.isSubmitting")
        page.locator(SUBMIT).wait_for()

    def _shown(self, before: str) -> str:
        """The key of the task that is shown with its images, another one than before."""
        found = self._page.wait_for_function(
            """before => {
                const key = window.Htx?.task?.dataObj?.key;
                const images = [...document.images].filter(
                    image => image.src.startsWith("blob:") || image.src.includes("/blobs/")
                );
                const all = images.length && images.every(image => image.naturalWidth > 0);
                return key && key !== before && all ? key : false;
            }""",
            arg=before,
        )
        return str(found.json_value())


# The day.


class Desk(NamedTuple):
    """How many open tasks everybody had in an hour, and how many they answered."""

    waiting: dict[str, int]
    given: dict[str, int]


class Day:
    """What the lead's screen said, by hour."""

    def __init__(self, store: Store) -> None:
        self.desks: list[Desk] = []
        """What everybody had and did, by hour."""
        self.said: list[tuple[int, str]] = []
        self.named: dict[str, dict[str, int]] = defaultdict(dict)
        """By person and kind of finding, when the lead's screen first named them."""
        self.suspended: dict[tuple[str, str], tuple[int, str]] = {}
        """By person and step: when, and how many gold items were answered right."""
        self._store = store

    def note(self, hour: int, sentence: str) -> None:
        if sentence not in {said for _, said in self.said}:
            self.said.append((hour, sentence))

    def look(self, hour: int) -> None:
        """The lead looks at the page for all queues."""
        page = overview(self._store, QUEUES, datetime.now(UTC), names=True)
        items = sum(
            one.items.undecided + one.items.decided for one in page.queues if one.items.undecided
        )
        self.note(hour, f"{items} items in queues that block")
        for one in page.problems:
            self.note(hour, one.sentence)
        for found in page.findings:
            (annotator,) = found.people
            if found.kind not in self.named[annotator]:
                self.named[annotator][found.kind or ""] = hour
                self.note(hour, found.sentence)
        for queue in page.queues:
            for back in queue.returns:
                gold = f"{back.accuracy:.0%} of {back.gold_answers} gold items"
                self.suspended.setdefault((back.annotator, step_of(queue.queue)), (hour, gold))


def play(
    store: Store,
    desks: Desks,
    images: str,
    work: Callable[[int], Desk],
    call: Retry,
    join: Callable[[], object],
    kill: Callable[[], object] = lambda: None,
    go_on: Callable[[], object] = lambda: None,
) -> tuple[Day, Mapping[str, Sequence[StoredEntity]]]:
    """Hour by hour: tasks are pushed, `work` answers some, answers are pulled, the lead looks.

    `go_on` continues builds, as the watcher does. Gives what happened, and the gold items by queue.
    """
    day = Day(store)
    gold = {queue.name: put_gold_aside(store, queue) for queue in QUEUES}
    for hour in range(1, LAST_HOUR):
        if hour == GOLD_IN:
            for queue in QUEUES:
                answers = [known(queue, one) for one in gold[queue.name]]
                assert add_gold_items(store, queue.name, answers) == GOLD
        if hour == JOINED_IN:
            join()
        if hour in (LEFT_IN, BACK_IN):
            set_annotator_state(store, LEAVES[9:], "left" if hour == LEFT_IN else "active")
        if hour == KILLED_IN:
            kill()
        for queue in QUEUES:
            call(partial(push, store, desks, queue, images, 0))
        day.desks.append(work(hour))
        if not sum(day.desks[-1].given.values()):
            return day, gold
        for queue in QUEUES:
            while call(partial(pull, store, desks, queue)).unreached:
                pass  # as the watcher, which comes back to a workspace that did not answer
        go_on()
        day.look(hour)
    pytest.fail(f"work is left after {LAST_HOUR} hours")


def assert_day(store: Store, day: Day, gold: Mapping[str, Sequence[StoredEntity]]) -> None:
    """Every item is decided, nearly all rightly, and the bad people are suspended.

    With eight gold items a queue, one who errs on 4 % may be suspended from a queue by chance.
    """
    for queue in QUEUES:
        items = items_of(store, queue, gold)
        assert len(items) == ITEMS[step_of(queue.name)]
        assert {one.state for one in items} == {"accepted", "rejected"}
        assert wrong_decisions(items) <= 0.1 * len(items)
    suspended = Counter(name for name, _ in day.suspended)
    assert suspended[FAST] == len(QUEUES)
    assert suspended[BLIND] >= len(QUEUES) // 2
    assert sum(suspended[person] for person in GOOD) <= 2
    assert not any(day.named[person] for person in GOOD)
    assert idle_hours(day) == dict.fromkeys(GOOD, 0)
    assert day.desks[JOINED_IN - 1].given[JOINS] > 0
    assert day.desks[LEFT_IN - 1].given[LEAVES] == 0
    assert day.desks[BACK_IN - 1].given[LEAVES] > 0


def idle_hours(day: Day) -> dict[str, int]:
    """The hours in which a good person had nothing to do while a colleague had a whole batch."""
    idle = dict.fromkeys(GOOD, 0)
    for hour, desk in enumerate(day.desks, start=1):
        most = max(desk.waiting[person] for person in PEOPLE)
        away = {JOINS} if hour < JOINED_IN else {LEAVES} if LEFT_IN <= hour < BACK_IN else set()
        for person in set(GOOD) - away:
            idle[person] += desk.waiting[person] == 0 and most >= RULES["batch"]
    return idle


def test_a_day_of_six_people_in_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The day in memory, where nothing fails."""
    store, office = fill(tmp_path / "world").store, MemoryOffice()
    everybody = (*PEOPLE, ADJUDICATOR)
    ids = {one: office(one).user_id for one in everybody}
    hire(store, office.server.url, without(ids, JOINS))
    join = partial(hire, store, office.server.url, {JOINS: ids[JOINS]})
    answered: Counter[str] = Counter()

    def work(hour: int) -> Desk:
        desk = Desk(dict.fromkeys(everybody, 0), dict.fromkeys(everybody, 0))
        for person in everybody:
            tasks = [*office(person).open_tasks(), *office(person).open_tasks("adjudication")]
            waiting = {task.key: task.id for task in tasks}
            desk.waiting[person] = len(waiting)
            queues, shown = tasks_by_key(store, list(waiting)), shown_in(store, list(waiting))
            for key in sorted(waiting, key=partial(share, person))[: PACE[person]]:
                regions = answer_of(person, queues[key].queue, shown[key])
                seconds = seconds_of(person, shown[key])
                office(person).annotate(waiting[key], regions, seconds=seconds)
                answered[person] += 1
                desk.given[person] += 1
        return desk

    day, gold = play(store, office, "http://127.0.0.1/blobs", work, call_once, join)
    report(store, gold, day, tally(store, answered), tmp_path, capsys)
    assert_day(store, day, gold)
    assert tally(store, answered)[1:] == (0, 0)


@pytest.mark.label_studio
@pytest.mark.postgres
@pytest.mark.browser
def test_a_day_of_six_people(
    office: Office,
    browser: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The day in Label Studio, which is killed once, with faults, and a person at a screen."""
    world, faults = fill(tmp_path / "world"), Faults(seed=7)
    store, site = world.store, office.site
    hire(store, SERVER_NAME, without(site.user_ids, JOINS))
    join = partial(hire, store, SERVER_NAME, {JOINS: site.user_ids[JOINS]})
    own, builds = note_a_build(tmp_path / "home", monkeypatch), Continuation()
    started: list[str] = []

    def go_on() -> None:
        started.extend(builds.resume(own, store, QUEUES))

    accounts = {person: Account(site.url, token) for person, token in site.people.items()}
    with (
        image_server(world, site) as images,
        fault_proxy(site.url, faults, slow_seconds=LATE_SECONDS + 1) as url,
    ):
        desks = site.desks(url)
        screen = Screen(browser, site.url, office.logins[AT_A_SCREEN], store)
        given: Counter[str] = Counter()
        work = partial(work_an_hour, store, accounts, screen, given)
        kill = partial(kill_during_a_push, office, store, desks, images)
        day, gold = play(store, desks, images, work, retry, join, kill, go_on)
    report(store, gold, day, tally(store, given), tmp_path, capsys, screen)
    assert min(faults.counts[fault] for fault in Fault) > 0
    assert 0.2 < 1 - faults.counts[Fault.NONE] / faults.counts.total() < 0.4
    direct = site.desks(site.url)
    for queue in QUEUES:
        found = reconcile(store, direct, queue)
        assert (found.missing, found.answers, found.foreign) == ((), 0, ())
    assert_day(store, day, gold)
    assert tally(store, given)[1:] == (0, 0)
    assert len(started) == 1
    assert f"{DATASET} goes on: started loupe run build-ufine3c" in started[0]
    (name,) = builds_started(own.home)
    stop(own.home, name)


def without(ids: Mapping[str, int], person: str) -> dict[str, int]:
    return {one: number for one, number in ids.items() if one != person}


def note_a_build(home: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Note that a build waits, which was started with a program called `loupe`."""
    program = home / "loupe"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(program), "run", "build-ufine3c"])
    own = load_settings(home=home)
    note_waiting(own, DATASET, "builtin", in_prefect=False)
    return own


def kill_during_a_push(office: Office, store: Store, desks: Desks, images: str) -> None:
    """Label Studio dies while tasks are sent; the lead reads why and starts it again."""
    timer = Timer(0.3, office.kill)
    timer.start()
    said = ""
    while timer.is_alive() or not said:
        try:
            push(store, desks, QUEUES[0], images, 0)
        except ServiceError as error:
            said = str(error) if not timer.is_alive() else ""
    office.start()


def work_an_hour(
    store: Store, accounts: dict[str, Account], screen: Screen, given: Counter[str], hour: int
) -> Desk:
    """Everybody answers what they can in an hour, side by side; gives what they had and did."""
    before, by_keys = given.copy(), QUEUES[hour % len(QUEUES)]
    with ThreadPoolExecutor() as people:
        waiting = dict(zip(accounts, people.map(open_tasks, accounts.values()), strict=True))
        keys = [key for found in waiting.values() for key in found]
        tasks, shown = tasks_by_key(store, keys), shown_in(store, keys)
        typed = [key for key in waiting[AT_A_SCREEN] if tasks[key].queue == by_keys.name]
        at_work = []
        for person, account in accounts.items():
            own = waiting[person].keys() - (typed if person == AT_A_SCREEN else ())
            chosen = sorted(own, key=partial(share, person))[: PACE[person]]
            work = [(waiting[person][key], tasks[key].queue, shown[key]) for key in chosen]
            at_work.append(people.submit(answer_all, person, account, work))
            given[person] += len(work)
        if typed and (project := tasks[typed[0]].project_id) is not None:
            given[AT_A_SCREEN] += screen.work(AT_A_SCREEN, by_keys.name, project, len(typed))
        for one in at_work:
            one.result()
    return Desk(
        {person: len(found) for person, found in waiting.items()},
        {person: given[person] - before[person] for person in accounts},
    )


def open_tasks(account: Account) -> dict[str, int]:
    account.sign_in()
    return account.open_tasks()


def answer_all(
    person: str, account: Account, work: Sequence[tuple[int, str, StoredEntity]]
) -> None:
    for number, (task_id, queue, entity) in enumerate(work):
        if number % 20 == 0:
            account.sign_in()
        account.answer(task_id, answer_of(person, queue, entity), seconds_of(person, entity))


def items_of(
    store: Store, queue: Queue, gold: Mapping[str, Sequence[StoredEntity]]
) -> list[StoredEntity]:
    """The items of a queue, without those of which the lead knew the answer."""
    known_ids = {one.id for one in gold[queue.name]}
    return [one for one in find(store, DATASET, queue.kind) if one.id not in known_ids]


def wrong_decisions(items: Sequence[StoredEntity]) -> int:
    return sum(
        one.state != {"accept": "accepted", "reject": "rejected"}[truth(one)] for one in items
    )


def tally(store: Store, given: Counter[str]) -> tuple[int, int, int]:
    """How many answers are stored, how many of them twice, and how many are lost."""
    keys = [task.key for queue in QUEUES for task in review_tasks(store, queue.name).values()]
    found = annotations_of(store, keys)
    stored = sum(map(len, found.values()))
    return stored, stored - len(found), given.total() - len(found)


def report(
    store: Store,
    gold: Mapping[str, Sequence[StoredEntity]],
    day: Day,
    answers: tuple[int, int, int],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    screen: Screen | None = None,
) -> None:
    """Print and store the lead's findings, and the results by queue and by person."""
    lines = ["What the lead's screen said, by hour:"]
    lines += [f"  {hour:>2}  {sentence}" for hour, sentence in day.said]
    lines += [
        f"  {hour:>2}  {person[9:]} is suspended from {step}: {right}"
        for (person, step), (hour, right) in day.suspended.items()
    ]
    lines += ["", f"  {'queue':<12} items wrong  pairs equal  alpha"]
    people: dict[str, Counter[bool]] = defaultdict(Counter)
    for queue in QUEUES:
        step, items = step_of(queue.name), items_of(store, queue, gold)
        statistics = queue_statistics(store, queue, datetime.now(UTC))
        (verdict,) = [one for one in statistics.agreement.choices if one.control == "verdict"]
        costs = screen.costs[step] if screen else []
        keys = f"  {median(keys for keys, _ in costs):.0f} keys" if costs else ""
        wait = f", {median(wait for _, wait in costs):.2f} s of {len(costs)}" if costs else ""
        lines.append(
            f"  {step:<12} {len(items):>5} {wrong_decisions(items) / len(items):>5.1%}"
            f"  {verdict.observed.value or 0:>11.2f}  {verdict.krippendorff.value or 0:>5.2f}"
            f"{keys}{wait}"
        )
        tasks = review_tasks(store, queue.name)
        shown = fetch(store, [task.entity_id for task in tasks.values()])
        for key in annotations_of(store, list(tasks)):
            entity, person = shown[tasks[key].entity_id], tasks[key].assignee
            people[person][verdict_of(person, entity) == truth(entity)] += 1
    lines += ["", f"  {'person':<6} answers wrong  named in hour"]
    for person, count in sorted(people.items()):
        named = ", ".join(f"{hour} ({kind})" for kind, hour in day.named[person].items())
        wrong = count[False] / count.total()
        lines.append(f"  {person[9:]:<6} {count.total():>7} {wrong:>5.1%}  {named or '-'}")
    lines.append("answers stored, doubled, lost: {}, {}, {}".format(*answers))
    lines.append(f"idle hours of good people: {idle_hours(day)}")
    (folder / "report.txt").write_text("\n".join(lines), encoding="utf-8")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
