"""AP, whose mean over queries is mAP: how pure the ranking is down to each match."""

from retrieval.matches import Floats, RankedMatches


def average_precision(matches: RankedMatches) -> Floats:
    """The average precision of each query, in (0, 1], of shape (queries,); NaN without matches.

    With n matches at ranks j_1 < … < j_n::

        AP = 1/n · Σ_k k / j_k

    Every match counts, however low it stands; nothing is interpolated.
    """
    return matches.mean_by_query(matches.places / matches.ranks)
