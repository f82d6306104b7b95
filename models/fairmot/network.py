"""FairMOT's network: DLA-34, iterative deep aggregation, four heads, and its checkpoints."""

import io
import pickle
import re
import struct
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from timm.models.dla import DLA, DlaBasic
from torch import Tensor, cat, nn
from torch.nn import functional
from torchvision.ops import deform_conv2d, nms

from loupe.models.weights import checkpoint_digest, require_digest
from loupe.schemas.errors import ModelError

# Deformable convolution, version 2 (Zhu et al., CVPR 2019), and the unit made of it.

_KERNEL_POINTS = 9


class DeformableConvolution(nn.Module):
    """A 3x3 convolution whose sampling points have a learnt offset and weight in each cell.

    The channels of `conv_offset_mask` are (dy, dx) of the nine points of the kernel, row by row,
    then the nine weights of the points before their sigmoid.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, 3, 3))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.conv_offset_mask = nn.Conv2d(inputs, 3 * _KERNEL_POINTS, kernel_size=3, padding=1)

    def forward(self, features: Tensor) -> Tensor:
        """Map (n, inputs, h, w) to (n, outputs, h, w)."""
        chosen = self.conv_offset_mask(features)
        offsets, mask = chosen.split([2 * _KERNEL_POINTS, _KERNEL_POINTS], dim=1)
        result: Tensor = deform_conv2d(
            features, offsets, self.weight, self.bias, padding=1, mask=mask.sigmoid()
        )
        return result


class DeformableUnit(nn.Module):
    """Deformable convolution, normalization, ReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        # Published checkpoints store the normalization before the convolution.
        self.actf = nn.Sequential(nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))
        self.conv = DeformableConvolution(inputs, outputs)

    def forward(self, features: Tensor) -> Tensor:
        """Map (n, inputs, h, w) to (n, outputs, h, w)."""
        result: Tensor = self.actf(self.conv(features))
        return result


# From the four levels of the backbone to one fine map: iterative deep aggregation.
#
# Attributes have the names and the order of published checkpoints.

_LEVEL_CHANNELS = (64, 128, 256, 512)
"""Channels of levels 2 to 5 of the backbone, whose strides are 4, 8, 16 and 32."""


class IterativeAggregation(nn.Module):
    """Joins coarse maps with the finer ones before them, step by step.

    Step i (`proj_i`, `up_i`, `node_i`) upsamples map i, counted from 0, to the size of map i - 1
    and adds the result of that one. `coarse_channels` and `factors` are, for maps from 1 on, their
    number of channels and how many times coarser they are than the map that is added.
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
        """Return the maps, finest first; all but the first are joined with the finer one before."""
        joined = [maps[0]]
        for step, coarse in enumerate(maps[1:], 1):
            project, enlarge, combine = (
                self.get_submodule(f"{part}_{step}") for part in ("proj", "up", "node")
            )
            joined.append(combine(enlarge(project(coarse)) + joined[-1]))
        return joined


class LevelAggregation(nn.Module):
    """Aggregates an increasing number of levels: first the two coarsest, at last all four."""

    def __init__(self) -> None:
        super().__init__()
        finest, stride_8, stride_16, stride_32 = _LEVEL_CHANNELS
        self.ida_0 = IterativeAggregation(stride_16, [stride_32], [2])
        self.ida_1 = IterativeAggregation(stride_8, [stride_16] * 2, [2, 2])
        self.ida_2 = IterativeAggregation(finest, [stride_8] * 3, [2, 2, 2])

    def forward(self, levels: Sequence[Tensor]) -> list[Tensor]:
        """Map levels 2 to 5, finest first, to the coarsest map of each stage, finest first."""
        maps = list(levels)
        coarsest: list[Tensor] = []
        for start, stage in ((2, self.ida_0), (1, self.ida_1), (0, self.ida_2)):
            maps[start:] = stage(maps[start:])
            coarsest.append(maps[-1])
        return coarsest[::-1]


def _enlargement(channels: int, factor: int) -> nn.ConvTranspose2d:
    """Return a learnt channelwise upsampling."""
    return nn.ConvTranspose2d(
        channels,
        channels,
        kernel_size=2 * factor,
        stride=factor,
        padding=factor // 2,
        groups=channels,
        bias=False,
    )


# The network: backbone, aggregation and four heads.

_DLA_34 = {"levels": (1, 1, 1, 2, 2, 1), "channels": (16, 32, *_LEVEL_CHANNELS), "block": DlaBasic}
"""The backbone as timm names its parts (Yu et al., "Deep Layer Aggregation", CVPR 2018)."""

STRIDE = 4
"""Pixels of the network's input to a cell of its output."""

_HEAD_CHANNELS = 256


class HeadMaps(NamedTuple):
    """Outputs of the heads for every cell, before decoding.

    Attributes:
        centres: (n, 1, h, w): logit of the centre of a person.
        extents: (n, 4, h, w): cells from the centre to left, top, right and bottom; older networks
            (n, 2, h, w): width and height.
        embeddings: (n, d, h, w): appearance, not normalized.
        offsets: (n, 2, h, w): position of the centre in the cell, x and y.
    """

    centres: Tensor
    extents: Tensor
    embeddings: Tensor
    offsets: Tensor


