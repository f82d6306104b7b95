"""The vectors that the store has of images and texts, and what is nearest to what."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from loupe.db.embeddings import find_vectors
from loupe.db.entities import pages
from loupe.db.exploring import model_names, spaces_of
from loupe.db.store import Store
from loupe.flows.engine.embedding import CachedEmbedder, ReadableImage, of_texts, pinned
from loupe.retrieval.embeddings import FloatRows
from loupe.retrieval.similarity.distances import rows_on_disk, single_precision
from loupe.schemas.base import sha256_of
from loupe.schemas.embedding import (
    BuiltinEmbedder,
    BuiltinStillsEmbedder,
    EmbeddingModelSpec,
    PrecomputedEmbedder,
)
from loupe.schemas.errors import LoupeError
from loupe.schemas.profile import Profile
from loupe.schemas.similarity import NearDuplicateSettings

_EXACT_UP_TO = 20_000
"""Above this number of vectors an index finds the nearest ones; nearly always the right ones."""
_LOOKED_AT = 16
_SAMPLED = 2_000
_MODEL: TypeAdapter[EmbeddingModelSpec] = TypeAdapter(EmbeddingModelSpec)


class Space(NamedTuple):
    """The space of the vectors of images, and the model that made them if the profile has it."""

    key: str
    name: str
    model: EmbeddingModelSpec | None

    def text_space(self, store: Store) -> str | None:
        """Return the space of the vectors of texts that are compared with these."""
        if self.model is None:
            return None
        return CachedEmbedder(store, of_texts(self.model)).space("text")


def best_space(store: Store, profile: Profile, digests: Sequence[str]) -> Space | None:
    """Return the space with vectors of most of some files; None if the store has none.

    A space of a model of the profile is preferred to one that no model is known for.
    """
    found = spaces_of(store, digests[:_SAMPLED])
    named: dict[str, Space] = {}
    for spec in _embedders(profile):
        with suppress(LoupeError):  # the weights of this model are not here
            model = pinned(spec)
            key = CachedEmbedder(store, model).space("image")
            named.setdefault(key, Space(key, str(model.ref), model))
    known = [key for key in named if found[key]]
    best = max(known or found, key=lambda key: found[key], default=None)
    return None if best is None else named.get(best, Space(best, f"vectors {best[:12]}", None))


def models_with_vectors(store: Store, digests: Sequence[str]) -> list[str]:
    """Return the models, as PROVIDER NAME@REVISION, whose vectors of some files the store has.

    A model with other parameters than the usual ones is not found.
    """
    found = spaces_of(store, digests[:_SAMPLED])
    candidates: list[EmbeddingModelSpec] = [BuiltinEmbedder(), BuiltinStillsEmbedder()]
    for name, revision in model_names(store):
        for provider in ("open_clip", "transformers", "mllm", "plugin"):
            values = {"provider": provider, "name": name, "revision": revision}
            with suppress(ValidationError):  # such as a name that this provider cannot have
                candidates.append(_MODEL.validate_python(values))
    return [
        f"{spec.provider} {spec.ref}"
        for spec in candidates
        if found[CachedEmbedder(store, spec).space("image")]
    ]


def _embedders(profile: Profile) -> Iterator[EmbeddingModelSpec]:
    """Return the models of a profile that embed images and texts."""
    yield profile.captioning.embedder
    yield profile.contrast.embedder
    for spec in profile.evaluation.embedders:
        if not isinstance(spec, PrecomputedEmbedder):
            yield spec


def query_image(data: bytes, name: str = "the image") -> ReadableImage:
    """Return the bytes of an image that is not in the store."""
    return ReadableImage(sha256_of(data), name, partial(bytes, data))


class ImageVectors(NamedTuple):
    """The vectors of images: `places` has the row of each digest, `rows` have unit length."""

    places: dict[str, int]
    rows: FloatRows

    def of(self, sha256: str) -> NDArray[np.float32] | None:
        """Return the vector of an image; None if the store has none."""
        place = self.places.get(sha256)
        return None if place is None else self.rows[place]


def image_vectors(store: Store, space: str, digests: Sequence[str]) -> ImageVectors:
    """Return the vectors of images, in a temporary file, as there may be many."""
    places: dict[str, int] = {}

    def blocks() -> Iterator[NDArray[Any]]:
        for page in pages(dict.fromkeys(digests)):
            found = find_vectors(store, space, page)
            if found:
                places.update(zip(found, range(len(places), len(places) + len(found)), strict=True))
                yield single_precision(np.stack(list(found.values())))

    return ImageVectors(places, rows_on_disk(blocks()))


class Neighbours(NamedTuple):
    """For each row: the distance (1 - cosine) to the nearest other, and the group of duplicates.

    The group is the first row of those linked by distances of near-duplicates; -1 without any.
    """

    distances: NDArray[np.float32]
    groups: NDArray[np.int64]


def neighbours(rows: FloatRows, limit: float | None = None) -> Neighbours:
    """Return the nearest neighbour of each row of unit length, of shape (n, d).

    Args:
        rows: the vectors.
        limit: the distance of near-duplicates; None for that of the default settings.
    """
    count = len(rows)
    if count < 2:
        return Neighbours(np.full(count, np.nan, np.float32), np.full(count, -1))
    cosines, beside = nearest(rows, rows, min(count, _LOOKED_AT))
    is_other = beside != np.arange(count)[:, None]
    distances = np.where(is_other & (beside >= 0), 1 - cosines, np.inf)
    within = distances <= (NearDuplicateSettings().embedding_distance if limit is None else limit)
    first, place = np.nonzero(within)
    groups = _groups(count, first, beside[first, place])
    return Neighbours(np.maximum(distances.min(axis=1), 0).astype(np.float32), groups)


def nearest(
    rows: FloatRows, queries: FloatRows, count: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the cosines and places of the rows nearest to each query, both of shape (q, count)."""
    import faiss

    size, dimension = rows.shape
    index: Any = faiss.IndexFlatIP(dimension)
    if size > _EXACT_UP_TO:
        cells = int(4 * np.sqrt(size))
        index = faiss.IndexIVFFlat(index, dimension, cells, faiss.METRIC_INNER_PRODUCT)
        index.nprobe = _LOOKED_AT
        index.cp.max_points_per_centroid = 40
        index.train(np.ascontiguousarray(rows[:: max(1, size // (40 * cells))]))
    for start in range(0, size, _EXACT_UP_TO):
        index.add(np.ascontiguousarray(rows[start : start + _EXACT_UP_TO]))
    found = index.search(np.ascontiguousarray(queries), count)
    return found[0], found[1]


def _groups(count: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the lowest place of the connected rows of each row; -1 for a row on its own."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(first), np.int8), (first, second)), shape=(count, count))
    _, parts = connected_components(links, directed=False)
    _, lowest, inverse, sizes = np.unique(
        parts, return_index=True, return_inverse=True, return_counts=True
    )
    groups: NDArray[np.int64] = np.where(sizes[inverse] > 1, lowest[inverse], -1)
    return groups
