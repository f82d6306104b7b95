"""What a release says of itself beside what it counts: how near other samples are, what people saw.

How near the nearest other samples are is measured for contrastive benchmarks alone (CCD, table 1),
by the model that their build compares images with.
"""

from collections.abc import Sequence

import numpy as np

from annotate.choice_check import choice_results
from annotate.queues import Queue
from db.entities import find
from db.store import Store
from flows.embedding import CachedEmbedder
from flows.image_reading import ImageFile
from flows.progress import Progress, SilentProgress
from flows.queues import declared_queues
from flows.release_agreement import agreement_statistics
from flows.release_facts import ReleaseFacts, release_facts
from models.embedding import Vectors
from profiles.loader import load_profile
from profiles.settings import Settings
from release.checks import Checks, WrittenSample
from retrieval.distractors import distractor_statistics
from retrieval.embedders import pinned
from retrieval.embeddings import unit_rows
from schemas.embedding import PlainModelSpec
from schemas.quality import ChoiceTest
from schemas.release import ChoiceStatistics, NearestStatistics

_DECIMALS = 3
_CHOICES = "choices"


def release_checks(
    store: Store,
    settings: Settings,
    dataset: str,
    embedder: PlainModelSpec | None = None,
    progress: Progress | None = None,
    facts: ReleaseFacts | None = None,
) -> Checks:
    """The checks of a dataset's next release.

    `embedder` is the specification of the model that samples are compared by; None for that of the
    profile in force. It is loaded when a contrastive release is built, and a vector is missing.
    `facts` are what is stated of the release; None for what the installation's file states.
    """
    stated = facts or release_facts(settings.releases_file, dataset)
    queue = declared_queues(settings).queue(dataset, _CHOICES)

    def nearest(samples: Sequence[WrittenSample]) -> NearestStatistics:
        spec = embedder or load_profile(settings.profile).contrast.embedder
        return measured_nearest(
            samples, CachedEmbedder(store, pinned(spec), progress or SilentProgress())
        )

    return Checks(
        nearest,
        choice_statistics(store, queue),
        agreement=agreement_statistics(store, settings, dataset),
        about=stated.about,
        permitted_terms=stated.permitted_terms,
    )


def measured_nearest(
    samples: Sequence[WrittenSample], embedder: CachedEmbedder
) -> NearestStatistics:
    """The mean cosine of each image, and of each caption, with its five nearest of other images.

    Likewise among the anchors alone, with their coarse captions: what the benchmark began as.
    """
    images = embedder.embed_images([ImageFile(one.sha256, one.file) for one in samples])
    anchors = [at for at, one in enumerate(samples) if one.is_anchor]
    return NearestStatistics(
        embedder=str(embedder.ref),
        images=_nearest_images(images),
        captions=_nearest_captions([one.captions for one in samples], embedder),
        original_images=_nearest_images(images[anchors]),
        original_captions=_nearest_captions([samples[at].coarse for at in anchors], embedder),
    )


def _nearest_images(images: Vectors) -> float | None:
    if not len(images):
        return None
    rows = unit_rows(images, "the image embeddings")
    return _rounded(distractor_statistics(rows, np.arange(len(rows))).mean)


def _nearest_captions(
    captions: Sequence[tuple[str, ...]], embedder: CachedEmbedder
) -> float | None:
    """Of the captions of each image, held against those of the others."""
    texts = [text for many in captions for text in many]
    if not texts:
        return None
    rows = unit_rows(embedder.embed_texts(texts), "the text embeddings")
    image_of_text = np.repeat(np.arange(len(captions)), list(map(len, captions)))
    return _rounded(distractor_statistics(rows, image_of_text).mean)


def _rounded(value: float | None) -> float | None:
    """As the paper prints it: what rounding of vectors could change does not show."""
    return None if value is None else round(value, _DECIMALS)


def choice_statistics(store: Store, queue: Queue) -> tuple[ChoiceStatistics, ...]:
    """What testers of choices of six had right, in each direction; empty where nobody answered."""
    results = choice_results(store, queue)
    if not results:
        return ()
    tests = find(store, queue.dataset, ChoiceTest.kind)
    directions = [one.record(ChoiceTest).direction for one in tests if one.state != "withdrawn"]
    return tuple(
        ChoiceStatistics(
            direction=one.direction,
            tester=one.tester,
            correct=one.correct,
            total=one.total,
            size=directions.count(one.direction),
        )
        for one in results
    )
