"""The forced-choice test of the papers: its items and its report."""

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from loupe.annotate.audits import (
    CHOICES_STAGE,
    Caption,
    DrawnChoices,
    Sample,
    Similarities,
    draw_choices,
)
from loupe.db.entities import ActivityRecord
from loupe.db.release_rows import snapshot
from loupe.db.store import Store
from loupe.db.work import register_plan, store_activity
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.embedding import CachedEmbedder, of_texts, pinned, stored_picture
from loupe.flows.engine.software import code_revision, software
from loupe.flows.evaluation.run import named_embedder
from loupe.models.embedding import Vectors
from loupe.models.profiles.loader import load_profile
from loupe.release.contents import Contents, described_tier
from loupe.release.format.rows import ReleaseRow
from loupe.release.format.scratch import Scratch
from loupe.retrieval.similarity.ranked import (
    Similarity,
    embedding_similarity,
    vector_similarity,
    word_similarity,
)
from loupe.schemas.embedding import PrecomputedEmbedder
from loupe.schemas.errors import UsageError
from loupe.schemas.profile import Profile
from loupe.schemas.records import Picture

VERSION = "1"


def released_samples(store: Store, dataset: str) -> list[Sample]:
    """Return the images of a dataset with their captions, as and in the order of a release.

    Raises:
        IntegrityError: the dataset cannot be released as it is.
    """
    samples: list[Sample] = []
    captions = 0
    with closing(Scratch()) as scratch, snapshot(store) as connection:
        tier = described_tier(connection, dataset)
        contents = Contents(connection, dataset, scratch, tier)
        contents.arrange()
        for found in contents.rows():
            samples.append(_sample(found.row, len(samples), captions))
            captions += len(found.row.captions)
    return samples


def _sample(row: ReleaseRow, number: int, first_caption: int) -> Sample:
    return Sample(
        row=number,
        identity=row.id,
        source=row.source,
        split=row.split,
        picture=Picture(
            sha256=row.sha256,
            media_type=row.media_type,
            width_px=row.width_px,
            height_px=row.height_px,
            image_id=row.image_entity_id,
        ),
        image_id=row.image_entity_id,
        captions=tuple(
            Caption(caption.entity_id, caption.text, place)
            for place, caption in enumerate(row.captions, first_caption)
        ),
    )


def similarities(
    samples: list[Sample], text_embeddings: Path | None, image_embeddings: Path | None
) -> Similarities:
    """Return what similarities are computed from: embeddings if given, else captions' words.

    Raises:
        UsageError: the embeddings do not match the released rows.
    """

    def of(embeddings: Path | None, texts: list[str], what: str) -> Similarity:
        if embeddings is None:
            return word_similarity(texts)
        return embedding_similarity(embeddings, len(texts), what)

    captions = [[caption.text for caption in sample.captions] for sample in samples]
    return Similarities(
        of(image_embeddings, list(map(" ".join, captions)), "released images"),
        of(text_embeddings, list(chain.from_iterable(captions)), "released captions"),
    )


class SampleVectors(NamedTuple):
    """The vectors of the images and of the captions of samples, and the model that made them."""

    model: str
    images: Vectors
    captions: Vectors

    def similarities(self) -> Similarities:
        """Return similarities by these vectors."""
        return Similarities(
            vector_similarity(self.images, self.model),
            vector_similarity(self.captions, self.model),
        )


def sample_vectors(
    context: RunContext,
    samples: Sequence[Sample],
    embedder: str | None,
    profile: Profile | None = None,
) -> SampleVectors:
    """Embed the images and captions of samples, or reuse their stored vectors.

    Args:
        context: the store, the blobs and the profile.
        samples: all samples of a dataset.
        embedder: the model, as `loupe evaluate --embedder` takes it; None for the first that the
            profile evaluates.
        profile: the profile; None for the configured one.

    Raises:
        UsageError: there is no such model, or the profile has none.
        ModelError: the model cannot be loaded, or fails.
    """
    if embedder is not None:
        spec = named_embedder(embedder)
    else:
        profile = profile or load_profile(context.settings.profile)
        spec = profile.evaluation.embedders[0]
    if isinstance(spec, PrecomputedEmbedder):
        raise UsageError("the profile has precomputed vectors; name a model with --embedder")
    pictures = [stored_picture(context, sample.picture) for sample in samples]
    texts = [caption.text for sample in samples for caption in sample.captions]
    cached = CachedEmbedder(
        context.store, pinned(of_texts(spec)), context.progress, settings=context.settings
    )
    return SampleVectors(str(cached.ref), cached.embed_images(pictures), cached.embed_texts(texts))


def draw_and_store(
    store: Store,
    dataset: str,
    size: int,
    seed: int,
    found_by: Similarities,
    samples: list[Sample],
) -> DrawnChoices:
    """Draw the tests and store them; existing tests are left unchanged.

    Raises:
        UsageError: there are too few samples.
    """
    started_at = datetime.now(UTC)
    drawn = draw_choices(dataset, samples, size, seed, found_by)
    configuration = {
        "size": size,
        "seed": seed,
        "image_similarity": found_by.images.name,
        "caption_similarity": found_by.captions.name,
    }
    plan_id = register_plan(store, CHOICES_STAGE, VERSION, configuration)
    activity = ActivityRecord(
        plan_id, dataset, code_revision(), "loupe quality choices draw", started_at, (software(),)
    )
    with store.write() as connection:
        store_activity(connection, activity, drawn.tests)
    return drawn
