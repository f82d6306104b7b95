"""Rows of all processes together, so that losses over a batch see all of it on every process."""

from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd import Function


def gathered(rows: Tensor) -> Tensor:
    """The rows of all processes, in their order; of one process alone, the rows themselves.

    Gradients flow back to the rows of every process. Where all processes compute one loss from
    gathered rows, each gets as many times the gradient of its own rows as there are processes, of
    which `DistributedDataParallel` takes the mean: the gradient of that loss over the whole batch.

    Args:
        rows: (B, …), as many on every process.
    """
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return rows
    together: Tensor = _GatheredRows.apply(rows)  # type: ignore[no-untyped-call]
    return together


class _GatheredRows(Function):
    @staticmethod
    def forward(_: Any, rows: Tensor) -> Tensor:
        parts = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone(memory_format=torch.contiguous_format)  # it is summed in place
        distributed.all_reduce(total)
        return total.chunk(distributed.get_world_size())[distributed.get_rank()]
