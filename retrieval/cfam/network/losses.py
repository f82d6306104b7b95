"""The losses of CFAM; each gives a scalar from similarities or logits."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

# CLIP's contrastive loss, where the paper's ablation starts.


def info_nce(similarities: Tensor, temperature: float) -> Tensor:
    """The mean of both directions' cross-entropy of finding the partner in the batch.

    It ignores identities: another pair of the same person counts as wrong.

    Args:
        similarities: (B, B), images down, texts across, cosines.
        temperature: by which similarities are divided.
    """
    logits = similarities / temperature
    partners = torch.arange(len(logits), device=logits.device)
    images = functional.cross_entropy(logits, partners)
    texts = functional.cross_entropy(logits.T, partners)
    return (images + texts) / 2


# Similarity distribution matching (IRRA: Jiang and Ye, CVPR 2023, equations 3 to 5).


def similarity_distribution_matching(
    similarities: Tensor, identities: Tensor, temperature: float, epsilon: float = 1e-8
) -> Tensor:
    """The sum over both directions of the mean KL divergence KL(p ‖ q).

    p is the softmax of the similarities over the temperature, q the distribution that is uniform
    over the pairs of the same identity. `epsilon` keeps log q finite where q is zero.

    Args:
        similarities: (B, B), images down, texts across, cosines.
        identities: (B,), whose pair it is.
        temperature: by which similarities are divided.
        epsilon: added to q inside its logarithm.
    """
    same = (identities[:, None] == identities[None, :]).to(similarities.dtype)
    matching = same / same.sum(dim=1, keepdim=True)
    logarithm = (matching + epsilon).log()
    return _divergence(similarities / temperature, logarithm) + _divergence(
        similarities.T / temperature, logarithm
    )


def _divergence(logits: Tensor, logarithm_of_matching: Tensor) -> Tensor:
    predicted = functional.log_softmax(logits, dim=1)
    return (predicted.exp() * (predicted - logarithm_of_matching)).sum(dim=1).mean()


# The matching loss (UFineBench, section 4.3).


def matching(logits: Tensor, matched: Tensor) -> Tensor:
    """The mean binary cross-entropy of the prediction whether pairs match.

    The paper prints y log p + (1 - y)(1 - log p); computed is -[y log p + (1 - y) log(1 - p)],
    which must be meant.

    Args:
        logits: (P,), before the sigmoid.
        matched: (P,), true where the pair matches.
    """
    return functional.binary_cross_entropy_with_logits(logits, matched.to(logits.dtype))


# The cross-modal identity classifying loss (UFineBench, supplement 8).


def identity(logits: Tensor, identities: Tensor, matched: Tensor) -> Tensor:
    """The mean cross-entropy of the pairs' identities.

    Args:
        logits: (P, M + 1); the last class is for pairs that do not match.
        identities: (P,), from 0 to M - 1: whose the image of each pair is.
        matched: (P,), true where the pair matches.
    """
    nobody = logits.shape[1] - 1
    return functional.cross_entropy(logits, identities.where(matched, nobody))


# The pairs of the matching and the identity loss (UFineBench, section 4.3).


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
    similar such image; of equal ones the first. In a batch of one identity there are no negatives,
    and only the B pairs remain.

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
