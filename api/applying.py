"""Applies the function of a step to stored entities: values in, entities and rejections out."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Protocol

import numpy as np
from PIL import Image as Pillow

from loupe.api.parts import originals_of
from loupe.api.references import Reference
from loupe.api.signatures import Signature
from loupe.api.values import Caption, Crop, Image, Rejection, UnansweredError
from loupe.db.entities import (
    NewDecision,
    NewEntity,
    StoredEntity,
    WorkResult,
    new_entity,
)
from loupe.db.store import Store
from loupe.flows.engine.embedding import put_picture
from loupe.flows.engine.engines import ENDS_ITS_PROCESS
from loupe.flows.engine.programs import BlobProgram
from loupe.flows.engine.rejections import images_of, naming
from loupe.flows.engine.report import Deferred, StageResult
from loupe.flows.engine.scope import Scope
from loupe.schemas import records
from loupe.schemas.base import EntityRecord
from loupe.schemas.chat import RAISED, WRONG_RETURN, NamedModel
from loupe.schemas.errors import LoupeError
from loupe.schemas.faces import Faces
from loupe.schemas.provenance import Role
from loupe.schemas.raised import is_of_world, raised
from loupe.sources.annotations import Field, FieldError, checked_caption
from loupe.sources.records import DEFAULT_OPTIONS

FAULTS = (RAISED, WRONG_RETURN, ENDS_ITS_PROCESS)
"""The reasons of rejections for which the step is to blame, not the record."""
_TRIES = 3
_HIGHEST = (1 << 63) - 1  # of the numbers in a release
_SUFFIXES = {"image/jpeg": ".jpg", "image/webp": ".webp"}


class Applicable(Protocol):
    """What is applied: a step, as far as its function needs it."""

    name: str
    signature: Signature

    @property
    def batch(self) -> int | None:
        """The number of values that the function takes at once; None for one at a time."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""


class Item(NamedTuple):
    """An entity with the image that it is about, and the texts of the source about that.

    It is no input if the step, or one after it, made it: then it has no result.
    """

    entity: StoredEntity
    image: StoredEntity | None
    texts: tuple[str, ...]
    is_input: bool


