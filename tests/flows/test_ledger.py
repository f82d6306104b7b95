"""Model calls are stored as they return, sent once, and stopped at the budget."""

import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, event

from loupe.db.calls import cost_rows, replay_calls
from loupe.db.store import Store
from loupe.db.tables import Claim, ModelCall
from loupe.flows.engine.ledger import RecordedChatModel
from loupe.flows.engine.stopping import Budget
from loupe.models.chat import ChatModel, Sender
from loupe.schemas.chat import (
    ChatAnswer,
    ChatFailure,
    ChatImage,
    ChatOutcome,
    ChatRequest,
    ModelRef,
)
from loupe.schemas.errors import BudgetReachedError, ConfigurationError, ServiceError
from loupe.schemas.profile import Prices
from tests.between import between
from tests.db.samples import DATASET, row_count

PRICES = Prices(input_per_million=1_000_000, output_per_million=2_000_000)
LATER = ChatFailure(reason="timeout", detail="too late", retriable=True)
NEVER = ChatFailure(reason="unreadable_answer", detail="no", retriable=False, raw="{}")
REFUSED = NEVER.model_copy(update={"reason": "refused_request"})


def answer_to(text: str) -> ChatOutcome:
    return ChatAnswer(text=f"re: {text}", tokens_in=4, tokens_out=6, seconds=0.5)


