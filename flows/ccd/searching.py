"""Searches for images: recorded, asked once, and downloaded (CCD, step 2)."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from db.claims import pauses
from db.entities import AgentRef, StoredEntity, new_entity
from db.pending import Pending
from db.search_calls import (
    Busy,
    DailyBudget,
    NewSearch,
    Reserved,
    Spent,
    abandon_search,
    find_search,
    reserve_retry,
    reserve_search,
    settle_search,
)
from db.store import Store
from db.work import WorkResult, register_plan
from flows.ccd.image_requests import strategies_of_orders
from flows.engine.context import RunContext
from flows.engine.embedding import CachedEmbedder
from flows.engine.ledger import Budget
from flows.engine.model_step import left_unanswered
from flows.engine.progress import Progress
from flows.engine.report import Deferred, StageReport, StageResult
from flows.engine.runner import Stage, run_stage, run_stream
from models.image_search import ImageSearch, always, build_image_search, plain_query
from models.search.folder import FolderImage, FolderImageSearch
from retrieval.embedders import build_embedder, pinned
from schemas.base import canonical_json, digest_of
from schemas.build import LICENSED_IMAGES
from schemas.chat import ModelRef
from schemas.contrast import FoundHit, ImageRequest
from schemas.embedding import directed
from schemas.errors import (
    BlobMismatchError,
    BudgetReachedError,
    ConfigurationError,
    IntegrityError,
    LoupeError,
)
from schemas.image_search import (
    FolderSearch,
    ImageSearchSpec,
    SearchAnswer,
    SearchFailure,
    SearchOutcome,
    SearchPrices,
    SearchRequest,
)
from schemas.proposals import Strategy
from schemas.provenance import Role
from schemas.records import Attribution, Rejection
from sources.images import InspectedImage, inspect_image
from sources.importer import importer_for
from sources.records import BadRow, SourceRow

# An image search whose every query is stored as it returns, and never asked twice.

_STOPS = ("quota_exhausted", "rate_limited")


Clock = Callable[[], datetime]
"""Says what time it is, with its zone."""


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


class RecordedSearch:
    """Wraps an image search (and is one): known queries are answered from the store.

    The key of a query is made of service, parameters, words, count and page: neither dataset nor
    run is part of it. `daily_budget` is how many requests the service may be sent on one of its
    days, which begin at midnight in `zone`: counted in the store, retries included, by all runs
    together. A failure that is worth another try is not stored as the query's outcome; requests
    that the service counted are counted here, too. An answer that an earlier version read is read
    again out of what came, and asked for no more. Safe in threads; runs may stand side by side.

    Raises:
        ConfigurationError: there is a limit on money, but no price for this service.
    """

    def __init__(
        self,
        search: ImageSearch,
        store: Store,
        dataset: str,
        daily_budget: int | None,
        *,
        prices: SearchPrices | None = None,
        zone: str = "UTC",
        budget: Budget | None = None,
        clock: Clock = utc_now,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._budget = budget or Budget()
        if self._budget.max_cost is not None and prices is None:
            raise ConfigurationError(
                f"--max-cost needs a price for every service, and the profile gives none for "
                f"{search.ref}; add prices = {{ per_thousand = … }}"
            )
        self._search = search
        self._store = store
        self._dataset = dataset
        self._most = daily_budget
        self._prices = prices
        self._zone = ZoneInfo(zone)
        self._clock = clock
        self._sleep = sleep
        self._closed_until: datetime | None = None

    @property
    def ref(self) -> ModelRef:
        """The service that is wrapped."""
        return self._search.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the search that is wrapped."""
        return self._search.parameters

    def digest(self, count: int) -> str:
        """Of the service, its parameters and how many results it is asked for: all but a query."""
        return digest_of(str(self.ref), canonical_json(self.parameters), str(count))

    def key(self, query: str, count: int, page: int = 1) -> str:
        """The key under which the search is stored."""
        request = SearchRequest(query=" ".join(query.split()), count=count, page=page)
        return request.key(self.ref, self.parameters)

    def search(
        self, query: str, count: int, page: int = 1, may_retry: Callable[[], bool] = always
    ) -> SearchOutcome:
        """As the search does; what is known is not asked.

        Raises:
            BudgetReachedError: nothing more may be asked today, or in this run; what came back is
                stored.
        """
        words = plain_query(query)
        if isinstance(words, SearchFailure):
            return words
        key = self.key(words, count, page)
        waiting = pauses()
        while (known := self._known(key, count, page)) is None:
            self._refuse_beyond_limits()
            new = NewSearch(
                key=key,
                service=self.ref,
                parameters=self.parameters,
                request=SearchRequest(query=words, count=count, page=page),
                dataset=self._dataset,
                asked_at=self._clock(),
            )
            taken = reserve_search(self._store, new, self._today())
            match taken:
                case Busy():
                    self._sleep(next(waiting))
                case Spent(requests):
                    raise BudgetReachedError(self._spent(requests))
                case Reserved(claim_id):
                    return self._ask(new, claim_id, may_retry)
                case _:
                    return self._search.read_again(taken, count, page)
        return known

    def read_again(self, outcome: SearchOutcome, count: int, page: int = 1) -> SearchOutcome:
        """As the search does."""
        return self._search.read_again(outcome, count, page)

    def _known(self, key: str, count: int, page: int) -> SearchOutcome | None:
        """What is stored under the key, read as it would be read now."""
        stored = find_search(self._store, key)
        return None if stored is None else self._search.read_again(stored, count, page)

    def _ask(self, new: NewSearch, claim_id: str, may_retry: Callable[[], bool]) -> SearchOutcome:
        stop = self._budget.stop
        if not stop.begin():
            nothing = SearchFailure(reason="not_asked", detail="the run stops", retriable=True)
            self._settle(new, claim_id, nothing)
            stop.check()

        def is_allowed() -> bool:
            is_wanted = not stop.is_requested and may_retry()
            return is_wanted and reserve_retry(self._store, new, claim_id, self._today())

        try:
            outcome = self._sent(new, claim_id, is_allowed)
            cost = self._settle(new, claim_id, outcome)
        finally:
            stop.end()
        self._budget.spend(0, cost)
        if isinstance(outcome, SearchFailure) and outcome.reason in _STOPS:
            self._stop(outcome)
        return outcome

    def _sent(self, new: NewSearch, claim_id: str, is_allowed: Callable[[], bool]) -> SearchOutcome:
        request = new.request
        try:
            with self._store.claims.renewed():
                return self._search.search(request.query, request.count, request.page, is_allowed)
        except LoupeError as error:  # what concerns all queries is found before one is sent
            nothing = SearchFailure(reason="not_asked", detail=str(error), retriable=True)
            self._settle(new, claim_id, nothing)
            raise
        except BaseException:
            abandon_search(self._store, new, claim_id)
            raise

    def _settle(self, new: NewSearch, claim_id: str, outcome: SearchOutcome) -> float | None:
        day = self._day_of(new.asked_at)
        return settle_search(self._store, new, claim_id, outcome, day, self._cost, self._currency)

    def _stop(self, failure: SearchFailure) -> None:
        if failure.reason == "quota_exhausted":
            self._closed_until = self._tomorrow()
        raise BudgetReachedError(
            f"{self.ref.name} answers no more for now ({failure.reason}): {failure.detail}; what "
            f"came back is stored, run again later to go on"
        )

    def _refuse_beyond_limits(self) -> None:
        self._budget.stop.check()
        if reason := self._budget.reached():
            raise BudgetReachedError(f"{reason}; run again to go on")
        if self._closed_until is not None and self._clock() < self._closed_until:
            raise BudgetReachedError(
                f"{self.ref.name} said that its quota is used up; its next day begins at "
                f"{self._closed_until.isoformat()}, run again then to go on"
            )

    def _spent(self, requests: int) -> str:
        return (
            f"{self.ref.name} was sent {requests} requests today and the daily budget is "
            f"{self._most}; its next day begins at {self._tomorrow().isoformat()}, run again then "
            f"to go on"
        )

    def _today(self) -> DailyBudget:
        return self._day_of(self._clock())

    def _day_of(self, moment: datetime) -> DailyBudget:
        local = moment.astimezone(self._zone)
        return DailyBudget(local.replace(hour=0, minute=0, second=0, microsecond=0), self._most)

    def _tomorrow(self) -> datetime:
        return self._today().day_began + timedelta(days=1)  # a day of the wall clock

    def _cost(self, requests: int, before: int) -> float | None:
        return None if self._prices is None else self._prices.cost(requests, before)

    @property
    def _currency(self) -> str | None:
        return None if self._prices is None else self._prices.currency