class FairMOTNetwork(nn.Module):
    """FairMOT on DLA-34, its parameters named as in published checkpoints."""

    def __init__(self, extent_channels: int = 4, embedding_size: int = 128) -> None:
        super().__init__()
        finest, stride_8, stride_16, _ = _LEVEL_CHANNELS
        self.base = DLA(**_DLA_34, num_classes=0)
        self.dla_up = LevelAggregation()
        self.ida_up = IterativeAggregation(finest, [stride_8, stride_16], [2, 4])
        self.hm = _head(finest, 1)
        self.wh = _head(finest, extent_channels)
        self.id = _head(finest, embedding_size)
        self.reg = _head(finest, 2)

    def forward(self, images: Tensor) -> HeadMaps:
        """Map (n, 3, h, w), RGB in [0, 1], h and w multiples of 32, to maps of h/4 x w/4 cells."""
        levels = self.base.forward_intermediates(
            images, indices=[2, 3, 4, 5], intermediates_only=True
        )
        features = self.ida_up(self.dla_up(levels))[-1]
        return HeadMaps(self.hm(features), self.wh(features), self.id(features), self.reg(features))


def _head(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, _HEAD_CHANNELS, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(_HEAD_CHANNELS, outputs, kernel_size=1),
    )


# Decodes people from the maps of the heads (Zhang et al., section 3.4).


class Candidates(NamedTuple):
    """Candidates for people in one image, by decreasing score; ties from the upper left on.

    Attributes:
        cells: (k,) int64: row * width + column of the cell of the centre.
        boxes_xyxy: (k, 4): left, top, right, bottom in cells, neither clipped nor checked.
        scores: (k,) in [0, 1]; 0 if a neighbouring cell scores higher.
        embeddings: (k, d) of unit length.
    """

    cells: Tensor
    boxes_xyxy: Tensor
    scores: Tensor
    embeddings: Tensor

    def taken(self, which: Tensor) -> "Candidates":
        """Select by an index or a mask."""
        return Candidates(*(part[which] for part in self))