@dataclass(frozen=True)
class Applied(BlobProgram):
    """The work of a step on the entities of a dataset.

    Attributes:
        step: the step, or where other processes find it.
        name: the name of the step.
        dataset: the dataset.
        author: the author of captions that the step writes.
        specs: the models that its function asks for, by parameter; chat models are in `models`.
        build: builds the other models.
        parameters: the values of its other parameters.
        scope: which entities are its inputs, and how its results and decisions are marked.
        engine: "processes" or "ray" if its function runs outside this process.
    """

    seconds = 0.02

    step: Applicable | Reference
    name: str
    dataset: str
    author: str
    specs: Mapping[str, NamedModel]
    build: Callable[[type, NamedModel], Any]
    parameters: Mapping[str, Any]
    scope: Scope
    cpus: float = 1.0  # type: ignore[misc]
    gpus: float = 0.0  # type: ignore[misc]
    engine: str = ""  # type: ignore[misc]
    chats: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def stage(self) -> str:  # type: ignore[override]
        """The name of the step in rejections."""
        return self.name

    def opened(self, chats: Mapping[str, Any]) -> "Applied":
        """Return it with chat models, and with the other models loaded."""
        applied = replace(self, chats=chats)
        applied.open()
        return applied

    @property
    def function(self) -> Applicable:
        """The step."""
        if isinstance(self.step, Reference):
            return self.step.resolve()  # type: ignore[no-any-return]
        return self.step

    def open(self) -> None:
        """Load the models."""
        models = {
            name: self.build(self.function.signature.models[name], spec)
            for name, spec in self.specs.items()
            if name not in self.chats
        }
        self.__dict__["_models"] = {**models, **self.chats}

    def prepare(self, inputs: Sequence[StoredEntity], reader: Store) -> list[Item]:  # type: ignore[override]
        """Return the inputs with their images and the texts of the source about these."""
        images = images_of(reader, inputs)
        texts = originals_of(reader, list(images.values()))
        wanted = self.scope.inputs(reader, inputs)
        items = []
        for one in inputs:
            image = images.get(one.id)
            about = texts[image.id] if image else []
            said = tuple(text.record(records.Caption).text for text in about)
            items.append(Item(one, image, said, one.id in wanted))
        return items

    def work(self, items: Sequence[Item]) -> list[WorkResult]:  # type: ignore[override]
        """Return the result of each input, in order."""
        return list(self.results(items))  # type: ignore[arg-type]

    def results(self, items: Sequence[Item]) -> list[StageResult]:
        """Return the result of each input, in order; one that the world fails is left for later."""
        found: dict[int, StageResult] = {}
        asked = []
        for item in items:
            if not item.is_input:
                found[item.entity.seq] = WorkResult(item.entity.seq, passed_over=True)
            else:
                asked.append(item)
        size = self.function.batch or 1
        for start in range(0, len(asked), size):
            batch = asked[start : start + size]
            values = [self._value(item) for item in batch]
            outcomes = self._called(values if self.function.batch else values[0], len(batch))
            for item, value, outcome in zip(batch, values, outcomes, strict=True):
                found[item.entity.seq] = self._result(item, value, outcome)
        return [found[item.entity.seq] for item in items]

    def gathered(self, number: int, members: Sequence[StoredEntity], reader: Store) -> StageResult:
        """Return the result of a group, under its number."""
        items = self.prepare(members, reader)
        (outcome,) = self._called([self._value(item) for item in items], 1)
        if isinstance(outcome, _Unanswered):
            return Deferred(number, outcome.reason, outcome.detail)
        parents = [(Role.DERIVED_FROM, one.id) for one in members]
        made = self._made(items[0], outcome, parents)
        if isinstance(made, records.Rejection):
            rejection = naming(made, items[0].entity, items[0].image)
            gone = self._gone(members, made.reason) if Crop in self.function.signature.gives else ()
            return WorkResult(number, decisions=gone, rejection=rejection)
        return WorkResult(number, entities=made, decisions=self._replaced(members, made))

    def _value(self, item: Item) -> Any:
        """Return an input as its function takes it."""
        image = item.image and Image.of(item.image, self.blobs_url, item.texts)
        takes = self.function.signature.takes
        if takes is Image:
            return image
        if takes is Caption:
            return Caption.of(item.entity, image)
        return item.entity.record(takes)

    def _called(self, value: Any, count: int) -> list[Any]:
        """Return what the function returns for a value, or for each of a batch of values.

        What it raises becomes a rejection, and faults of the world are tried again.
        """
        function = self.function
        for attempt in range(_TRIES):
            try:
                outcome = function(value, **self.__dict__["_models"], **self.parameters)
                break
            except LoupeError:
                raise
            except UnansweredError as error:
                if error.is_temporary:
                    return [_Unanswered(error.reason, str(error))] * count
                answer = {"answer": error.answer} if error.answer else {}
                return [self._rejection(error.reason, str(error), **answer)] * count
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the function is the user's
                if is_of_world(error):
                    if attempt == _TRIES - 1:
                        return [_Unanswered("unreachable", self._said(error))] * count
                    continue
                return [self._rejection(RAISED, self._said(error))] * count
        if not function.batch:
            return [outcome]
        if not isinstance(outcome, list) or len(outcome) != count:
            shown = f"{len(outcome)} values" if isinstance(outcome, list) else _type_of(outcome)
            detail = f"It returned {shown} for a batch of {count}; wanted a list of {count}."
            return [self._rejection(WRONG_RETURN, detail)] * count
        return outcome

    def _said(self, error: BaseException) -> str:
        return raised(error, *self.function.signature.gives)

    def _rejection(self, reason: str, detail: str, **context: str) -> records.Rejection:
        return records.Rejection.of(self.name, reason, detail, **context)

    def _result(self, item: Item, value: Any, outcome: Any) -> StageResult:
        seq = item.entity.seq
        if isinstance(outcome, _Unanswered):
            return Deferred(seq, outcome.reason, outcome.detail)
        if self.function.signature.is_filter:
            outcome = self._judged(value, outcome)
        if outcome is True:
            return WorkResult(seq)
        made = self._made(item, outcome, self._parents(item))
        if isinstance(made, records.Rejection):
            return self.refused(item.entity, made, item.image)
        return WorkResult(seq, entities=made, decisions=self._replaced([item.entity], made))

    def _replaced(
        self, inputs: Sequence[StoredEntity], made: Sequence[NewEntity]
    ) -> tuple[NewDecision, ...]:
        """Return the decisions on inputs in whose place images were made, if any were."""
        if not any(one.kind == records.Image.kind for one in made):
            return ()
        return self._gone(inputs, f"replaced by what {self.name} made of it")

    def _gone(self, inputs: Sequence[StoredEntity], reason: str) -> tuple[NewDecision, ...]:
        return tuple(NewDecision(one.id, "reject", self.scope.agent, reason) for one in inputs)

    def _judged(self, value: Any, outcome: Any) -> Any:
        """Return what a filter says of a value: True, or why it is refused."""
        if isinstance(outcome, np.bool_):
            outcome = bool(outcome)
        if outcome is True or (outcome is not False and outcome == value):
            return True
        if outcome is None and not self.function.signature.gives_none:
            detail = "It returned None, as a function without return does; a filter says which."
            return self._rejection(WRONG_RETURN, detail)
        if not outcome:
            return self._rejection("filtered", f"The step {self.name} does not keep it.")
        return outcome

    def refused(
        self,
        input_: StoredEntity,
        rejection: records.Rejection,
        image: StoredEntity | None = None,
    ) -> WorkResult:
        """Return the rejection of an input, which leaves the dataset if the step decides."""
        rejection = naming(rejection, input_, image)
        signature = self.function.signature
        if not (signature.is_filter or Crop in signature.gives):
            return WorkResult(input_.seq, rejection=rejection)
        gone = self._gone([input_], rejection.reason)
        return WorkResult(input_.seq, decisions=gone, rejection=rejection)

    def _parents(self, item: Item) -> list[tuple[Role, str]]:
        return [(Role.DERIVED_FROM, item.entity.id)]

    def _made(
        self, item: Item, outcome: Any, parents: Sequence[tuple[Role, str]]
    ) -> tuple[NewEntity, ...] | records.Rejection:
        """Return what a function returned as entities, or why it cannot be used."""
        if isinstance(outcome, Rejection):
            return outcome.by(self.name)
        if isinstance(outcome, records.Rejection):
            return outcome
        signature = self.function.signature
        is_listed = signature.gives_list and isinstance(outcome, list | tuple)
        values = list(outcome) if is_listed else [outcome]
        refused = [one for one in values if isinstance(one, Rejection)]
        kept = [one for one in values if not isinstance(one, Rejection) and one is not None]
        if wrong := next((one for one in kept if type(one) not in signature.gives), None):
            wanted = " or ".join(one.__name__ for one in signature.gives) or "bool"
            if signature.gives_list and not is_listed:
                wanted = f"list[{wanted}]"
            detail = f"It returned {_type_of(wrong)}; its types say {wanted}."
            if signature.is_filter and isinstance(wrong, signature.takes):
                made = signature.takes.__name__
                detail = (
                    f"It returned another {made} than it took, and its types say that it keeps or "
                    f"drops; a step that makes new ones returns list[{made}]."
                )
            return self._rejection(WRONG_RETURN, detail)
        if not kept:
            if refused:
                return refused[0].by(self.name)
            return self._rejection("nothing_made", f"The step {self.name} made nothing of it.")
        try:
            return tuple(self._entity(item, one, at, parents) for at, one in enumerate(kept))
        except FieldError as fault:
            return self._rejection(fault.reason, f"It returned a caption of which {fault.detail}.")
        except (TypeError, ValueError) as error:
            detail = f"What it returned cannot be stored: {self._said(error)}"
            return self._rejection(WRONG_RETURN, detail)

    def _entity(
        self, item: Item, value: Any, place: int, parents: Sequence[tuple[Role, str]]
    ) -> NewEntity:
        links = [*parents, *self.scope.links]
        if isinstance(value, Caption):
            return self._caption(item, value, place, links)
        if isinstance(value, Crop):
            return self._crop(item, value, place, links)
        record: EntityRecord = value
        for name, one in record:
            if isinstance(one, int) and not -_HIGHEST <= one <= _HIGHEST:
                raise ValueError(f"{name} must be a number of at most 64 bits; got {one:.3e}")
        group = item.image.id if item.image else item.entity.group
        return new_entity(record, self.dataset, parents=links, split=item.entity.split, group=group)

    def _caption(
        self, item: Item, value: Caption, place: int, links: list[tuple[Role, str]]
    ) -> NewEntity:
        image = item.image
        if image is None:
            raise LoupeError(f"step {self.name!r}: {item.entity.id} belongs to no image")
        links = [one for one in links if one != (Role.DERIVED_FROM, image.id)]
        record = records.Caption(
            source=image.record(records.Image).source,
            text=checked_caption(Field("the text", value.text), DEFAULT_OPTIONS),
            position=value.position or place,
            author=self.author,
            language=value.language,
        )
        return new_entity(
            record,
            self.dataset,
            parents=[(Role.DESCRIBES, image.id), *links],
            split=image.split,
            group=image.id,
        )

    def _crop(
        self, item: Item, value: Crop, place: int, links: list[tuple[Role, str]]
    ) -> NewEntity:
        if item.image is None:
            raise LoupeError(f"step {self.name!r}: {item.entity.id} belongs to no image")
        record = item.image.record(records.Image)
        size = (value.width_px, value.height_px)
        if (found := _size_of(value.data)) != size:
            raise ValueError(f"the data of a Crop must be an image of {size}; got {found}")
        faces: Faces = record.faces.method if record.faces else "keep"
        stored = put_picture(self.blobs, value.data, value.media_type, size, faces)
        stem = PurePosixPath(record.file_path).with_suffix("")
        path = f"{stem}-{value.name or place}{_SUFFIXES.get(value.media_type, '.png')}"
        identity = value.identity or f"{record.identity}-{value.name or place}"
        made = records.Image(
            source=record.source,
            identity=identity,
            split=record.split,
            file_path=path,
            source_sha256=stored.sha256,
            attribution=record.attribution,
            **{name: getattr(stored, name) for name in records.BYTES_OF_PICTURE},
        )
        return new_entity(
            made,
            self.dataset,
            parents=links,
            split=record.split,
            group=f"{record.source}/{identity}",
        )


class _Unanswered(NamedTuple):
    """Why an input has no result yet."""

    reason: str
    detail: str


def _size_of(data: bytes) -> tuple[int, int] | None:
    """Return the width and height in the header of an image file; None if it is none."""
    try:
        with Pillow.open(io.BytesIO(data)) as found:
            return found.size
    except (OSError, TypeError):
        return None


def _type_of(value: Any) -> str:
    return f"{type(value).__name__} ({value!r:.60})"
