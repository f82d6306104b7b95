"""Chat models that are loaded on first use."""

from collections.abc import Iterable, Iterator

import pytest

from loupe.models import registry
from loupe.models.registry import OnDemandChatModel
from loupe.schemas.chat import ChatAnswer, ChatOutcome, ChatRequest
from loupe.schemas.profile import ChatModelSpec, VllmChat

SMALL = VllmChat(provider="vllm", name="small", revision="1")
LARGE = VllmChat(provider="vllm", name="large", revision="1")
REQUEST = ChatRequest(purpose="rewrite", prompt="Say something.", prompt_digest="0" * 64)


class Model(OnDemandChatModel):
    """Answers with its name, and records when it is loaded and closed."""

    def __init__(self, spec: ChatModelSpec, events: list[str]) -> None:
        super().__init__(spec)
        self._events = events
        events.append(f"{self.ref.name} loaded")

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        for position, _ in enumerate(requests):
            yield position, ChatAnswer(text=self.ref.name, tokens_in=1, tokens_out=1, seconds=0)

    def close(self) -> None:
        self._events.append(f"{self.ref.name} closed")


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(registry, "build_chat_model", lambda spec: Model(spec, found))
    monkeypatch.setattr(registry, "_loaded", [])
    return found


def test_a_model_without_requests_is_not_loaded(events: list[str]) -> None:
    assert list(OnDemandChatModel(SMALL).answer([])) == []
    assert events == []


def test_the_previous_model_is_closed_and_equal_ones_are_shared(events: list[str]) -> None:
    for spec in (SMALL, SMALL.model_copy(), LARGE, SMALL):
        outcomes = list(OnDemandChatModel(spec).answer([REQUEST, REQUEST]))
        assert [position for position, _ in outcomes] == [0, 1]
        assert {outcome.text for _, outcome in outcomes if isinstance(outcome, ChatAnswer)} == {
            spec.name
        }
    assert events == [
        "small loaded", "small closed", "large loaded", "large closed", "small loaded",
    ]  # fmt: skip
