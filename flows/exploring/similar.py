"""The images nearest to an image or a text, by the vectors that the store has."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from loupe.db.entities import LIVE, datasets_of, fetch
from loupe.db.exploring import image_ids
from loupe.db.store import Store
from loupe.flows.engine.embedding import CachedEmbedder, of_texts
from loupe.flows.exploring.vectors import (
    best_space,
    image_vectors,
    models_with_vectors,
    nearest,
    query_image,
)
from loupe.retrieval.similarity.distances import single_precision
from loupe.schemas.errors import UsageError
from loupe.schemas.profile import Profile
from loupe.schemas.records import Image
from loupe.schemas.validation import nearest_hint
from loupe.sources.video.sequence import IMAGE_SUFFIXES


class SimilarImage(NamedTuple):
    """An image that is near to what was asked for; `similarity` is the cosine."""

    id: str
    dataset: str
    name: str
    state: str
    sha256: str
    similarity: float


def similar_images(
    store: Store, profile: Profile, query: str | Path, datasets: Sequence[str], count: int
) -> list[SimilarImage]:
    """Return the images nearest to a text, an image file or an image of the store, nearest first.

    Args:
        store: the store with the images and their vectors.
        profile: has the model of the vectors, which embeds the query.
        query: a text, the path of an image, or the id of an image of the store.
        datasets: only images of these datasets; empty for all, each image once.
        count: how many images.

    Raises:
        UsageError: there is no such dataset or file, or the store has no vectors that the query can
            be compared with.
    """
    asked_file = _file_of(query)
    known = datasets_of(store)
    for name in datasets:
        if name not in known:
            raise UsageError(f"there is no dataset {name!r}; {nearest_hint(name, known)}")
    ids = [id_ for name in datasets or known for id_ in image_ids(store, name)]
    images = list(fetch(store, ids).values())
    if not datasets:
        # a dataset has copies of the images of its sources, made later
        images.sort(key=lambda one: (one.state in LIVE, one.seq))
        images = list({one.record(Image).sha256: one for one in images}.values())
    digests = [one.record(Image).sha256 for one in images]
    space = best_space(store, profile, digests)
    if space is None or space.model is None:
        where = " and ".join(datasets) or "the store"
        raise UsageError(
            f"{where} has no vectors of images by a model of the profile {profile.name}; "
            f"{_remedy(models_with_vectors(store, digests))}"
        )
    vectors = image_vectors(store, space.key, digests)
    asked: str | None = None
    text = str(query)
    if asked_file is not None:
        file = query_image(asked_file.read_bytes(), text)
        row = CachedEmbedder(store, space.model).embed_images([file])
        asked = file.sha256
    elif (image := fetch(store, [text]).get(text)) is not None and image.kind == Image.kind:
        asked = image.record(Image).sha256
        known_row = vectors.of(asked)
        if known_row is None:
            raise UsageError(f"the store has no vector of the image {text}")
        row = known_row[None]
    else:
        row = CachedEmbedder(store, of_texts(space.model)).embed_texts([text])
    cosines, places = nearest(vectors.rows, single_precision(row), min(count, len(vectors.rows)))
    by_place = {place: float(cosine) for cosine, place in zip(cosines[0], places[0], strict=True)}
    found = [
        SimilarImage(
            image.id,
            image.dataset,
            image.record(Image).file_path,
            image.state,
            digest,
            round(by_place[place], 4),
        )
        for image, digest in zip(images, digests, strict=True)
        if (place := vectors.places.get(digest)) in by_place
    ]
    return sorted(found, key=lambda one: -one.similarity)[:count]


def _file_of(query: str | Path) -> Path | None:
    """Return the image file that is asked about; None if it is a text or an id.

    Raises:
        UsageError: it looks like the path of an image, and there is no such file.
    """
    path = Path(query)
    if os.path.isfile(path):  # noqa: PTH113 - a long text is no error
        return path
    has_separator = len(path.parts) > 1 and " " not in str(query)
    if isinstance(query, Path) or has_separator or path.suffix.lower() in IMAGE_SUFFIXES:
        raise UsageError(
            f"there is no image {str(query)!r}; expected an image file, the id of an image, or a "
            f"text in words"
        )
    return None


def _remedy(models: Sequence[str]) -> str:
    if not models:
        return (
            "`loupe evaluate` of a release makes them, and so do the step loupe.steps.embed() and "
            "builds that compare images"
        )
    return (
        f"there are vectors by {', '.join(models)}: choose a profile (--profile) that has this "
        f"model as [captioning.embedder] or in [[evaluation.embedders]]"
    )
