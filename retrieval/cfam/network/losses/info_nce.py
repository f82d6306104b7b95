"""CLIP's contrastive loss, where the paper's ablation starts."""

import torch
from torch import Tensor
from torch.nn import functional


def info_nce(similarities: Tensor, temperature: float) -> Tensor:
    """The mean of both directions' cross-entropy of finding the partner in the batch.

    It knows no identities: another pair of the same person counts as wrong.

    Args:
        similarities: (B, B), images down, texts across, cosines.
        temperature: by which similarities are divided.
    """
    logits = similarities / temperature
    partners = torch.arange(len(logits), device=logits.device)
    images = functional.cross_entropy(logits, partners)
    texts = functional.cross_entropy(logits.T, partners)
    return (images + texts) / 2
