"""Ledger of chat calls: each call is stored when it returns, and never made twice."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing

from loupe.db.calls import (
    NewCall,
    claim_call,
    correct_call,
    find_call,
    has_answered,
    record_call,
    spool_call,
)
from loupe.db.store import Store, drop_claims, is_claim_held, pauses, release_claim
from loupe.flows.answers import repairs_of
from loupe.flows.engine.stopping import Budget, Waits
from loupe.models.chat import ChatModel, RemoteModel, RereadingModel, RetryingModel, Sender
from loupe.models.chat_answers import other_model_in
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest, ModelRef
from loupe.schemas.errors import BudgetReachedError, ConfigurationError, ServiceError
from loupe.schemas.profile import Prices
from loupe.schemas.wording import first_of, many, shortened

_BYTES_PER_TOKEN = 3  # UTF-8: about 4 in English prose, 3 per Chinese character
_TOKENS_PER_IMAGE = 1500
_SHOWN_LOST = 5
_SHOWN_CHARACTERS = 60


class RecordedChatModel:
    """A chat model that wraps another one and answers known calls from the store.

    When the budget is reached or the run is stopped, no further request is sent. Calls in flight
    are still stored, then `BudgetReachedError` or `SystemExit` is raised. Failures without cost are
    not stored: retryable ones and refusals.

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
    ) -> None:
        require_prices(model.ref, prices, budget)
        self._warn = warn
        self._waits = waits or Waits()
        self._sender = _ClaimingSender(store, budget, self.key, self._waits)
        if isinstance(model, RetryingModel):
            model.sender = self._sender
        self._model = model
        self._store = store
        self._dataset = dataset
        self._prices = prices
        self._budget = budget

    def key(self, request: ChatRequest) -> str:
        """Return the key under which the call is stored."""
        return request.key(self._model.ref, self._model.parameters)

    def has_answered(self, purposes: Iterable[str]) -> bool:
        """Tell whether the store has an answer to such a request with these parameters."""
        return has_answered(self._store, self._model.ref, self._model.parameters, purposes)

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """Answer requests as the model does; runs on the store send equal requests only once."""
        stream = _Stream(self._store, self._budget, self.key, self._find, self._sender.claims)
        to_send: Iterable[ChatRequest] = stream.unknown(requests)
        with self._store.claims.renewed(), closing(stream):
            while True:
                with self._waits.on(lambda: stream.waits_for(self._model.ref)):
                    for sent, outcome in self._model.answer(to_send):
                        request = stream.sent[sent]
                        stream.finish(request, self._record(request, outcome, stream))
                        yield from stream.take_ready()
                stream.sent.clear()
                waiting = pauses()
                while not (to_send := stream.left_to_us()) and stream.claimed_elsewhere:
                    yield from stream.take_ready()
                    with self._waits.on(stream.waits_elsewhere):
                        time.sleep(next(waiting))
                yield from stream.take_ready()
                if not to_send:
                    break
        if stream.failed:
            raise ServiceError(f"{stream.failed}{self._left_over(stream)}")
        self._budget.stop.check()
        if stream.stopped_by:
            raise BudgetReachedError(f"{stream.stopped_by}; run again to continue")

    def _find(self, key: str) -> ChatOutcome | None:
        """Return the stored outcome of a call; one that can be read only now is corrected."""
        outcome = find_call(self._store, key)
        if not isinstance(outcome, ChatFailure) or not isinstance(self._model, RereadingModel):
            return outcome
        read = self._model.read_again(outcome)
        if isinstance(read, ChatAnswer):
            correct_call(self._store, key, read)
        return read

    def _record(
        self, request: ChatRequest, outcome: ChatOutcome, stream: "_Stream"
    ) -> ChatOutcome | None:
        """Store a call. If the database is lost, this and all later calls are spooled.

        Returns:
            The outcome to use: if the claim was lost, the answer that another run stored, or None
            while that run waits for it.
        """
        key = self.key(request)
        claim_id = stream.claims[key]
        if isinstance(outcome, ChatFailure) and not outcome.is_paid:
            return self._give_back(key, claim_id, outcome, stream)
        self._warn_of_another_model(outcome)
        known = outcome.tokens_in, outcome.tokens_out
        counted = _with_estimates(known, request, outcome)
        self._budget.spend(sum(counted), self._cost(*counted))
        call = NewCall(
            key=key,
            model=self._model.ref,
            parameters=self._model.parameters,
            request=request,
            outcome=outcome,
            dataset=self._dataset,
            cost=self._cost(*known),
            currency=self._prices.currency if self._prices else None,
            served=self._model.served() if isinstance(self._model, RemoteModel) else None,
            repairs=repairs_of(outcome, request.answer_schema),
        )
        try:
            if stream.failed is None:
                was_ours = record_call(self._store, call, claim_id)
                return outcome if was_ours else find_call(self._store, key) or outcome
        except ServiceError as error:
            stream.failed = error
        try:
            spool_call(self._store.spool, call)
            stream.spooled += 1
        except ServiceError:
            stream.lost.append(request)
        return outcome

    def _warn_of_another_model(self, outcome: ChatOutcome) -> None:
        """Say once that the server names another model than the profile does."""
        wanted = self._model.ref.name
        if self._warn and (other := other_model_in(outcome.raw, wanted)):
            self._warn(
                f"warning: the server of {wanted!r} says that the model {other!r} answers; if it "
                f"is not the same, correct name or base_url in the profile"
            )
            self._warn = None

    def _give_back(
        self, key: str, claim_id: str, failure: ChatFailure, stream: "_Stream"
    ) -> ChatOutcome | None:
        """Release the claim on a call that cost nothing; see `_record` for what is returned."""
        if stream.failed is not None:
            return failure
        try:
            if release_claim(self._store, claim_id):
                return failure
            return find_call(self._store, key)
        except ServiceError as error:
            stream.failed = error
            return failure

    def _left_over(self, stream: "_Stream") -> str:
        """Say what became of the paid answers that the database could not store."""
        said = ""
        if stream.spooled:
            said = f"; paid answers not stored yet: {stream.spooled}, in {self._store.spool}"
        if stream.lost:
            texts = [shortened(one.subject or one.prompt, _SHOWN_CHARACTERS) for one in stream.lost]
            said += (
                f"; {many(len(texts), 'paid answer')} could not be stored anywhere, and the next "
                f"run asks again about {first_of([repr(one) for one in texts], _SHOWN_LOST)}"
            )
        return said

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


