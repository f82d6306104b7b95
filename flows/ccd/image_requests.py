"""Requests for contrastive images, one method after the other."""

from collections.abc import Collection, Sequence

from db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    children_of,
    fetch,
    find,
    new_entity,
    parents_of,
)
from db.store import Store
from db.work import WorkResult
from flows.engine.activation import sync_active
from flows.engine.context import RunContext
from flows.engine.image_reading import stored_picture
from flows.engine.report import StageReport
from flows.engine.runner import Stage, run_stream
from retrieval.similarity.near_duplicates import GrowingCollection, fingerprint
from schemas.contrast import ImageRequest, Way
from schemas.near_duplicates import ImageFingerprint, NearDuplicateSettings
from schemas.proposals import Candidate, Picture, Strategy
from schemas.provenance import Role
from schemas.records import Rejection

# Requests for contrastive images, by one method after the other.


STAGE = "order_images"
VERSION = "1"


def order_images(
    context: RunContext, dataset: str, method: Way, waiting: Collection[str] = ()
) -> StageReport:
    """Requests an image by this method for every accepted strategy without an active candidate.

    The strategies in `waiting` are left out: an earlier method may still give them an image.
    """
    sync_active_requests(context, dataset)
    strategies = _strategies_to_serve(context.store, dataset)
    served = served_strategies(context.store, [one.id for one in strategies])
    left_out = served.union(waiting)
    open_ = [(one.seq, one) for one in strategies if one.id not in left_out]
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"dataset": dataset, "way": method},
        label=f"order images ({method})",
    )

    def work(items: Sequence[tuple[int, StoredEntity]]) -> list[WorkResult]:
        return [WorkResult(number, (_order(strategy, method),)) for number, strategy in items]

    return run_stream(context, stage, open_, work, total=len(open_))


def _strategies_to_serve(store: Store, dataset: str) -> list[StoredEntity]:
    """The accepted strategies whose anchor was not rejected."""
    accepted = list(find(store, dataset, Strategy.kind, states=("accepted",)))
    anchor_of = {one.id: one.record(Strategy).anchor.image_id or "" for one in accepted}
    anchors = fetch(store, set(anchor_of.values()))
    fallen = {id_ for id_, one in anchors.items() if one.state not in LIVE}
    return [one for one in accepted if anchor_of[one.id] not in fallen]


def sync_active_requests(context: RunContext, dataset: str) -> None:
    """An order is active while its strategy is to be served.

    A strategy that the accepted candidate of one order serves needs no other order. Nor is anything
    searched for where a candidate stands, whatever found it: searches cost money, and another
    service or another setting would only give a second image.
    """
    store = context.store
    open_ = {one.id for one in _strategies_to_serve(store, dataset)}
    orders = list(find(store, dataset, ImageRequest.kind))
    ids = [one.id for one in orders]
    strategy_of = {
        order: many[0] for order, many in parents_of(store, ids, Role.ORDERED_BY).items()
    }
    serving = _serving_orders(store, ids)
    served = {strategy_of[order] for order in serving}
    standing = served_strategies(store, sorted(open_))
    current = {
        one.id
        for one in orders
        if (strategy := strategy_of[one.id]) in open_
        and (
            strategy not in standing
            if one.group == "search"
            else one.id in serving or strategy not in served
        )
    }
    sync_active(context, dataset, ImageRequest.kind, lambda one: one.id in current)


def _serving_orders(store: Store, orders: Sequence[str]) -> set[str]:
    """Those of the orders whose candidate was accepted."""
    made = children_of(store, orders, Role.ORDERED_BY)
    entities = fetch(store, {one for many in made.values() for one in many})
    return {
        order
        for order, many in made.items()
        if any(
            entities[one].kind == Candidate.kind and entities[one].state == "accepted"
            for one in many
        )
    }


def served_strategies(store: Store, strategy_ids: Sequence[str]) -> set[str]:
    """Those strategies that have a candidate which was not turned down."""
    made = children_of(store, strategy_ids, Role.MADE_FOR)
    candidates = fetch(store, {one for many in made.values() for one in many})
    return {
        strategy
        for strategy, many in made.items()
        if any(
            candidates[one].kind == Candidate.kind and candidates[one].state in LIVE for one in many
        )
    }


def waiting_strategies(store: Store, dataset: str, report: StageReport) -> set[str]:
    """The strategies whose orders a way left for another run, by what is reported of it."""
    left = report.deferred_inputs
    orders = [one for one in find(store, dataset, ImageRequest.kind) if one.seq in left]
    return {one.id for one in strategies_of_orders(store, orders).values()}


def strategies_of_orders(store: Store, orders: Sequence[StoredEntity]) -> dict[str, StoredEntity]:
    """The strategy that each order is for, by the order's id."""
    found = parents_of(store, [one.id for one in orders], Role.ORDERED_BY)
    strategies = fetch(store, {many[0] for many in found.values()})
    return {order: strategies[many[0]] for order, many in found.items()}


def _order(strategy: StoredEntity, method: Way) -> NewEntity:
    return new_entity(
        ImageRequest(way=method),
        strategy.dataset,
        parents=[(Role.ORDERED_BY, strategy.id)],
        group=method,
    )


# The images that are in use already, so that no search gives one of them again.


class Looks:
    """The fingerprints of pictures, each computed once by its bytes."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._known: dict[str, ImageFingerprint | Rejection] = {}

    def of(self, picture: Picture) -> ImageFingerprint | Rejection:
        """The fingerprint of a picture, or why it has none."""
        if picture.sha256 not in self._known:
            stored = stored_picture(self._context, picture)
            self._known[picture.sha256] = fingerprint(stored.read(), stored.name)
        return self._known[picture.sha256]


class UsedImages:
    """Active anchors and candidates, by their owner: an anchor or a strategy.

    Found images are compared with them by bytes and by fingerprint.

    Args:
        looks: of the run.
        settings: when two pictures have the same content.
    """

    def __init__(self, looks: Looks, settings: NearDuplicateSettings) -> None:
        self._looks = looks
        self._shown = GrowingCollection(settings)

    def add(self, owner: str, picture: Picture) -> None:
        """From now on `picture` is used, for `owner`."""
        self._shown.add(owner, picture.sha256, self._look(picture))

    def are_used(
        self,
        pictures: Sequence[Picture],
        but_for: Collection[str] = (),
    ) -> list[bool]:
        """For each of `pictures` whether it is used already.

        It is where it has the bytes of a used one, or surely its look; what is for an owner in
        `but_for` does not count.
        """
        return [
            bool(self._shown.owners_of_similar(one.sha256, self._look(one)).difference(but_for))
            for one in pictures
        ]

    def _look(self, picture: Picture) -> ImageFingerprint | None:
        look = self._looks.of(picture)
        return look if isinstance(look, ImageFingerprint) else None
