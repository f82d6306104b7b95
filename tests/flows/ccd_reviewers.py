"""Scripted reviewers of a contrastive benchmark: two annotators."""

from collections.abc import Callable, Mapping

from loupe.annotate.pull import pull
from loupe.annotate.queues import shipped
from loupe.db.entities import StoredEntity, fetch
from loupe.db.reviews import tasks_by_key
from loupe.flows.ccd.pipeline import ccd_pipeline
from loupe.flows.ccd.run import CcdRun
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.pipeline import PipelineSpec, run_pipeline
from loupe.schemas.build import CcdBuild
from loupe.schemas.profile import Profile
from loupe.schemas.proposals import Candidate, CaptionGroup, Strategy
from tests.annotate.interfaces.regions import Regions, ticked, written
from tests.annotate.memory_desk import MemoryOffice
from tests.annotate.office import hire
from tests.flows.ccd_world import DATASET, contrast_profile

Opinion = Callable[[StoredEntity], Regions]
GATES = {
    "strategies_gate": "required",
    "candidates_gate": "required",
    "groups_gate": "required",
}
TEXTS = ("detail", "plan", "contrastive_caption", "editing_instruction")


def open_office(run: RunContext) -> tuple[MemoryOffice, tuple[str, str]]:
    """Return an office and the pseudonyms of two annotators."""
    office = MemoryOffice()
    ann, bea = (hire(run.store, office, name) for name in ("ann", "bea"))
    return office, (ann, bea)


def build_once(
    run: RunContext,
    build: CcdBuild,
    office: MemoryOffice,
    profile: Profile | None = None,
    pipeline: Callable[[], PipelineSpec[CcdBuild, CcdRun]] = ccd_pipeline,
) -> BuildReport:
    """Run the build once."""
    return run_pipeline(run, pipeline(), build, profile or contrast_profile(), lambda: office)


def answer(
    run: RunContext,
    office: MemoryOffice,
    person: str,
    opinion: Opinion,
    limit: int | None = None,
) -> list[StoredEntity]:
    """Answer the open tasks of a person, at most `limit`; return the entities they were shown."""
    desk = office(person)
    waiting = desk.open_tasks()[:limit]
    tasks = tasks_by_key(run.store, [task.key for task in waiting])
    shown = fetch(run.store, [task.entity_id for task in tasks.values()])
    asked = [shown[tasks[task.key].entity_id] for task in waiting]
    for task, one in zip(waiting, asked, strict=True):
        desk.submit(task.id, opinion(one))
    return asked


def answer_all(
    run: RunContext, office: MemoryOffice, people: tuple[str, ...], opinion: Opinion
) -> list[StoredEntity]:
    """Answer the open tasks of all these people alike; return the entities they were shown."""
    return [one for person in people for one in answer(run, office, person, opinion)]


def change_answer(
    run: RunContext, office: MemoryOffice, shown: StoredEntity, opinion: Opinion, step: str
) -> None:
    """Change the answers of all annotators who answered the entity, and pull the queue."""
    changed = 0
    for desk in list(office.desks.values()):
        answered = [task for tasks in desk.tasks.values() for task in tasks.values()]
        known = tasks_by_key(run.store, [task.key for task in answered])
        for task in answered:
            if known[task.key].entity_id == shown.id and task.annotations:
                desk.submit(task.id, opinion(shown), annotation_id=task.annotations[0].id)
                changed += 1
    assert changed, "nobody answered this entity"
    pull(run.store, office, shipped().queue(DATASET, step))


def right(shown: StoredEntity) -> Regions:
    """Accept any entity without changes."""
    accepted = ticked("verdict", "accept")
    if shown.kind == Strategy.kind:
        return [accepted, ticked("type", shown.record(Strategy).difference.value)]
    return [accepted]


def wrong(shown: StoredEntity) -> Regions:
    """Reject any entity."""
    problem = {
        Strategy.kind: "infeasible",
        Candidate.kind: "poor quality",
        CaptionGroup.kind: "hopeless captions",
    }
    return [ticked("verdict", "reject"), ticked("problems", problem[shown.kind])]


def edited_strategy(**texts: str) -> Callable[[StoredEntity], Regions]:
    """Return an opinion that edits the texts of a strategy."""

    def edited(shown: StoredEntity) -> Regions:
        strategy = shown.record(Strategy)
        fields = [written(field, texts.get(field, getattr(strategy, field))) for field in TEXTS]
        return [ticked("verdict", "edit"), ticked("type", strategy.difference.value), *fields]

    return edited


def edited_group(texts: Mapping[tuple[int, int], str]) -> Callable[[StoredEntity], Regions]:
    """Return an opinion that edits captions of a group, given by row and image."""

    def edited(shown: StoredEntity) -> Regions:
        group = shown.record(CaptionGroup)
        fields = [
            written(f"text_{row}_{column}", texts.get((row, column), member.captions[row]))
            for row in range(len(group.coarse_captions))
            for column, member in enumerate(group.members)
        ]
        return [ticked("verdict", "edit"), *fields]

    return edited


def except_for(usual: Opinion, exceptions: Mapping[str, Opinion]) -> Opinion:
    """Return the usual opinion, with exceptions by entity id."""
    return lambda shown: exceptions.get(shown.id, usual)(shown)
