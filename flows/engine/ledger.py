"""Ledger of paid calls: each call is stored when it returns, and never made twice."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from typing import Generic, TypeVar
from uuid import uuid4

from loupe.db.calls import (
    NewCall,
    call_subject,
    correct_call,
    find_call,
    find_calls,
    has_answered,
    record_call,
    record_calls,
    spool_call,
)
from loupe.db.store import (
    Store,
    claim_subject,
    drop_claims,
    is_claim_held,
    pauses,
    release_claim,
)
from loupe.flows.answers import repairs_of
from loupe.flows.engine.stopping import Budget, Waits
from loupe.models.chat import ChatModel, RemoteModel, RereadingModel, RetryingModel, Sender
from loupe.models.chat_answers import other_model_in
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest, ModelRef
from loupe.schemas.errors import BudgetReachedError, ConfigurationError, ServiceError
from loupe.schemas.grouping import batches
from loupe.schemas.profile import Prices
from loupe.schemas.wording import first_of, many, shortened

_BYTES_PER_TOKEN = 3  # UTF-8: about 4 in English prose, 3 per Chinese character
_TOKENS_PER_IMAGE = 1500
_IMMEDIATE_AT_ONCE = 50
_SHOWN_LOST = 5
_SHOWN_CHARACTERS = 60

RequestT = TypeVar("RequestT")
OutcomeT = TypeVar("OutcomeT")


class Ledger(Sender, ABC, Generic[RequestT, OutcomeT]):
    """Calls of one model or service; a subclass says how one is sent, stored and found.

    A call is claimed before it is sent and stored as soon as it returns, so runs on the store send
    equal requests only once. When the budget is reached or the run is stopped, no further request
    is sent; calls in flight are still stored. A process that was stopped for longer than a lease
    has lost its claims to another run, and sends nothing more for them.
    """

    def __init__(self, store: Store, budget: Budget, waits: Waits | None) -> None:
        self.store = store
        self.budget = budget
        self.waits = waits or Waits()
        self.claims: dict[str, str] = {}  # of the calls in flight, by key

    @property
    @abstractmethod
    def ref(self) -> ModelRef:
        """The model or service."""

    @abstractmethod
    def key(self, request: RequestT) -> str:
        """Return the key under which the call is stored."""

    @abstractmethod
    def subject(self, request: RequestT) -> str:
        """Return what the call is about, for messages."""

    @abstractmethod
    def send(self, requests: Iterable[RequestT]) -> Iterator[tuple[int, OutcomeT]]:
        """Send requests as they are taken; yield each outcome with its position."""

    @abstractmethod
    def find(self, request: RequestT) -> OutcomeT | None:
        """Return the stored outcome of a call; None if it has not returned."""

    @abstractmethod
    def is_paid(self, outcome: OutcomeT) -> bool:
        """Return whether an outcome is stored; otherwise it cost nothing."""

    @abstractmethod
    def record(self, request: RequestT, outcome: OutcomeT, claim_id: str) -> bool:
        """Store a call and release its claim in one transaction, and count its cost.

        Returns False if the claim had been taken over, so that the other's outcome is used.
        """

    def give_back(self, request: RequestT, outcome: OutcomeT, claim_id: str) -> bool:
        """Release the claim on a call that is not stored; False if it had been taken over."""
        del request, outcome
        return release_claim(self.store, claim_id)

    def spool(self, request: RequestT, outcome: OutcomeT) -> None:  # noqa: ARG002
        """Keep a call that the database cannot store in a file.

        Raises:
            ServiceError: it cannot be kept.
        """
        raise ServiceError(f"an answer of {self.ref} cannot be stored")

    def answer(self, requests: Iterable[RequestT]) -> Iterator[tuple[int, OutcomeT]]:
        """Yield the outcome of each request with its position; known calls are not sent.

        Raises:
            BudgetReachedError: a limit was reached before all requests were sent.
            ServiceError: the database cannot store the calls.
            SystemExit: the run is being stopped.
        """
        stream = _Stream(self)
        to_send: Iterable[RequestT] = stream.unknown(requests)
        with self.store.claims.renewed(), closing(stream):
            while True:
                with self.waits.on(stream.waits_for):
                    for sent, outcome in self.send(to_send):
                        stream.finish(stream.sent[sent], outcome)
                        yield from stream.take_ready()
                stream.sent.clear()
                waiting = pauses()
                while not (to_send := stream.left_to_us()) and stream.claimed_elsewhere:
                    yield from stream.take_ready()
                    with self.waits.on(stream.waits_elsewhere):
                        time.sleep(next(waiting))
                yield from stream.take_ready()
                if not to_send:
                    break
        if stream.failed:
            raise ServiceError(f"{stream.failed}{stream.left_over()}")
        self.budget.stop.check()
        if stream.stopped_by:
            raise BudgetReachedError(f"{stream.stopped_by}; run again to continue")

    @property
    def is_stopped(self) -> bool:
        """Whether the run was stopped."""
        return self.budget.stop.is_requested

    def may_send(self, request: RequestT) -> bool:
        """Tell whether the run still has the claim on this call, and is not stopped."""
        claim_id = self.claims.get(self.key(request))
        if claim_id is None or self.is_stopped:
            return False
        try:
            return is_claim_held(self.store, claim_id)
        except ServiceError:  # the outcome could not be stored either
            return False

    def waiting(self, what: str) -> AbstractContextManager[None]:
        """Show what is waited for with the progress of the run."""
        return self.waits.on(what)


class _Stream(Generic[RequestT, OutcomeT]):
    """State of one stream of requests: which were sent, and who waits for which answer.

    A call that another run has claimed is set aside; at the end, its answer is read from the store,
    or the call is claimed after all.
    """

    def __init__(self, ledger: Ledger[RequestT, OutcomeT]) -> None:
        self._ledger = ledger
        self._store = ledger.store
        self._stop = ledger.budget.stop
        self._finished: dict[str, OutcomeT] = {}
        self._waiting: dict[str, list[int]] = {}
        self._ready: list[tuple[int, OutcomeT]] = []
        self._is_over = False
        self._own: set[str] = set()  # keys of the calls of this stream in flight
        self._spooled = 0
        self._lost: list[RequestT] = []  # whose paid answers could not be stored anywhere
        self.sent: list[RequestT] = []
        self.claimed_elsewhere: dict[str, RequestT] = {}
        self.stopped_by: str | None = None
        self.failed: ServiceError | None = None

    def unknown(self, requests: Iterable[RequestT]) -> Iterator[RequestT]:
        """Yield the requests that must be sent, one at a time as there is room in flight."""
        for position, request in enumerate(requests):
            key = self._ledger.key(request)
            if key in self._waiting:
                self._waiting[key].append(position)
            elif key in self._finished:
                self._ready.append((position, self._finished[key]))
            else:
                self._waiting[key] = [position]
                if self._must_send(key, request):
                    yield request
            if self._is_over or self.failed:
                return

    def left_to_us(self) -> list[RequestT]:
        """Return requests that others claimed but got no answer to, now claimed by this run."""
        left, self.claimed_elsewhere = self.claimed_elsewhere, {}
        return [request for key, request in left.items() if self._must_send(key, request)]

    def _must_send(self, key: str, request: RequestT) -> bool:
        """Tell whether this run must send the request: no answer, and successfully claimed."""
        if self._is_over or self.failed:
            return False
        try:
            if (outcome := self._ledger.find(request)) is not None:
                self._answer(key, outcome)
                return False
            self.stopped_by = self._ledger.budget.reached()
            self._is_over = self.stopped_by is not None or not self._stop.begin()
            return not self._is_over and self._claim(key, request)
        except ServiceError as error:  # calls in flight must still be stored
            self.failed = error
            return False

    def _claim(self, key: str, request: RequestT) -> bool:
        claim_id = None
        try:
            claim_id = claim_subject(self._store, call_subject(key))
        finally:
            if claim_id is None:
                self._stop.end()
        if claim_id is None:
            self.claimed_elsewhere[key] = request
            return False
        self._ledger.claims[key] = claim_id
        self._own.add(key)
        stored = self._ledger.find(request)  # since the first look, by another run
        if stored is None:
            self.sent.append(request)
            return True
        self._end(key)
        drop_claims(self._store, claim_id)
        self._answer(key, stored)
        return False

    def finish(self, request: RequestT, outcome: OutcomeT) -> None:
        """Store the outcome of a request that was sent."""
        key = self._ledger.key(request)
        claim_id = self._ledger.claims[key]
        valid = self._stored(request, outcome, claim_id)
        self._end(key)
        if self.failed is not None:  # it was not released
            self._store.claims.give_up(claim_id)
        if valid is None:
            self.claimed_elsewhere[key] = request
        else:
            self._answer(key, valid)

    def _end(self, key: str) -> None:
        del self._ledger.claims[key]
        self._own.remove(key)
        self._stop.end()

    def _stored(self, request: RequestT, outcome: OutcomeT, claim_id: str) -> OutcomeT | None:
        """Store a call. If the database is lost, this and all later calls are spooled.

        Returns:
            The outcome to use: if the claim was lost, the one that another run stored, or None
            while that run waits for it.
        """
        ledger, is_paid = self._ledger, self._ledger.is_paid(outcome)
        if self.failed is None:
            try:
                if is_paid:
                    was_ours = ledger.record(request, outcome, claim_id)
                else:
                    was_ours = ledger.give_back(request, outcome, claim_id)
                return outcome if was_ours else ledger.find(request)
            except ServiceError as error:
                self.failed = error
        if is_paid:
            try:
                ledger.spool(request, outcome)
                self._spooled += 1
            except ServiceError:
                self._lost.append(request)
        return outcome

    def _answer(self, key: str, outcome: OutcomeT) -> None:
        self._finished[key] = outcome
        self._ready.extend((position, outcome) for position in self._waiting.pop(key))

    def waits_for(self) -> str:
        """Say for how many answers it waits."""
        return f"for {many(len(self._own), 'answer')} of {self._ledger.ref}"

    def waits_elsewhere(self) -> str:
        """Say for how many answers to another run it waits."""
        return f"for {many(len(self.claimed_elsewhere), 'answer')} that another run asked for"

    def left_over(self) -> str:
        """Say what became of the paid answers that the database could not store."""
        said = ""
        if self._spooled:
            said = f"; paid answers not stored yet: {self._spooled}, in {self._store.spool}"
        if self._lost:
            subjects = [self._ledger.subject(one) for one in self._lost]
            shown = [repr(shortened(one, _SHOWN_CHARACTERS)) for one in subjects]
            said += (
                f"; {many(len(shown), 'paid answer')} could not be stored anywhere, and the next "
                f"run asks again about {first_of(shown, _SHOWN_LOST)}"
            )
        return said

    def take_ready(self) -> Iterator[tuple[int, OutcomeT]]:
        """Yield the outcomes that are ready, each once."""
        ready, self._ready = self._ready, []
        yield from ready

    def close(self) -> None:
        """Release the calls that did not return."""
        claims = [self._ledger.claims.pop(key) for key in self._own]
        try:
            if self.failed is None:
                drop_claims(self._store, *claims)
            else:
                self._store.claims.give_up(*claims)
        finally:
            self._stop.end(len(claims))


class RecordedChatModel(Ledger[ChatRequest, ChatOutcome]):
    """A chat model that wraps another one and answers known calls from the store.

    Failures without cost are not stored: retryable ones and refusals. Faults of a plugin are only
    counted, as they are asked about again after a fix. `is_immediate` says that the model answers
    by rules, in milliseconds and free of charge.

    Raises:
        ConfigurationError: there is a limit on money, but no price for this model.
    """

    def __init__(
        self,
        model: ChatModel,
        store: Store,
        dataset: str,
        prices: Prices | None,
        budget: Budget,
        waits: Waits | None = None,
        warn: Callable[[str], None] | None = None,
        *,
        is_immediate: bool = False,
    ) -> None:
        require_prices(model.ref, prices, budget)
        super().__init__(store, budget, waits)
        self._warn = warn
        self._model = model
        self._dataset = dataset
        self._prices = prices
        self._is_immediate = is_immediate
        if isinstance(model, RetryingModel):
            model.sender = self

    @property
    def ref(self) -> ModelRef:
        """The wrapped model."""
        return self._model.ref

    def key(self, request: ChatRequest) -> str:
        """Return the key under which the call is stored."""
        return request.key(self._model.ref, self._model.parameters)

    def subject(self, request: ChatRequest) -> str:
        """Return what is asked about."""
        return request.subject or request.prompt

    def has_answered(self, purposes: Iterable[str]) -> bool:
        """Tell whether the store has an answer to such a request with these parameters."""
        return has_answered(self.store, self._model.ref, self._model.parameters, purposes)

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """Yield the outcome of each request with its position: see `Ledger.answer`.

        Answers of an immediate model cost nothing: they are not claimed, and stored together.
        """
        if not self._is_immediate:
            yield from super().answer(requests)
            return
        for page in batches(enumerate(requests), _IMMEDIATE_AT_ONCE):
            yield from self._answer_together(page)

    def _answer_together(
        self, page: Sequence[tuple[int, ChatRequest]]
    ) -> Iterator[tuple[int, ChatOutcome]]:
        keys = {position: self.key(request) for position, request in page}
        outcomes = find_calls(self.store, set(keys.values()))
        new = {keys[position]: request for position, request in page}
        for key in outcomes:
            del new[key]
        reached = self.budget.reached() if new else None
        self.budget.stop.check()
        calls: list[NewCall] = []
        asked = list(new.items()) if reached is None else []
        for at, outcome in self._model.answer([request for _, request in asked]):
            key, request = asked[at]
            outcomes[key] = outcome
            if self.is_paid(outcome):
                self.budget.spend(0, self._cost(0, 0))
                calls.append(self._call(request, outcome))
        outcomes |= record_calls(self.store, calls)
        for position, key in keys.items():
            if key in outcomes:
                yield position, outcomes[key]
        if reached is not None:
            raise BudgetReachedError(f"{reached}; run again to continue")

    def send(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """Send requests as the model does."""
        return self._model.answer(requests)

    def find(self, request: ChatRequest) -> ChatOutcome | None:
        """Return the stored outcome of a call; one that can be read only now is corrected."""
        key = self.key(request)
        outcome = find_call(self.store, key)
        if not isinstance(outcome, ChatFailure) or not isinstance(self._model, RereadingModel):
            return outcome
        read = self._model.read_again(outcome)
        if isinstance(read, ChatAnswer):
            correct_call(self.store, key, read)
        return read

    def is_paid(self, outcome: ChatOutcome) -> bool:
        """Return whether it is an answer or a failure that was paid for."""
        return not isinstance(outcome, ChatFailure) or outcome.is_paid

    def record(self, request: ChatRequest, outcome: ChatOutcome, claim_id: str) -> bool:
        """Store a call, and count its tokens and cost, estimated if the server states none."""
        self._warn_of_another_model(outcome)
        counted = _with_estimates(request, outcome)
        self.budget.spend(sum(counted), self._cost(*counted))
        return record_call(self.store, self._call(request, outcome), claim_id)

    def give_back(self, request: ChatRequest, outcome: ChatOutcome, claim_id: str) -> bool:
        """Release the claim; a fault of a plugin is counted, under a key that nobody asks for."""
        if not (isinstance(outcome, ChatFailure) and outcome.is_of_plugin):
            return super().give_back(request, outcome, claim_id)
        call = self._call(request, outcome)._replace(key=uuid4().hex)
        return record_call(self.store, call, claim_id)

    def spool(self, request: ChatRequest, outcome: ChatOutcome) -> None:
        """Keep a call in the store's spool."""
        spool_call(self.store.spool, self._call(request, outcome))

    def _call(self, request: ChatRequest, outcome: ChatOutcome) -> NewCall:
        return NewCall(
            key=self.key(request),
            model=self._model.ref,
            parameters=self._model.parameters,
            request=request,
            outcome=outcome,
            dataset=self._dataset,
            cost=self._cost(outcome.tokens_in, outcome.tokens_out),
            currency=self._prices.currency if self._prices else None,
            served=self._model.served() if isinstance(self._model, RemoteModel) else None,
            repairs=repairs_of(outcome, request.answer_schema),
        )

    def _warn_of_another_model(self, outcome: ChatOutcome) -> None:
        """Say once that the server names another model than the profile does."""
        wanted = self._model.ref.name
        if self._warn and (other := other_model_in(outcome.raw, wanted)):
            self._warn(
                f"warning: the server of {wanted!r} says that the model {other!r} answers; if it "
                f"is not the same, correct name or base_url in the profile"
            )
            self._warn = None

    def _cost(self, tokens_in: int | None, tokens_out: int | None) -> float | None:
        return None if self._prices is None else self._prices.cost(tokens_in, tokens_out)


def require_prices(model: ModelRef, prices: Prices | None, budget: Budget) -> None:
    """Refuse a limit on money for a model without a price.

    Raises:
        ConfigurationError: there is a limit, but no price.
    """
    if budget.max_cost is not None and prices is None:
        raise ConfigurationError(
            f"--max-cost needs a price for every model, and the profile has none for {model}; "
            f"add prices = {{ input_per_million = …, output_per_million = … }}"
        )


def _with_estimates(request: ChatRequest, outcome: ChatOutcome) -> tuple[int, int]:
    """Return input and output tokens for the budget: estimated, slightly too high, if not known."""
    tokens_in, tokens_out = outcome.tokens_in, outcome.tokens_out
    if tokens_in is None:
        tokens_in = _estimate(request.prompt) + _TOKENS_PER_IMAGE * len(request.images)
    if tokens_out is None:
        said = outcome.text if isinstance(outcome, ChatAnswer) else ""
        tokens_out = _estimate(outcome.raw or said)
    return tokens_in, tokens_out


def _estimate(text: str) -> int:
    return len(text.encode()) // _BYTES_PER_TOKEN + 1
