"""People out of the maps of the heads (Zhang et al., section 3.4)."""

from typing import NamedTuple

from torch import Tensor, cat
from torch.nn import functional
from torchvision.ops import nms

from models.fairmot.network.fairmot import HeadMaps


class Candidates(NamedTuple):
    """What may be people in one image, falling by score; of equal scores the upper left first.

    Attributes:
        cells: (k,) int64: row * width + column of the cell of the centre.
        boxes_xyxy: (k, 4): left, top, right, bottom in cells, neither clipped nor checked.
        scores: (k,) in [0, 1]; 0 where a neighbouring cell is likelier to be the centre.
        embeddings: (k, d) of unit length.
    """

    cells: Tensor
    boxes_xyxy: Tensor
    scores: Tensor
    embeddings: Tensor

    def taken(self, which: Tensor) -> "Candidates":
        """Those that an index or a mask points to."""
        return Candidates(*(part[which] for part in self))


def decode(maps: HeadMaps, most: int) -> Candidates:
    """The `most` likeliest candidates of the first image, or as many as there are cells."""
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
    """The candidates above the score that have an extent and overlap no better one too much.

    Two cells that both are peaks can mean one person, whose boxes then cover each other. Of boxes
    with an IoU above `overlap_threshold` the better stays; at 1 all stay, and the peaks alone
    decide.
    """
    left, top, right, bottom = candidates.boxes_xyxy.unbind(dim=1)
    plausible = (candidates.scores > score_threshold) & (left < right) & (top < bottom)
    people = candidates.taken(plausible)
    return people.taken(nms(people.boxes_xyxy, people.scores, overlap_threshold))


def _peaks(likelihoods: Tensor) -> Tensor:
    """(1, 1, h, w) with 0 where one of the eight neighbours is higher."""
    highest = functional.max_pool2d(likelihoods, kernel_size=3, stride=1, padding=1)
    return likelihoods * (likelihoods == highest)


def _boxes(centres: Tensor, extents: Tensor) -> Tensor:
    """(k, 2) and (k, 4) or (k, 2) to (k, 4): see `HeadMaps.extents`."""
    if extents.shape[1] == 2:
        extents = (extents / 2).repeat(1, 2)
    before, after = extents.chunk(2, dim=1)
    return cat([centres - before, centres + after], dim=1)