# Opening the image search of a profile, with its ledger.

Refuse = Callable[[Sequence[Rejection]], None]
"""Keeps rejections."""


class FolderListing(NamedTuple):
    """The images of a folder that can be found, and why the others cannot."""

    images: tuple[FolderImage, ...]
    rejections: tuple[Rejection, ...]


class _FileInFolder(NamedTuple):
    """A `ReadableImage`: upright, and without metadata that tells a place."""

    root: Path
    file_path: str
    sha256: str

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.file_path

    def read(self) -> bytes:
        """Its bytes, as `ReadableImage` says."""
        found = inspect_image(self.root, self.file_path)
        if not isinstance(found, InspectedImage):
            raise IntegrityError(found.detail)
        if found.sha256 != self.sha256:
            raise BlobMismatchError(f"the image {self.file_path!r} changed while it was read")
        return found.data


def open_recorded_search(
    store: Store,
    spec: ImageSearchSpec,
    dataset: str,
    budget: Budget | None = None,
    progress: Progress | None = None,
    clock: Clock = utc_now,
    refuse: Refuse = lambda _: None,
) -> RecordedSearch:
    """The search that `spec` describes, recorded in `store` and held to its daily budget.

    Which day it is `clock` says; `refuse` takes what is wrong with images of a folder.

    Raises:
        ConfigurationError: something from the environment is missing, or the folder is.
        FormatError: the folder's licence file is not one.
        ModelError: the embedder of a folder's search cannot be loaded.
    """
    return RecordedSearch(
        open_image_search(store, spec, progress, refuse),
        store,
        dataset,
        spec.daily_budget,
        prices=spec.prices,
        zone=spec.zone,
        budget=budget,
        clock=clock,
    )


