"""mSD as the calculator computes it that was released with UFineBench: not what the paper defines.

`mSD_Calculator.py` (github.com/Zplusdragon/UFineBench) sorts identities by similarity but leaves
similarities in the order of the gallery, and multiplies the two as if they belonged together. So
where a match stands at rank j, it takes the similarity of the *j-th item of the gallery as given*
for that of the match, and sums of similarities run over the gallery as given, too. The value
changes when the gallery is shuffled. It is here so that published numbers can be compared.
"""

from retrieval.matches import Floats, RankedMatches, divided
from retrieval.metrics.similarity_distribution import positive_negative_ratio


def similarity_distribution_released(
    matches: RankedMatches, at_rank: Floats, up_to_rank: Floats
) -> Floats:
    """The "SD" of each query that the released calculator averages; NaN without matches.

    With similarities u, normalised to [0, 1], in the order of the gallery, and n matches at ranks
    j_1 < … < j_n, its formulas are those of the definition on u(j_i)::

        x   = mean(u(j_i)) / mean(u over all other places)
        ASP = 1/n · Σ_k [ Σ_{i ≤ k} u(j_i) / Σ_{r ≤ j_k} u(r) ]
        SD  = (1 - exp(-x)) · ASP

    Ties stand as everywhere here; the calculator leaves them to an unstable sort.

    Args:
        matches: where the matches stand.
        at_rank: u(j) for the rank j of each match, of shape (matches,).
        up_to_rank: the sum of u over the first j items of the gallery, of shape (matches,).
    """
    total = matches.others_sum + matches.sum_by_query(matches.similarities)
    taken = matches.sum_by_query(at_rank)
    others_mean = divided(total - taken, matches.gallery - matches.counts, without=0.0)
    precision = divided(matches.running_sum(at_rank), up_to_rank, without=0.0)
    ratio = positive_negative_ratio(matches.mean_by_query(at_rank), others_mean)
    return ratio * matches.mean_by_query(precision)
