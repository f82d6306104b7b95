"""The forecast: pending rewrites by model, with the mean tokens of calls so far."""

import pytest

from db.calls import NewCall, record_call
from db.store import Store
from flows.ufine3c.rewriting import forecast
from schemas.build import SourceSpec, UFine3CBuild
from schemas.chat import ChatAnswer, ChatRequest
from schemas.profile import OpenAIChat, Prices, Profile, RewriteSettings
from tests.db.samples import DATASET, caption, store_entities

MODEL = OpenAIChat(
    provider="openai",
    name="m",
    revision="1",
    base_url="http://127.0.0.1:1/v1",
    prices=Prices(input_per_million=1_000_000, output_per_million=1_000_000),
)
PROFILE = Profile(name="p", description="p", rewrite=RewriteSettings(models=(MODEL,)))


@pytest.fixture
def build() -> UFine3CBuild:
    source = SourceSpec.model_validate(
        {"name": "s", "format": "json-lines", "annotations": "x", "images": "y"}
    )
    return UFine3CBuild(dataset=DATASET, sources=(source,))


def test_an_empty_dataset_needs_no_calls(sqlite_store: Store, build: UFine3CBuild) -> None:
    (row,) = forecast(sqlite_store, build, PROFILE)
    assert (row.model, row.calls, row.tokens_in, row.tokens_out, row.cost) == ("m@1", 0, 0, 0, 0)


def test_before_the_first_call_tokens_are_estimated(
    sqlite_store: Store, build: UFine3CBuild
) -> None:
    store_entities(sqlite_store, [caption(number) for number in range(10)])
    (row,) = forecast(sqlite_store, build, PROFILE)
    assert row.calls == 10
    assert row.tokens_in > row.tokens_out > 10
    assert row.cost == row.tokens_in + row.tokens_out
    assert row.sentence.startswith("m@1: 10 calls to make, about ")


def test_after_calls_the_forecast_uses_their_mean_tokens(
    sqlite_store: Store, build: UFine3CBuild
) -> None:
    store_entities(sqlite_store, [caption(number) for number in range(10)])
    request = ChatRequest(purpose="rewrite", prompt="p", prompt_digest="d")
    for key, tokens in (("a" * 32, 10), ("b" * 32, 30)):
        answer = ChatAnswer(text="x", tokens_in=tokens, tokens_out=5, seconds=1)
        record_call(sqlite_store, NewCall(key, MODEL.ref, {}, request, answer, DATASET, None, None))
    (row,) = forecast(sqlite_store, build, PROFILE)
    assert (row.calls, row.tokens_in, row.tokens_out) == (10, 200, 50)
