"""How similar the images of contrastive pairs are, by type of difference (CCD, figure 5)."""

from typing import NamedTuple

import numpy as np

from retrieval.contrastive_samples import ContrastiveSamples
from retrieval.embeddings import FloatRows
from retrieval.similarity import Similarities, pair_similarities
from schemas.taxonomy import DifferenceType

BINS = 40
"""Bins of the histogram, equally wide from −1 to 1."""

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


class SimilaritySpread(NamedTuple):
    """The distribution of some cosines.

    Attributes:
        pairs: how many there are.
        mean: their mean; None where there are none.
        quantiles: by the share that lies below; empty where there are none.
        histogram: how many lie in each of `BINS` bins from −1 to 1.
    """

    pairs: int
    mean: float | None
    quantiles: dict[float, float]
    histogram: tuple[int, ...]


def contrast_similarity(
    images: FloatRows, samples: ContrastiveSamples
) -> dict[DifferenceType, SimilaritySpread]:
    """The spread of the cosines of anchors with their contrastive images, for each type."""
    anchors, contrastive = samples.anchors[samples.contrastive], samples.contrastive
    cosines = pair_similarities(images, images, anchors, contrastive)
    kinds = np.array(samples.pair_differences, dtype=object)
    return {kind: spread(cosines[kinds == kind]) for kind in DifferenceType}


def spread(cosines: Similarities) -> SimilaritySpread:
    """The distribution of `cosines`, whatever their order."""
    counts, _ = np.histogram(np.clip(cosines, -1, 1), bins=BINS, range=(-1, 1))
    histogram = tuple(counts.tolist())
    if not len(cosines):
        return SimilaritySpread(0, None, {}, histogram)
    ordered = np.sort(cosines)
    quantiles = dict(zip(QUANTILES, np.quantile(ordered, QUANTILES).tolist(), strict=True))
    return SimilaritySpread(len(ordered), float(ordered.mean()), quantiles, histogram)
