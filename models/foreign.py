"""Models of plugins: what they return is checked, and what they raise is named.

Faults of the world are tried again.

A plugin's model is a class that is made with its specification. The specification states its name
and revision, so that provenance does not depend on the plugin.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from PIL import Image
from pydantic import BaseModel, ValidationError

from loupe.models.adapter import Adapter, SpecT, always
from loupe.models.chat import RetryingModel, Sender
from loupe.models.embedding import Vectors
from loupe.models.image_search import PausingSearch
from loupe.models.retrying import backoff
from loupe.models.tracking.detector import Detections, Frame, Pixels
from loupe.schemas.chat import (
    RAISED,
    WRONG_RETURN,
    ChatAnswer,
    ChatFailure,
    ChatImage,
    ChatOutcome,
    ChatRequest,
)
from loupe.schemas.content_filter import PluginContentFilter
from loupe.schemas.embedding import PluginEmbedder
from loupe.schemas.errors import LoupeError, ModelError
from loupe.schemas.image_edit import (
    EditedPicture,
    EditFailure,
    EditOutcome,
    EditRequest,
    PluginEditor,
)
from loupe.schemas.image_search import PluginSearch, SearchAnswer, SearchFailure, SearchOutcome
from loupe.schemas.plugins import load_plugin
from loupe.schemas.profile import PluginChat
from loupe.schemas.raised import is_of_world, raised
from loupe.schemas.tracking import PluginDetector, PluginPoseModel
from loupe.schemas.validation import fault_of
from loupe.schemas.video import Body

_TRIES = 3
_LONGEST_PAUSE_SECONDS = 5.0
_SHOWN_CHARACTERS = 80
_UNREACHABLE = "unreachable"
RequestT = TypeVar("RequestT")
OutcomeT = TypeVar("OutcomeT")
T = TypeVar("T")


class Foreign(Adapter[SpecT]):
    """The model of a plugin.

    Attributes:
        kind: what it is, for messages.
    """

    kind: ClassVar[str]

    def __init__(self, spec: SpecT) -> None:
        super().__init__(spec)
        make = load_plugin("models", spec.name)
        self._model = self._called(lambda: make(spec))

    @property
    def _named(self) -> str:
        return f"the {self.kind} {self.ref}"

    def _called(self, call: Callable[[], T], may_retry: Callable[[], bool] = always) -> T:
        """Return what a call of the plugin returns; faults of the world are tried again.

        Raises:
            ModelError: it raises.
        """
        for attempt in range(_TRIES):
            try:
                return call()
            except LoupeError:
                raise
            except Exception as error:
                if attempt < _TRIES - 1 and is_of_world(error) and may_retry():
                    self._pause(backoff(attempt, _LONGEST_PAUSE_SECONDS))
                    continue
                raise ModelError(self._fault(error)) from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def _fault(self, error: Exception) -> str:
        forms = (ChatAnswer, ChatFailure, EditedPicture, EditFailure, SearchAnswer, SearchFailure)
        tried = f" in each of {_TRIES} tries" if is_of_world(error) else ""
        return f"{self._named} raised {raised(error, *forms)}{tried}"

    def _wrong(self, method: str, wanted: str, got: object) -> ModelError:
        shown = f"{type(got).__name__} ({got!r:.{_SHOWN_CHARACTERS}})"
        return ModelError(f"{method} of {self._named} must return {wanted}; got {shown}")


class ForeignEmbedder(Foreign[PluginEmbedder]):
    """An embedder with `embed_images` and `embed_texts`; rows may have any length above zero."""

    kind = "embedder"

    @cached_property
    def dimension(self) -> int:
        """The length of a vector."""
        return int(self.embed_texts(["any"]).shape[1])

    def embed_images(self, images: Sequence[Image.Image]) -> Vectors:
        """Return a vector of unit length for each RGB image, of shape (n, d).

        Raises:
            ModelError: the plugin raises, or returns something else.
        """
        return self._rows("embed_images", images)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Return a vector of unit length for each text, of shape (n, d).

        Raises:
            ModelError: the plugin raises, or returns something else.
        """
        return self._rows("embed_texts", texts)

    def _rows(self, method: str, inputs: Sequence[Any]) -> Vectors:
        rows = self._called(
            lambda: np.asarray(getattr(self._model, method)(inputs), dtype=np.float32)
        )
        wanted = len(inputs)
        if rows.ndim != 2 or len(rows) != wanted:
            raise ModelError(
                f"{method} of {self._named} must return a row for each of {wanted:,} inputs, of "
                f"shape ({wanted}, d); its shape is {rows.shape}"
            )
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise ModelError(f"{method} of {self._named} returned a row that is zero or not finite")
        scaled: Vectors = rows / lengths
        return scaled


