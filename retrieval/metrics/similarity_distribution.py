"""SD, whose mean over queries is mSD: how far matches stand out, in similarity and in rank."""

import numpy as np

from retrieval.matches import Floats, RankedMatches, divided


def similarity_distribution(matches: RankedMatches) -> Floats:
    """The similarity distribution of each query (UFineBench, section 4), in [0, 1).

    With similarities s normalised to [0, 1], sorted by falling similarity, and n matches at ranks
    j_1 < … < j_n::

        x   = mean(s over matches) / mean(s over non-matches)
        PNR = 1 - exp(-x)
        ASP = 1/n · Σ_k [ Σ_{i ≤ k} s(j_i) / Σ_{r ≤ j_k} s(r) ]
        SD  = PNR · ASP

    Where the gallery holds nothing but matches, or all else has s = 0, x is infinite and PNR is 1.
    A quotient 0 / 0 in ASP counts as 0.

    Returns:
        Of shape (queries,); NaN without matches.
    """
    above = matches.running_sum(matches.similarities)
    precision = divided(above, above + matches.others_above_sum, without=0.0)
    mean = matches.mean_by_query(matches.similarities)
    others_mean = divided(matches.others_sum, matches.gallery - matches.counts, without=0.0)
    return positive_negative_ratio(mean, others_mean) * matches.mean_by_query(precision)


def positive_negative_ratio(mean: Floats, others_mean: Floats) -> Floats:
    """PNR = 1 - exp(-x) of x = mean / others_mean; 1 where others_mean is 0."""
    ratio = divided(mean, others_mean, without=np.inf)
    return -np.expm1(-ratio)
