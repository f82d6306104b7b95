"""The common part of models that are built from a specification."""

from typing import Any, Generic, TypeVar

from schemas.chat import ModelRef, NamedModel
from schemas.errors import ModelError

SpecT = TypeVar("SpecT", bound=NamedModel)


class Adapter(Generic[SpecT]):
    """A model that its specification names and parametrizes."""

    def __init__(self, spec: SpecT) -> None:
        self._spec = spec

    @property
    def ref(self) -> ModelRef:
        """Name and revision as the specification states them; they are what is loaded or asked."""
        return self._spec.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """The values that, with model and request, determine an answer."""
        return self._spec.parameters


class FrameAdapter(Adapter[SpecT]):
    """A person detector that remembers no earlier frames."""

    def reset(self) -> None:
        """Do nothing: earlier frames are not remembered."""

    def state(self) -> bytes:
        """Return an empty state: earlier frames are not remembered."""
        return b""

    def restore(self, state: bytes) -> None:
        """Accept only the empty state.

        Raises:
            ModelError: the state is that of another detector.
        """
        if state:
            raise ModelError(f"{self.ref} has no state; got {len(state)} bytes of state")