class ForeignDetector(Foreign[PluginDetector]):
    """A person detector with `detect`."""

    kind = "detector"

    def detect(self, frame: Frame) -> Detections:
        """Return the people in a frame, in decreasing order of score.

        Raises:
            ModelError: the plugin raises, or returns something else.
        """
        found = self._called(lambda: self._model.detect(frame))
        if not isinstance(found, Detections):
            raise self._wrong("detect", "Detections(boxes_xyxy, scores, embeddings)", found)
        boxes, scores, vectors = self._called(lambda: _arrays(found))
        shapes = f"boxes_xyxy {boxes.shape}, scores {scores.shape}"
        if scores.ndim != 1 or boxes.shape != (len(scores), 4):
            raise ModelError(
                f"detect of {self._named} must return boxes_xyxy of shape (n, 4) and scores of "
                f"shape (n,); got {shapes}"
            )
        if vectors is not None and (vectors.ndim != 2 or len(vectors) != len(scores)):
            raise ModelError(
                f"detect of {self._named} must return embeddings of shape (n, d), or None; got "
                f"{vectors.shape} with {shapes}"
            )
        if not (np.isfinite(boxes).all() and ((scores >= 0) & (scores <= 1)).all()):
            raise ModelError(
                f"detect of {self._named} must return finite boxes and scores from 0 to 1; frame "
                f"{frame.number:,} has others"
            )
        order = np.argsort(-scores, kind="stable")
        return Detections(boxes[order], scores[order], None if vectors is None else vectors[order])


def _arrays(found: Detections) -> tuple[Any, Any, Any]:
    vectors = found.embeddings
    return (
        np.asarray(found.boxes_xyxy, np.float32),
        np.asarray(found.scores, np.float32),
        None if vectors is None else np.asarray(vectors, np.float32),
    )


class ForeignPoseModel(Foreign[PluginPoseModel]):
    """A pose model with `body`."""

    kind = "pose model"

    def body(self, pixels: Pixels) -> Body:
        """Return the visible body in the crop of one person.

        Raises:
            ModelError: the plugin raises, or returns something else.
        """
        found: object = self._called(lambda: self._model.body(pixels))
        if not isinstance(found, Body):
            raise self._wrong("body", "a Body", found)
        return found


class ForeignContentFilter(Foreign[PluginContentFilter]):
    """A content filter with `refusal`."""

    kind = "content filter"

    def refusal(self, image: ChatImage, flags: Sequence[str]) -> str | None:
        """Return why an image may not be used; None if it may.

        Raises:
            ModelError: the plugin raises, or returns something else.
        """
        found: object = self._called(lambda: self._model.refusal(image, flags))
        if not (found is None or isinstance(found, str)):
            raise self._wrong("refusal", "a text or None", found)
        return found


class ForeignSearch(Foreign[PluginSearch]):
    """An image search with `search`; it pauses by `sleep`, which its caller may end early."""

    kind = "search"

    def __init__(self, spec: PluginSearch) -> None:
        super().__init__(spec)
        self.sleep: Callable[[float], None] = time.sleep

    def search(
        self, query: str, count: int, may_retry: Callable[[], bool] = always
    ) -> SearchOutcome:
        """Return the first `count` hits, or why there is no answer.

        Raises:
            ModelError: the plugin raises, or returns something else.
        """
        if isinstance(self._model, PausingSearch):
            self._model.sleep = self.sleep
        try:
            found: object = self._called(
                lambda: self._model.search(query, count, may_retry), may_retry
            )
        except ModelError as error:
            if not _is_of_world(error):
                raise
            return SearchFailure(reason=_UNREACHABLE, detail=str(error), retriable=True)
        if not isinstance(found, SearchAnswer | SearchFailure):
            raise self._wrong("search", "a SearchAnswer or a SearchFailure", found)
        return found

    def _pause(self, seconds: float) -> None:
        self.sleep(seconds)


def _is_of_world(error: ModelError) -> bool:
    return error.__cause__ is not None and is_of_world(error.__cause__)


class _Taken(Generic[RequestT]):
    """Requests as a plugin takes them.

    Attributes:
        left: those without an outcome yet, by position.
        count: how many were taken.
        raised: what their source raised.
        is_over: whether all were taken.
    """

    def __init__(self, requests: Iterable[RequestT]) -> None:
        self._requests = iter(requests)
        self.left: dict[int, RequestT] = {}
        self.count = 0
        self.raised: BaseException | None = None
        self.is_over = False

    def __iter__(self) -> Iterator[RequestT]:
        while not self.is_over:
            try:
                request = next(self._requests)
            except StopIteration:
                self.is_over = True
                return
            except BaseException as error:
                self.raised = error
                raise
            self.left[self.count] = request
            self.count += 1
            yield request


