"""R@1 and R@5 of a contrastive benchmark, both directions, three settings (CCD, section 3)."""

from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.competitors import Collection, Competitors
from retrieval.contrastive_samples import ContrastiveSamples
from retrieval.embeddings import FloatRows, Ids
from retrieval.metrics.sample_recall import SampleRecall, sample_recall
from schemas.evaluation import Direction

DEPTHS = (1, 5)
_ORIGINAL, _CONTRASTIVE = 0, 1


class ContrastiveSetting(StrEnum):
    """Which samples ask, and which can be found; the paper's tables 2 and 4 are the first."""

    ORIGINAL_TO_ALL = "original_to_all"
    ORIGINAL_TO_ORIGINAL = "original_to_original"
    ALL_TO_ALL = "all_to_all"

    @property
    def only_originals_ask(self) -> bool:
        """Whether contrastive samples are no queries."""
        return self is not ContrastiveSetting.ALL_TO_ALL

    @property
    def pools(self) -> tuple[int, ...]:
        """The pools of candidates."""
        only_original = self is ContrastiveSetting.ORIGINAL_TO_ORIGINAL
        return (_ORIGINAL,) if only_original else (_ORIGINAL, _CONTRASTIVE)


ContrastiveRecall = dict[Direction, dict[ContrastiveSetting, SampleRecall]]


def contrastive_collection(
    images: FloatRows, texts: FloatRows, samples: ContrastiveSamples
) -> Collection:
    """Images and captions of `samples`; originals and contrastive ones in pools of their own."""
    return Collection(
        images,
        texts,
        image_of_text=samples.image_of_text,
        pool_of_image=np.where(samples.is_original, _ORIGINAL, _CONTRASTIVE),
        pools=2,
    )


class _Queries(NamedTuple):
    """Queries of one direction: `competing` of shape (queries, pools), and how many candidates."""

    competing: Ids
    is_original: NDArray[np.bool_]
    candidates: tuple[int, int]

    def recall(self, setting: ContrastiveSetting) -> SampleRecall:
        asking = self.is_original if setting.only_originals_ask else slice(None)
        pools = list(setting.pools)
        competing = self.competing[asking][:, pools].sum(axis=1)
        return sample_recall(competing, sum(self.candidates[pool] for pool in pools), DEPTHS)


def contrastive_recall(competitors: Competitors, samples: ContrastiveSamples) -> ContrastiveRecall:
    """R@k by direction and setting, of what was counted for `contrastive_collection`.

    Image to text, the best of the image's own captions counts and the others do not compete.
    """
    original = samples.is_original
    told_of = original[samples.image_of_text]
    counts = int(original.sum()), int((~original).sum())
    texts = int(told_of.sum()), int((~told_of).sum())
    directions: dict[Direction, _Queries] = {
        "text-to-image": _Queries(competitors.of_texts, told_of, counts),
        "image-to-text": _Queries(competitors.of_images, original, texts),
    }
    return {
        direction: {setting: queries.recall(setting) for setting in ContrastiveSetting}
        for direction, queries in directions.items()
    }
