"""Similarity distribution matching (IRRA: Jiang and Ye, CVPR 2023, equations 3 to 5)."""

from torch import Tensor
from torch.nn import functional


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
