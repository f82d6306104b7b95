"""Deformable convolution, version 2 (Zhu et al., CVPR 2019), and the unit made of it."""

import math

import torch
from torch import Tensor, nn
from torchvision.ops import deform_conv2d

_KERNEL_POINTS = 9


class DeformableConvolution(nn.Module):
    """A 3x3 convolution that looks beside its grid, as far and as much as it chooses at each cell.

    The channels of `conv_offset_mask` are (dy, dx) of the nine points of the kernel, row by row,
    then the nine weights of the points before their sigmoid.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, 3, 3))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.conv_offset_mask = nn.Conv2d(inputs, 3 * _KERNEL_POINTS, kernel_size=3, padding=1)
        bound = 1 / math.sqrt(_KERNEL_POINTS * inputs)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.zeros_(self.conv_offset_mask.weight)
        nn.init.zeros_(self.conv_offset_mask.bias)  # type: ignore[arg-type]  # it has a bias

    def forward(self, features: Tensor) -> Tensor:
        """(n, inputs, h, w) to (n, outputs, h, w)."""
        chosen = self.conv_offset_mask(features)
        offsets, mask = chosen.split([2 * _KERNEL_POINTS, _KERNEL_POINTS], dim=1)
        result: Tensor = deform_conv2d(
            features, offsets, self.weight, self.bias, padding=1, mask=mask.sigmoid()
        )
        return result


class DeformableUnit(nn.Module):
    """Deformable convolution, normalisation, ReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        # Published checkpoints hold the normalisation before the convolution.
        self.actf = nn.Sequential(nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))
        self.conv = DeformableConvolution(inputs, outputs)

    def forward(self, features: Tensor) -> Tensor:
        """(n, inputs, h, w) to (n, outputs, h, w)."""
        result: Tensor = self.actf(self.conv(features))
        return result
