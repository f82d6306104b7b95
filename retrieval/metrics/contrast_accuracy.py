"""FG-CDA: how often a model tells contrastive pairs apart, by type of difference (CCD, eq. 1).

A pair is an anchor and one of its contrastive images, taken in both orders (i, j). Text to image,
each of the five captions of i must be more similar to image i than to image j: ten comparisons a
pair. Image to text, each of the five captions of i must be more similar to image i than each of the
five captions of j is: fifty. The paper prints the formula for text to image only; the 25 of an
order are those of the authors' evaluation. Ties are errors. FG-CDE is 100 − FG-CDA.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.contrastive_samples import CAPTIONS, ContrastiveSamples
from retrieval.embeddings import FloatRows, Ids
from retrieval.similarity import Similarities, pair_similarities
from schemas.evaluation import Direction
from schemas.taxonomy import DifferenceType, PrimaryType

COMPARISONS: dict[Direction, int] = {
    "text-to-image": 2 * CAPTIONS,
    "image-to-text": 2 * CAPTIONS * CAPTIONS,
}
"""Comparisons of a pair with five captions each, both orders together."""


class Told(NamedTuple):
    """How many of how many comparisons came out right."""

    right: int
    comparisons: int

    @property
    def accuracy(self) -> float | None:
        """FG-CDA in percent; None where nothing was compared."""
        return 100 * self.right / self.comparisons if self.comparisons else None

    @property
    def error(self) -> float | None:
        """FG-CDE in percent; None where nothing was compared."""
        wrong = self.comparisons - self.right
        return 100 * wrong / self.comparisons if self.comparisons else None


@dataclass(frozen=True, slots=True)
class ContrastAccuracy:
    """FG-CDA of one direction.

    Attributes:
        secondary: by type of difference, types without a pair included.
        primary: by aspect, the comparisons of its types pooled.
        overall: of all comparisons.
        right_of_pair: right comparisons of each pair, in the order of the contrastive samples.
        comparisons_of_pair: all comparisons of each pair, in the same order.
    """

    secondary: dict[DifferenceType, Told]
    primary: dict[PrimaryType, Told]
    overall: Told
    right_of_pair: Ids
    comparisons_of_pair: Ids


def contrast_accuracy(
    images: FloatRows, texts: FloatRows, samples: ContrastiveSamples
) -> dict[Direction, ContrastAccuracy]:
    """FG-CDA in both directions; `images` (n, d) and `texts` (m, d) are unit rows."""
    right = _right_of_pairs(images, texts, samples)
    made = _comparisons_of_pairs(samples)
    return {
        direction: _by_type(right[direction], made[direction], samples.pair_differences)
        for direction in right
    }


def _right_of_pairs(
    images: FloatRows, texts: FloatRows, samples: ContrastiveSamples
) -> dict[Direction, Ids]:
    """How many comparisons of each pair come out right."""
    anchors, contrastive = samples.anchors[samples.contrastive], samples.contrastive
    text_to_image = np.zeros(len(contrastive), dtype=np.int64)
    image_to_text = np.zeros(len(contrastive), dtype=np.int64)
    is_there = np.arange(_most_captions(samples)) < samples.caption_counts[:, None]
    for mine, other in ((anchors, contrastive), (contrastive, anchors)):
        own = _with_captions(images, texts, samples, mine, mine)
        nearer = own > _with_captions(images, texts, samples, other, mine)
        text_to_image += (nearer & is_there[mine]).sum(axis=1)
        captions_of_other = _with_captions(images, texts, samples, mine, other)
        higher: NDArray[np.bool_] = own[:, :, None] > captions_of_other[:, None, :]
        compared = is_there[mine][:, :, None] & is_there[other][:, None, :]
        image_to_text += (higher & compared).sum(axis=(1, 2))
    return {"text-to-image": text_to_image, "image-to-text": image_to_text}


def _comparisons_of_pairs(samples: ContrastiveSamples) -> dict[Direction, Ids]:
    """How many comparisons each pair makes."""
    contrastive = samples.contrastive
    ours = samples.caption_counts[contrastive]
    theirs = samples.caption_counts[samples.anchors[contrastive]]
    return {"text-to-image": ours + theirs, "image-to-text": 2 * ours * theirs}


def _most_captions(samples: ContrastiveSamples) -> int:
    return int(samples.caption_counts.max(initial=0))


def _with_captions(
    images: FloatRows,
    texts: FloatRows,
    samples: ContrastiveSamples,
    image_at: Ids,
    sample_at: Ids,
) -> Similarities:
    """Similarities of each image with the captions of the sample beside it, of shape (n, most).

    Where a sample has fewer captions than another, its last one fills the row.
    """
    places = np.arange(_most_captions(samples))
    last = samples.caption_counts[sample_at, None] - 1
    captions = samples.first_text[sample_at, None] + np.minimum(places, last)
    beside = np.repeat(image_at[:, None], len(places), axis=1)
    return pair_similarities(images, texts, beside, captions)


def _by_type(right: Ids, made: Ids, differences: list[DifferenceType]) -> ContrastAccuracy:
    def told(wanted: Iterable[DifferenceType]) -> Told:
        chosen = np.isin(differences, list(wanted))
        return Told(int(right[chosen].sum()), int(made[chosen].sum()))

    return ContrastAccuracy(
        secondary={kind: told([kind]) for kind in DifferenceType},
        primary={
            aspect: told(kind for kind in DifferenceType if kind.primary is aspect)
            for aspect in PrimaryType
        },
        overall=told(DifferenceType),
        right_of_pair=right,
        comparisons_of_pair=made,
    )
