"""Searches for what is ordered: each order's query is asked once, and its hits are stored."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from db.agents import AgentRef
from db.entities import StoredEntity, new_entity
from db.work import Pending, WorkResult, register_plan
from flows.asking import left_unanswered
from flows.context import RunContext
from flows.image_orders import strategies_of_orders
from flows.report import Deferred, StageReport, StageResult
from flows.runner import Stage, run_stage, run_stream
from flows.search_ledger import RecordedSearch
from schemas.base import digest_of
from schemas.contrast_records import FoundHit, ImageOrder
from schemas.errors import BudgetReachedError, LoupeError
from schemas.image_search import SearchAnswer, SearchFailure
from schemas.proposals import Strategy
from schemas.records import Rejection

FOUND_FOR = "found_for"
"""The role of the order that a search was made for."""

SEARCH, READ = "search_images", "read_results"
VERSION = "3"

_ENDED = "service_ended"
_MOST_FAILURES = 3
"""So many queries in a row without an answer, and nobody is there."""


class Searched(NamedTuple):
    """What searches came to: their plan, what was done, and why orders are left for another run."""

    plan: int
    reports: tuple[StageReport, ...]
    stopped: LoupeError | None


class OrderSearches:
    """The searches of one run, which go on from what is stored.

    They end at a limit, at settings that the service does not accept, and where it is gone: what
    was found until then is kept, and the rest is left for another run. A service that has ended for
    good answers no order any more: these are rejected, and may be served in another way.

    Args:
        context: the run.
        dataset: that is built.
        search: the service.
        first: how many results count.
    """

    def __init__(
        self, context: RunContext, dataset: str, search: RecordedSearch, first: int
    ) -> None:
        self._context = context
        self._dataset = dataset
        self._search = search
        self._first = first
        self._digest = search.digest(first)
        self._reached: BudgetReachedError | None = None
        self._gone: SearchFailure | None = None
        self._failures = 0
        self._unreadable: list[Rejection] = []
        self._is_told = False

    def run(self) -> Searched:
        """Searches for every order that stands and that a limit lets it."""
        ref = self._search.ref
        stage = Stage(
            name=SEARCH,
            version=VERSION,
            dataset=self._dataset,
            configuration={"search": self._digest},
            agents=(AgentRef("software", ref.name, ref.revision),),
            chunk_size=10,  # queries may cost money: hits are committed soon
            workers=1,
            independent=True,  # chunks do not grow
            label="search images",
        )
        orders = Pending(self._dataset, ImageOrder.kind, ("proposed",), "search")
        try:
            report = run_stage(self._context, stage, orders, self._work)
        finally:
            told = self._tell_unreadable()
        plan = register_plan(self._context.store, SEARCH, VERSION, stage.configuration)
        return Searched(plan, (report, *told), self._reached or left_unanswered(ref, report))

    def _work(self, orders: Sequence[StoredEntity]) -> list[StageResult]:
        strategies = strategies_of_orders(self._context.store, orders)
        return [self._result(order, strategies[order.id].record(Strategy)) for order in orders]

    def _result(self, order: StoredEntity, strategy: Strategy) -> StageResult:
        if self._gone is not None:
            return Deferred(order.seq, "not_asked")
        if self._reached is None:
            try:
                return self._searched(order, strategy.contrastive_caption)
            except BudgetReachedError as reached:
                self._reached = reached
        return Deferred(order.seq, "budget_reached")

    def _searched(self, order: StoredEntity, query: str) -> StageResult:
        outcome = self._search.search(query, self._first)
        if isinstance(outcome, SearchFailure):
            return self._failed(order, query, outcome)
        self._failures = 0
        self._unreadable += [
            _unreadable(order, query, self._search.ref.name, one.rank, one.reason, one.shown)
            for one in outcome.unreadable
        ]
        if not outcome.hits:
            return self._nothing(order, query, outcome)
        hits = (
            new_entity(
                FoundHit(engine=str(self._search.ref), search=self._digest, query=query, hit=hit),
                self._dataset,
                parents=[(FOUND_FOR, order.id)],
                group=self._digest,  # by which no other search takes its hits
            )
            for hit in outcome.hits[: self._first]
        )
        return WorkResult(order.seq, tuple(hits))

    def _nothing(self, order: StoredEntity, query: str, answer: SearchAnswer) -> WorkResult:
        name, count = self._search.ref.name, len(answer.unreadable)
        if not count:
            detail = f"{name} knows no image for the query {query!r}."
            return _rejected(order, "no_results", detail, {"query": query})
        results = "1 result" if count == 1 else f"{count} results"
        detail = f"{name} gave {results} for the query {query!r}, none of them readable."
        told = [one.model_dump(mode="json") for one in answer.unreadable]
        return _rejected(order, "no_readable_results", detail, {"query": query, "results": told})

    def _failed(self, order: StoredEntity, query: str, failure: SearchFailure) -> StageResult:
        if failure.reason == _ENDED:
            if not self._is_told:
                self._context.progress.say(f"{failure.detail}; what it found before is used")
                self._is_told = True
            return _rejected(order, _ENDED, failure.detail, {"query": query})
        if not failure.retriable:
            told = {"query": query, "raw": failure.raw}
            return _rejected(order, failure.reason, failure.detail, told)
        self._failures += 1
        if failure.reason == "misconfigured" or self._failures >= _MOST_FAILURES:
            self._gone = failure
        return Deferred(order.seq, failure.reason, failure.detail)

    def _tell_unreadable(self) -> tuple[StageReport, ...]:
        """Counts the results that name no image, and keeps them in quarantine."""
        if not self._unreadable:
            return ()
        stage = Stage(
            name=READ,
            version=VERSION,
            dataset=self._dataset,
            configuration={"search": self._digest},
            label="read results",
        )

        def work(items: Sequence[tuple[int, Rejection]]) -> list[WorkResult]:
            return [WorkResult(number, rejection=rejection) for number, rejection in items]

        numbered = [(_number(one), one) for one in self._unreadable]
        return (run_stream(self._context, stage, numbered, work, total=len(numbered)),)


def _number(rejection: Rejection) -> int:
    """A number for an unreadable result: the same for the same order and rank."""
    told = rejection.context
    return int(digest_of(str(told["order"]), str(told["rank"]))[:15], 16)


def _unreadable(
    order: StoredEntity, query: str, service: str, rank: int, reason: str, shown: str
) -> Rejection:
    return Rejection(
        stage=READ,
        reason=reason,
        detail=f"result {rank} of {service} for the query {query!r} names no image",
        context={"order": order.id, "query": query, "rank": rank, "shown": shown},
    )


def _rejected(order: StoredEntity, reason: str, detail: str, context: dict[str, Any]) -> WorkResult:
    rejection = Rejection(stage=SEARCH, reason=reason, detail=detail, context=context)
    return WorkResult(order.seq, rejection=rejection)
