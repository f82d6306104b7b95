"""Model steps give one result for each input, in order, whatever the answers are."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from loupe.db.entities import WorkResult
from loupe.db.quarantine import quarantined
from loupe.db.store import Store
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.ledger import RecordedChatModel
from loupe.flows.engine.model_step import Ask, DatasetModel, LLMStep, Parsed, ask, run_llm_step
from loupe.models.profiles.loader import load_profile
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest
from loupe.schemas.errors import ModelError
from loupe.schemas.records import Rejection
from tests.db.samples import DATASET
from tests.flows.runs import context_of
from tests.flows.test_ledger import ScriptedModel

ANSWERS = {"one": "1", "two": "2", "odd": "?", "odd, again": "3", "bad": "?", "bad, again": "??"}


def reply(subject: str) -> ChatOutcome:
    if subject == "late":
        return ChatFailure(reason="timeout", detail="too late", retriable=True)
    if subject == "refused":
        return ChatFailure(reason="refused_request", detail="no", retriable=False)
    return ChatAnswer(text=ANSWERS[subject], tokens_in=1, tokens_out=1, seconds=0.1)


def parse(subject: str, answer: ChatAnswer) -> int | Rejection:
    if answer.text.isdigit():
        return int(answer.text)
    return Rejection(stage="count", reason="no_number", detail=f"{subject}: {answer.text}")


def repair(request: ChatRequest, answer: ChatAnswer, rejection: Rejection) -> ChatRequest:
    assert rejection.detail == f"{request.subject}: {answer.text}"
    return request.model_copy(update={"subject": f"{request.subject}, again"})


Word = tuple[int, str]
"""Number of an input, and one of its words."""


class Counting:
    """A step that sends one request per word of its inputs and records the parsed answers."""

    def __init__(self, context: RunContext, texts: Sequence[str], *, repairs: bool) -> None:
        self.parsed: list[list[tuple[str, int]]] = []
        self.scripted = ScriptedModel(reply, in_flight=3)
        self.model = DatasetModel(context, DATASET, load_profile("builtin").rewrite.models[0])
        self.model.model = RecordedChatModel(
            self.scripted, context.store, DATASET, None, context.budget
        )
        self.step: LLMStep[Word, Word, int] = LLMStep(
            name="count",
            version="1",
            label="count",
            configuration={},
            inputs=[(number, (number, text)) for number, text in enumerate(texts)],
            request=self.request,
            parse=lambda word, answer: parse(word[1], answer),
            outputs=self.outputs,
            repair=repair if repairs else None,
        )

    def request(self, inputs: Sequence[Word]) -> Iterable[list[Ask[Word]] | WorkResult]:
        for number, text in inputs:
            if text == "-":
                yield WorkResult(number)
            else:
                yield [Ask((number, word), request_about(word)) for word in text.split()]

    def outputs(self, answers: Sequence[Sequence[Parsed[Word, int]]]) -> list[WorkResult]:
        self.parsed += [[(one.subject[1], one.value) for one in found] for found in answers]
        return [WorkResult(found[0].subject[0]) for found in answers]


def request_about(word: str) -> ChatRequest:
    return ChatRequest(purpose="count", prompt="p", prompt_digest="d", subject=word)


@pytest.fixture
def context(sqlite_store: Store, tmp_path: Path) -> RunContext:
    return context_of(sqlite_store, tmp_path)


def test_a_rejected_answer_is_requested_once_more(context: RunContext) -> None:
    counting = Counting(context, ["two one", "-", "odd", "bad", "one bad"], repairs=True)
    report = run_llm_step(counting.model, counting.step)
    assert counting.parsed == [[("two", 2), ("one", 1)], [("odd", 3)]]
    assert (report.done, dict(report.rejected)) == (3, {"no_number": 2})
    assert [one.detail for one in quarantined(context.store, DATASET)] == ["bad: ??"] * 2
    assert sorted(counting.scripted.sent) == sorted(
        ["two", "one", "odd", "bad", "odd, again", "bad, again"]
    )


def test_transient_failures_are_deferred_and_stop_the_run(context: RunContext) -> None:
    counting = Counting(context, ["one", "late", "refused"], repairs=True)
    with pytest.raises(ModelError, match=r"did not answer \(1 timeout\); timeout: too late"):
        run_llm_step(counting.model, counting.step)
    assert counting.parsed == [[("one", 1)]]
    again = Counting(context, ["one", "two", "refused"], repairs=True)
    report = run_llm_step(again.model, again.step)
    assert (again.parsed, report.already_done) == ([[("two", 2)]], 2)


def test_refusals_of_every_request_count_as_misconfiguration_and_are_retried(
    context: RunContext,
) -> None:
    texts = ["refused"] * 3
    with pytest.raises(ModelError, match=r"3 misconfigured\); misconfigured: no; .*fix the settin"):
        run_llm_step(*step_of(context, texts))
    assert list(quarantined(context.store, DATASET)) == []
    report = run_llm_step(*step_of(context, ["one", "refused", "refused"]))
    assert (report.done, dict(report.rejected)) == (1, {"refused_request": 2})
    again = run_llm_step(*step_of(context, ["one", "refused", "refused", *texts]))
    assert dict(again.rejected) == {"refused_request": 3}, "the model has answered before"


def test_refusals_that_arrive_before_the_answers_remain_refusals(context: RunContext) -> None:
    """Refusals are quicker; the answers in flight are awaited before the rest is sent."""
    scripted = ScriptedModel(lambda subject: reply("one" if int(subject) < 9 else "refused"), 40)
    model = RecordedChatModel(scripted, context.store, DATASET, None, context.budget)
    found = ask(model, (request_about(str(number)) for number in range(60)))
    assert sorted(found) == list(range(60))
    assert {at for at, one in found.items() if isinstance(one, ChatAnswer)} == set(range(9))


def step_of(
    context: RunContext, texts: Sequence[str]
) -> tuple[DatasetModel, LLMStep[Any, Any, Any]]:
    counting = Counting(context, texts, repairs=False)
    return counting.model, counting.step
