"""Reviews while Label Studio is stopped, disconnected, restored from a backup or edited by hand."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from sqlite3 import connect
from typing import NamedTuple
from uuid import uuid4

import pytest
from pydantic import SecretStr

from loupe.annotate.backend import Desks, LabelStudioDesk
from loupe.annotate.projects import Seat, find_project
from loupe.annotate.pull import PullReport, pull, reconcile
from loupe.annotate.queues import SHARED, Queue, shipped
from loupe.db.annotations import annotations_of
from loupe.db.entities import fetch
from loupe.db.reviews import StoredTask, add_annotator, review_tasks
from loupe.models.profiles.settings import load_settings
from loupe.schemas.errors import ServiceError
from loupe.services.label_studio import (
    NAME,
    Workspace,
    add_workspaces,
    label_studio_token,
    start_label_studio,
)
from loupe.services.process import free_port, stop
from tests.annotate.answering import Regions, accepting, rejecting
from tests.annotate.fault_proxy import Fault, fault_proxy
from tests.annotate.office import push
from tests.annotate.test_label_studio import ApiAnnotator
from tests.annotate.world import DATASET, World
from tests.services.fixtures import new_token
from tests.services.migrated import SQLITE, migrate_home

pytestmark = [pytest.mark.label_studio, pytest.mark.xdist_group("restored")]
NAMES = ("Ann", "Bea")
YES, NO = accepting("A hat."), rejecting("A hat.")
"""Answers to a rewrite; all rewrites have the same text."""


class Site:
    """A separate Label Studio on SQLite, which can be stopped, started and restored."""

    def __init__(self, home: Path, environment: Path) -> None:
        self.home, self._environment = home, environment
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        migrate_home(environment, home)
        self.start()
        workspaces = add_workspaces(load_settings(home=home), NAMES)
        self.workspaces = dict(zip(NAMES, workspaces, strict=True))
        self.shared_token = label_studio_token(home, self.url)
        self.people = {name: self._person(work) for name, work in self.workspaces.items()}

    def start(self) -> None:
        start_label_studio(self.home, self._port, self._environment)

    def stop(self) -> None:
        stop(self.home, NAME)

    def back_up(self) -> Path:
        """Copy the current database and return the path."""
        backup = self.home / "yesterday.sqlite3"
        with closing(connect(self.home / SQLITE)) as live, closing(connect(backup)) as copy:
            live.backup(copy)
        return backup

    def restore(self, backup: Path) -> None:
        """Stop the server, replace its database by the backup, and start it again."""
        self.stop()
        for name in ("", "-wal", "-shm", "-journal"):
            Path(f"{self.home / SQLITE}{name}").unlink(missing_ok=True)
        shutil.copy(backup, self.home / SQLITE)
        self.start()

    def token(self, name: str) -> SecretStr:
        """The service token of an annotator's workspace."""
        return self.workspaces[name].credentials.token

    def _person(self, workspace: Workspace) -> ApiAnnotator:
        email, password = workspace.credentials.email, workspace.credentials.password
        assert email is not None
        assert password is not None
        return ApiAnnotator(self.url, new_token(self.url, email, password))


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, label_studio_environment: Path
) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("restored")
    try:
        yield Site(home, label_studio_environment)
    finally:
        stop(home, NAME)


