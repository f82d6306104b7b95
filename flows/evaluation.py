"""Scores a model on a release: reads it, embeds what is not embedded yet, stores the result."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, cast

from db.evaluations import Stored, store_evaluation
from flows.context import RunContext
from flows.embedding import CachedEmbedder
from flows.evaluation_contrasts import (
    INTERVAL as CONTRASTIVE_INTERVAL,
)
from flows.evaluation_contrasts import (
    PROTOCOL as CONTRASTIVE_PROTOCOL,
)
from flows.evaluation_contrasts import (
    ContrastiveSides,
    coarse_side,
    coarse_texts,
    is_contrastive,
    samples_of,
)
from flows.evaluation_sides import scored_directions, shown_image, sides
from flows.hardware import hardware
from flows.image_reading import ImageFile
from models.embedding import Vectors
from release.reading import ReadRelease, read_release
from retrieval.embedders import pinned
from retrieval.embeddings import read_vectors
from retrieval.evaluation import INTERVAL, PROTOCOL, Scored, Side, score_direction
from schemas.embedding import EmbedderSpec, EmbeddingModelSpec, PrecomputedEmbedder, directed
from schemas.evaluation import (
    ContrastiveResult,
    Direction,
    EvaluatedModel,
    EvaluatedRelease,
    EvaluationResult,
)

_ASKING: dict[Direction, Literal["images", "texts"]] = {
    "text-to-image": "texts",
    "image-to-text": "images",
}
_DIGEST_FIELDS = ("checkpoint_sha256", "folder_sha256")


class _Embedded(NamedTuple):
    """Vectors of a release; of coarse captions where there are any."""

    images: Vectors
    texts: Vectors
    coarse: Vectors | None = None


class _Scores(NamedTuple):
    """What is told of all directions."""

    directions: list[Scored]
    contrasts: ContrastiveResult | None = None


def evaluate_release(
    context: RunContext,
    folder: Path,
    spec: EmbedderSpec,
    *,
    split: str | None = None,
    check_images: bool = True,
) -> Stored:
    """Scores `spec` on a split of the release in `folder` and stores it.

    In both directions, but from text to image only where images have no captions. Where images
    differ from anchors, these ask (`flows.evaluation_contrasts`).

    Args:
        context: stores, progress, code revision.
        folder: the release; what is used of it is held against its manifest first.
        spec: the model. What it embedded before is taken from the store.
        split: see `release.reading.chosen_split`.
        check_images: see `release.reading.read_release`. Images that are embedded anew are held
            against their digests in any case.

    Raises:
        UsageError: there is no release or split, or the model cannot be used.
        IntegrityError: a file is not as it was released.
        ModelError: the model cannot be loaded, or cannot go on.
    """
    read = read_release(folder, split, check_images=check_images)
    source = _source(context, read, spec)
    started = time.monotonic()
    directions = scored_directions(read)
    embedded = {direction: source.embedded(direction) for direction in directions}
    embedding_seconds = time.monotonic() - started
    started = time.monotonic()
    scores = _contrastive(read, embedded) if is_contrastive(read) else _plain(read, embedded)
    scored = scores.directions
    result = EvaluationResult(
        release=_released(read),
        split=read.split,
        protocol=CONTRASTIVE_PROTOCOL if scores.contrasts else PROTOCOL,
        model=source.model,
        code_revision=context.code_revision,
        hardware=hardware(),
        identities=len({row.id for row in read.rows}),
        images=len(read.rows),
        captions=sum(len(row.captions) for row in read.rows),
        directions=tuple(one.direction for one in scored),
        groups=tuple(group for one in scored for group in one.groups),
        interval=CONTRASTIVE_INTERVAL if scores.contrasts else INTERVAL,
        seconds=time.monotonic() - started,
        embedding_seconds=embedding_seconds,
        contrasts=scores.contrasts,
    )
    return store_evaluation(context.store, result)


def _plain(read: ReadRelease, embedded: dict[Direction, _Embedded]) -> _Scores:
    return _Scores([score_direction(one, *_asked(read, one, embedded[one])) for one in embedded])


def _contrastive(read: ReadRelease, embedded: dict[Direction, _Embedded]) -> _Scores:
    """Pairs of images are compared by the vectors with which texts find them."""
    samples = samples_of(read)
    compared: dict[Direction, ContrastiveSides] = {}
    for direction, one in embedded.items():
        coarse = None
        if one.coarse is not None:
            coarse = coarse_side(read, list(map(shown_image, read.rows)), one.coarse)
        compared[direction] = ContrastiveSides(samples, *sides(read, *one[:2]), coarse)
    scored = [sides_.scored(direction) for direction, sides_ in compared.items()]
    return _Scores(scored, next(iter(compared.values())).result())


def _asked(read: ReadRelease, direction: Direction, embedded: _Embedded) -> tuple[Side, Side]:
    """Queries and gallery of a direction."""
    images, texts = sides(read, embedded.images, embedded.texts)
    return (texts, images) if direction == "text-to-image" else (images, texts)


def _released(read: ReadRelease) -> EvaluatedRelease:
    manifest = read.manifest
    return EvaluatedRelease(
        dataset=manifest.dataset,
        version=manifest.version,
        id=manifest.id,
        demonstration=manifest.demonstration,
    )


def _source(context: RunContext, read: ReadRelease, spec: EmbedderSpec) -> "_Given | _Computed":
    if isinstance(spec, PrecomputedEmbedder):
        return _Given(read, pinned(spec))
    return _Computed(context, read, pinned(spec))


class _Given:
    """Vectors that somebody else computed: the same in both directions."""

    def __init__(self, read: ReadRelease, spec: PrecomputedEmbedder) -> None:
        captions = sum(len(row.captions) for row in read.rows)
        found = read_vectors(spec, len(read.rows), captions)
        self._embedded = _Embedded(found.images, found.texts)
        self.model = EvaluatedModel(
            ref=spec.ref, provider=spec.provider, parameters=spec.parameters
        )

    def embedded(self, _direction: Direction) -> _Embedded:
        """The vectors."""
        return self._embedded


class _Computed:
    """Vectors of a model, which may take other instructions in each direction."""

    def __init__(self, context: RunContext, read: ReadRelease, spec: EmbeddingModelSpec) -> None:
        self._context = context
        self._read = read
        self._spec = spec
        self._known: dict[str, _Embedded] = {}
        digests = [getattr(spec, field, None) for field in _DIGEST_FIELDS]
        self.model = EvaluatedModel(
            ref=spec.ref,
            provider=spec.provider,
            parameters=spec.parameters,
            checkpoint_sha256=next(filter(None, digests), None),
            demonstration=spec.provider == "builtin",
        )

    def embedded(self, direction: Direction) -> _Embedded:
        """The vectors for one direction."""
        spec = cast("EmbeddingModelSpec", directed(self._spec, _ASKING[direction]))
        key = spec.model_dump_json()
        if key not in self._known:
            embedder = CachedEmbedder(self._context.store, spec, self._context.progress)
            images = embedder.embed_images(list(self._files()))
            texts = [caption.text for row in self._read.rows for caption in row.captions]
            coarse = coarse_texts(self._read) if is_contrastive(self._read) else []
            self._known[key] = _Embedded(
                images,
                embedder.embed_texts(texts),
                embedder.embed_texts(coarse) if coarse else None,
            )
        return self._known[key]

    def _files(self) -> Iterator[ImageFile]:
        for row in self._read.rows:
            yield ImageFile(row.sha256, self._read.folder / row.file_path)
