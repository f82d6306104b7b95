"""The shared granularity decoder (UFineBench, section 4.2)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from schemas.cfam import CfamDecoder


class SharedGranularityDecoder(nn.Module):
    """K learned queries that read local vectors, of images and of texts with the same weights.

    A block is the decoder block of Vaswani et al. (2017), normalised first: the queries attend to
    each other, then to the local vectors, then pass through an MLP.

    Args:
        dimension: the length d of the local vectors that come in.
        settings: queries K, blocks, width and heads.
    """

    def __init__(self, dimension: int, settings: CfamDecoder) -> None:
        super().__init__()
        width = settings.width
        self.queries = nn.Parameter(torch.randn(settings.queries, width) * width**-0.5)
        self.entrance = nn.Sequential(
            nn.LayerNorm(dimension),
            nn.Identity() if dimension == width else nn.Linear(dimension, width),
        )
        self.blocks = nn.ModuleList(_block(settings) for _ in range(settings.blocks))
        self.normalisation = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        """The K fine-grained vectors of each sample, of shape (B, K, width).

        Args:
            tokens: local vectors, of shape (B, N, d).
            padding: (B, N), true where there is no token to be read.
        """
        local = self.entrance(tokens)
        found = self.queries.expand(len(tokens), -1, -1)
        for block in self.blocks:
            found = block(found, local, memory_key_padding_mask=padding)
        fine: Tensor = self.normalisation(found)
        return fine


def _block(settings: CfamDecoder) -> nn.Module:
    return nn.TransformerDecoderLayer(
        settings.width,
        settings.heads,
        dim_feedforward=4 * settings.width,
        dropout=0.0,
        activation="gelu",
        batch_first=True,
        norm_first=True,
    )


def local_similarities(visual: Tensor, textual: Tensor) -> Tensor:
    """The mean over the K queries of the cosine of the pair, for every image and every text.

    The sum of K cosines is the inner product of the K unit vectors laid end to end, so that all
    pairs are one matrix product.

    Args:
        visual: (B_images, K, width).
        textual: (B_texts, K, width).

    Returns:
        (B_images, B_texts), within [-1, 1].
    """
    images = functional.normalize(visual, dim=-1).flatten(1)
    texts = functional.normalize(textual, dim=-1).flatten(1)
    return images @ texts.T / visual.shape[1]
