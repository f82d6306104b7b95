"""The images that a benchmark is chosen from: embeddings and duplicates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from db.entities import NewEntity, StoredEntity
from flows.engine.context import RunContext
from flows.engine.embedding import CachedEmbedder
from flows.engine.fingerprints import fingerprint_images, fingerprints_of
from flows.engine.report import StageReport
from flows.recos.captioning import truths_of
from flows.recos.confusion_checks import what_is_shown
from flows.recos.task_images import embed_stored, images_of_source
from models.embedding import Vectors
from retrieval.similarity.near_duplicates import AlikeImages
from schemas.base import digest_of
from schemas.near_duplicates import ImageFingerprint, NearDuplicateSettings
from schemas.recos import RenderedTruth


@dataclass
class Pool:
    """The usable images of all sources of a build, in one order.

    Fingerprints, embeddings and duplicates are computed on first use, so a run without open work
    computes none. Stored results are reused.

    Attributes:
        origins: the sources.
        tell: receives the report of the fingerprinting.
    """

    context: RunContext
    origins: Sequence[NewEntity]
    embedder: CachedEmbedder
    settings: NearDuplicateSettings
    tell: Callable[[StageReport], None]

    @cached_property
    def digest(self) -> str:
        """A digest of the images of the sources, which does not read them."""
        return digest_of(*(image.id for _, image in self._of_sources))

    @cached_property
    def images(self) -> tuple[StoredEntity, ...]:
        """The usable images."""
        return tuple(image for _, image in self._of_sources if image.id in self.fingerprints)

    @cached_property
    def sources(self) -> NDArray[np.int64]:
        """A number for the source of each image, of shape (n,)."""
        usable = [number for number, image in self._of_sources if image.id in self.fingerprints]
        return np.array(usable, np.int64)

    @cached_property
    def fingerprints(self) -> dict[str, ImageFingerprint]:
        """The fingerprint of each image by id, in their order."""
        for source in self.origins:
            self.tell(fingerprint_images(self.context, source.dataset))
        return fingerprints_of(self.context.store, [image.id for _, image in self._of_sources])

    @cached_property
    def place(self) -> dict[str, int]:
        """The position of each image by id."""
        return {image.id: place for place, image in enumerate(self.images)}

    @cached_property
    def vectors(self) -> Vectors:
        """The embedding of each image, of shape (n, d).

        Raises:
            ModelError: the embedder cannot be loaded or cannot continue.
        """
        return embed_stored(self.context, self.embedder, self.images)

    @cached_property
    def truths(self) -> dict[str, RenderedTruth]:
        """The truths of rendered images, by id."""
        return truths_of(self.context.store, list(self.place))

    @cached_property
    def duplicates(self) -> AlikeImages:
        """Images that have, or may have, the same content.

        Raises:
            ModelError: see `vectors`.
        """
        contents = {image: what_is_shown(truth) for image, truth in self.truths.items()}
        return AlikeImages(self.fingerprints, self.settings, self.vectors, contents)

    @cached_property
    def _of_sources(self) -> list[tuple[int, StoredEntity]]:
        return [
            (number, image)
            for number, source in enumerate(self.origins)
            for image in images_of_source(self.context.store, source.id)
        ]
