"""The images that a benchmark's images were chosen among: embedded, and which are alike."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from db.entities import NewEntity, StoredEntity
from flows.captioning import truths_of
from flows.context import RunContext
from flows.embedding import CachedEmbedder
from flows.fingerprints import fingerprint_images, fingerprints_of
from flows.report import StageReport
from flows.task_images import embed_stored, images_of_source
from models.embedding import Vectors
from schemas.near_duplicates import ImageFingerprint, NearDuplicateSettings
from schemas.records import Image
from schemas.recos import RenderedTruth
from stages.confusing_captions.known_truth import shows_another
from stages.near_duplicates.pairs import alike_pairs
from stages.similar_images.matching import Alike, alike_of


class Pool(NamedTuple):
    """The usable images of all sources of a build, in one order.

    Attributes:
        images: those that can be looked at.
        place: where each stands, by id.
        sources: a number for the source of each, of shape (n,).
        vectors: a row for each, of shape (n, d).
        fingerprints: what each looks like, by id.
        alike: those that have, or may have, the same content.
        truths: what was drawn into those that were rendered.
    """

    images: tuple[StoredEntity, ...]
    place: dict[str, int]
    sources: NDArray[np.int64]
    vectors: Vectors
    fingerprints: dict[str, ImageFingerprint]
    alike: Alike
    truths: dict[str, RenderedTruth]


def load_pool(
    context: RunContext,
    sources: Sequence[NewEntity],
    embedder: CachedEmbedder,
    settings: NearDuplicateSettings,
) -> tuple[Pool, list[StageReport]]:
    """Fingerprints and embeds the images of `sources`; what has both already is looked up.

    Raises:
        ModelError: the embedder cannot be loaded, or cannot go on.
    """
    reports = [fingerprint_images(context, source.dataset) for source in sources]
    found = [
        (number, image)
        for number, source in enumerate(sources)
        for image in images_of_source(context.store, source.id)
    ]
    fingerprints = fingerprints_of(context, [image for _, image in found])
    usable = [(number, image) for number, image in found if image.id in fingerprints]
    images = tuple(image for _, image in usable)
    vectors = embed_stored(context, embedder, images)
    ordered = {image.id: fingerprints[image.id] for image in images}
    truths = truths_of(context.store, list(ordered))
    pairs = [
        pair
        for pair in alike_pairs(ordered, settings, vectors)
        if not shows_another(truths.get(pair.first), truths.get(pair.second))
    ]
    pool = Pool(
        images,
        {image.id: place for place, image in enumerate(images)},
        np.array([number for number, _ in usable], np.int64),
        vectors,
        ordered,
        alike_of(pairs, _same_bytes(images)),
        truths,
    )
    return pool, reports


def _same_bytes(images: Sequence[StoredEntity]) -> list[list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for image in images:
        groups[image.record(Image).sha256].append(image.id)
    return [group for group in groups.values() if len(group) > 1]
