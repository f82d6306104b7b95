"""The cross-modal identity classifying loss (UFineBench, supplement 8)."""

from torch import Tensor
from torch.nn import functional


def identity(logits: Tensor, identities: Tensor, matched: Tensor) -> Tensor:
    """The mean cross-entropy of whose the pairs are.

    Args:
        logits: (P, M + 1); the last class is for pairs that do not match.
        identities: (P,), from 0 to M - 1: whose the image of each pair is.
        matched: (P,), true where the pair matches.
    """
    nobody = logits.shape[1] - 1
    return functional.cross_entropy(logits, identities.where(matched, nobody))
