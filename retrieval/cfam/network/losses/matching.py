"""The matching loss (UFineBench, section 4.3)."""

from torch import Tensor
from torch.nn import functional


def matching(logits: Tensor, matched: Tensor) -> Tensor:
    """The mean binary cross-entropy of the judgement whether pairs match.

    The paper prints y log p + (1 - y)(1 - log p); what is meant, and taken here, is
    -[y log p + (1 - y) log(1 - p)].

    Args:
        logits: (P,), before the sigmoid.
        matched: (P,), true where the pair matches.
    """
    return functional.binary_cross_entropy_with_logits(logits, matched.to(logits.dtype))
