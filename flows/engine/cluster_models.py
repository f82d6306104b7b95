"""Models whose weights are in actors of a Ray cluster; only the run uses the store."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import prod
from typing import Any, Generic, TypeVar

from loupe.flows.engine.programs import Computation
from loupe.flows.engine.ray import open_ray
from loupe.models.adapter import Adapter, SpecT
from loupe.models.chat import ChatModel
from loupe.models.image_editor import ImageEditor
from loupe.models.profiles.settings import Settings
from loupe.models.registry import build_chat_model, build_image_editor
from loupe.schemas.chat import ChatFailure, ChatOutcome, ChatRequest
from loupe.schemas.grouping import batches
from loupe.schemas.image_edit import EditFailure, EditOutcome, EditRequest, ImageEditorSpec
from loupe.schemas.limited import LimitExceededError, WorkerEndedError
from loupe.schemas.processes import ordered_map
from loupe.schemas.profile import ChatModelSpec, VllmChat

ItemT = TypeVar("ItemT")
LabelT = TypeVar("LabelT")
ResultT = TypeVar("ResultT")
Lost = LimitExceededError | WorkerEndedError
_GPUS_BY_ARGUMENT = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


@dataclass(frozen=True)
class ModelWork(Computation[ItemT, ResultT]):
    """What a model makes of items.

    Attributes:
        stage: the name of the work in messages.
        spec: the model.
        build: loads it, once per process.
        ask: returns the result of each item; both are functions at module level.
    """

    stage: str  # type: ignore[misc] # of each
    spec: Any
    build: Callable[[Any], Any]
    ask: Callable[[Any, Sequence[ItemT]], list[ResultT]]

    @property
    def gpus(self) -> float:  # type: ignore[override]
        """One GPU if the profile places the model on one; as many as vLLM divides it among."""
        if isinstance(self.spec, VllmChat):
            arguments = self.spec.engine_arguments
            return float(prod(int(arguments.get(name, 1)) for name in _GPUS_BY_ARGUMENT))
        return float(getattr(self.spec, "device", "cpu").startswith("cuda"))

    def open(self) -> None:
        """Load the model."""
        _ = self._model

    @cached_property
    def _model(self) -> Any:
        return self.build(self.spec)

    def work(self, items: Sequence[ItemT]) -> list[ResultT]:
        """Return the result of each item; the model works on all of them at once."""
        return self.ask(self._model, items)


def in_actors(
    settings: Settings,
    work: Computation[ItemT, ResultT],
    groups: Iterator[tuple[Sequence[LabelT], Sequence[ItemT]]],
) -> Iterator[tuple[Sequence[LabelT], list[ResultT] | Lost]]:
    """Yield the labels and results of each group, in order, or the fault of its actors.

    A group whose actor is lost is sent to another one. Actors are started only if there is a group.
    """
    first = next(groups, None)
    if first is None:
        return
    with open_ray(settings, work) as actors:

        def done(
            group: tuple[Sequence[LabelT], Sequence[ItemT]],
        ) -> tuple[Sequence[LabelT], list[ResultT] | Lost]:
            labels, items = group
            try:
                return labels, actors.work(items)
            except (LimitExceededError, WorkerEndedError) as fault:
                return labels, fault

        yield from ordered_map(done, chain([first], groups), actors.threads)


class ClusterModel(Adapter[SpecT], Generic[SpecT, ItemT, ResultT]):
    """Answers in actors, each with the model and a group of requests at a time; thread-safe.

    What an actor has not returned was not stored.
    """

    def __init__(
        self,
        work: ModelWork[ItemT, ResultT],
        settings: Settings,
        group: int,
        failure: Callable[[str], ResultT],
    ) -> None:
        super().__init__(work.spec)
        self._work = work
        self._settings = settings
        self._group = group
        self._failure = failure

    def answer(self, requests: Iterable[ItemT]) -> Iterator[tuple[int, ResultT]]:
        """(position, outcome) of each request, group by group; a failure if no actor survives."""
        numbered = batches(enumerate(requests), self._group)
        groups = (_apart(group) for group in numbered)
        for positions, found in in_actors(self._settings, self._work, groups):
            if isinstance(found, Lost):
                detail = f"a group of {len(positions)} requests {found}"
                found = [self._failure(detail)] * len(positions)
            yield from zip(positions, found, strict=True)

    edit = answer


def _apart(numbered: list[tuple[int, ItemT]]) -> tuple[list[int], list[ItemT]]:
    return [position for position, _ in numbered], [item for _, item in numbered]


def chat_model(spec: ChatModelSpec, settings: Settings, group: int) -> ChatModel:
    """Return a chat model in actors, which answer groups of at most so many requests."""
    work = ModelWork("chat", spec, build_chat_model, _answers)
    return ClusterModel(work, settings, group, _unanswered)


def _answers(model: ChatModel, requests: Sequence[ChatRequest]) -> list[ChatOutcome]:
    outcomes = dict(model.answer(requests))
    return [outcomes[position] for position in range(len(requests))]


def _unanswered(detail: str) -> ChatOutcome:
    return ChatFailure(reason="unreachable", detail=detail, retriable=True)


def image_editor(spec: ImageEditorSpec, settings: Settings, group: int = 1) -> ImageEditor:
    """Return an editor in actors, which make groups of at most so many edits."""
    work = ModelWork("edit", spec, build_image_editor, _edits)
    return ClusterModel(work, settings, group, _unedited)


def _edits(model: ImageEditor, requests: Sequence[EditRequest]) -> list[EditOutcome]:
    return [outcome for _, outcome in model.edit(requests)]


def _unedited(detail: str) -> EditOutcome:
    return EditFailure(reason="unreachable", detail=detail, retriable=True)