def _with_estimates(
    known: tuple[int | None, int | None], request: ChatRequest, outcome: ChatOutcome
) -> tuple[int, int]:
    """Return input and output tokens for the budget: estimated, slightly too high, if not known."""
    tokens_in, tokens_out = known
    if tokens_in is None:
        tokens_in = _estimate(request.prompt) + _TOKENS_PER_IMAGE * len(request.images)
    if tokens_out is None:
        said = outcome.text if isinstance(outcome, ChatAnswer) else ""
        tokens_out = _estimate(outcome.raw or said)
    return tokens_in, tokens_out


def _estimate(text: str) -> int:
    return len(text.encode()) // _BYTES_PER_TOKEN + 1


class _ClaimingSender(Sender):
    """Lets requests be sent as long as the run is not stopped and still has their claims.

    A process that was stopped for longer than a lease has lost them to another run.
    """

    def __init__(
        self, store: Store, budget: Budget, key: Callable[[ChatRequest], str], waits: Waits
    ) -> None:
        self.claims: dict[str, str] = {}  # of the calls in flight, by key
        self._store = store
        self._budget = budget
        self._key = key
        self._waits = waits

    @property
    def is_stopped(self) -> bool:
        """Whether the run was stopped."""
        return self._budget.stop.is_requested

    def may_send(self, request: ChatRequest) -> bool:
        """Tell whether the run still has the claim on this call, and is not stopped."""
        claim_id = self.claims.get(self._key(request))
        if claim_id is None or self.is_stopped:
            return False
        try:
            return is_claim_held(self._store, claim_id)
        except ServiceError:  # the outcome could not be stored either
            return False

    def waiting(self, what: str) -> AbstractContextManager[None]:
        """Show what is waited for with the progress of the run."""
        return self._waits.on(what)


