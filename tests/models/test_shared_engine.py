"""The shared engine is kept full, within a stream of requests and across streams."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, cast

import pytest

from loupe.models.vllm_chat import SharedEngine
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatRequest

ROOM = 4


class SteppingEngine:
    """Answers each request after the number of steps in its subject, and records its load."""

    def __init__(self) -> None:
        self.left: dict[str, int] = {}
        self.sizes: list[int] = []
        self.aborted: list[str] = []
        self._asked: dict[str, ChatRequest] = {}

    def add(self, request: ChatRequest) -> str | ChatFailure:
        if request.subject == "refused":
            return ChatFailure(reason="refused_request", detail="too long", retriable=False)
        id_ = str(len(self._asked))
        self._asked[id_], self.left[id_] = request, int(request.subject)
        return id_

    def step(self) -> Iterator[tuple[str, ChatAnswer]]:
        time.sleep(0.002)  # lets other threads run
        self.sizes.append(len(self.left))
        self.left = {id_: steps - 1 for id_, steps in self.left.items()}
        for id_ in [id_ for id_, steps in self.left.items() if not steps]:
            del self.left[id_]
            text = self._asked[id_].prompt
            yield id_, ChatAnswer(text=text, tokens_in=1, tokens_out=1, seconds=0)

    def abort(self, ids: Sequence[str]) -> None:
        self.aborted += ids
        for id_ in ids:
            del self.left[id_]


def requests(name: str, *steps: int | str) -> list[ChatRequest]:
    return [
        ChatRequest(purpose="x", prompt=f"{name} {number}", prompt_digest="d", subject=str(many))
        for number, many in enumerate(steps)
    ]


def texts(engine: SharedEngine, asked: Sequence[ChatRequest]) -> dict[int, str]:
    return {
        position: outcome.text
        for position, outcome in engine.answer(asked)
        if isinstance(outcome, ChatAnswer)
    }


def test_a_slow_answer_does_not_leave_the_engine_idle() -> None:
    inner = SteppingEngine()
    found = texts(SharedEngine(inner, ROOM), requests("one", 12, *[1] * 33))
    assert found == {number: f"one {number}" for number in range(34)}
    assert inner.sizes == [ROOM] * 11 + [1]


def test_requests_enter_when_a_quarter_of_the_places_is_free() -> None:
    inner = SteppingEngine()
    texts(SharedEngine(inner, 8), requests("one", *range(1, 9), 1, 1))
    assert inner.sizes[:3] == [8, 7, 8]


def test_other_streams_fill_the_engine_during_the_slowest_answers() -> None:
    """Each chunk has one answer that takes as long as all others together."""
    inner = SteppingEngine()
    engine = SharedEngine(inner, ROOM)
    chunks = [requests(f"chunk {number}", 10, *[1] * 10) for number in range(6)]
    waiting, found = iter(chunks), {}

    def work() -> None:
        for chunk in waiting:
            found[chunk[0].prompt] = texts(engine, chunk)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for chunk in chunks:
        assert found[chunk[0].prompt] == {at: one.prompt for at, one in enumerate(chunk)}
    assert max(inner.sizes) <= ROOM
    sequential_steps = 6 * 10
    assert len(inner.sizes) < 0.75 * sequential_steps


def test_refused_requests_are_reported_and_take_no_capacity() -> None:
    engine = SharedEngine(SteppingEngine(), 1)
    outcomes = dict(engine.answer(requests("one", "refused", 1, "refused", 2)))
    refused = [isinstance(outcomes[number], ChatFailure) for number in range(4)]
    assert refused == [True, False, True, False]


@pytest.mark.parametrize("fails", [False, True])
def test_a_closed_or_failed_stream_frees_its_capacity(fails: bool) -> None:
    inner = SteppingEngine()
    engine = SharedEngine(inner, ROOM)

    def asked() -> Iterator[ChatRequest]:
        yield from requests("one", 1, 9, 9)
        if fails:
            raise ZeroDivisionError
        yield from requests("one", 9, 9, 9)

    if fails:
        with pytest.raises(ZeroDivisionError):
            list(engine.answer(asked()))
    else:
        with closing(cast("Any", engine.answer(asked()))) as outcomes:
            next(outcomes)
        assert len(inner.aborted) == ROOM - 1
    assert inner.left == {}
    assert len(texts(engine, requests("two", *[1] * ROOM))) == ROOM
    assert inner.sizes[-1] == ROOM
