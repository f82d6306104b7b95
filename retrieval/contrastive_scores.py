"""All metrics of a contrastive benchmark at once (CCD), from embeddings that are there already."""

from dataclasses import dataclass
from time import perf_counter

from numpy.typing import ArrayLike

from retrieval.competitors import Tiling, count_competitors, load_kernels
from retrieval.contrastive_samples import CAPTIONS, ContrastiveSamples
from retrieval.embeddings import check_same_space, unit_rows
from retrieval.metrics.contrast_accuracy import ContrastAccuracy, contrast_accuracy
from retrieval.metrics.contrast_similarity import SimilaritySpread, contrast_similarity
from retrieval.metrics.contrastive_recall import (
    ContrastiveRecall,
    contrastive_collection,
    contrastive_recall,
)
from retrieval.sample_list import check_rows
from schemas.evaluation import Direction
from schemas.taxonomy import DifferenceType


@dataclass(frozen=True, slots=True)
class ContrastiveScores:
    """What a model comes to on a contrastive benchmark.

    Attributes:
        recall: R@1 and R@5 by direction and setting.
        accuracy: FG-CDA by direction and type.
        similarity: how similar the images of contrastive pairs are, by type.
        seconds: the time of computing, that of loading kernels left out.
    """

    recall: ContrastiveRecall
    accuracy: dict[Direction, ContrastAccuracy]
    similarity: dict[DifferenceType, SimilaritySpread]
    seconds: float


def score_contrastive(
    images: ArrayLike,
    texts: ArrayLike,
    samples: ContrastiveSamples,
    *,
    names: tuple[str, str] = ("the image embeddings", "the text embeddings"),
    tiling: Tiling | None = None,
) -> ContrastiveScores:
    """Recall, FG-CDA and the similarities of pairs.

    Args:
        images: embeddings of shape (n, d), a row for each sample.
        texts: embeddings of shape (5n, d); row 5·i + j is caption j of image i. Where samples tell
            other numbers of captions, a row for each of these, image by image.
        samples: which image differs from which, in the order of `images`.
        names: what to call the embeddings in messages.
        tiling: how to cut the work; the result does not depend on it.

    Raises:
        FormatError: the embeddings cannot be compared, or are not as many as the samples ask for.
    """
    load_kernels()
    start = perf_counter()
    image_rows, text_rows = unit_rows(images, names[0]), unit_rows(texts, names[1])
    check_same_space(image_rows, text_rows, names)
    check_rows(len(image_rows), len(samples), names[0], "one for each sample")
    rule = f"{CAPTIONS} for each sample" if samples.counts is None else "one for each caption"
    check_rows(len(text_rows), len(samples.image_of_text), names[1], rule)
    collection = contrastive_collection(image_rows, text_rows, samples)
    return ContrastiveScores(
        contrastive_recall(count_competitors(collection, tiling), samples),
        contrast_accuracy(image_rows, text_rows, samples),
        contrast_similarity(image_rows, samples),
        perf_counter() - start,
    )
