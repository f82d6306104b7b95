"""Asks of images of v2 that may be the same as others whether they are, and lets go those that are.

Look and embedding leave pairs in doubt. Of two that people find the same one leaves: never one of
v1, which has captions, else the one with fewer pixels.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from annotate.queues import Queue
from db.decisions import RETIRED, NewDecision, append_decisions, last_agents, last_reasons
from db.entities import LIVE, NewEntity, StoredEntity, find, new_entity, pages, parents_of
from db.store import Store
from db.work import WorkResult
from flows.context import RunContext
from flows.report import StageReport
from flows.retiring import keep_current
from flows.runner import Stage, run_stream
from flows.task_images import picture_of
from schemas.near_duplicates import AlikePair
from schemas.records import Image
from schemas.similar_images import DuplicateQuestion
from stages.similar_images.leaving import leaving_images

STAGE = "ask_of_duplicates"
VERSION = "1"
COMPARES = "compares"
"""The role of an image that people are asked to compare with another."""

_DECIMALS = 6
_PAGE = 500
_SAME = "people found it the same as"
_NOT_SAME = "it is not found the same as another any more"


def ask_of_duplicates(
    context: RunContext,
    dataset: str,
    pairs: Sequence[AlikePair],
    members: Mapping[str, StoredEntity],
    embedder: str,
) -> StageReport:
    """Proposes a question for each pair; takes back open ones of pairs that are in doubt no more.

    Nobody is asked of two images of v1: both have captions, and stay.

    Args:
        context: of the run.
        dataset: the benchmark.
        pairs: of images of the sources.
        members: the images of the benchmark, by the image of a source that each is a copy of.
        embedder: what was compared, as `name@revision`.
    """
    asked = [
        _question(pair, members[pair.first], members[pair.second], embedder)
        for pair in pairs
        if "v2" in (members[pair.first].group, members[pair.second].group)
    ]
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"embedder": embedder},
        label="ask of images that may be the same",
    )

    def work(items: Sequence[tuple[int, NewEntity]]) -> list[WorkResult]:
        return [WorkResult(number, entities=(question,)) for number, question in items]

    items = [(one.number, one.entity) for one in asked]
    report = run_stream(context, stage, items, work, total=len(items))
    wanted = {one.entity.id for one in asked}
    keep_current(context, dataset, DuplicateQuestion.kind, lambda one: one.id in wanted)
    return report


def follow_duplicates(context: RunContext, queue: Queue) -> int:
    """Rejects the images that leave, as whoever answered; gives how many these are.

    Where people answer otherwise later, what had left is back.
    """
    store = context.store
    asked = list(find(store, queue.dataset, DuplicateQuestion.kind, states=("rejected",)))
    ids = [one.id for one in asked]
    reasons, agents = last_reasons(store, ids), last_agents(store, ids)
    compared = parents_of(store, ids, COMPARES)
    images = standing_images(store, find(store, queue.dataset, Image.kind))
    same = {
        frozenset(compared[one]): one
        for one in ids
        if reasons[one] != RETIRED and images.keys() >= set(compared[one])
    }
    order = sorted({one for pair in same for one in pair}, key=lambda one: _rank(images[one]))
    captioned = {one for one in order if images[one].group != "v2"}
    leaves = leaving_images(order, [(min(pair), max(pair)) for pair in same], captioned)
    decisions = [
        NewDecision(image, "reject", agents[question], f"{_SAME} {stays} (question {question})")
        for image, stays in leaves.items()
        for question in (same[frozenset((image, stays))],)
    ]
    decisions += [
        NewDecision(one, "reopen", queue.agent, _NOT_SAME)
        for one, image in images.items()
        if image.state not in LIVE and one not in leaves
    ]
    for page in pages(decisions, _PAGE):
        with store.write() as connection:
            append_decisions(connection, page)
    return len(leaves)


def standing_images(store: Store, images: Iterable[StoredEntity]) -> dict[str, StoredEntity]:
    """Those that are in the benchmark, or would be had people not found them the same as others."""
    found = {one.id: one for one in images}
    reasons = last_reasons(store, [one.id for one in found.values() if one.state not in LIVE])
    return {
        id_: one
        for id_, one in found.items()
        if one.state in LIVE or reasons.get(id_, "").startswith(_SAME)
    }


def _rank(image: StoredEntity) -> tuple[bool, int, str]:
    """The order of images, those first that stay rather."""
    record = image.record(Image)
    return image.group == "v2", -record.width_px * record.height_px, image.id


class _Asked(NamedTuple):
    """A question, and its number as an input of work: those of both images."""

    number: int
    entity: NewEntity


def _question(pair: AlikePair, one: StoredEntity, other: StoredEntity, embedder: str) -> _Asked:
    stays, leaves = sorted((one, other), key=_rank)
    distance, apart = pair.spectrum_distance, pair.embedding_distance
    record = DuplicateQuestion(
        first=picture_of(stays),
        second=picture_of(leaves),
        mirrored=pair.mirrored,
        distance=None if distance is None else round(distance, _DECIMALS),
        similarity=None if apart is None else round(1 - apart, _DECIMALS),
        embedder=embedder,
    )
    parents = [(COMPARES, stays.id), (COMPARES, leaves.id)]
    question = new_entity(record, leaves.dataset, parents=parents)
    return _Asked(stays.seq << 32 | leaves.seq, question)
