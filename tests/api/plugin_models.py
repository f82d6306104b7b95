"""What a plugin adds: a page, models that find nothing, and a model that is faulty."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import loupe
from loupe.models.adapter import Adapter, BuiltinChatModel
from loupe.models.tracking.detector import Detections, Frame, Pixels
from loupe.schemas.chat import ChatAnswer, ChatImage, ChatRequest, PluginModel
from loupe.schemas.grouping import batches
from loupe.schemas.image_search import PluginSearch, SearchAnswer
from loupe.schemas.profile import PluginChat
from loupe.schemas.video import Body

PROFILE = Path(__file__).with_name("plugin_models.toml")
"""The profile that names them, with the built-in models of drawn stills under other names."""
NAMES = (
    *("a-strategist", "an-editor", "a-search", "a-detector", "a-pose-model", "a-filter"),
    *("faulty", "sometimes-faulty", "forgetful"),
)


class WritingPage(loupe.Page):
    """A page on which a text may be changed."""


class EmptySearch(Adapter[PluginSearch]):
    """Finds nothing."""

    def search(
        self, query: str, count: int, may_retry: Callable[[], bool] = lambda: True
    ) -> SearchAnswer:
        del query, count, may_retry
        return SearchAnswer(hits=(), raw="{}", seconds=0.0)


class NoPictures(Adapter[PluginModel]):
    """Refuses every image."""

    def refusal(self, image: ChatImage, flags: Sequence[str]) -> str | None:
        return f"{image.media_type} is not allowed" if not flags else "flagged"


class EmptyDetector(Adapter[PluginModel]):
    """Sees nobody."""

    def detect(self, frame: Frame) -> Detections:
        del frame
        return Detections(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), None)


class EmptyPose(Adapter[PluginModel]):
    """Sees no keypoint."""

    def body(self, pixels: Pixels) -> Body:
        raise AssertionError(f"nobody is there, but was asked about {pixels.shape}")


class Faulty(Adapter[PluginModel]):
    """Returns or raises `value`, as a chat model only if the prompt is "bad".

    As such it takes `ahead` requests before it answers the first of them.
    """

    value: Any = None
    calls = 0
    ahead = 1
    answered: ClassVar[list[str]] = []

    def _act(self, *inputs: object) -> Any:
        del inputs
        type(self).calls += 1
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    detect = body = refusal = search = edit = _act

    def answer(self, requests: Iterator[ChatRequest]) -> Iterator[Any]:
        for group in batches(enumerate(requests), self.ahead):
            for position, request in group:
                self.answered.append(request.prompt)
                if request.prompt == "bad":
                    yield self._act()
                else:
                    yield (
                        position,
                        ChatAnswer(text=request.prompt, tokens_in=1, tokens_out=1, seconds=0.0),
                    )


class Forgetful(BuiltinChatModel[PluginChat]):
    """Chats, raises for a bad prompt, and forgets to return a text for one about nothing."""

    def text_for(self, request: ChatRequest) -> str:
        if "bad" in request.prompt:
            raise RuntimeError("no idea")
        return "Sure!" if "nothing" not in request.prompt else None  # type: ignore[return-value]


class SometimesFaulty(loupe.testing.BuiltinChatModel[PluginModel]):
    """Names a colour, except of things of which it makes a fault."""

    asked: ClassVar[list[str]] = []

    def text_for(self, request: ChatRequest) -> Any:
        self.asked.append(request.subject)
        match request.subject.rpartition(" ")[2]:
            case "raises":
                raise KeyError("no colour")
            case "prose":
                return "I would say that it is red."
            case "type":
                return '{"name": ["red", "blue"]}'
            case "number":
                return 7
            case "cut":
                return '{"name": "re'
        return '{"name": "red"}'