def decode(maps: HeadMaps, most: int) -> Candidates:
    """Return the `most` highest-scoring candidates of the first image, at most one a cell."""
    scores = _peaks(maps.centres[:1].sigmoid()).flatten()
    cells = scores.argsort(descending=True, stable=True)[:most]
    width = maps.centres.shape[-1]
    extents, offsets, embeddings = (
        part[0].flatten(1)[:, cells].T for part in (maps.extents, maps.offsets, maps.embeddings)
    )
    columns_and_rows = cat([(cells % width)[:, None], (cells // width)[:, None]], dim=1)
    boxes = _boxes(columns_and_rows + offsets, extents)
    return Candidates(cells, boxes, scores[cells], functional.normalize(embeddings, eps=1e-12))


def select_people(
    candidates: Candidates, score_threshold: float, overlap_threshold: float
) -> Candidates:
    """Return candidates above the score that have an extent and do not overlap a better one.

    Two peaks can belong to one person, whose boxes then overlap. Of boxes with an IoU above
    `overlap_threshold` the better one is kept; at 1 all are kept and only the peaks decide.
    """
    left, top, right, bottom = candidates.boxes_xyxy.unbind(dim=1)
    plausible = (candidates.scores > score_threshold) & (left < right) & (top < bottom)
    people = candidates.taken(plausible)
    return people.taken(nms(people.boxes_xyxy, people.scores, overlap_threshold))


def _peaks(likelihoods: Tensor) -> Tensor:
    """Set cells to 0 if one of the eight neighbours is higher, (1, 1, h, w)."""
    highest = functional.max_pool2d(likelihoods, kernel_size=3, stride=1, padding=1)
    return likelihoods * (likelihoods == highest)


def _boxes(centres: Tensor, extents: Tensor) -> Tensor:
    """Convert centres (k, 2) and extents (k, 4) or (k, 2) to (k, 4): see `HeadMaps.extents`."""
    if extents.shape[1] == 2:
        extents = (extents / 2).repeat(1, 2)
    before, after = extents.chunk(2, dim=1)
    return cat([centres - before, centres + after], dim=1)


# Published checkpoints: read as weights only, and checked against the network.

Weights = dict[str, Tensor]

_WRAPPER = "module."
"""Prefix of all names that the wrapper for training on several GPUs adds."""

UNUSED = ("base.fc.", "base.level3.project.", "base.level4.project.")
"""Prefixes of what published checkpoints contain and nothing uses: ImageNet's classifier, and
projections of trees whose parts have their own.
"""

_EXTENT_CHANNELS = (2, 4)
_MOST_EMBEDDING_CHANNELS = 4096  # published ones have 128 or 512
_NAMED_AT_MOST = 3
_UNREADABLE = (
    # The exceptions that pickle and torch raise on invalid bytes are not a closed list.
    ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, LookupError,
    MemoryError, OSError, RuntimeError, TypeError, ValueError, pickle.UnpicklingError,
    struct.error, zipfile.BadZipFile,
)  # fmt: skip


def load_network(path: Path, sha256: str | None = None) -> FairMOTNetwork:
    """Load the network with the weights of a checkpoint: on the CPU, float32, for inference.

    No code in the file is executed: anything but tensors and plain values is rejected.

    Args:
        path: a checkpoint as FairMOT's training saves it, or its `state_dict` alone.
        sha256: the digest that the file must have.

    Raises:
        ModelError: the file is missing, has another digest, contains code, is not a checkpoint, or
            is one of another network.
    """
    require_digest(path, sha256 and sha256.lower(), checkpoint_digest(path))
    weights = _named_weights(_read(path), path)
    with torch.device("meta"):  # no memory or random numbers for weights that are replaced
        network = FairMOTNetwork(*_head_sizes(weights, path))
    # Names and shapes first: a tensor that repeats one value takes no memory until it is copied.
    try:
        found = network.load_state_dict(weights, strict=False, assign=True)
    except RuntimeError as error:
        raise _misfit("does not fit:", str(error).split("\n\t")[1:], path) from error
    _refuse_any("lacks", found.missing_keys, path)
    _refuse_any("has too much:", found.unexpected_keys, path)
    infinite = [name for name, tensor in weights.items() if not _is_finite(tensor)]
    _refuse_any("has values that are not finite in", infinite, path)
    return network.float().requires_grad_(requires_grad=False).eval()


def _read(path: Path) -> object:
    try:
        with path.open("rb") as file:
            return _unpickle(file, path)
    except OSError as error:
        raise ModelError(
            f"the checkpoint {str(path)!r} cannot be read: {error.strerror or error}"
        ) from error


def _unpickle(file: io.BufferedReader, path: Path) -> object:
    try:
        _require_stored(file, path)
        with warnings.catch_warnings(action="ignore"):  # tensors are checked later
            return torch.load(file, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        if named is not None:
            raise ModelError(
                f"the checkpoint {str(path)!r} names the code {named[1]!r} beside weights; it was "
                f"refused, and nothing of it was run"
            ) from error
        raise ModelError(
            f"{str(path)!r} is not a checkpoint that torch can read as weights only"
        ) from error


def _require_stored(file: io.BufferedReader, path: Path) -> None:
    """Raise if the file unpacks to more than its size; torch itself compresses nothing."""
    if not zipfile.is_zipfile(file):
        file.seek(0)
        return
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    if unpacked > size:
        raise ModelError(
            f"the checkpoint {str(path)!r} of {size:,} bytes unpacks to {unpacked:,}; "
            f"wanted one as torch writes it, without compression"
        )


def _named_weights(checkpoint: object, path: Path) -> Weights:
    """Return the tensors by name, without the wrapper and what is unused."""
    found = checkpoint.get("state_dict", checkpoint) if isinstance(checkpoint, Mapping) else None
    if not isinstance(found, Mapping) or not all(map(_is_named_weight, found.items())):
        raise ModelError(f"the checkpoint {str(path)!r} does not hold tensors by name")
    named: Weights = {}
    for wrapped_name, tensor in found.items():
        name = wrapped_name.removeprefix(_WRAPPER)
        if not name.startswith(UNUSED):
            named[name] = tensor
    return named


def _is_named_weight(item: tuple[object, object]) -> bool:
    name, tensor = item
    return (
        isinstance(name, str)
        and isinstance(tensor, Tensor)
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
    )


def _head_sizes(weights: Weights, path: Path) -> tuple[int, int]:
    """Return the channels of extents and of embeddings, which differ among checkpoints."""

    def channels(name: str) -> int:
        return weights[name].shape[0] if name in weights and weights[name].ndim else 0

    extents = channels("wh.2.weight")
    embedding = channels("id.2.weight")
    if extents not in _EXTENT_CHANNELS or not 0 < embedding <= _MOST_EMBEDDING_CHANNELS:
        raise ModelError(
            f"{str(path)!r} is not a checkpoint of FairMOT: 'wh.2.weight' must have 2 or 4 "
            f"channels and 'id.2.weight' 1 to {_MOST_EMBEDDING_CHANNELS}; got {extents} and "
            f"{embedding}"
        )
    return extents, embedding


def _refuse_any(problem: str, names: Sequence[str], path: Path) -> None:
    if names:
        raise _misfit(problem, names, path)


def _misfit(problem: str, names: Sequence[str], path: Path) -> ModelError:
    rest = len(names) - _NAMED_AT_MOST
    some = ", ".join(names[:_NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")
    return ModelError(
        f"{str(path)!r} is not a checkpoint of FairMOT on DLA-34: it {problem} {some}"
    )


def _is_finite(tensor: Tensor) -> bool:
    return bool(tensor.sum(dtype=torch.float64).isfinite())  # one pass, and no copy
