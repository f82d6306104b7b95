"""From the four levels of the backbone to one fine map: iterative deep aggregation.

Attributes are named as in published checkpoints, and stand in their order.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.fairmot.network.backbone import LEVEL_CHANNELS
from models.fairmot.network.deformable import DeformableUnit


class IterativeAggregation(nn.Module):
    """Carries what is in coarse maps to the finer ones beside them, step by step.

    Step i (`proj_i`, `up_i`, `node_i`) makes map i, counted from 0, as fine as map i - 1 and adds
    what became of that one. `coarse_channels` and `factors` say of maps 1 and up how many channels
    they have and how many times coarser they are than what is added.
    """

    def __init__(
        self, channels: int, coarse_channels: Sequence[int], factors: Sequence[int]
    ) -> None:
        super().__init__()
        for step, (inputs, factor) in enumerate(zip(coarse_channels, factors, strict=True), 1):
            self.add_module(f"proj_{step}", DeformableUnit(inputs, channels))
            self.add_module(f"up_{step}", _enlargement(channels, factor))
            self.add_module(f"node_{step}", DeformableUnit(channels, channels))

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """The maps, finest first, with all but the first joined to the finer one before them."""
        joined = [maps[0]]
        for step, coarse in enumerate(maps[1:], 1):
            project, enlarge, combine = (
                self.get_submodule(f"{part}_{step}") for part in ("proj", "up", "node")
            )
            joined.append(combine(enlarge(project(coarse)) + joined[-1]))
        return joined


class LevelAggregation(nn.Module):
    """Aggregates ever more levels: first the two coarsest, in the end all four."""

    def __init__(self) -> None:
        super().__init__()
        _, stride_8, stride_16, stride_32 = LEVEL_CHANNELS
        finest, *_ = LEVEL_CHANNELS
        self.ida_0 = IterativeAggregation(stride_16, [stride_32], [2])
        self.ida_1 = IterativeAggregation(stride_8, [stride_16] * 2, [2, 2])
        self.ida_2 = IterativeAggregation(finest, [stride_8] * 3, [2, 2, 2])

    def forward(self, levels: Sequence[Tensor]) -> list[Tensor]:
        """Levels 2 to 5, finest first, to what each stage made of the coarsest: finest first."""
        maps = list(levels)
        coarsest: list[Tensor] = []
        for start, stage in ((2, self.ida_0), (1, self.ida_1), (0, self.ida_2)):
            maps[start:] = stage(maps[start:])
            coarsest.append(maps[-1])
        return coarsest[::-1]


def _enlargement(channels: int, factor: int) -> nn.ConvTranspose2d:
    """Learnt enlargement, channel by channel, that begins as a bilinear one."""
    layer = nn.ConvTranspose2d(
        channels,
        channels,
        kernel_size=2 * factor,
        stride=factor,
        padding=factor // 2,
        groups=channels,
        bias=False,
    )
    ramp = 1 - ((torch.arange(2 * factor) + 0.5) / factor - 1).abs()
    with torch.no_grad():
        layer.weight.copy_(torch.outer(ramp, ramp))
    return layer