class Review(NamedTuple):
    """A queue in which Ann and Bea work; `url` is the URL at which Loupe finds Label Studio."""

    site: Site
    world: World
    queue: Queue
    url: str
    pseudonyms: Mapping[str, str]
    desks: Desks

    def push(self) -> int:
        """Push and return the number of tasks sent."""
        return push(self.world.store, self.desks, self.queue).pushed

    def pull(self) -> PullReport:
        return pull(self.world.store, self.desks, self.queue)

    def tasks(self, name: str) -> dict[str, StoredTask]:
        """Return an annotator's tasks by entity."""
        found = review_tasks(self.world.store, self.queue.name).values()
        return {task.entity_id: task for task in found if task.assignee == self.pseudonyms[name]}

    def answer(self, name: str, item: str, regions: Regions) -> int:
        """Answer an item as an annotator and return the id of the annotation."""
        number = self.tasks(name)[item].task_id
        assert number is not None
        return self.site.people[name].annotate(number, regions)

    def on_desk(self, name: str) -> list[str]:
        """Return the items on an annotator's desk, sorted."""
        of_key = {task.key: item for item, task in self.tasks(name).items()}
        seat = Seat(self.pseudonyms[name], "review")
        project = find_project(self.world.store, self.desks, self.queue, seat)
        assert project is not None
        listed = self.desks(seat.assignee).list_tasks(project)
        return sorted(of_key[task.key] for task in listed)

    def states(self, *items: str) -> list[str]:
        found = fetch(self.world.store, items)
        return [found[item].state for item in items]

    def received(self) -> int:
        """Return the number of stored answers."""
        keys = review_tasks(self.world.store, self.queue.name)
        return sum(map(len, annotations_of(self.world.store, keys).values()))


@pytest.fixture
def review(site: Site, tmp_path: Path) -> Review:
    return new_review(site, tmp_path, site.url)


def new_review(site: Site, folder: Path, url: str, overlap: int = 2) -> Review:
    world = World(folder)
    pseudonyms = {
        name: add_annotator(world.store, name, url, workspace.user_id, ["annotator"]).pseudonym
        for name, workspace in site.workspaces.items()
    }
    tokens = {SHARED: site.shared_token, **{pseudonyms[name]: site.token(name) for name in NAMES}}
    changed = {"name": f"{uuid4().hex[:8]}-rewrites", "overlap": overlap}
    queue = shipped().queue(DATASET, "rewrites").model_copy(update=changed)
    return Review(
        site, world, queue, url, pseudonyms, lambda assignee: LabelStudioDesk(url, tokens[assignee])
    )


def add_rewrites(review: Review, *numbers: int) -> list[str]:
    """Add rewrites to review."""
    return [
        review.world.add("A hat.", source=f"A hat, the {number}th.", suspect=False)
        for number in numbers
    ]


def is_one_sentence(caught: pytest.ExceptionInfo[ServiceError]) -> bool:
    return "\n" not in str(caught.value) and str(caught.value).startswith("Label Studio at ")


def test_stopping_and_starting_label_studio_loses_nothing(review: Review) -> None:
    first, second = add_rewrites(review, 1, 2)
    assert review.push() == 4
    for name in NAMES:
        review.answer(name, first, YES)
    review.site.stop()
    for ask in (review.pull, review.push):
        with pytest.raises(ServiceError) as caught:
            ask()
        assert is_one_sentence(caught)
    review.site.start()
    for name in NAMES:
        review.answer(name, second, NO)
    report = review.pull()
    assert (report.accepted, report.rejected, report.decided) == (2, 2, 2)
    assert review.states(first, second) == ["accepted", "rejected"]
    assert (review.push(), review.pull().decided, review.received()) == (0, 0, 4)


def test_an_interrupted_pull_loses_nothing_and_the_next_one_continues(
    site: Site, tmp_path: Path
) -> None:
    listings: list[str] = []
    cut_off = True

    def fails(_: str, path: str) -> Fault:
        """Refuse all requests after the tasks of one annotator have been listed."""
        listings.extend([path] if path.startswith("/api/tasks/") else [])
        return Fault.REFUSED if cut_off and len(listings) > 1 else Fault.NONE

    with fault_proxy(site.url, fails) as url:
        review = new_review(site, tmp_path, url)
        items = add_rewrites(review, 1, 2)
        review.push()
        for name in NAMES:
            for item in items:
                review.answer(name, item, YES)
        listings.clear()
        (unreached,) = review.pull().unreached
        assert unreached.startswith("review by ")
        assert (review.received(), review.states(*items)) == (2, ["proposed"] * 2)
        cut_off = False
        report = review.pull()
    assert (report.accepted, report.known, report.decided) == (2, 2, 2)
    assert (review.received(), review.states(*items)) == (4, ["accepted"] * 2)


