"""The temperature at which dis(t) spreads over its range, found from reference captions.

Cosines of a dual encoder lie within about 0.3 of each other. At temperature 1, as in the paper, the
softmax of them is almost even, and every dis(t) within a few thousandths of log k. How far apart
similarities lie is a matter of the model, so the temperature has to be, too.

What is wanted is the temperature at which the *median* of dis(t) over the reference captions is the
middle of the range, log(k) / 2, which is the middle of the accepted interval for every η. Half of
the captions then stand on each side of it, so both ways to fail can happen, and η alone says how
many pass. dis(t) of each caption rises with the temperature, hence so does the median, and there is
one such temperature. The median is taken because a few captions that fit one image only, or all
alike, must not move it. Rounded to three digits, so that it can be written down, and does not
change with the last bits of an embedding.
"""

import math

import numpy as np

from retrieval.discriminability.entropy import discriminability
from retrieval.similarity import Similarities
from schemas.errors import UsageError

_LOWEST, _HIGHEST = 1e-7, 1e4
_STEPS = 60
_DIGITS = 3


def calibrated_temperature(similarities: Similarities) -> float:
    """The temperature at which half of the reference captions are above log(k) / 2.

    Args:
        similarities: of each reference caption with the k images nearest to it, of shape (n, k).

    Raises:
        UsageError: there is no such temperature: the images are equally near to most captions.
    """
    if len(similarities) == 0:
        raise UsageError("a temperature is calibrated on at least one caption; got none")
    middle = math.log(similarities.shape[1]) / 2
    low, high = math.log(_LOWEST), math.log(_HIGHEST)
    if not _median(similarities, low) < middle < _median(similarities, high):
        raise UsageError(
            "the temperature cannot be calibrated: for half of the captions, the nearest "
            f"{similarities.shape[1]:,} images are equally near; wanted images that differ, or a "
            "temperature"
        )
    for _ in range(_STEPS):
        between = (low + high) / 2
        if _median(similarities, between) < middle:
            low = between
        else:
            high = between
    return float(f"{math.exp(high):.{_DIGITS}g}")


def _median(similarities: Similarities, log_temperature: float) -> float:
    return float(np.median(discriminability(similarities, math.exp(log_temperature))))
