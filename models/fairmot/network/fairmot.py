"""The network: backbone, aggregation and four heads."""

from typing import NamedTuple

from torch import Tensor, nn

from models.fairmot.network.aggregation import IterativeAggregation, LevelAggregation
from models.fairmot.network.backbone import LEVEL_CHANNELS, Backbone

STRIDE = 4
"""Pixels of the network's input to a cell of its output."""

_HEAD_CHANNELS = 256


class HeadMaps(NamedTuple):
    """What the heads say of every cell, before anything is read out of it.

    Attributes:
        centres: (n, 1, h, w): is there the centre of a person? A logit.
        extents: (n, 4, h, w): cells from the centre to left, top, right and bottom; older networks
            (n, 2, h, w): width and height.
        embeddings: (n, d, h, w): who it is; of any length.
        offsets: (n, 2, h, w): where in the cell the centre is, x and y.
    """

    centres: Tensor
    extents: Tensor
    embeddings: Tensor
    offsets: Tensor


class FairMOTNetwork(nn.Module):
    """FairMOT on DLA-34, its parameters named and ordered as in published checkpoints.

    A fresh one is initialised as published, except that its backbone knows nothing of ImageNet.
    """

    def __init__(self, extent_channels: int = 4, embedding_size: int = 128) -> None:
        super().__init__()
        finest, stride_8, stride_16, _ = LEVEL_CHANNELS
        self.base = Backbone()
        self.dla_up = LevelAggregation()
        self.ida_up = IterativeAggregation(finest, [stride_8, stride_16], [2, 4])
        self.hm = _head(finest, 1)
        self.wh = _head(finest, extent_channels)
        self.id = _head(finest, embedding_size)
        self.reg = _head(finest, 2)
        self._initialise_biases()

    def forward(self, images: Tensor) -> HeadMaps:
        """(n, 3, h, w), RGB in [0, 1], h and w multiples of 32, to maps of h/4 x w/4 cells."""
        features = self.ida_up(self.dla_up(self.base(images)))[-1]
        return HeadMaps(self.hm(features), self.wh(features), self.id(features), self.reg(features))

    def _initialise_biases(self) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith("bias") and name.startswith(("wh.", "id.", "reg.")):
                nn.init.zeros_(parameter)
        # A tenth of a person in a cell: without this, empty cells rule the first steps of training.
        nn.init.constant_(self.get_parameter("hm.2.bias"), -2.19)


def _head(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, _HEAD_CHANNELS, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(_HEAD_CHANNELS, outputs, kernel_size=1),
    )
