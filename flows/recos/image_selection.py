"""Ask people which images fit their task, and apply the answers."""

from collections.abc import Iterator, Sequence

from db.decisions import decide, last_agents, last_reasons
from db.entities import (
    NewDecision,
    NewEntity,
    StoredEntity,
    Verdict,
    WorkResult,
    fetch_children,
    fetch_parents,
    find,
    new_entity,
    parents_of,
)
from db.store import Store
from flows.engine.context import RunContext
from flows.engine.embedding import picture_of
from flows.engine.runner import Stage, run_each
from flows.engine.software import software
from flows.recos.captioning import task_of, truths_of
from flows.recos.run import RecosRun
from flows.recos.task_images import images_of_tier, originals_of
from schemas.provenance import Role
from schemas.records import Image
from schemas.recos import Selection, TaskDraw
from schemas.requests import WrittenSignPair

STAGE = "propose_selections"
VERSION = "1"

_NOT_SELECTED = "its image was found not to fit its task"
_FOLLOWED = "as people or their policy answered whether it fits its task"
_VERDICTS: dict[str, Verdict] = {
    "accepted": "accept",
    "rejected": "reject",
    "proposed": "reopen",
}
_STATES = {"accept": "accepted", "reject": "rejected", "reopen": "proposed"}


def propose_selections(run: RecosRun) -> None:
    """Propose a question for each image of v0 with unknown truth that has none."""
    context, dataset = run.context, run.dataset
    images = images_of_tier(context.store, dataset, "v0")
    originals = originals_of(context.store, images)
    drawn = truths_of(context.store, sorted(set(originals.values())))
    doubtful = _translated_by_models(context.store, list(drawn))
    known = drawn.keys() - doubtful.keys()
    asked = [image for image in images if originals[image.id] not in known]
    ways = _ways(context.store, asked)
    ways |= {one.id: method for one in asked if (method := doubtful.get(originals[one.id]))}
    stage = Stage(STAGE, VERSION, dataset, {}, label="propose images")

    def result(number: int, image: StoredEntity) -> WorkResult:
        return WorkResult(number, entities=(_question(image, ways[image.id]),))

    run.add(run_each(context, stage, [(image.seq, image) for image in asked], result))


def _question(image: StoredEntity, proposed_by: str) -> NewEntity:
    record = Selection(
        source=image.record(Image).source,
        task=task_of(image),
        picture=picture_of(image),
        proposed_by=proposed_by,
    )
    return new_entity(record, image.dataset, parents=[(Role.SELECTS, image.id)])


def follow_selections(run: RecosRun) -> None:
    """Accept, reject or reopen images according to the answers.

    An image with another decision, such as a withdrawal, is left unchanged.
    """
    store, queue = run.store, run.queues["selections"]
    questions = {one.id: one for one in find(store, run.dataset, Selection.kind)}
    about = {id_: found[0] for id_, found in fetch_parents(store, questions, Role.SELECTS).items()}
    agents = last_agents(store, list(questions))
    reasons = last_reasons(store, sorted({image.id for image in about.values()}))
    decisions: list[NewDecision] = []
    for id_, question in questions.items():
        image = about[id_]
        verdict = _VERDICTS.get(question.state)
        if verdict is None or _STATES[verdict] == image.state:
            continue
        if reasons.get(image.id, _FOLLOWED) == _FOLLOWED:
            agent = agents.get(id_, queue.agent)
            decisions.append(NewDecision(image.id, verdict, agent, _FOLLOWED))
    decisions += _captions_following(run.context, decisions)
    decide(store, decisions)


def _captions_following(
    context: RunContext, decisions: Sequence[NewDecision]
) -> Iterator[NewDecision]:
    """Reject the captions of images that are now rejected, and reopen them with their images."""
    rejected = {one.entity_id: one.verdict == "reject" for one in decisions}
    below = fetch_children(context.store, list(rejected), Role.DESCRIBES)
    reasons = last_reasons(context.store, [one.id for many in below.values() for one in many])
    for image_id, captions in below.items():
        for one in captions:
            if rejected[image_id] and one.state == "proposed":
                yield NewDecision(one.id, "reject", software(), _NOT_SELECTED)
            elif not rejected[image_id] and reasons.get(one.id) == _NOT_SELECTED:
                yield NewDecision(one.id, "reopen", software(), "its image fits its task")


def has_selections(store: Store, dataset: str) -> bool:
    """Return whether there are any questions."""
    return next(find(store, dataset, Selection.kind), None) is not None


def _ways(store: Store, images: Sequence[StoredEntity]) -> dict[str, str]:
    """Return how each image was found, in words."""
    draws = fetch_parents(store, [image.id for image in images], Role.MEMBER_OF)
    return {image_id: _words(found[0].record(TaskDraw)) for image_id, found in draws.items()}


def _translated_by_models(store: Store, originals: Sequence[str]) -> dict[str, str]:
    """Return drawn images with texts written by a model, and these texts in words."""
    truths = parents_of(store, originals, Role.RENDERED_FROM)
    worded = fetch_parents(store, [found[0] for found in truths.values()], Role.WORDED_BY)
    words: dict[str, str] = {}
    for original, (truth, *_) in truths.items():
        records = [one.record(WrittenSignPair).pair for one in worded[truth]]
        if records:
            texts = "; ".join(f"{pair.chinese} = “{pair.english}”" for pair in records)
            words[original] = f"drawn with a translation by a model that nobody checked: {texts}"
    return words


def _words(draw: TaskDraw) -> str:
    return {
        "named": "named by who builds the benchmark",
        "nearest": f"among those nearest to “{draw.query}”",
        "categories": f"said to show {' or '.join(draw.categories)}",
        "random": "drawn at random",
    }[draw.method]
