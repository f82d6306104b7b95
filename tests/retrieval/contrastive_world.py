"""Random contrastive benchmarks with ties, and samples in the format of `samples.json`."""

from typing import Any, NamedTuple

import numpy as np

from loupe.retrieval.contrastive import CAPTIONS, ContrastiveSamples, contrastive_samples
from loupe.retrieval.embeddings import FloatRows, unit_rows
from loupe.schemas.taxonomy import DifferenceType
from tests.retrieval.literal import tied_rows

KINDS = list(DifferenceType)


class World(NamedTuple):
    """Embeddings of images and of five captions each, and the entries of `samples.json`."""

    images: FloatRows
    texts: FloatRows
    listed: list[dict[str, Any]]

    @property
    def samples(self) -> ContrastiveSamples:
        return contrastive_samples(self.listed, "samples.json")

    @property
    def units(self) -> tuple[FloatRows, FloatRows]:
        """Normalised rows of images and texts."""
        return unit_rows(self.images, "images"), unit_rows(self.texts, "texts")

    def reordered(self, order: "np.ndarray[Any, Any]") -> "World":
        """The same samples in another order."""
        texts = self.texts.reshape(len(self.images), CAPTIONS, -1)[order]
        listed = [self.listed[at] for at in order]
        return World(self.images[order], texts.reshape(len(self.texts), -1), listed)


def sample(image: str, group: str, contrastive_type: str | None = None) -> dict[str, Any]:
    """An entry of `samples.json`."""
    return {"image": image, "group": group, "contrastive_type": contrastive_type}


def contrastive_world(seed: int, groups: int = 6, dimension: int = 7) -> World:
    """Groups with 0 to 3 contrastive images of random types, in random order, with many ties."""
    random = np.random.default_rng(seed)
    listed = []
    for number in range(groups):
        anchor = f"{number}.jpg"
        listed.append(sample(anchor, anchor))
        for one in range(random.integers(4)):
            kind = str(KINDS[random.integers(6)])
            listed.append(sample(f"{number}_{one}.jpg", anchor, kind))
    random.shuffle(listed)
    count = len(listed)
    return World(
        images=tied_rows(random, count, dimension, kinds=4),
        texts=tied_rows(random, CAPTIONS * count, dimension, kinds=5),
        listed=listed,
    )
