"""Search for images with a ledger of queries, so that each is sent once (CCD, step 2)."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from zoneinfo import ZoneInfo

from loupe.db.calls import (
    DailyBudget,
    NewSearch,
    count_request,
    find_search,
    record_search,
)
from loupe.db.entities import AgentRef, StoredEntity, WorkResult, new_entity
from loupe.db.store import Store
from loupe.db.work import Pending
from loupe.flows.ccd.image_requests import strategies_of_requests
from loupe.flows.ccd.run import Clock, utc_now
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.embedding import CachedEmbedder, ReadableImage, build_embedder, pinned
from loupe.flows.engine.ledger import Ledger
from loupe.flows.engine.model_step import left_unanswered
from loupe.flows.engine.report import Deferred, StageReport, StageResult
from loupe.flows.engine.runner import Stage, quarantine, run_stage
from loupe.flows.engine.stopping import Budget, Waits
from loupe.models.image_search import ImageSearch, PausingSearch, plain_query
from loupe.models.registry import build_image_search
from loupe.models.search.folder import FolderImage, FolderImageSearch
from loupe.schemas.base import canonical_json, digest_of
from loupe.schemas.build import LICENSED_IMAGES
from loupe.schemas.chat import ModelRef
from loupe.schemas.contrast import FoundHit, ImageRequest
from loupe.schemas.embedding import directed
from loupe.schemas.errors import (
    BlobMismatchError,
    BudgetReachedError,
    ConfigurationError,
    IntegrityError,
    LoupeError,
    ServiceError,
)
from loupe.schemas.image_search import (
    FolderSearch,
    ImageSearchSpec,
    SearchAnswer,
    SearchFailure,
    SearchOutcome,
    SearchPrices,
    SearchRequest,
)
from loupe.schemas.proposals import Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import Rejection
from loupe.sources.images import InspectedImage, inspect_image
from loupe.sources.importer import importer_for
from loupe.sources.records import BadRow

# An image search that stores every answer, and never sends a query twice.

_TOO_MANY = ("quota_exhausted", "rate_limited")
_SPENT = "daily_budget"
_SECONDS_BETWEEN_LOOKS = 0.2
_NOT_ASKED = SearchFailure(reason="not_asked", detail="it may not be sent", retriable=True)


class RecordedSearch(Ledger[NewSearch, SearchOutcome]):
    """Wraps an image search: known queries are answered from the store.

    The key of a query consists of service, parameters, words and count; dataset and run are not
    part of it. `daily_budget` is the number of requests that may be sent to the service on one of
    its days, which begin at midnight in `zone`. Requests of all runs are counted in the store,
    including retries. A retriable failure is not stored as the query's outcome, but the requests
    that the service counted are counted here, too. Safe in threads; runs may be parallel.

    Raises:
        ConfigurationError: there is a limit on money, but no price for this service.
    """

    def __init__(
        self,
        service: ImageSearch,
        store: Store,
        dataset: str,
        daily_budget: int | None,
        *,
        prices: SearchPrices | None = None,
        zone: str = "UTC",
        budget: Budget | None = None,
        clock: Clock = utc_now,
        waits: Waits | None = None,
    ) -> None:
        super().__init__(store, budget or Budget(), waits)
        self.service = service
        self.dataset = dataset
        self.daily_budget = daily_budget
        self.prices = prices
        self.zone = ZoneInfo(zone)
        self.clock = clock
        if isinstance(service, PausingSearch):
            service.sleep = self._pause
        if self.budget.max_cost is not None and prices is None:
            raise ConfigurationError(
                f"--max-cost needs a price for every service; the profile has none for "
                f"{self.ref}; add prices = {{ per_thousand = … }}"
            )

    @property
    def ref(self) -> ModelRef:
        """The wrapped service."""
        return self.service.ref

    def digest(self, count: int) -> str:
        """Return the digest of service, parameters and number of results, without the query."""
        return digest_of(str(self.ref), canonical_json(self.service.parameters), str(count))

    def search(self, query: str, count: int) -> SearchOutcome:
        """Return the outcome of a search; known queries are not sent.

        Raises:
            BudgetReachedError: no more requests are allowed today or in this run; earlier answers
                are stored.
            ServiceError: the answer cannot be stored.
            SystemExit: the run is being stopped; the answer is stored.
        """
        words = plain_query(query)
        if isinstance(words, SearchFailure):
            return words
        request = SearchRequest(query=words, count=count)
        new = NewSearch(
            key=request.key(self.ref, self.service.parameters),
            service=self.ref,
            parameters=self.service.parameters,
            request=request,
            dataset=self.dataset,
            asked_at=self.clock(),
        )
        ((_, outcome),) = self.answer([new])
        if isinstance(outcome, SearchFailure) and outcome.reason == _SPENT:
            raise BudgetReachedError(outcome.detail)
        if isinstance(outcome, SearchFailure) and outcome.reason in _TOO_MANY:
            raise BudgetReachedError(
                f"{self.ref.name} is unavailable ({outcome.reason}): {outcome.detail}; received "
                f"answers are stored, run again later to continue (its next day begins at "
                f"{self._tomorrow()})"
            )
        return outcome

    def key(self, request: NewSearch) -> str:
        """Return the key under which the search is stored."""
        return request.key

    def subject(self, request: NewSearch) -> str:
        """Return the query."""
        return request.request.query

    def send(self, requests: Iterable[NewSearch]) -> Iterator[tuple[int, SearchOutcome]]:
        """Send one query at a time; each request of it is counted before it is sent."""
        for position, new in enumerate(requests):
            outcome: SearchOutcome | None = self._refusal(new)
            if outcome is None:
                wanted, may_retry = new.request, partial(self.may_send, new)
                try:
                    outcome = self.service.search(wanted.query, wanted.count, may_retry)
                except LoupeError:  # what affects all queries is found before one is sent
                    self.give_back(new, _NOT_ASKED, self.claims[new.key])
                    raise
            yield position, outcome

    def may_send(self, request: NewSearch) -> bool:
        """Tell whether one more request may be sent, and count it."""
        return self._refusal(request) is None

    def _refusal(self, new: NewSearch) -> SearchFailure | None:
        """Return why no request may be sent; None if one may, which is counted then."""
        if not super().may_send(new):
            return _NOT_ASKED
        today = self._day_of(self.clock())
        try:
            used = count_request(self.store, new, self.claims[new.key], today)
        except ServiceError:  # the outcome could not be stored either
            return _NOT_ASKED
        if used is None:
            return None
        detail = (
            f"{self.ref.name} was sent {used} requests today and the daily budget is "
            f"{self.daily_budget}; its next day begins at {self._tomorrow()}, run again then to "
            f"continue"
        )
        return SearchFailure(reason=_SPENT, detail=detail, retriable=True)

    def find(self, request: NewSearch) -> SearchOutcome | None:
        """Return the stored outcome of a search."""
        return find_search(self.store, request.key)

    def is_paid(self, outcome: SearchOutcome) -> bool:
        """Return whether it is final, or the service counted its requests."""
        is_final = isinstance(outcome, SearchAnswer) or not outcome.retriable
        return is_final or outcome.requests > 0

    def give_back(self, request: NewSearch, outcome: SearchOutcome, claim_id: str) -> bool:
        """Release the claim on a search, and no longer count its requests."""
        del outcome
        return self.record(request, _NOT_ASKED, claim_id)

    def record(self, request: NewSearch, outcome: SearchOutcome, claim_id: str) -> bool:
        """Store the outcome of a search and count its cost."""
        today = self._day_of(request.asked_at)
        was_ours, cost = record_search(self.store, request, claim_id, outcome, today, self.prices)
        self.budget.spend(0, cost)
        return was_ours

    def _pause(self, seconds: float) -> None:
        """Wait before a search is sent again, as long as the run is not stopped."""
        until = time.monotonic() + seconds
        with self.waiting(f"to ask {self.ref.name} again"):
            while not self.is_stopped and (left := until - time.monotonic()) > 0:
                time.sleep(min(left, _SECONDS_BETWEEN_LOOKS))

    def _day_of(self, moment: datetime) -> DailyBudget:
        local = moment.astimezone(self.zone)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        return DailyBudget(midnight, self.daily_budget)

    def _tomorrow(self) -> str:
        today = self._day_of(self.clock()).day_began
        return (today + timedelta(days=1)).isoformat()  # a day of the wall clock


# Open the image search of a profile, with its ledger.


def _file_in_folder(root: Path, name: str, sha256: str) -> ReadableImage:
    """Return an image that is upright and has no location metadata."""

    def read() -> bytes:
        found = inspect_image(root, name)
        if not isinstance(found, InspectedImage):
            raise IntegrityError(found.detail)
        if found.sha256 != sha256:
            raise BlobMismatchError(f"the image {name!r} changed while it was read")
        return found.data

    return ReadableImage(sha256, name, read)


def open_recorded_search(
    context: RunContext, spec: ImageSearchSpec, dataset: str, clock: Clock = utc_now
) -> RecordedSearch:
    """Return the search that `spec` describes, recorded in the store with its daily budget.

    The images of a folder are embedded once and kept; those that cannot be used are quarantined.

    Raises:
        ConfigurationError: an environment variable or the folder is missing.
        FormatError: the folder's licence file is invalid.
        ModelError: the embedder of a folder's search cannot be loaded.
    """
    return RecordedSearch(
        _open_folder(context, spec, dataset)
        if isinstance(spec, FolderSearch)
        else build_image_search(spec),
        context.store,
        dataset,
        spec.daily_budget,
        prices=spec.prices,
        zone=spec.zone,
        budget=context.budget,
        clock=clock,
        waits=context.progress.waits,
    )


def _open_folder(context: RunContext, spec: FolderSearch, dataset: str) -> FolderImageSearch:
    fixed = spec.model_copy(update={"embedder": pinned(directed(spec.embedder, "texts"))})
    listed = list_folder(fixed)
    images = [one for one in listed if isinstance(one, FolderImage)]
    if rejections := [one for one in listed if isinstance(one, Rejection)]:
        refused = digest_of(*(rejection.model_dump_json() for rejection in rejections))
        stage = Stage(LIST, VERSION, dataset, {"refused": refused})
        quarantine(context, stage, list(enumerate(rejections)))
    if not images:
        raise ConfigurationError(
            f"the folder {spec.folder!r} has no image that can be searched: "
            f"{len(rejections)} of {spec.licence_file!r} were rejected"
        )
    model = cache(lambda: build_embedder(fixed.embedder))
    store, progress = context.store, context.progress
    embedder = CachedEmbedder(store, fixed.embedder, progress, lambda _: model(), context.settings)
    # without a progress bar for each query
    queries = CachedEmbedder(store, fixed.embedder, build=lambda _: model())
    files = [_file_in_folder(Path(fixed.folder), one.file_path, one.sha256) for one in images]
    return FolderImageSearch(fixed, images, embedder.embed_images(files), queries)


def list_folder(spec: FolderSearch) -> list[FolderImage | Rejection]:
    """Return every image that the licence file names, or why it cannot be searched.

    Raises:
        ConfigurationError: the folder does not exist.
        FormatError: the licence file cannot be read, or has another format.
    """
    root = Path(spec.folder)
    if not root.is_dir():
        raise ConfigurationError(f"the folder to be searched must exist; got {spec.folder!r}")
    licence_file = root / spec.licence_file
    listed: list[FolderImage | Rejection] = []
    for row in importer_for(LICENSED_IMAGES).rows(licence_file):
        if isinstance(row, BadRow):
            listed.append(row.as_rejection())
            continue
        found = inspect_image(root, row.file_path)
        if not isinstance(found, InspectedImage):
            listed.append(found.as_bad_row(row, licence_file.name).as_rejection())
            continue
        assert row.attribution is not None  # noqa: S101 - the importer gives no row without
        listed.append(
            FolderImage(
                file_path=row.file_path,
                attribution=row.attribution,
                sha256=found.sha256,
                media_type=found.media_type,
                width_px=found.width_px,
                height_px=found.height_px,
            )
        )
    return listed


# Search for requests: each request's query is sent once, and its hits are stored.

SEARCH, LIST = "search_images", "list_folder"
VERSION = "3"
_ENDED = "service_ended"
_MOST_FAILURES = 3
"""The service is considered down after this many queries in a row without an answer."""


@dataclass
class RequestSearches:
    """The searches of one run, which continue from stored results.

    They stop at a limit, if the service rejects the settings, or if it is down; then the hits found
    until then are kept, and the rest is left for another run. If the service has been shut down for
    good, open requests are rejected and may be served by another method.

    Attributes:
        first: number of results to keep.
    """

    context: RunContext
    dataset: str
    search: RecordedSearch
    first: int
    _reached: BudgetReachedError | None = field(default=None, init=False)
    _is_gone: bool = field(default=False, init=False)
    _failures: int = field(default=0, init=False)

    def run(self) -> tuple[StageReport, LoupeError | None]:
        """Search for every active request that the limits permit.

        Returns:
            A report, and why requests are left for later.
        """
        ref = self.search.ref
        stage = Stage(
            name=SEARCH,
            version=VERSION,
            dataset=self.dataset,
            configuration={"search": self.search.digest(self.first)},
            agents=(AgentRef("software", ref.name, ref.revision),),
            chunk_size=10,  # queries may cost money, so hits are committed soon
            workers=1,
            independent=True,  # chunks do not grow
            label="search images",
        )
        orders = Pending(self.dataset, ImageRequest.kind, ("proposed",), "search")
        report = run_stage(self.context, stage, orders, self._work)
        return report, self._reached or left_unanswered(ref, report)

    def _work(self, orders: Sequence[StoredEntity]) -> list[StageResult]:
        strategies = strategies_of_requests(self.context.store, orders)
        return [
            self._result(order, strategies[order.id].record(Strategy).contrastive_caption)
            for order in orders
        ]

    def _result(self, order: StoredEntity, query: str) -> StageResult:
        if self._is_gone:
            return Deferred(order.seq, "not_asked")
        if self._reached is not None:
            return Deferred(order.seq, "budget_reached")
        try:
            outcome = self.search.search(query, self.first)
        except BudgetReachedError as reached:
            self._reached = reached
            return Deferred(order.seq, "budget_reached")
        if isinstance(outcome, SearchFailure):
            return self._failed(order, query, outcome)
        self._failures = 0
        if not outcome.hits:
            return self._nothing(order, query, outcome)
        digest = self.search.digest(self.first)
        hits = (
            new_entity(
                FoundHit(engine=str(self.search.ref), search=digest, query=query, hit=hit),
                self.dataset,
                parents=[(Role.FOUND_FOR, order.id)],
                group=digest,  # keeps hits of other searches apart
            )
            for hit in outcome.hits[: self.first]
        )
        return WorkResult(order.seq, tuple(hits))

    def _nothing(self, order: StoredEntity, query: str, answer: SearchAnswer) -> WorkResult:
        name, count = self.search.ref.name, len(answer.unreadable)
        if not count:
            detail = f"{name} found no image for the query {query!r}."
            return WorkResult.rejected(order.seq, SEARCH, "no_results", detail, query=query)
        results = "1 result" if count == 1 else f"{count} results"
        detail = f"{name} returned {results} for the query {query!r}, none of them readable."
        unreadable = [one.model_dump(mode="json") for one in answer.unreadable]
        return WorkResult.rejected(
            order.seq, SEARCH, "no_readable_results", detail, query=query, results=unreadable
        )

    def _failed(self, order: StoredEntity, query: str, failure: SearchFailure) -> StageResult:
        if failure.retriable and failure.reason != _ENDED:
            self._failures += 1
            self._is_gone = failure.reason == "misconfigured" or self._failures >= _MOST_FAILURES
            return Deferred(order.seq, failure.reason, failure.detail)
        return WorkResult.rejected(
            order.seq, SEARCH, failure.reason, failure.detail, query=query, raw=failure.raw
        )