class _ForeignStream(Foreign[SpecT], ABC, Generic[SpecT, RequestT, OutcomeT]):
    """A model that answers a stream of requests by a method, each with its position.

    If it raises or yields something else, only what it has not answered is asked again, one by one,
    so that the fault is that of one request, and the others go on. A request that was alone without
    an answer is not asked again: the fault is its own.

    Attributes:
        method: the name of the method.
        outcomes: the classes of what it yields.
    """

    method: ClassVar[str]
    outcomes: ClassVar[tuple[type[BaseModel], ...]]

    @abstractmethod
    def _failure(self, reason: str, detail: str) -> OutcomeT:
        """Return the outcome of a request that the plugin failed on."""

    def _may_send(self, request: RequestT) -> bool:  # noqa: ARG002
        return True

    def _stream(self, requests: Iterable[RequestT]) -> Iterator[tuple[int, OutcomeT]]:
        taken = _Taken(requests)
        while not taken.is_over:
            first = taken.count  # the model counts from 0 each time
            try:
                for found in getattr(self._model, self.method)(iter(taken)):
                    position = self._place(found, first, taken.left)
                    if position is None:
                        break
                    del taken.left[position]
                    yield position, self._outcome(found, position - first)
            except LoupeError:
                raise
            except Exception as error:
                if error is taken.raised:
                    raise
                if len(taken.left) == 1 and not is_of_world(error):
                    position, _ = taken.left.popitem()
                    yield position, self._fallen(error)
            if taken.count == first:  # it takes none by itself
                next(iter(taken), None)
            for position, request in list(taken.left.items()):
                del taken.left[position]
                yield position, self._alone(request)

    def _place(self, found: Any, first: int, left: dict[int, RequestT]) -> int | None:
        """Return the request that the plugin yields something for; None if nobody can tell."""
        if isinstance(found, tuple) and found and isinstance(found[0], int):
            position = first + found[0]
            if position in left:
                return position
        return next(iter(left)) if len(left) == 1 else None

    def _outcome(self, found: Any, position: int) -> OutcomeT:
        """Return what the plugin yields for the request at this position of its stream."""
        is_pair = isinstance(found, tuple) and len(found) == 2 and found[0] == position
        outcome: Any = found[1] if is_pair else None
        if isinstance(outcome, self.outcomes):
            return outcome  # type: ignore[return-value]
        return self._not_one(found)

    def _not_one(self, found: object) -> OutcomeT:
        names = " or ".join(one.__name__ for one in self.outcomes)
        detail = (
            f"{self.method} of {self._named} must yield (position, {names}) once for each request; "
            f"for one request it gave {found!r:.{_SHOWN_CHARACTERS}}"
        )
        return self._failure(WRONG_RETURN, detail)

    def _fallen(self, error: Exception) -> OutcomeT:
        """Return the outcome of a request for which the plugin raises."""
        if is_of_world(error):
            return self._failure(_UNREACHABLE, self._fault(error))
        forms = {one.__name__: one for one in self.outcomes}
        if isinstance(error, ValidationError) and error.title in forms:
            fault = fault_of(error, forms[error.title])
            return self._failure(
                WRONG_RETURN, f"{self.method} of {self._named} made a wrong {error.title}: {fault}"
            )
        return self._failure(RAISED, self._fault(error))

    def _alone(self, request: RequestT) -> OutcomeT:
        """Return the outcome of a request that is asked alone."""

        def call() -> Any:
            found = getattr(self._model, self.method)(iter([request]))
            return list(found) if isinstance(found, Iterable) else found

        try:
            found: Any = self._called(call, partial(self._may_send, request))
        except ModelError as error:
            if isinstance(error.__cause__, Exception):
                return self._fallen(error.__cause__)
            return self._failure(RAISED, str(error))
        is_one = isinstance(found, list) and len(found) == 1
        return self._outcome(found[0], 0) if is_one else self._not_one(found)


class ForeignChatModel(_ForeignStream[PluginChat, ChatRequest, ChatOutcome]):
    """A chat model with `answer`."""

    kind = "chat model"
    method = "answer"
    outcomes = (ChatAnswer, ChatFailure)

    def __init__(self, spec: PluginChat) -> None:
        super().__init__(spec)
        self.sender = Sender()

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """Yield (position, outcome) of each request: see `ChatModel`."""
        if isinstance(self._model, RetryingModel):
            self._model.sender = self.sender
        yield from self._stream(requests)

    def _failure(self, reason: str, detail: str) -> ChatFailure:
        is_later = reason == _UNREACHABLE
        tokens = 0 if is_later else None  # what a plugin paid before its fault is not known
        return ChatFailure(
            reason=reason,
            detail=detail,
            retriable=is_later,
            tokens_in=tokens,
            tokens_out=tokens,
        )

    def _may_send(self, request: ChatRequest) -> bool:
        return self.sender.may_send(request)

    def _pause(self, seconds: float) -> None:
        with self.sender.waiting("to ask again"):
            time.sleep(seconds)


class ForeignEditor(_ForeignStream[PluginEditor, EditRequest, EditOutcome]):
    """An image editor with `edit`."""

    kind = "editor"
    method = "edit"
    outcomes = (EditedPicture, EditFailure)

    def edit(self, requests: Iterable[EditRequest]) -> Iterator[tuple[int, EditOutcome]]:
        """Yield (position, outcome) of each request."""
        yield from self._stream(requests)

    def _failure(self, reason: str, detail: str) -> EditFailure:
        return EditFailure(reason=reason, detail=detail, retriable=reason == _UNREACHABLE)
