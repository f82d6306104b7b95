"""The metrics of retrieval by identity: exact, and independent of the order of the gallery."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import Ids

# The ranks of the matches of queries: all that the metrics need to know.

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RankedMatches:
    """The matches of some queries in one gallery, the most similar match of a query first.

    Values of matches stand query by query in arrays of shape (matches,), of which `starts[q]` to
    `starts[q + 1]` are those of query q. Similarities s are normalised to [0, 1]: (cos + 1) / 2.
    An item that is no match and exactly as similar as a match stands before it.

    Attributes:
        gallery: how many items the gallery has.
        starts: of shape (queries + 1,).
        similarities: s of each match, in [0, 1], of shape (matches,).
        others_above: how many non-matches rank above it, of shape (matches,).
        others_above_sum: the sum of their s, of shape (matches,).
        others_sum: the sum of s over all non-matches of a query, of shape (queries,).
    """

    gallery: int
    starts: Ids
    similarities: Floats
    others_above: Ids
    others_above_sum: Floats
    others_sum: Floats

    @property
    def counts(self) -> Ids:
        """The number of matches of each query, of shape (queries,)."""
        return np.diff(self.starts)

    @property
    def query_of(self) -> Ids:
        """The query of each match, of shape (matches,)."""
        return np.repeat(np.arange(len(self.starts) - 1), self.counts)

    @property
    def places(self) -> Ids:
        """1 for the best match of a query, 2 for the next, …, of shape (matches,)."""
        return 1 + np.arange(len(self.similarities)) - np.repeat(self.starts[:-1], self.counts)

    @property
    def ranks(self) -> Ids:
        """The rank of each match, from 1, of shape (matches,)."""
        return self.places + self.others_above

    def sum_by_query(self, values: Floats) -> Floats:
        """The sum of `values`, one of each match, of shape (queries,); 0 without matches."""
        sums = np.zeros(len(self.counts))
        np.add.at(sums, self.query_of, values)
        return sums

    def mean_by_query(self, values: Floats) -> Floats:
        """The mean of `values`, one of each match, of shape (queries,); NaN without matches."""
        return divided(self.sum_by_query(values), self.counts, without=np.nan)

    def running_sum(self, values: Floats) -> Floats:
        """The sum over each match and the better ones of its query, of shape (matches,)."""
        total = np.concatenate(([0.0], np.cumsum(values)))
        since_start: Floats = total[1:] - np.repeat(total[self.starts[:-1]], self.counts)
        return since_start


def divided(above: Floats, below: NDArray[np.number], *, without: float) -> Floats:
    """`above / below`, and `without` where `below` is 0."""
    quotient = np.full(np.shape(above), without, dtype=np.float64)
    np.divide(above, below, out=quotient, where=below != 0)
    return quotient


# R@k: the share of queries that have a match among the first k of the gallery.


def best_ranks(matches: RankedMatches) -> Ids:
    """The rank of each query's first match, from 1, of shape (queries,); 0 without matches."""
    ranks = np.zeros(len(matches.counts), dtype=np.int64)
    matched = matches.counts > 0
    ranks[matched] = matches.ranks[matches.starts[:-1][matched]]
    return ranks


def recall_at(k: int, ranks: Ids) -> NDArray[np.float64]:
    """1 for each query with a match among the first k, else 0; NaN without matches.

    Where k is larger than the gallery, every query with a match has found it.

    Args:
        k: from 1.
        ranks: of the first match of each query, as `best_ranks` gives them, of shape (queries,).
    """
    return np.where(ranks > 0, (ranks <= k).astype(np.float64), np.nan)


def rank_curve(ranks: Ids, depth: int) -> NDArray[np.float64]:
    """R@1 … R@depth in percent over all queries that have a match, of shape (depth,)."""
    found = np.bincount(ranks[(ranks > 0) & (ranks <= depth)], minlength=depth + 1)[1:]
    curve: NDArray[np.float64] = 100 * np.cumsum(found) / max(1, int(np.count_nonzero(ranks)))
    return curve


# AP, whose mean over queries is mAP: how pure the ranking is down to each match.


def average_precision(matches: RankedMatches) -> Floats:
    """The average precision of each query, in (0, 1], of shape (queries,); NaN without matches.

    With n matches at ranks j_1 < … < j_n::

        AP = 1/n · Σ_k k / j_k

    Every match counts, however low it stands; nothing is interpolated.
    """
    return matches.mean_by_query(matches.places / matches.ranks)


# INP, whose mean over queries is mINP: what it costs to find the hardest match.


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


# The median rank of the first match.


def median_rank(ranks: Ids) -> float:
    """The median rank of the first match, from 1, over queries that have one; not in percent.

    Of an even number of queries it is the mean of the two in the middle.

    Args:
        ranks: of the first match of each query, 0 where it has none, of shape (queries,).
    """
    return float(np.median(ranks[ranks > 0]))


# SD, whose mean over queries is mSD: how far matches stand out, in similarity and in rank.


def similarity_distribution(matches: RankedMatches) -> Floats:
    """The similarity distribution of each query (UFineBench, section 3.4), in [0, 1).

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


# mSD as the calculator computes it that was released with UFineBench: not what the paper defines.
#
# `mSD_Calculator.py` (github.com/Zplusdragon/UFineBench) sorts identities by similarity but leaves
# similarities in the order of the gallery, and multiplies the two as if they belonged together. So
# where a match stands at rank j, it takes the similarity of the *j-th item of the gallery as given*
# for that of the match, and sums of similarities run over the gallery as given, too. The value
# changes when the gallery is shuffled. The published values are not its values (with perfect
# retrieval it gives 62 to 64, the paper prints up to 68.45), but the definition's.


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
