"""An image search whose every query is stored as it returns, and never asked twice."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from db.claims import pauses
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
from flows.ledger import Budget
from models.image_search import ImageSearch, always
from models.search.asking import plain_query
from schemas.base import canonical_json, digest_of
from schemas.chat import ModelRef
from schemas.errors import BudgetReachedError, ConfigurationError, LoupeError
from schemas.image_search import SearchFailure, SearchOutcome, SearchPrices, SearchRequest

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
