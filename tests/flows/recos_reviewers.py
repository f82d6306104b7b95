"""Scripted reviewers of a benchmark of tasks."""

import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import func, select

from loupe.annotate.interfaces.text_pages import own_side
from loupe.annotate.queues import SHARED
from loupe.db.entities import LIVE, StoredEntity, fetch, find
from loupe.db.reviews import tasks_by_key
from loupe.db.store import Store
from loupe.db.tables import Decision, Entity, ModelCall
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.flows.recos.run import images_of_tier
from loupe.schemas.build import RecosBuild
from loupe.schemas.profile import Profile
from loupe.schemas.proposals import Confusion
from loupe.schemas.records import Caption
from tests.annotate.answering import Regions, about, accepting
from tests.annotate.interfaces.regions import ticked
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.recos_world import DATASET, small_build, small_profile
from tests.flows.runs import context_of

Opinion = Callable[[StoredEntity], Regions]


def build_once(
    run: RunContext, build: RecosBuild, office: MemoryOffice, profile: Profile | None = None
) -> BuildReport:
    """Run the build once."""
    return run_pipeline(run, recos_pipeline(), build, profile or small_profile(), lambda: office)


class DoubtedTasks(NamedTuple):
    """A build that waits for answers on possible duplicates, and the report of its run."""

    build: RecosBuild
    run: RunContext
    office: MemoryOffice
    report: BuildReport


class ReviewedTasks(NamedTuple):
    """A build with reviewers, and two states: an installation with the tasks of its reviewers."""

    build: RecosBuild
    questions_wait: tuple[RunContext, MemoryOffice]
    released: tuple[RunContext, MemoryOffice]


def review_tasks(run: RunContext, stills: StillsWorld, folder: Path) -> ReviewedTasks:
    """Build and review v0 and v1 in `run`; keep the state with open questions in `folder`."""
    folder.mkdir()
    gates = {"captions_gate": "required", "confusions_gate": "required"}
    build = small_build(stills, folder, last="v1", further_rounds=0, **gates)
    office = MemoryOffice()
    assert build_once(run, build, office).waiting
    answer(run, office, accept_caption)
    assert build_once(run, build, office).waiting
    home = Path(shutil.copytree(run.settings.home, folder / "questions"))
    store = Store.open(f"sqlite:///{home / 'loupe.db'}")
    questions_wait = context_of(store, home), deepcopy(office)
    answer(run, office, fits_own)
    assert build_once(run, build, office).release is not None
    return ReviewedTasks(build, questions_wait, (run, office))


def sizes(run: RunContext) -> list[int]:
    """Return the numbers of entities, decisions and model calls."""
    with run.store.read() as connection:
        return [
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (Entity, Decision, ModelCall)
        ]


def answer(run: RunContext, office: MemoryOffice, opinion: Opinion) -> int:
    """Answer the open tasks; return how many."""
    desk = office(SHARED)
    waiting = desk.open_tasks()
    tasks = tasks_by_key(run.store, [task.key for task in waiting])
    shown = fetch(run.store, [task.entity_id for task in tasks.values()])
    for task in waiting:
        desk.submit(task.id, opinion(shown[tasks[task.key].entity_id]))
    return len(waiting)


def change_answer(
    run: RunContext, office: MemoryOffice, shown: StoredEntity, regions: Regions
) -> None:
    """Change the answer to a task that was answered before."""
    desk = office(SHARED)
    answered = [task for tasks in desk.tasks.values() for task in tasks.values()]
    known = tasks_by_key(run.store, [task.key for task in answered])
    (task,) = (one for one in answered if known[one.key].entity_id == shown.id)
    desk.submit(task.id, regions, annotation_id=task.annotations[0].id)


def accept_caption(shown: StoredEntity) -> Regions:
    """Accept a caption without changes."""
    return about("caption", accepting(shown.record(Caption).text))


def fits_own(shown: StoredEntity) -> Regions:
    """Answer that a caption fits its own image only."""
    assert shown.kind == Confusion.kind
    return [ticked("fit", own_side(shown.id))]


def fits_both(_shown: StoredEntity) -> Regions:
    """Answer that a caption fits both images."""
    return [ticked("fit", "both")]


def of_tier(run: RunContext, tier: str, *states: str) -> list[StoredEntity]:
    """Return the images of a tier in these states (default: live)."""
    return [
        one for one in images_of_tier(run.store, DATASET, tier) if one.state in (states or LIVE)
    ]


def proposed(run: RunContext, kind: str) -> list[StoredEntity]:
    """Return the proposed entities of a kind."""
    return list(find(run.store, DATASET, kind, states=("proposed",)))
