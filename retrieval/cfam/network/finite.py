"""Stops a training whose losses or gradients are no finite numbers, before weights are changed."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from schemas.errors import TrainingError

_NAMED_IMAGES = 8


class Measured(NamedTuple):
    """What a step came to: the losses and the images of each batch that it accumulated.

    `gradient_norm` is None where fp16's scaler looks after it: such gradients overflow now and
    then, and the step is left out.
    """

    step: int
    epoch: int
    losses: Sequence[dict[str, float]]
    gradient_norm: float | None
    images: Sequence[Sequence[Path]]


def require_finite(measured: Measured, last: Path) -> None:
    """Does nothing where all is finite.

    Raises:
        TrainingError: naming the loss, the step, the images of the batch, and where the last
            checkpoint lies, which stays as it is.
    """
    for losses, images in zip(measured.losses, measured.images, strict=True):
        for name, value in losses.items():
            if not math.isfinite(value):
                raise _error(f"the loss {name!r} is {value}", measured, images, last)
    norm = measured.gradient_norm
    if norm is not None and not math.isfinite(norm):
        images = [path for batch in measured.images for path in batch]
        raise _error(f"the norm of the gradients is {norm}", measured, images, last)


def _error(what: str, measured: Measured, images: Sequence[Path], last: Path) -> TrainingError:
    names = ", ".join(path.name for path in images[:_NAMED_IMAGES])
    more = f" and {len(images) - _NAMED_IMAGES} more" if len(images) > _NAMED_IMAGES else ""
    kept = f"the checkpoint {last} is unchanged" if last.exists() else "there is no checkpoint yet"
    return TrainingError(
        f"{what} in step {measured.step} (epoch {measured.epoch}), over the images {names}{more}; "
        f"{kept}"
    )
