"""The forecast: pending rewrites by model, with the mean tokens of calls so far."""

import pytest

from loupe.db.calls import NewCall, record_call
from loupe.db.entities import new_entity
from loupe.db.store import Store
from loupe.flows.forecast import ForecastRow
from loupe.flows.rewriting import STAGE as REWRITE
from loupe.flows.ufine3c.forecast import forecast, plan_calls
from loupe.flows.ufine3c.judging import STAGE as JUDGE
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.profile import JudgeSettings, OpenAIChat, Prices, Profile, RewriteSettings
from loupe.schemas.provenance import Role
from loupe.schemas.records import Rewrite
from tests.db.samples import DATASET, caption, store_entities

MODEL = OpenAIChat(
    provider="openai",
    name="m",
    revision="1",
    base_url="http://127.0.0.1:1/v1",
    prices=Prices(input_per_million=1_000_000, output_per_million=1_000_000),
)
PROFILE = Profile(name="p", description="p", rewrite=RewriteSettings(models=(MODEL,)))


def forecast_of(store: Store, profile: Profile) -> list[ForecastRow]:
    return forecast(store, plan_calls(DATASET, profile))


def test_before_the_first_call_tokens_are_estimated(sqlite_store: Store) -> None:
    store_entities(sqlite_store, [caption(number) for number in range(10)])
    (row,) = forecast_of(sqlite_store, PROFILE)
    assert row.calls == 10
    assert row.tokens_in > row.tokens_out > 10
    assert row.cost == row.tokens_in + row.tokens_out
    assert row.sentence.startswith("m@1: at most 10 calls, about ")


def test_the_judge_reads_every_rewrite_still_to_come(sqlite_store: Store) -> None:
    captions = [caption(number) for number in range(10)]
    proposed = Rewrite(source="s", text="A hat.", author="m@1")
    store_entities(
        sqlite_store,
        [*captions, new_entity(proposed, DATASET, parents=[(Role.REWRITE_OF, captions[0].id)])],
    )
    judge = JudgeSettings(model=MODEL.model_copy(update={"name": "judge"}))
    rewriter, judged = forecast_of(sqlite_store, PROFILE.model_copy(update={"judge": judge}))
    assert (rewriter.calls, judged.model, judged.calls) == (10, "judge@1", 11)


def test_after_calls_of_a_stage_the_forecast_uses_their_mean_tokens(sqlite_store: Store) -> None:
    store_entities(sqlite_store, [caption(number) for number in range(10)])
    failure = ChatFailure(
        reason="unreadable_answer", detail="no", retriable=False, tokens_in=None, tokens_out=None
    )
    for purpose, tokens in ((JUDGE, 500), (REWRITE, 10), (REWRITE, 30), (REWRITE, None)):
        answer = ChatAnswer(text="x", tokens_in=tokens, tokens_out=5, seconds=1)
        request = ChatRequest(purpose=purpose, prompt="p", prompt_digest="d")
        outcome: ChatOutcome = failure if tokens is None else answer
        key = f"{purpose} {tokens}"
        record_call(
            sqlite_store, NewCall(key, MODEL.ref, {}, request, outcome, DATASET, None, None)
        )
    profile = PROFILE.model_copy(update={"judge": JudgeSettings(model=MODEL)})
    rewriter, judge = forecast_of(sqlite_store, profile)
    assert (rewriter.calls, rewriter.tokens_in, rewriter.tokens_out) == (10, 200, 50)
    assert (judge.calls, judge.tokens_in) == (10, 5000)


def test_a_profile_without_rewriters_is_refused_where_texts_are_rewritten() -> None:
    with pytest.raises(ConfigurationError, match=r"profile 'p': rewrite.models is missing"):
        plan_calls("people", Profile(name="p", description="It is for pipelines."))
