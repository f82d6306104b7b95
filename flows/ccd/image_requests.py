"""Requests for contrastive images, one method after the other."""

from collections.abc import Collection, Sequence
from typing import Any

from loupe.db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch,
    fetch_children,
    fetch_parents,
    find,
    new_entity,
    parents_of,
)
from loupe.db.store import Store
from loupe.flows.engine.context import RunContext, sync_active
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_each
from loupe.schemas.contrast import ImageRequest
from loupe.schemas.proposals import Candidate, Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import Method

STAGE = "order_images"
VERSION = "1"


def request_images(
    context: RunContext, dataset: str, method: Method, waiting: Collection[str] = ()
) -> StageReport:
    """Request an image by this method for every accepted strategy without an active candidate.

    The strategies in `waiting` are left out: an earlier method may still give them an image.
    """
    sync_active_requests(context, dataset)
    strategies = strategies_to_serve(context.store, dataset)
    served = served_by(context.store, [one.id for one in strategies], Role.MADE_FOR, LIVE)
    open_ = [(one.seq, one) for one in strategies if one.id not in served.union(waiting)]
    configuration = {"dataset": dataset, "method": method}
    stage = Stage(STAGE, VERSION, dataset, configuration, label=f"order images ({method})")

    record = ImageRequest(method=method)

    def requested(number: int, strategy: StoredEntity) -> WorkResult:
        parents = [(Role.ORDERED_BY, strategy.id)]
        return WorkResult(number, (new_entity(record, dataset, parents=parents, group=method),))

    return run_each(context, stage, open_, requested)


def strategies_to_serve(store: Store, dataset: str) -> list[StoredEntity]:
    """Return the accepted strategies whose anchor was not rejected."""
    accepted = list(find(store, dataset, Strategy.kind, states=("accepted",)))
    anchor_of = {one.id: one.record(Strategy).anchor.image_id or "" for one in accepted}
    anchors = fetch(store, set(anchor_of.values()))
    return [one for one in accepted if anchors[anchor_of[one.id]].state in LIVE]


def sync_active_requests(context: RunContext, dataset: str) -> None:
    """Keep requests active while their strategy needs an image from them.

    A strategy with an accepted candidate needs no other request. Nothing is searched for if there
    is a candidate, whichever service found it: searches cost money, and another service or setting
    would only return a second image.
    """
    store = context.store
    open_ = {one.id for one in strategies_to_serve(store, dataset)}
    ids = [one.id for one in find(store, dataset, ImageRequest.kind)]
    strategy_of = parents_of(store, ids, Role.ORDERED_BY)
    serving = served_by(store, ids, Role.ORDERED_BY, ("accepted",))
    served = {strategy_of[order][0] for order in serving}
    standing = served_by(store, sorted(open_), Role.MADE_FOR, LIVE)

    def is_needed(order: StoredEntity) -> bool:
        (strategy,) = strategy_of[order.id]
        if order.group == "search":
            return strategy in open_ - standing
        return strategy in open_ and (order.id in serving or strategy not in served)

    sync_active(context, dataset, ImageRequest.kind, is_needed)


def served_by(store: Store, ids: Sequence[str], role: Role, states: Collection[str]) -> set[str]:
    """Return which of the strategies or requests have a candidate in one of these states."""
    served: set[str] = set()
    for id_, children in fetch_children(store, ids, role).items():
        for one in children:
            if one.kind == Candidate.kind and one.state in states:
                served.add(id_)
    return served


def waiting_strategies(store: Store, dataset: str, report: StageReport) -> set[str]:
    """Return the strategies whose requests a method left for another run, from its report."""
    left = report.left
    orders = [one for one in find(store, dataset, ImageRequest.kind) if one.seq in left]
    return {one.id for one in strategies_of_requests(store, orders).values()}


def strategies_of_requests(store: Store, orders: Sequence[StoredEntity]) -> dict[str, StoredEntity]:
    """Return the strategy of each request, by the request's id."""
    found = fetch_parents(store, [one.id for one in orders], Role.ORDERED_BY)
    return {order: many[0] for order, many in found.items()}


def candidate_for(
    order: StoredEntity,
    strategy: StoredEntity,
    parents: Sequence[tuple[Role, str]],
    **values: Any,
) -> NewEntity:
    """Return a candidate for a strategy; `values` are the fields that its method sets."""
    record = strategy.record(Strategy)
    shared = Candidate.model_fields.keys() & Strategy.model_fields.keys()
    values |= {name: getattr(record, name) for name in shared}
    candidate = Candidate(strategy_id=strategy.id, **values)
    made_for = [(Role.MADE_FOR, strategy.id), (Role.ORDERED_BY, order.id)]
    return new_entity(
        candidate,
        order.dataset,
        parents=[*made_for, *parents],
        group=record.anchor.image_id,
    )