def open_image_search(
    store: Store,
    spec: ImageSearchSpec,
    progress: Progress | None = None,
    refuse: Refuse = lambda _: None,
) -> ImageSearch:
    """The search that `spec` describes; the images of a folder are embedded once, and kept.

    `refuse` takes what is wrong with the others.
    """
    if not isinstance(spec, FolderSearch):
        return build_image_search(spec)
    fixed = spec.model_copy(update={"embedder": pinned(directed(spec.embedder, "texts"))})
    listing = list_folder(fixed)
    refuse(listing.rejections)
    if not listing.images:
        raise ConfigurationError(
            f"the folder {spec.folder!r} holds no image that could be found: "
            f"{len(listing.rejections)} of {spec.licence_file!r} were turned down"
        )
    model = cache(lambda: build_embedder(fixed.embedder))
    images = CachedEmbedder(store, fixed.embedder, progress, lambda _: model())
    queries = CachedEmbedder(store, fixed.embedder, build=lambda _: model())  # no progress of each
    root = Path(fixed.folder)
    files = [_FileInFolder(root, image.file_path, image.sha256) for image in listing.images]
    return FolderImageSearch(fixed, listing.images, images.embed_images(files), queries)


def list_folder(spec: FolderSearch) -> FolderListing:
    """Reads the licence file and every image that it names.

    Raises:
        ConfigurationError: there is no such folder.
        FormatError: the licence file cannot be read, or is of another format.
    """
    root = Path(spec.folder)
    if not root.is_dir():
        raise ConfigurationError(f"the folder to be searched must exist; got {spec.folder!r}")
    images: list[FolderImage] = []
    rejections: list[Rejection] = []
    for found in _inspected(root, root / spec.licence_file):
        if isinstance(found, FolderImage):
            images.append(found)
        else:
            rejections.append(found)
    return FolderListing(tuple(images), tuple(rejections))


