"""How similar other samples are to those of a benchmark: Sim_image and Sim_text (CCD, table 1).

For each image the mean cosine with the five most similar images of other samples, for each text
with the five most similar texts of other samples, and the means of these. The paper names a model
only for the human check (Ops-MM-embedding-v1).
"""

from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from loupe.retrieval.embeddings import FloatRows, Ids, Similarities, unit_rows
from loupe.retrieval.similarity.products import nearest_units

NEAREST = 5
"""Distractors of a sample (CCD, section 2.2)."""


class BenchmarkDistractors(NamedTuple):
    """The means of the images and of the texts of a benchmark, and the time of computing.

    None where no sample has a distractor.
    """

    images: float | None
    texts: float | None
    seconds: float


def benchmark_distractors(
    images: ArrayLike,
    texts: ArrayLike,
    image_of_text: Ids,
    names: tuple[str, str] = ("the image embeddings", "the text embeddings"),
) -> BenchmarkDistractors:
    """The similarity of the nearest other samples, among images and among texts.

    Args:
        images: embeddings of shape (n, d), a row for each sample.
        texts: embeddings of shape (m, d).
        image_of_text: for each text the index of its image.
        names: what to call the embeddings in messages.

    Raises:
        FormatError: the embeddings cannot be compared.
    """
    start = perf_counter()
    image_rows, text_rows = unit_rows(images, names[0]), unit_rows(texts, names[1])
    of_images = mean_with_nearest(image_rows, np.arange(len(image_rows)))
    of_texts = mean_with_nearest(text_rows, image_of_text)
    return BenchmarkDistractors(of_images, of_texts, perf_counter() - start)


def mean_with_nearest(rows: FloatRows, samples: Ids) -> float | None:
    """The mean of `means_with_nearest` over rows that have a distractor; None without any."""
    found = means_with_nearest(rows, samples)
    known = np.sort(found[~np.isnan(found)])  # sorted, so that their order does not matter
    return float(known.mean()) if len(known) else None


def means_with_nearest(rows: FloatRows, samples: Ids, nearest: int = NEAREST) -> Similarities:
    """The mean cosine of each row with its most similar rows of other samples, of shape (n,).

    NaN where there are none.

    Args:
        rows: unit rows, of images or of texts, of shape (n, d).
        samples: for each row the sample that it belongs to, from 0.
        nearest: how many distractors count; all of them where there are fewer.
    """
    found = nearest_units(rows, rows, nearest, apart=(samples, samples))
    highest = np.sort(found.similarities, axis=1)
    is_there = np.isfinite(highest)
    sums, counts = np.where(is_there, highest, 0).sum(axis=1), is_there.sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
