"""What a model would score that knows nothing: the expectation over all orders of the gallery.

Exact, by formulas; nothing is drawn. mSD is left out: it depends on how similarities are spread,
which chance does not say.
"""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

_DEPTHS = (1, 5, 10)


def chance_scores(matches: Iterable[int], gallery: int) -> dict[str, float]:
    """R@1, R@5, R@10, mAP and mINP in percent, and the median rank, of random orders.

    Args:
        matches: for each query, how many of the gallery match it; those with none are left out.
        gallery: how many there are in the gallery.
    """
    counts = Counter(count for count in matches if count)
    if not counts:
        return {}
    found = rank_curve(counts.elements(), gallery, gallery)
    scores = {f"R@{k}": float(found[min(k, gallery) - 1]) for k in _DEPTHS}
    scores["mAP"] = 100 * _mean(counts, lambda n: average_precision(n, gallery))
    scores["mINP"] = 100 * _mean(counts, lambda n: inverse_negative_penalty(n, gallery))
    scores["median_rank"] = float(1 + np.searchsorted(found, 50.0 - 1e-9))
    return scores


def rank_curve(matches: Iterable[int], gallery: int, depth: int) -> NDArray[np.float64]:
    """The expected percentage of queries with a match among the first 1 … `depth`.

    Of n matches in a gallery of N, none is among the first k with probability
    C(N − n, k) / C(N, k), which falls by the factor (N − n − k) / (N − k) from k to k + 1.
    """
    counts = Counter(count for count in matches if count)
    place = np.arange(min(depth, gallery))
    curve = np.zeros(len(place))
    for n, queries in counts.items():
        missed = np.cumprod(np.maximum(gallery - n - place, 0) / (gallery - place))
        curve += queries * (1 - missed)
    return 100 * curve / max(1, counts.total())


def average_precision(n: int, gallery: int) -> float:
    """The expected average precision of n matches in a random order.

    Place r holds a match with probability n / N, and then (r − 1)(n − 1) / (N − 1) of those before
    it are expected to be matches too; the sum over r has the harmonic number of N in it.
    """
    if gallery == 1:
        return 1.0
    harmonic = float((1 / np.arange(1, gallery + 1)).sum())
    return (harmonic + (n - 1) / (gallery - 1) * (gallery - harmonic)) / gallery


def inverse_negative_penalty(n: int, gallery: int) -> float:
    """The expected n / r, where r is the rank of the last of n matches in a random order.

    r is last with probability C(r − 1, n − 1) / C(N, n): n / N at r = N, and from r to r − 1 it
    falls by the factor (r − n) / (r − 1).
    """
    last = np.arange(gallery, n - 1, -1, dtype=np.float64)
    falls = np.concatenate(([n / gallery], (last[:-1] - n) / (last[:-1] - 1)))
    return float((np.cumprod(falls) * n / last).sum())


def _mean(counts: Counter[int], expected: Callable[[int], float]) -> float:
    return sum(queries * expected(n) for n, queries in counts.items()) / counts.total()