class ScriptedModel:
    """Keep `in_flight` requests in flight, answer the newest first, and record what was sent."""

    def __init__(
        self,
        reply: Callable[[str], ChatOutcome] = answer_to,
        in_flight: int = 1,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        self.reply = reply
        self.in_flight = in_flight
        self.parameters = parameters or {}
        self.ref = ModelRef(name="scripted", revision="1")
        self.sent: list[str] = []

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        numbered = enumerate(requests)
        flying: list[tuple[int, ChatRequest]] = []
        while True:
            flying.extend(islice(numbered, self.in_flight - len(flying)))
            if not flying:
                return
            position, request = flying.pop()
            self.sent.append(request.subject)
            yield position, self.reply(request.subject)


def requests(subjects: Iterable[str]) -> Iterator[ChatRequest]:
    for subject in subjects:
        yield ChatRequest(purpose="rewrite", prompt="p", prompt_digest="d", subject=subject)


def recorded(
    store: Store, model: ChatModel, budget: Budget | None = None, prices: Prices | None = PRICES
) -> RecordedChatModel:
    return RecordedChatModel(model, store, DATASET, prices, budget or Budget())


def ask(model: RecordedChatModel, subjects: Sequence[str]) -> dict[int, ChatOutcome]:
    outcomes = list(model.answer(requests(subjects)))
    assert len(outcomes) == len(dict(outcomes)), "each position must occur once"
    return dict(outcomes)


def test_equal_requests_are_sent_once(store: Store) -> None:
    model = ScriptedModel(in_flight=2)
    outcomes = ask(recorded(store, model), "abaab")
    assert outcomes == {place: answer_to(subject) for place, subject in enumerate("abaab")}
    assert sorted(model.sent) == ["a", "b"]
    assert row_count(store, ModelCall) == 2


def test_an_answer_that_another_run_stores_before_the_claim_is_used(sqlite_store: Store) -> None:
    theirs, ours = ScriptedModel(lambda _: answer_to("theirs")), ScriptedModel()

    def answer_first(other: Store) -> None:
        ask(recorded(other, theirs), "a")

    with between(sqlite_store, "FROM model_call", "INSERT INTO claim", answer_first):
        found = ask(recorded(sqlite_store, ours), "a")
    assert (theirs.sent, ours.sent) == (["a"], [])
    assert found == {0: answer_to("theirs")}
    assert row_count(sqlite_store, ModelCall) == 1


def test_stored_answers_are_reused_and_cost_nothing(sqlite_store: Store) -> None:
    ask(recorded(sqlite_store, ScriptedModel()), "ab")
    again, budget = ScriptedModel(), Budget(max_tokens=10)
    outcomes = ask(recorded(sqlite_store, again, budget), "bac")
    assert outcomes == {place: answer_to(subject) for place, subject in enumerate("bac")}
    assert again.sent == ["c"]
    assert (budget.calls, budget.tokens) == (1, 10)


def test_different_parameters_are_different_calls(sqlite_store: Store) -> None:
    ask(recorded(sqlite_store, ScriptedModel()), "a")
    other = ScriptedModel(parameters={"seed": 2})
    ask(recorded(sqlite_store, other), "a")
    assert other.sent == ["a"]


@pytest.mark.parametrize("budget", [Budget(max_tokens=15), Budget(max_cost=30)])
def test_reaching_the_budget_stores_all_answers_in_flight(
    sqlite_store: Store, budget: Budget
) -> None:
    model = ScriptedModel(in_flight=3)
    got: list[int] = []
    with pytest.raises(BudgetReachedError, match=r"--max-.*; run again to continue"):
        got.extend(
            place for place, _ in recorded(sqlite_store, model, budget).answer(requests("abcdefgh"))
        )
    assert len(model.sent) == 4, "two reach the limit, two more are in flight"
    assert row_count(sqlite_store, ModelCall) == 4
    again = ScriptedModel()
    assert len(ask(recorded(sqlite_store, again), "abcdefgh")) == 8
    assert sorted(again.sent + model.sent) == list("abcdefgh")


def test_unusable_answers_count_towards_the_budget(sqlite_store: Store) -> None:
    def chatter(_: str) -> ChatOutcome:
        return ChatAnswer(text="Sure!", tokens_in=4, tokens_out=6, seconds=0, truncated=True)

    with pytest.raises(BudgetReachedError):
        ask(recorded(sqlite_store, ScriptedModel(chatter), Budget(max_tokens=20)), "abc")
    [row] = cost_rows(sqlite_store)
    assert (row.tokens_in, row.tokens_out) == (8, 12)


def test_a_failure_that_cost_nothing_is_not_stored(sqlite_store: Store) -> None:
    for failure in (LATER, REFUSED):
        model = ScriptedModel(partial(_always, failure))
        assert ask(recorded(sqlite_store, model), "aa") == {0: failure, 1: failure}
        assert model.sent == ["a"]
        assert row_count(sqlite_store, ModelCall) == 0
    assert ask(recorded(sqlite_store, ScriptedModel()), "a") == {0: answer_to("a")}


def _always(outcome: ChatOutcome, _: str) -> ChatOutcome:
    return outcome


def test_a_permanent_failure_is_stored(sqlite_store: Store) -> None:
    budget = Budget(max_tokens=1)
    assert ask(recorded(sqlite_store, ScriptedModel(lambda _: NEVER), budget), "ab") == {
        0: NEVER,
        1: NEVER,
    }
    again = ScriptedModel()
    assert ask(recorded(sqlite_store, again), "a") == {0: NEVER}
    assert again.sent == []
    assert [(row.calls, row.failed, row.tokens_in) for row in cost_rows(sqlite_store)] == [
        (2, 2, 0)
    ]


def test_an_answer_with_invalid_characters_is_stored_unchanged(store: Store) -> None:
    model = ScriptedModel(
        lambda _: ChatAnswer(text="a\0b\ud800", tokens_in=1, tokens_out=1, seconds=0)
    )
    first = ask(recorded(store, model), "a")
    assert ask(recorded(store, model), "a") == first
    assert len(model.sent) == 1


def test_costs_are_summed_by_model_and_stage(sqlite_store: Store) -> None:
    ask(recorded(sqlite_store, ScriptedModel()), "ab")
    (row,) = cost_rows(sqlite_store, DATASET)
    assert row._asdict() == {
        "model": "scripted@1",
        "stage": "rewrite",
        "dataset": DATASET,
        "calls": 2,
        "failed": 0,
        "unknown_usage": 0,
        "tokens_in": 8,
        "tokens_out": 12,
        "requests": 0,
        "seconds": 1.0,
        "cost": 32.0,
        "currency": "USD",
    }
    assert cost_rows(sqlite_store, "elsewhere") == []


def test_without_prices_there_is_no_cost(sqlite_store: Store) -> None:
    ask(recorded(sqlite_store, ScriptedModel(), prices=None), "a")
    (row,) = cost_rows(sqlite_store)
    assert (row.cost, row.currency) == (None, None)


def test_a_limit_on_money_needs_prices(sqlite_store: Store) -> None:
    with pytest.raises(ConfigurationError, match=r"--max-cost needs a price .* scripted@1"):
        recorded(sqlite_store, ScriptedModel(), Budget(max_cost=1), prices=None)


def test_answers_in_flight_are_spooled_while_the_database_is_unavailable(
    sqlite_store: Store, tmp_path: Path
) -> None:
    """No answer is lost, no further request is sent, and the next run replays the spool."""
    sqlite_store.spool = tmp_path / "spool"
    unavailable: list[bool] = []

    def refuse(*_: object) -> None:
        if unavailable:
            raise ServiceError("the database is away")

    def reply(text: str) -> ChatOutcome:
        unavailable.append(True)
        return answer_to(text)

    event.listen(sqlite_store.engine, "begin", refuse)
    model = ScriptedModel(reply, in_flight=3)
    with pytest.raises(
        ServiceError, match="the database is away; paid answers not stored yet: 3, in"
    ):
        ask(recorded(sqlite_store, model), "abcdef")
    assert sorted(model.sent) == ["a", "b", "c"]
    files = list(sqlite_store.spool.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(sqlite_store.spool.stat().st_mode) == 0o700
    unavailable.clear()
    (sqlite_store.spool / "cut.call.json").write_text('{"agent": [')
    assert replay_calls(sqlite_store) == 3
    assert [file.name for file in sqlite_store.spool.iterdir()] == ["cut.call.json"]
    again = ScriptedModel()
    assert ask(recorded(sqlite_store, again), "abc") == {
        place: answer_to(subject) for place, subject in enumerate("abc")
    }
    assert again.sent == []


def test_paid_answers_that_can_be_stored_nowhere_are_named(
    sqlite_store: Store, tmp_path: Path
) -> None:
    sqlite_store.spool = tmp_path / "spool"
    sqlite_store.spool.touch()  # no folder can be made there
    is_full: list[bool] = []

    def refuse(*_: object) -> None:
        if is_full:
            raise ServiceError("the disk is full")

    def reply(text: str) -> ChatOutcome:
        is_full.append(True)
        return answer_to(text)

    event.listen(sqlite_store.engine, "begin", refuse)
    lost = "2 paid answers could not be stored anywhere, and the next run asks again about 'b', 'a'"
    with pytest.raises(ServiceError, match=f"the disk is full; {lost}"):
        ask(recorded(sqlite_store, ScriptedModel(reply, in_flight=2)), "abc")
    is_full.clear()
    assert len(ask(recorded(sqlite_store, ScriptedModel()), "abc")) == 3, "no claim is left"


def test_an_answer_whose_claim_was_taken_over_is_replaced_by_the_stored_one(
    sqlite_store: Store,
) -> None:
    def taken_over(text: str) -> ChatOutcome:
        with sqlite_store.write() as connection:
            connection.execute(delete(Claim))
        ask(recorded(sqlite_store, ScriptedModel(lambda _: answer_to("another run"))), text)
        return answer_to(text)

    model = ScriptedModel(taken_over)
    assert ask(recorded(sqlite_store, model), "a") == {0: answer_to("another run")}


def test_a_run_that_lost_its_claims_sends_nothing_more_and_takes_the_answer_of_the_other(
    sqlite_store: Store,
) -> None:
    """As a process that was stopped for longer than a lease, and woke before a retry."""

    class Retrying(ScriptedModel):
        sender = Sender()
        permitted: tuple[bool, ...] = ()

        def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
            for position, request in enumerate(requests):
                before = self.sender.may_send(request)
                with sqlite_store.write() as connection:
                    connection.execute(delete(Claim))
                ask(recorded(sqlite_store, ScriptedModel()), request.subject)
                self.permitted = before, self.sender.may_send(request)
                yield position, LATER

    model = Retrying()
    assert ask(recorded(sqlite_store, model), "a") == {0: answer_to("a")}
    assert model.permitted == (True, False)


def test_nothing_more_is_sent_while_the_database_is_away(sqlite_store: Store) -> None:
    is_away: list[bool] = []

    def refuse(*_: object) -> None:
        if is_away:
            raise ServiceError("the database is away")

    class Retrying(ScriptedModel):
        sender = Sender()
        permitted: tuple[bool, ...] = ()

        def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
            for position, request in enumerate(requests):
                before = self.sender.may_send(request)
                is_away.append(True)
                self.permitted = before, self.sender.may_send(request)
                yield position, LATER

    event.listen(sqlite_store.engine, "begin", refuse)
    model = Retrying()
    with pytest.raises(ServiceError, match="the database is away"):
        ask(recorded(sqlite_store, model), "a")
    assert model.permitted == (True, False)


def test_unknown_tokens_are_estimated_from_prompt_images_and_answer(sqlite_store: Store) -> None:
    unknown = ChatAnswer(text="x" * 300, tokens_in=None, tokens_out=None, seconds=0.5)
    spent: list[int] = []
    for images in (0, 1, 3):
        budget, image = Budget(), ChatImage(media_type="image/png", data=b"png")
        request = ChatRequest(
            purpose="rewrite", prompt="p" * 30, prompt_digest="d", images=(image,) * images
        )
        model = recorded(sqlite_store, ScriptedModel(lambda _: unknown), budget)
        assert [outcome for _, outcome in model.answer([request])] == [unknown]
        spent.append(budget.tokens)
    assert spent == [112, 1612, 4612]


def test_calls_that_are_given_up_are_neither_claimed_nor_waited_for(sqlite_store: Store) -> None:
    budget = Budget()
    answers = recorded(sqlite_store, ScriptedModel(in_flight=3), budget).answer(requests("abc"))
    assert next(answers) == (2, answer_to("c"))
    assert (budget.stop.in_flight, row_count(sqlite_store, Claim)) == (2, 2)
    answers.close()  # type: ignore[attr-defined]
    assert (budget.stop.in_flight, row_count(sqlite_store, Claim)) == (0, 0)


def test_an_estimated_cost_counts_but_is_not_stored_as_a_fact(sqlite_store: Store) -> None:
    unknown = ChatAnswer(text="re: a", tokens_in=None, tokens_out=None, seconds=0.5)
    budget = Budget()
    ask(recorded(sqlite_store, ScriptedModel(lambda _: unknown), budget), "a")
    assert budget.cost > 0
    [row] = cost_rows(sqlite_store)
    assert (row.tokens_in, row.tokens_out, row.cost, row.unknown_usage) == (None, None, None, 1)


def test_a_stopped_run_sends_no_more_requests_and_stores_those_in_flight(
    sqlite_store: Store,
) -> None:
    budget = Budget()

    def reply_and_request_stop(text: str) -> ChatOutcome:
        budget.stop.request()
        return answer_to(text)

    model = ScriptedModel(reply_and_request_stop, in_flight=3)
    with pytest.raises(SystemExit, match="143"):
        ask(recorded(sqlite_store, model, budget), "abcdefgh")
    assert sorted(model.sent) == ["a", "b", "c"]
    assert row_count(sqlite_store, ModelCall) == 3
    assert budget.stop.in_flight == 0


# Immediate models, which answer by rules and cost nothing.


def immediate(store: Store, model: ChatModel, budget: Budget | None = None) -> RecordedChatModel:
    return RecordedChatModel(model, store, DATASET, PRICES, budget or Budget(), is_immediate=True)


def test_answers_of_an_immediate_model_are_stored_together_and_reused(store: Store) -> None:
    model, subjects = ScriptedModel(in_flight=3), [str(number % 60) for number in range(120)]
    wanted = {place: answer_to(subject) for place, subject in enumerate(subjects)}
    writes: list[str] = []

    def count(_c: Any, _u: Any, statement: str, *_: Any) -> None:
        if statement.startswith("INSERT INTO model_call"):
            writes.append(statement)

    event.listen(store.engine, "before_cursor_execute", count)
    assert ask(immediate(store, model), subjects) == wanted
    event.remove(store.engine, "before_cursor_execute", count)
    assert len(writes) == 2, "one for each fifty different requests"
    assert sorted(model.sent) == sorted(set(subjects))
    assert (row_count(store, ModelCall), row_count(store, Claim)) == (60, 0)
    again = ScriptedModel()
    assert ask(immediate(store, again), subjects) == wanted
    assert again.sent == []


def test_of_two_answers_of_an_immediate_model_the_stored_one_is_used(sqlite_store: Store) -> None:
    theirs, ours = ScriptedModel(lambda _: answer_to("theirs")), ScriptedModel()

    def answer_first(other: Store) -> None:
        ask(immediate(other, theirs), "a")

    with between(sqlite_store, "FROM model_call", "INSERT INTO model_call", answer_first):
        assert ask(immediate(sqlite_store, ours), "a") == {0: answer_to("theirs")}


def test_an_immediate_model_is_not_asked_beyond_a_limit_or_a_stop(sqlite_store: Store) -> None:
    ask(immediate(sqlite_store, ScriptedModel()), "a")
    spent, stopped, model = Budget(max_tokens=1), Budget(), ScriptedModel()
    spent.spend(1, None)
    got: list[tuple[int, ChatOutcome]] = []
    with pytest.raises(BudgetReachedError, match="run again to continue"):
        got.extend(immediate(sqlite_store, model, spent).answer(requests("ab")))
    assert got == [(0, answer_to("a"))], "known answers cost nothing"
    stopped.stop.request()
    with pytest.raises(SystemExit):
        ask(immediate(sqlite_store, model, stopped), "b")
    assert model.sent == []


def test_a_failure_of_an_immediate_model_that_may_pass_is_not_stored(sqlite_store: Store) -> None:
    assert ask(immediate(sqlite_store, ScriptedModel(lambda _: LATER)), "a") == {0: LATER}
    assert row_count(sqlite_store, ModelCall) == 0
