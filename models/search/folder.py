"""The built-in image search: images of a folder, ranked by similarity to the query."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

import numpy as np

from loupe.models.adapter import Adapter, always
from loupe.models.embedding import Vectors
from loupe.models.image_search import plain_query
from loupe.schemas.base import digest_of
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.image_search import (
    FolderSearch,
    SearchAnswer,
    SearchFailure,
    SearchHit,
    SearchOutcome,
)
from loupe.schemas.licences import licence_name
from loupe.schemas.records import Attribution

_SCHEME = "folder:"


class FolderImage(NamedTuple):
    """An image of the folder, as listed in its licence file."""

    file_path: str
    sha256: str
    media_type: str
    width_px: int
    height_px: int
    attribution: Attribution


class TextEmbedder(Protocol):
    """Embeds queries in the space of the images."""

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Return a unit row for each text."""
        ...


class FolderImageSearch(Adapter[FolderSearch]):
    """Ranks the images of a folder by the cosine between their vectors and the query's.

    Images of equal similarity keep the order of the licence file. The caller computes and keeps the
    vectors: `vectors` has a unit row for each of `images`, in order. If the source of an image has
    no page, its path in the folder is used.

    Raises:
        ConfigurationError: the number of rows differs from that of images.
    """

    def __init__(
        self,
        spec: FolderSearch,
        images: Sequence[FolderImage],
        vectors: Vectors,
        embedder: TextEmbedder,
    ) -> None:
        if len(images) != len(vectors):
            raise ConfigurationError(
                f"a search of {len(images)} images wants as many vectors; got {len(vectors)}"
            )
        super().__init__(spec)
        self._images = tuple(images)
        self._vectors = vectors
        self._embedder = embedder
        self._turn = threading.Lock()  # a model embeds one query at a time
        files: list[str] = []
        for image in images:
            files += [image.file_path, image.sha256]
        attributions = [image.attribution.model_dump_json() for image in images]
        self._digest = digest_of(*files, *attributions)

    @property
    def parameters(self) -> dict[str, Any]:
        """The embedder, and a digest of all images with their terms; without the folder's path."""
        return {**self._spec.parameters, "images": self._digest}

    def search(
        self,
        query: str,
        count: int,
        may_retry: Callable[[], bool] = always,  # noqa: ARG002 - nothing is asked
    ) -> SearchOutcome:
        """Return the images nearest to the query: see `ImageSearch`."""
        words = plain_query(query)
        if isinstance(words, SearchFailure):
            return words
        started = time.monotonic()
        with self._turn:
            wanted = self._embedder.embed_texts([words])[0]
        similarities = self._vectors @ wanted
        places = np.argsort(-similarities, kind="stable")[:count]
        hits = [self._hit(rank, place) for rank, place in enumerate(places, start=1)]
        found = [
            {"file_name": self._images[place].file_path, "similarity": float(similarities[place])}
            for place in places
        ]
        raw = json.dumps({"images": len(self._images), "found": found}, ensure_ascii=False)
        return SearchAnswer(
            hits=tuple(hits), raw=raw, seconds=time.monotonic() - started, requests=0
        )

    def _hit(self, rank: int, place: int) -> SearchHit:
        image = self._images[place]
        url = folder_url(image.file_path)
        return SearchHit(
            rank=rank,
            image_url=url,
            page_url=image.attribution.source_url or url,
            title=Path(image.file_path).stem,
            licence=licence_name(image.attribution.licence),
            creator=image.attribution.creator,
            width_px=image.width_px,
            height_px=image.height_px,
            media_type=image.media_type,
        )


def folder_url(file_path: str) -> str:
    """Return the address of an image in the folder, which does not reveal the folder's path."""
    return _SCHEME + quote(file_path)


def path_in_folder(image_url: str) -> str | None:
    """Return the image's path in the folder, or None if the address is not of a folder."""
    return unquote(image_url.removeprefix(_SCHEME)) if image_url.startswith(_SCHEME) else None
