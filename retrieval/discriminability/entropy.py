"""dis(t): how evenly a caption fits the images that it could be mistaken for."""

import numpy as np

from retrieval.similarity import Similarities


def discriminability(similarities: Similarities, temperature: float) -> Similarities:
    """dis(t) = entropy(softmax(similarities / temperature)), of shape (n,) (ReCoS, section 3.2).

    The natural logarithm; 0 where one image is by far the nearest, log k where all are equally
    near, never less or more. It rises with the temperature.

    Args:
        similarities: with the k nearest other images, of shape (n, k), in any order.
        temperature: what they are divided by, above zero.
    """
    below = similarities - similarities.max(axis=1, keepdims=True)
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.maximum(below / temperature, -_VANISHED)
        weights = np.exp(scaled)
    total = weights.sum(axis=1)
    entropy = np.log(total) - (weights * scaled).sum(axis=1) / total
    clipped: Similarities = np.clip(entropy, 0.0, np.log(similarities.shape[1]))
    return clipped


_VANISHED = 745.2
"""The exponential of less than minus this is zero in float64."""