def _inspected(root: Path, licence_file: Path) -> Iterator[FolderImage | Rejection]:
    for row in importer_for(LICENSED_IMAGES).rows(licence_file):
        if isinstance(row, BadRow):
            yield row.as_rejection()
            continue
        found = inspect_image(root, row.file_path)
        if isinstance(found, InspectedImage):
            yield FolderImage(
                file_path=row.file_path,
                sha256=found.sha256,
                media_type=found.media_type,
                width_px=found.width_px,
                height_px=found.height_px,
                attribution=_attribution(row),
            )
        else:
            yield found.as_bad_row(row, licence_file.name).as_rejection()


def _attribution(row: SourceRow) -> Attribution:
    if row.attribution is None:  # the importer gives none without
        raise IntegrityError(f"image {row.file_path!r} has no licence")
    return row.attribution


# Searches for what is ordered: each order's query is asked once, and its hits are stored.


SEARCH, READ = "search_images", "read_results"
VERSION = "3"

_ENDED = "service_ended"
_MOST_FAILURES = 3
"""So many queries in a row without an answer: the service is down."""


class Searched(NamedTuple):
    """The outcome of searches: their plan, what was done, and why requests are left for later."""

    plan: int
    reports: tuple[StageReport, ...]
    stopped: LoupeError | None


class OrderSearches:
    """The searches of one run, which go on from what is stored.

    They end at a limit, at settings that the service does not accept, and where it is gone: what
    was found until then is kept, and the rest is left for another run. A service that has ended for
    good answers no order any more: these are rejected, and may be served by another method.

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
        self._has_said_end = False

    def run(self) -> Searched:
        """Searches for every active request that the limits allow."""
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
        orders = Pending(self._dataset, ImageRequest.kind, ("proposed",), "search")
        try:
            report = run_stage(self._context, stage, orders, self._work)
        finally:
            unreadable = self._quarantine_unreadable()
        plan = register_plan(self._context.store, SEARCH, VERSION, stage.configuration)
        return Searched(plan, (report, *unreadable), self._reached or left_unanswered(ref, report))

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
                parents=[(Role.FOUND_FOR, order.id)],
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
        unreadable = [one.model_dump(mode="json") for one in answer.unreadable]
        context = {"query": query, "results": unreadable}
        return _rejected(order, "no_readable_results", detail, context)

    def _failed(self, order: StoredEntity, query: str, failure: SearchFailure) -> StageResult:
        if failure.reason == _ENDED:
            if not self._has_said_end:
                self._context.progress.say(f"{failure.detail}; what it found before is used")
                self._has_said_end = True
            return _rejected(order, _ENDED, failure.detail, {"query": query})
        if not failure.retriable:
            context = {"query": query, "raw": failure.raw}
            return _rejected(order, failure.reason, failure.detail, context)
        self._failures += 1
        if failure.reason == "misconfigured" or self._failures >= _MOST_FAILURES:
            self._gone = failure
        return Deferred(order.seq, failure.reason, failure.detail)

    def _quarantine_unreadable(self) -> tuple[StageReport, ...]:
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
    context = rejection.context
    return int(digest_of(str(context["order"]), str(context["rank"]))[:15], 16)


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
