"""Networks of torch: the device they run on, and embeddings batch by batch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from models.embedding import Vectors
from schemas.chat import ModelRef
from schemas.errors import ModelError

if TYPE_CHECKING:
    import torch


# The device that a model runs on, from the word in a profile.


def torch_device(name: str) -> "torch.device":
    """`auto` is CUDA where it is there, else the CPU; other names are torch's (`cpu`, `cuda:1`).

    Raises:
        ModelError: torch knows no such device, or this machine has none.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(1, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"the device {name!r} cannot be used: {reason}") from error


# Embeds with a network of torch: batch by batch, to rows of unit length on the CPU.

_Input = TypeVar("_Input")
_LOADING_FAULTS = (
    ImportError,  # of what a tokenizer needs, say
    OSError,
    ValueError,
    KeyError,
    RuntimeError,
    TypeError,
    AttributeError,
)


class Batches(NamedTuple):
    """How the inputs of `model` are cut up, and how long its vectors are."""

    model: ModelRef
    size: int
    dimension: int

    def embed(
        self, inputs: Sequence[_Input], network: Callable[[Sequence[_Input]], Any]
    ) -> Vectors:
        """A unit row for each of `inputs`, in order, of shape (n, dimension).

        Args:
            inputs: images or texts.
            network: gives a tensor of shape (batch, dimension) for a batch of inputs.

        Raises:
            ModelError: a batch does not fit into memory, or what comes out is no direction.
        """
        import torch

        rows = np.empty((len(inputs), self.dimension), np.float32)
        for start in range(0, len(inputs), self.size):
            batch = inputs[start : start + self.size]
            try:
                with torch.inference_mode():
                    vectors = network(batch).float()
                    vectors = vectors / vectors.norm(dim=1, keepdim=True)
            except torch.OutOfMemoryError as error:
                raise ModelError(
                    f"{len(batch)} inputs do not fit into memory at once; "
                    f"lower batch_size ({self.size}) of {self.model}"
                ) from error
            rows[start : start + len(batch)] = vectors.cpu().numpy()
        if not np.isfinite(rows).all():
            place = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ModelError(
                f"{self.model} gives no direction for input {place}: its vector is zero or NaN; "
                f"a wider dtype may help"
            )
        return rows


@contextmanager
def loading_faults(library: str, model: ModelRef) -> Iterator[None]:
    """Turns what libraries raise while they load a model into one sentence.

    Raises:
        ModelError: the model could not be loaded.
    """
    try:
        yield
    except _LOADING_FAULTS as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(f"{library} could not load {model}: {reason}") from error
