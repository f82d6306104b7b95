"""How well a model tells contrastive pairs apart, as the records that evaluations hold."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from retrieval.bootstrap import bootstrap_means
from retrieval.contrastive_samples import ContrastiveSamples
from retrieval.distractors import BenchmarkDistractors
from retrieval.metrics.contrast_accuracy import ContrastAccuracy
from retrieval.metrics.contrast_similarity import SimilaritySpread
from schemas.evaluation import (
    CONTRAST_METRICS,
    ContrastiveResult,
    Direction,
    GroupResult,
    PairSimilarities,
    Score,
    Scores,
)
from schemas.taxonomy import DifferenceType, PrimaryType

_ACCURACY, _ERROR = CONTRAST_METRICS


def overall_accuracy(accuracy: ContrastAccuracy, samples: ContrastiveSamples) -> Scores:
    """FG-CDA of all pairs, with its interval over groups; nothing where there is no pair."""
    found = _scores(accuracy, samples, np.ones(len(samples.contrastive), dtype=np.bool_))
    return {name: score for name, score in found.items() if name == _ACCURACY}


def groups_by_difference(
    direction: Direction, accuracy: ContrastAccuracy, samples: ContrastiveSamples
) -> Iterator[GroupResult]:
    """FG-CDA and FG-CDE of each type and of each aspect that has a pair."""
    differences = samples.pair_differences
    divisions: tuple[tuple[str, list[str], Callable[[DifferenceType], str]], ...] = (
        ("difference", [kind.value for kind in DifferenceType], lambda kind: kind.value),
        ("aspect", [aspect.value for aspect in PrimaryType], lambda kind: kind.primary.value),
    )
    for dimension, groups, name in divisions:
        labels = np.array([name(kind) for kind in differences], dtype=object)
        for group in groups:
            chosen = labels == group
            if chosen.any():
                yield GroupResult(
                    dimension=dimension,
                    group=group,
                    direction=direction,
                    queries=int(chosen.sum()),
                    unmatched=0,
                    scores=_scores(accuracy, samples, chosen),
                )


def _scores(
    accuracy: ContrastAccuracy, samples: ContrastiveSamples, chosen: NDArray[np.bool_]
) -> Scores:
    """Right comparisons of all of the chosen pairs; pairs of one anchor are drawn together."""
    made = accuracy.comparisons_of_pair[chosen]
    right = 100 * accuracy.right_of_pair[chosen] / np.maximum(made, 1)
    anchors = samples.anchors[samples.contrastive][chosen]
    values = {_ACCURACY: np.repeat(right, made)}
    if not made.sum():
        return {}
    found = bootstrap_means(values, np.repeat(anchors, made))[_ACCURACY]
    return {
        _ACCURACY: Score(value=found.value, low=found.low, high=found.high),
        _ERROR: Score(value=100 - found.value, low=100 - found.high, high=100 - found.low),
    }


def contrastive_result(
    similarity: dict[DifferenceType, SimilaritySpread], distractors: BenchmarkDistractors
) -> ContrastiveResult:
    """How similar contrastive pairs are, and how near the nearest other samples."""
    return ContrastiveResult(
        similarities=tuple(_similarities(kind, one) for kind, one in similarity.items()),
        nearest_images=distractors.images.mean,
        nearest_texts=distractors.texts.mean,
    )


def _similarities(kind: DifferenceType, one: SimilaritySpread) -> PairSimilarities:
    return PairSimilarities(
        difference=kind,
        pairs=one.pairs,
        mean=one.mean,
        quantiles=tuple(one.quantiles.items()),
        histogram=one.histogram,
    )
