"""The heads that judge a pair: do they match, and whose are they?"""

import torch
from torch import Tensor, nn

from schemas.cfam import CfamMatcher


class Matcher(nn.Module):
    """Tells matching pairs from others by their fine-grained vectors (UFineBench, section 4.3).

    The 2K vectors of a pair, each with a learned embedding of its modality, pass through
    transformer blocks; the means of the visual and of the textual ones pass through an MLP.
    """

    def __init__(self, width: int, settings: CfamMatcher) -> None:
        super().__init__()
        self.modalities = nn.Parameter(torch.randn(2, width) * width**-0.5)
        self.blocks = nn.ModuleList(_block(width, settings.heads) for _ in range(settings.blocks))
        self.normalisation = nn.LayerNorm(width)
        self.judge = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, visual: Tensor, textual: Tensor) -> Tensor:
        """How surely each pair matches, of shape (P,), before the sigmoid.

        Args:
            visual: (P, K, width), of the image of each pair.
            textual: (P, K, width), of its text.
        """
        queries = visual.shape[1]
        both = torch.cat([visual + self.modalities[0], textual + self.modalities[1]], dim=1)
        for block in self.blocks:
            both = block(both)
        both = self.normalisation(both)
        means = torch.cat([both[:, :queries].mean(dim=1), both[:, queries:].mean(dim=1)], dim=-1)
        logits: Tensor = self.judge(means).squeeze(-1)
        return logits


class IdentityHead(nn.Module):
    """Says whose a pair is, or that it is nobody's (UFineBench, supplement 8).

    Args:
        dimension: the length d of the global vectors.
        identities: how many identities M there are; the last of the M + 1 classes is for pairs that
            do not match.
    """

    def __init__(self, dimension: int, identities: int) -> None:
        super().__init__()
        self.fusion = nn.Sequential(
            nn.Linear(2 * dimension, dimension), nn.LayerNorm(dimension), nn.GELU()
        )
        self.classes = nn.Linear(dimension, identities + 1)

    def forward(self, visual: Tensor, textual: Tensor) -> Tensor:
        """The logits of the M + 1 classes, of shape (P, M + 1), from vectors of shape (P, d)."""
        logits: Tensor = self.classes(self.fusion(torch.cat([visual, textual], dim=-1)))
        return logits


def _block(width: int, heads: int) -> nn.Module:
    return nn.TransformerEncoderLayer(
        width,
        heads,
        dim_feedforward=4 * width,
        dropout=0.0,
        activation="gelu",
        batch_first=True,
        norm_first=True,
    )
