"""People at the gates of a benchmark of contrastive images, by script: two, and an adjudicator."""

from collections.abc import Callable, Mapping

from annotate.pull import pull
from annotate.queues import Purpose, shipped
from db.entities import StoredEntity, fetch
from db.reviews import tasks_by_key
from flows.ccd.pipeline import ccd_pipeline
from flows.engine.context import RunContext
from flows.engine.pipeline import run_pipeline
from flows.engine.report import BuildReport
from schemas.build import CcdBuild
from schemas.profile import Profile
from schemas.proposals import Candidate, CaptionGroup, Strategy
from schemas.taxonomy import DifferenceType
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


def open_office(run: RunContext) -> tuple[MemoryOffice, tuple[str, str], str]:
    """An office with two annotators and an adjudicator, and the pseudonyms of these."""
    office = MemoryOffice()
    ann, bea = (hire(run.store, office, name) for name in ("ann", "bea"))
    return office, (ann, bea), hire(run.store, office, "dan", "adjudicator")


def go(
    run: RunContext, build: CcdBuild, office: MemoryOffice, profile: Profile | None = None
) -> BuildReport:
    """One run of the build."""
    return run_pipeline(run, ccd_pipeline(), build, profile or contrast_profile(), lambda: office)


def answer(
    run: RunContext,
    office: MemoryOffice,
    person: str,
    says: Opinion,
    purpose: Purpose = "review",
    most: int | None = None,
) -> list[StoredEntity]:
    """Somebody answers what waits for them, the first `most` of it; gives what they were shown."""
    desk = office(person)
    waiting = desk.open_tasks(purpose)[:most]
    tasks = tasks_by_key(run.store, [task.key for task in waiting])
    shown = fetch(run.store, [task.entity_id for task in tasks.values()])
    asked = [shown[tasks[task.key].entity_id] for task in waiting]
    for task, one in zip(waiting, asked, strict=True):
        desk.submit(task.id, says(one))
    return asked


def answer_all(
    run: RunContext, office: MemoryOffice, people: tuple[str, ...], says: Opinion
) -> list[StoredEntity]:
    """All of them say the same of what waits for each; gives what they were shown."""
    return [one for person in people for one in answer(run, office, person, says)]


def change_answer(
    run: RunContext, office: MemoryOffice, shown: StoredEntity, says: Opinion, step: str
) -> None:
    """Everybody who was asked of it changes their answer, and the queue is read again."""
    changed = 0
    for desk in list(office.desks.values()):
        answered = [task for tasks in desk.tasks.values() for task in tasks.values()]
        known = tasks_by_key(run.store, [task.key for task in answered])
        for task in answered:
            if known[task.key].entity_id == shown.id and task.annotations:
                desk.submit(task.id, says(shown), annotation_id=task.annotations[0].id)
                changed += 1
    assert changed, "nobody was asked of it"
    pull(run.store, office, shipped().queue(DATASET, step))


def right(shown: StoredEntity) -> Regions:
    """Whatever is shown is right as it is."""
    accepted = ticked("verdict", "accept")
    if shown.kind == Strategy.kind:
        return [accepted, ticked("type", shown.record(Strategy).difference.value)]
    return [accepted]


def wrong(shown: StoredEntity) -> Regions:
    """Rejects everything."""
    problem = {
        Strategy.kind: "infeasible",
        Candidate.kind: "poor quality",
        CaptionGroup.kind: "hopeless captions",
    }
    return [ticked("verdict", "reject"), ticked("problems", problem[shown.kind])]


def mended_strategy(
    difference: DifferenceType | None = None, **texts: str
) -> Callable[[StoredEntity], Regions]:
    """An edit of a strategy: another type, or other texts."""

    def says(shown: StoredEntity) -> Regions:
        strategy = shown.record(Strategy)
        kind = (difference or strategy.difference).value
        fields = [written(field, texts.get(field, getattr(strategy, field))) for field in TEXTS]
        return [ticked("verdict", "edit"), ticked("type", kind), *fields]

    return says


def mended_group(texts: Mapping[tuple[int, int], str]) -> Callable[[StoredEntity], Regions]:
    """An edit of a group: other captions, by row and image."""

    def says(shown: StoredEntity) -> Regions:
        group = shown.record(CaptionGroup)
        fields = [
            written(f"text_{row}_{column}", texts.get((row, column), member.captions[row]))
            for row in range(len(group.coarse_captions))
            for column, member in enumerate(group.members)
        ]
        return [ticked("verdict", "edit"), *fields]

    return says


def but(usual: Opinion, exceptions: Mapping[str, Opinion]) -> Opinion:
    """The usual opinion, but for some, by their ids."""
    return lambda shown: exceptions.get(shown.id, usual)(shown)
