"""Asks a model, and once more where its answer is no use: with the answer and what is wrong."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from db.entities import StoredEntity
from db.work import WorkResult
from flows.asking import ask, without_answer
from flows.ledger import RecordedChatModel
from flows.report import StageResult
from schemas.chat import ChatAnswer, ChatOutcome, ChatRequest
from schemas.records import Rejection

ReadT = TypeVar("ReadT")


class Understood(NamedTuple, Generic[ReadT]):
    """A request that was answered, and what was read in the answer."""

    request: ChatRequest
    value: ReadT


class NotUnderstood(NamedTuple):
    """A request without a usable answer: its outcome, and what is wrong with an answer."""

    request: ChatRequest
    outcome: ChatOutcome | None
    rejection: Rejection | None = None


def not_understood(input_: StoredEntity, stage: str, found: NotUnderstood) -> StageResult:
    """What becomes of an input of a stage for which there is no usable answer."""
    if found.rejection is not None:
        return WorkResult(input_.seq, rejection=found.rejection)
    failure = None if isinstance(found.outcome, ChatAnswer) else found.outcome
    return without_answer(input_, stage, failure)


def ask_and_repair(
    model: RecordedChatModel,
    requests: Sequence[ChatRequest],
    read: Callable[[int, ChatAnswer], ReadT | Rejection],
    repair: Callable[[ChatRequest, ChatAnswer, Rejection], ChatRequest],
) -> list[Understood[ReadT] | NotUnderstood]:
    """What came of each request, in order.

    Args:
        model: what is asked.
        requests: all of them.
        read: reads the answer to the request of that number.
        repair: the request that asks anew, from the first one, its answer, and what is wrong.
    """
    first = _asked(model, dict(enumerate(requests)), read)
    again = {
        number: repair(found.request, found.outcome, found.rejection)
        for number, found in first.items()
        if isinstance(found, NotUnderstood)
        and found.rejection is not None
        and isinstance(found.outcome, ChatAnswer)
    }
    found = first | _asked(model, again, read)
    return [found[number] for number in range(len(requests))]


def _asked(
    model: RecordedChatModel,
    requests: dict[int, ChatRequest],
    read: Callable[[int, ChatAnswer], ReadT | Rejection],
) -> dict[int, Understood[ReadT] | NotUnderstood]:
    outcomes = ask(model, requests.values())
    found: dict[int, Understood[ReadT] | NotUnderstood] = {}
    for place, (number, request) in enumerate(requests.items()):
        outcome = outcomes.get(place)
        if not isinstance(outcome, ChatAnswer):
            found[number] = NotUnderstood(request, outcome)
            continue
        value = read(number, outcome)
        if isinstance(value, Rejection):
            found[number] = NotUnderstood(request, outcome, value)
        else:
            found[number] = Understood(request, value)
    return found
