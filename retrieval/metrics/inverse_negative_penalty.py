"""INP, whose mean over queries is mINP: what it costs to find the hardest match."""

import numpy as np

from retrieval.matches import Floats, RankedMatches


def inverse_negative_penalty(matches: RankedMatches) -> Floats:
    """The inverse negative penalty of each query, in (0, 1]; NaN without matches.

    With n matches, the last of them at rank j_n::

        INP = n / j_n

    (Ye et al., Deep Learning for Person Re-identification: A Survey and Outlook, equation 5.)
    """
    penalties = np.full(len(matches.counts), np.nan)
    matched = matches.counts > 0
    last = matches.ranks[matches.starts[1:][matched] - 1]
    penalties[matched] = matches.counts[matched] / last
    return penalties
