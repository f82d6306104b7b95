"""DLA-34, the backbone (Yu et al., "Deep Layer Aggregation", CVPR 2018).

Attributes are named as in published checkpoints, and stand in their order.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

LEVEL_CHANNELS = (64, 128, 256, 512)
"""Channels of levels 2 to 5, whose strides are 4, 8, 16 and 32."""


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut that the caller hands in."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)

    def forward(self, features: Tensor, shortcut: Tensor) -> Tensor:
        """(n, inputs, h, w) and (n, outputs, h/stride, w/stride) to the form of `shortcut`."""
        inner = functional.relu(self.bn1(self.conv1(features)))
        return functional.relu(self.bn2(self.conv2(inner)) + shortcut)


class Root(nn.Module):
    """Where the branches of a tree come together: a 1x1 convolution over all their channels."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel_size=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, *branches: Tensor) -> Tensor:
        """Maps of one size, `inputs` channels in all, to (n, outputs, h, w)."""
        return functional.relu(self.bn(self.conv(torch.cat(branches, dim=1))))


class Tree(nn.Module):
    """Two blocks and their root, which also sees `extra_channels` of maps handed in."""

    def __init__(self, inputs: int, outputs: int, stride: int, extra_channels: int = 0) -> None:
        super().__init__()
        self.tree1 = ResidualBlock(inputs, outputs, stride)
        self.tree2 = ResidualBlock(outputs, outputs, stride=1)
        self.root = Root(2 * outputs + extra_channels, outputs)
        self.downsample = nn.MaxPool2d(stride, stride) if stride > 1 else nn.Identity()
        self.project = _projection(inputs, outputs) if inputs != outputs else nn.Identity()

    def forward(self, features: Tensor, *extra: Tensor) -> Tensor:
        """(n, inputs, h, w) to (n, outputs, h/stride, w/stride), the size of `extra`."""
        first = self.tree1(features, self.project(self.downsample(features)))
        second = self.tree2(first, first)
        result: Tensor = self.root(second, first, *extra)
        return result


class LastTree(Tree):
    """A tree whose root also sees its own input, made smaller."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, stride=2, extra_channels=inputs)

    def forward(self, features: Tensor, *extra: Tensor) -> Tensor:
        """(n, inputs, h, w) to (n, outputs, h/2, w/2)."""
        return super().forward(features, self.downsample(features), *extra)


class DeepTree(nn.Module):
    """Two trees, one after the other; the root of the second also sees the first and the input.

    `project` is in published checkpoints, and nothing of it reaches the result.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.tree1 = Tree(inputs, outputs, stride=2)
        self.tree2 = Tree(outputs, outputs, stride=1, extra_channels=inputs + outputs)
        self.downsample = nn.MaxPool2d(2, 2)
        self.project = _projection(inputs, outputs)

    def forward(self, features: Tensor) -> Tensor:
        """(n, inputs, h, w) to (n, outputs, h/2, w/2)."""
        first = self.tree1(features)
        result: Tensor = self.tree2(first, self.downsample(features), first)
        return result


class Backbone(nn.Module):
    """DLA-34 without its classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.base_layer = _convolution(3, 16, kernel=7)
        self.level0 = _convolution(16, 16)
        self.level1 = _convolution(16, 32, stride=2)
        self.level2 = Tree(32, 64, stride=2)
        self.level3 = DeepTree(64, 128)
        self.level4 = DeepTree(128, 256)
        self.level5 = LastTree(256, 512)

    def forward(self, images: Tensor) -> list[Tensor]:
        """(n, 3, h, w) to the maps of levels 2 to 5, finest first; h and w multiples of 32."""
        features = self.level1(self.level0(self.base_layer(images)))
        maps: list[Tensor] = []
        for level in (self.level2, self.level3, self.level4, self.level5):
            features = level(features)
            maps.append(features)
        return maps


def _convolution(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


def _projection(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=1, bias=False), nn.BatchNorm2d(outputs)
    )