def test_restoring_a_backup_loses_and_duplicates_nothing(review: Review) -> None:
    before, pulled, half = add_rewrites(review, 1, 2, 3)
    review.push()
    for name in NAMES:
        review.answer(name, before, YES)
    review.pull()
    yesterday = review.site.back_up()

    since = [review.answer(name, pulled, YES) for name in NAMES]
    since.append(review.answer("Ann", half, YES))
    new, unseen = add_rewrites(review, 4, 5)
    assert review.push() == 4
    since.append(review.answer("Ann", new, NO))
    assert (review.pull().decided, review.received()) == (1, 6)
    since += [review.answer("Bea", item, YES) for item in (half, unseen)]  # these are not pulled
    numbers = {task.task_id for name in NAMES for task in review.tasks(name).values()}
    review.site.restore(yesterday)

    found = reconcile(review.world.store, review.desks, review.queue)
    assert (found.on_desk, found.answers, found.adopted, found.foreign) == (6, 0, 0, ())
    assert found.missing == tuple(sorted([new, unseen, unseen]))
    deleted = sorted([pulled, pulled, half, new])
    assert sorted(notice.entity_id for notice in found.deleted) == deleted
    report = review.pull()
    assert (report.accepted, report.rejected, report.decided) == (0, 0, 0)
    assert review.states(before, pulled, half) == ["accepted", "accepted", "proposed"]

    assert (review.push(), review.push()) == (3, 0)
    assert review.on_desk("Ann") == sorted([before, pulled, half, unseen])
    assert review.on_desk("Bea") == sorted([before, pulled, half, new, unseen])
    again = [review.tasks("Ann")[unseen], *(review.tasks("Bea")[item] for item in (new, unseen))]
    assert {task.task_id for task in again} <= numbers  # task ids are used a second time

    asked_again = [review.answer("Bea", half, NO), review.answer("Bea", new, NO)]
    asked_again += [review.answer(name, unseen, YES) for name in NAMES]
    assert set(asked_again) <= set(since)  # so are annotation ids
    report = review.pull()
    assert (report.accepted, report.rejected) == (2, 2)
    assert (report.decided, report.conflicts) == (2, 1)
    assert review.states(before, pulled, half, new, unseen) == [
        "accepted",
        "accepted",
        "proposed",
        "rejected",
        "accepted",
    ]
    assert review.received() == 10
    found = reconcile(review.world.store, review.desks, review.queue)
    assert (found.missing, found.answers, found.duplicates) == ((), 0, 0)
    assert sorted(notice.entity_id for notice in found.deleted) == deleted


def test_a_deleted_project_is_created_again_with_its_open_tasks(review: Review) -> None:
    pulled, unseen, untouched = add_rewrites(review, 1, 2, 3)
    review.push()
    for name in NAMES:
        review.answer(name, pulled, YES)
    review.pull()
    review.answer("Ann", unseen, YES)
    project = review.tasks("Ann")[pulled].project_id
    service = ApiAnnotator(review.site.url, review.site.token("Ann"))
    service.sdk.projects.delete(project)

    report = review.pull()
    assert (report.decided, review.states(pulled)) == (0, ["accepted"])
    found = reconcile(review.world.store, review.desks, review.queue)
    assert (found.on_desk, found.missing) == (3, tuple(sorted([unseen, untouched])))
    assert [notice.entity_id for notice in found.deleted] == [pulled]
    assert (review.push(), review.push()) == (2, 0)
    assert review.on_desk("Ann") == sorted([unseen, untouched])
    for name in NAMES:
        for item in (unseen, untouched):
            review.answer(name, item, NO)
    assert review.pull().decided == 2
    assert review.states(pulled, unseen, untouched) == ["accepted", "rejected", "rejected"]
