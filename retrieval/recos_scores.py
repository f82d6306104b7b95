"""All metrics of a benchmark of tasks at once (ReCoS), from embeddings that are there already."""

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from retrieval.competitors import Collection, Tiling, count_competitors, load_kernels
from retrieval.embeddings import check_same_space, unit_rows
from retrieval.metrics.task_recall import TaskRecall, task_recall
from retrieval.recos_samples import RecosSamples
from retrieval.sample_list import check_rows
from schemas.evaluation import Direction


@dataclass(frozen=True, slots=True)
class RecosScores:
    """What a model comes to on a benchmark of tasks.

    Attributes:
        recall: R@1, R@5 and R@10 by direction, overall and by task; None for a direction in which
            the benchmark cannot be scored.
        seconds: the time of computing, that of loading kernels left out.
    """

    recall: dict[Direction, TaskRecall | None]
    seconds: float


def score_recos(
    images: ArrayLike,
    texts: ArrayLike,
    samples: RecosSamples,
    *,
    names: tuple[str, str] = ("the image embeddings", "the text embeddings"),
    tiling: Tiling | None = None,
) -> RecosScores:
    """Recall, overall and task by task.

    Args:
        images: embeddings of shape (n, d), a row for each sample.
        texts: embeddings of shape (m, d), image by image, a row for each caption.
        samples: which image is for which task, in the order of `images`.
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
    check_rows(len(text_rows), int(samples.captions.sum()), names[1], "one for each caption")
    one_pool = np.zeros(len(samples), dtype=np.int64)
    collection = Collection(image_rows, text_rows, samples.image_of_text, one_pool)
    recall = task_recall(count_competitors(collection, tiling), samples)
    return RecosScores(recall, perf_counter() - start)
