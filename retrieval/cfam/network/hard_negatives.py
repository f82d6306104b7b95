"""The pairs that the matching and the identity loss are taken over (UFineBench, section 4.3)."""

from typing import NamedTuple

import torch
from torch import Tensor


class Pairs(NamedTuple):
    """P pairs of a batch: its own, then each image's and each text's hardest negative.

    Attributes:
        images: (P,), rows of the batch.
        texts: (P,), rows of the batch.
        matched: (P,), true for the batch's own pairs, which come first.
    """

    images: Tensor
    texts: Tensor
    matched: Tensor


@torch.no_grad()
def hard_pairs(similarities: Tensor, identities: Tensor) -> Pairs:
    """The B pairs of a batch and up to 2B hard negatives.

    The negative of an image is the most similar text of *another* identity, that of a text the most
    similar such image; of equals the first. In a batch of one identity nobody has a negative, and
    the B pairs are all there is.

    Args:
        similarities: (B, B), images down, texts across.
        identities: (B,), whose pair it is.
    """
    rows = torch.arange(len(identities), device=identities.device)
    same = identities[:, None] == identities[None, :]
    others = similarities.detach().masked_fill(same, -torch.inf)
    with_negative = rows[~same.all(dim=1)]
    texts, images = others.argmax(dim=1), others.argmax(dim=0)
    paired_images = torch.cat([rows, with_negative, images[with_negative]])
    paired_texts = torch.cat([rows, texts[with_negative], with_negative])
    matched = torch.arange(len(paired_images), device=rows.device) < len(rows)
    return Pairs(paired_images, paired_texts, matched)
