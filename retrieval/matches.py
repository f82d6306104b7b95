"""Where the matches of queries stand in their rankings: all that the metrics need to know."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import Ids

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
        others_above: how many non-matches stand above it, of shape (matches,).
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
        """How many matches each query has, of shape (queries,)."""
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
