"""Checks every rewrite against its source description."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from db.decisions import NewDecision
from db.entities import StoredEntity, fetch, find_in_groups, new_entity, parents_of
from db.store import Store
from db.work import Pending, WorkResult
from flows.context import RunContext
from flows.report import StageReport
from flows.runner import Stage, run_stage
from schemas.faithfulness import FaithfulnessReport
from schemas.profile import FaithfulnessSettings
from schemas.records import Caption, Rejection, Rewrite
from stages.check_faithfulness import STAGE, VERSION, RewritePair, check_faithfulness


def check_rewrites(
    context: RunContext, dataset: str, settings: FaithfulnessSettings, authors: Sequence[str]
) -> StageReport:
    """Gives every proposed rewrite of `dataset` a report, or rejects it where it is no rewrite.

    Of rewrites of one image that are near-identical the first stands, in the order of `authors`
    (the models of the profile), whichever came back first.
    """
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"settings": settings.model_dump(mode="json"), "authors": list(authors)},
        label="check faithfulness",
    )
    rank = {author: place for place, author in enumerate(authors)}

    def work(rewrites: Sequence[StoredEntity]) -> list[WorkResult]:
        pairs = _pairs(context.store, dataset, rewrites, rank)
        reports = check_faithfulness(pairs, settings)
        return [
            _result(context, rewrite, report)
            for rewrite, report in zip(rewrites, reports, strict=True)
        ]

    return run_stage(context, stage, Pending(dataset, Rewrite.kind, ("proposed",)), work)


def _pairs(
    store: Store, dataset: str, rewrites: Sequence[StoredEntity], rank: Mapping[str, int]
) -> list[RewritePair]:
    caption_ids = parents_of(store, [rewrite.id for rewrite in rewrites], "rewrite_of")
    captions = fetch(store, {ids[0] for ids in caption_ids.values()})
    siblings = _siblings(store, dataset, rewrites, rank)
    pairs = []
    for rewrite in rewrites:
        record = rewrite.record(Rewrite)
        own = _order(record, rewrite.id, rank)
        earlier = (text for order, text in siblings[str(rewrite.group)] if order < own)
        source = captions[caption_ids[rewrite.id][0]].record(Caption)
        pairs.append(RewritePair(source=source.text, rewrite=record.text, siblings=tuple(earlier)))
    return pairs


_Order = tuple[int, str]


def _order(rewrite: Rewrite, entity_id: str, rank: Mapping[str, int]) -> _Order:
    return (rank.get(rewrite.author, len(rank)), entity_id)


def _siblings(
    store: Store, dataset: str, rewrites: Sequence[StoredEntity], rank: Mapping[str, int]
) -> dict[str, list[tuple[_Order, str]]]:
    """All rewrites of the images concerned, by image, in the order in which they have rights."""
    siblings: dict[str, list[tuple[_Order, str]]] = defaultdict(list)
    groups = sorted({str(rewrite.group) for rewrite in rewrites})
    for entity in find_in_groups(store, dataset, Rewrite.kind, groups):
        record = entity.record(Rewrite)
        if record.author in rank:
            siblings[str(entity.group)].append((_order(record, entity.id, rank), record.text))
    for many in siblings.values():
        many.sort()
    return siblings


def _result(
    context: RunContext, rewrite: StoredEntity, report: FaithfulnessReport | Rejection
) -> WorkResult:
    if isinstance(report, Rejection):
        decision = NewDecision(rewrite.id, "reject", context.software, reason=report.reason)
        return WorkResult(rewrite.seq, decisions=(decision,), rejection=report)
    entity = new_entity(
        report, rewrite.dataset, parents=[("checks", rewrite.id)], group=rewrite.group
    )
    return WorkResult(rewrite.seq, entities=(entity,))
