"""The device that a model runs on, from the word in a profile."""

from typing import TYPE_CHECKING

from schemas.errors import ModelError

if TYPE_CHECKING:
    import torch


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
