"""Where a training runs: device, precision, processes, by way of accelerate."""

from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from torch import cuda, distributed

from models.torch_device import torch_device
from schemas.cfam import CfamTraining
from schemas.errors import ConfigurationError


def accelerator_for(settings: CfamTraining) -> Accelerator:
    """The accelerator of this process; under `accelerate launch` one of several.

    Raises:
        ModelError: this machine has no such device.
        ConfigurationError: fp16 without a GPU, or a batch that the processes cannot share.
    """
    device = torch_device(settings.device)
    _forget_last_accelerator()
    if device.type == "cuda" and device.index is not None:
        cuda.set_device(device)
    on_cpu = device.type == "cpu"
    if on_cpu and settings.precision == "fp16":
        raise ConfigurationError('precision = "fp16" needs a GPU; wanted "bf16" or "no" on the CPU')
    accelerator = Accelerator(mixed_precision=settings.precision, cpu=on_cpu)
    if settings.schedule.batch_pairs % accelerator.num_processes:
        raise ConfigurationError(
            f"schedule.batch_pairs is for all processes together and must be a multiple of "
            f"{accelerator.num_processes}, the number of them; got {settings.schedule.batch_pairs}"
        )
    return accelerator


def _forget_last_accelerator() -> None:
    """Lets a second training in one process have another precision or device.

    accelerate keeps the first one's for the life of the process and refuses others.
    """
    if not distributed.is_initialized():
        AcceleratorState._reset_state()
        PartialState._reset_state()
        GradientState._reset_state()


def describe(accelerator: Accelerator) -> str:
    """The kind of device and how many processes have one, for the record: `4 × cuda`."""
    return f"{accelerator.num_processes} × {accelerator.device.type}"
