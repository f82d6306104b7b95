"""Position embeddings for images and texts of other sizes than a model was trained on."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from schemas.errors import ModelError


def resized_grid(positions: Tensor, grid: tuple[int, int]) -> Tensor:
    """Position embeddings of a vision transformer for another grid of patches.

    The class token's embedding stays; the others are taken for a square grid, as every CLIP has
    been published with, and interpolated bicubically (antialiased where the grid gets smaller).
    Embeddings of the right grid come back as they are, bit for bit.

    Args:
        positions: of shape (1 + patches, width), the class token's first.
        grid: rows and columns of patches wanted.

    Raises:
        ModelError: the number of patches is neither that of `grid` nor a square.
    """
    rows, columns = grid
    patches = len(positions) - 1
    side = math.isqrt(patches)
    if (patches == rows * columns and side * side != patches) or (side, side) == grid:
        return positions
    if side * side != patches:
        raise ModelError(
            f"position embeddings of {patches} patches are of no square grid; "
            f"got {patches}, wanted a square or {rows} × {columns}"
        )
    square = positions[1:].T.reshape(1, -1, side, side)
    resized = functional.interpolate(square.float(), grid, mode="bicubic", antialias=True)
    spread = resized.to(positions.dtype).reshape(-1, rows * columns).T
    return torch.cat([positions[:1], spread])


def stretched(positions: Tensor, length: int, kept: int) -> Tensor:
    """Position embeddings of a text transformer for another number of tokens.

    For longer texts the first `kept` embeddings stay and the rest is stretched linearly over what
    is left, its first and last unchanged (the knowledge-preserved stretching of Long-CLIP, Zhang et
    al., ECCV 2024, section 3.1: CLIP has learned little beyond its first twenty positions, and what
    it learned there is worth keeping). For shorter texts the first `length` are taken. `kept` 0
    interpolates all of them. The right length comes back as it is, bit for bit.

    Args:
        positions: of shape (tokens, width).
        length: the number of tokens wanted.
        kept: how many of the first embeddings are left alone.
    """
    if length <= len(positions):
        return positions[:length]
    kept = min(kept, len(positions) - 1)
    rest = positions[kept:].T.unsqueeze(0).float()
    longer = functional.interpolate(rest, length - kept, mode="linear", align_corners=True)
    return torch.cat([positions[:kept], longer[0].T.to(positions.dtype)])