class _Stream:
    """State of one stream of requests: which were sent, and who waits for which answer.

    A call is claimed before it is sent. A call that another run has claimed is set aside; at the
    end, its answer is read from the store, or the call is claimed after all.
    """

    def __init__(
        self,
        store: Store,
        budget: Budget,
        key: Callable[[ChatRequest], str],
        find: Callable[[str], ChatOutcome | None],
        claims: dict[str, str],
    ) -> None:
        self._store = store
        self._budget = budget
        self._key = key
        self._find = find
        self._finished: dict[str, ChatOutcome] = {}
        self._waiting: dict[str, list[int]] = {}
        self._ready: list[tuple[int, ChatOutcome]] = []
        self._is_over = False
        self.sent: list[ChatRequest] = []
        self.claims = claims  # of the calls in flight, by key; shared by all streams of a model
        self.own: set[str] = set()  # keys of the calls of this stream in flight
        self.claimed_elsewhere: dict[str, ChatRequest] = {}
        self.stopped_by: str | None = None
        self.failed: ServiceError | None = None
        self.spooled = 0
        self.lost: list[ChatRequest] = []  # whose paid answers could not be stored anywhere

    def unknown(self, requests: Iterable[ChatRequest]) -> Iterator[ChatRequest]:
        """Yield the requests that must be sent, one at a time as there is room in flight."""
        for position, request in enumerate(requests):
            key = self._key(request)
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

    def left_to_us(self) -> list[ChatRequest]:
        """Return requests that others claimed but got no answer to, now claimed by this run."""
        left, self.claimed_elsewhere = self.claimed_elsewhere, {}
        return [request for key, request in left.items() if self._must_send(key, request)]

    def _must_send(self, key: str, request: ChatRequest) -> bool:
        """Tell whether this run must send the request: no answer, and successfully claimed."""
        if self._is_over or self.failed:
            return False
        try:
            if (outcome := self._find(key)) is not None:
                self._answer(key, outcome)
                return False
            self.stopped_by = self._budget.reached()
            self._is_over = self.stopped_by is not None or not self._budget.stop.begin()
            return not self._is_over and self._claim(key, request)
        except ServiceError as error:  # calls in flight must still be stored
            self.failed = error
            return False

    def _claim(self, key: str, request: ChatRequest) -> bool:
        claim_id = None
        try:
            claim_id = claim_call(self._store, key)
        finally:
            if claim_id is None:
                self._budget.stop.end()
        if claim_id is None:
            self.claimed_elsewhere[key] = request
            return False
        self.claims[key] = claim_id
        self.own.add(key)
        self.sent.append(request)
        return True

    def finish(self, request: ChatRequest, outcome: ChatOutcome | None) -> None:
        """Record the outcome of a request that was sent; None: another run waits for it."""
        key = self._key(request)
        claim_id = self.claims.pop(key)
        self.own.remove(key)
        if self.failed is not None:  # it was not released
            self._store.claims.give_up(claim_id)
        self._budget.stop.end()
        if outcome is None:
            self.claimed_elsewhere[key] = request
        else:
            self._answer(key, outcome)

    def _answer(self, key: str, outcome: ChatOutcome) -> None:
        self._finished[key] = outcome
        self._ready.extend((position, outcome) for position in self._waiting.pop(key))

    def waits_for(self, model: ModelRef) -> str:
        """Say for how many answers of the model it waits."""
        return f"for {many(len(self.own), 'answer')} of {model}"

    def waits_elsewhere(self) -> str:
        """Say for how many answers to another run it waits."""
        return f"for {many(len(self.claimed_elsewhere), 'answer')} that another run asked for"

    def take_ready(self) -> Iterator[tuple[int, ChatOutcome]]:
        """Yield the outcomes that are ready, each once."""
        ready, self._ready = self._ready, []
        yield from ready

    def close(self) -> None:
        """Release the calls that did not return."""
        claims = [self.claims.pop(key) for key in self.own]
        try:
            if self.failed is None:
                drop_claims(self._store, *claims)
            else:
                self._store.claims.give_up(*claims)
        finally:
            self._budget.stop.end(len(claims))
