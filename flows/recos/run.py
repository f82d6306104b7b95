"""The state and the pairs of captions that the steps of `build-recos` share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    fetch_children,
    fetch_parents,
    find_children,
    find_in_groups,
    new_entity,
    parents_of,
)
from loupe.db.store import Store
from loupe.flows.engine.contamination import fingerprint_images, fingerprints_of
from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.model_step import DatasetModel
from loupe.flows.recos.captioning import Captioning
from loupe.flows.recos.confusion_checks import Background, what_is_shown
from loupe.models.embedding import Vectors
from loupe.models.ocr import TextReader, build_text_reader
from loupe.retrieval.score_matrix import mean_vectors
from loupe.retrieval.similarity.near_duplicates import AlikeImages
from loupe.schemas.build import RecosBuild, TaskSpec
from loupe.schemas.profile import CaptioningSettings
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image
from loupe.schemas.recos import ConfusionCalibration, RenderedTruth
from loupe.schemas.similarity import ImageFingerprint
from loupe.schemas.taxonomy import RetrievalTask, Tier
from loupe.sources.rendered import RenderOptions

# The images of a benchmark of tasks, their origin and their captions.


def images_of_source(store: Store, source_id: str) -> list[StoredEntity]:
    """Return the images imported from a source and not rejected, by id."""
    children = find_children(store, source_id, Role.IMPORTED_FROM)
    images = (one for one in children if one.kind == Image.kind and one.state == "proposed")
    return sorted(images, key=lambda one: one.id)


def images_of_tier(store: Store, dataset: str, tier: str) -> list[StoredEntity]:
    """Return the images that a version added, by id, with any decision except withdrawal."""
    found = find_in_groups(store, dataset, Image.kind, [tier])
    return sorted((one for one in found if one.state != "withdrawn"), key=lambda one: one.id)


def originals_of(store: Store, images: Sequence[StoredEntity]) -> dict[str, str]:
    """Return the image of its source for each image of a benchmark, by their ids."""
    parents = parents_of(store, [image.id for image in images], Role.SAMPLED_FROM)
    return {id_: found[0] for id_, found in parents.items()}


def truths_of(store: Store, originals: Sequence[str]) -> dict[str, RenderedTruth]:
    """Return the rendered truths of images of sources by id, if known."""
    drawn = fetch_parents(store, originals, Role.RENDERED_FROM)
    return {original: found[0].record(RenderedTruth) for original, found in drawn.items()}


def captions_of(store: Store, image_ids: Sequence[str]) -> dict[str, tuple[StoredEntity, ...]]:
    """Return the accepted captions of each image, by position."""
    return {
        image: tuple(
            sorted(
                (one for one in many if one.state == "accepted"),
                key=lambda one: (one.record(Caption).position, one.id),
            )
        )
        for image, many in fetch_children(store, image_ids, Role.DESCRIBES).items()
    }


def copied_image(
    image: StoredEntity,
    dataset: str,
    task: RetrievalTask,
    tier: Tier,
    parents: Sequence[tuple[Role, str]],
) -> NewEntity:
    """Copy an image of a source into the benchmark; all released images are for testing.

    Its group is the tier, which determines the further steps.
    """
    record = image.record(Image)
    return new_entity(
        record.model_copy(update={"split": "test", "task": task, "tier": tier}),
        dataset,
        parents=[(Role.SAMPLED_FROM, image.id), *parents],
        split="test",
        group=tier,
    )


@dataclass
class Pool:
    """The usable images of all sources of a build, in one order.

    Fingerprints, embeddings and duplicates are computed on first use, so a run without open work
    computes none. Stored results are reused.

    Attributes:
        models: the embedder, and what counts as a near-duplicate.
        origins: the sources.
    """

    run: PipelineRun[Any]
    models: Captioning
    origins: Sequence[NewEntity]

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
            self.run.add(fingerprint_images(self.run.context, source.dataset))
        return fingerprints_of(self.run.store, [image.id for _, image in self._of_sources])

    @cached_property
    def place(self) -> dict[str, int]:
        """The position of each image by id."""
        return {image.id: place for place, image in enumerate(self.images)}

    @cached_property
    def vectors(self) -> Vectors:
        """The embedding of each image, of shape (n, d), see `Captioning.embed`.

        Raises:
            ModelError: the embedder cannot be loaded or cannot continue.
        """
        return self.models.embed(self.images)

    @cached_property
    def dimension(self) -> int:
        """The length of a vector."""
        models = self.models
        rows = models.embed_texts([""]) if models.has_several_vectors else self.vectors
        return int(rows.shape[1])

    @cached_property
    def mean_vectors(self) -> Vectors:
        """One vector for each image, to find near-duplicates."""
        return mean_vectors(self.vectors, self.dimension)

    @cached_property
    def truths(self) -> dict[str, RenderedTruth]:
        """The truths of rendered images, by id."""
        return truths_of(self.run.store, list(self.place))

    @cached_property
    def duplicates(self) -> AlikeImages:
        """Images that have, or may have, the same content.

        Raises:
            ModelError: see `vectors`.
        """
        contents = {image: what_is_shown(truth) for image, truth in self.truths.items()}
        return AlikeImages(
            self.fingerprints, self.models.settings.near_duplicates, self.mean_vectors, contents
        )

    @cached_property
    def _of_sources(self) -> list[tuple[int, StoredEntity]]:
        return [
            (number, image)
            for number, source in enumerate(self.origins)
            for image in images_of_source(self.run.store, source.id)
        ]


class BaseTier(NamedTuple):
    """The images of v0 with their accepted captions.

    Attributes:
        images: images with captions.
        originals: the image of the source that each is a copy of, by id.
        captions: captions of each image by id, in the order of positions.
    """

    images: tuple[StoredEntity, ...]
    originals: dict[str, str]
    captions: dict[str, tuple[StoredEntity, ...]]


class Judge(NamedTuple):
    """Embeddings of images and their captions, to judge whether a caption fits another image.

    Attributes:
        places: number of each image, by id.
        rows: of the images, of shape (n, d).
        texts: of their captions, of shape (m, d).
        wordings: the captions.
        owners: number of each caption's image.
        background: mean similarity to these captions.
        calibration: the margin.
    """

    places: Mapping[str, int]
    rows: Vectors
    texts: Vectors
    wordings: tuple[str, ...]
    owners: NDArray[np.int64]
    background: Background
    calibration: ConfusionCalibration


@dataclass
class RecosRun(PipelineRun[RecosBuild]):
    """State shared by the steps.

    Attributes:
        drawing: how images of tasks without a source are drawn.
        taken: each task that is not left out, with the source of its images.
        reader: reads texts in images; None if there is no such model.
        base, judge: v0, and the `Judge` that finds similar images for it.
    """

    drawing: RenderOptions | None = None
    settings: CaptioningSettings = field(init=False)
    captioner: DatasetModel = field(init=False)
    captioning: Captioning = field(init=False)
    reader: TextReader | None = field(init=False)
    taken: list[tuple[TaskSpec, NewEntity]] = field(init=False, default_factory=list)
    pool: Pool = field(init=False)
    base: BaseTier = field(init=False)
    judge: Judge = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings = self.profile.captioning
        self.captioner = DatasetModel(self.context, self.dataset, self.settings.model)
        self.captioning = Captioning(self.context, self.captioner, self.settings)
        self.reader = build_text_reader(self.settings.text_reader)

    def images_of(self, tier: Tier) -> list[StoredEntity]:
        """Return the images that a version added; see `images_of_tier`."""
        return images_of_tier(self.store, self.dataset, tier)


def load_v0(run: RecosRun) -> BaseTier:
    """Return the current v0: its active images and their accepted captions."""
    images = [one for one in run.images_of("v0") if one.state in LIVE]
    captions = captions_of(run.store, [image.id for image in images])
    described = tuple(image for image in images if captions.get(image.id))
    return BaseTier(described, originals_of(run.store, described), captions)


# A *pair* is an image of v1 and a caption of the image of v0 that it is similar to. If people
# change a caption of v0 after v1 was built, the pair changes. Captions and questions of the former
# pair are inactive until its caption is used again.

PairKey = tuple[str, str]
"""The ids of an image of v1 and of a caption of v0."""


class Pair(NamedTuple):
    """A similar image x′, its image x of v0, and a caption t of x."""

    similar: StoredEntity
    image: StoredEntity
    caption: StoredEntity

    @property
    def key(self) -> PairKey:
        """The ids of its image of v1 and its caption."""
        return self.similar.id, self.caption.id

    @property
    def number(self) -> int:
        """Its number as a work item: the numbers of both entities, each in half of the bits."""
        return self.similar.seq << 32 | self.caption.seq


class WrittenCaption(NamedTuple):
    """A confusing caption and the pair it was written for."""

    entity: StoredEntity
    pair: PairKey

    @property
    def text(self) -> str:
        """The caption."""
        return self.entity.record(Caption).text


def load_pairs(run: RecosRun) -> dict[PairKey, Pair]:
    """Return every active image of v1 with every accepted caption of its image, in their order."""
    similar = [one for one in run.images_of("v1") if one.state in LIVE]
    partner = parents_of(run.store, [one.id for one in similar], Role.SIMILAR_TO)
    images = {image.id: image for image in run.base.images}
    pairs = (
        Pair(one, images[image_id], caption)
        for one in similar
        for image_id in partner[one.id]
        if image_id in images
        for caption in run.base.captions[image_id]
    )
    return {pair.key: pair for pair in pairs}


def load_written(run: PipelineRun[Any]) -> list[WrittenCaption]:
    """Return all confusing captions of a dataset, whatever was decided on them or their pairs."""
    captions = {one.id: one for one in run.find(Caption)}
    confused = parents_of(run.store, captions, Role.CONFUSES)
    described = parents_of(run.store, confused, Role.DESCRIBES)
    return [
        WrittenCaption(captions[one], (described[one][0], found[0]))
        for one, found in confused.items()
    ]


def question_filter(run: RecosRun) -> Callable[[str, str], bool]:
    """Return a function that tells whether a question about a pair still has to be answered.

    It takes a caption and an image of v1. A question is obsolete if its pair no longer exists, or
    if the image has no accepted or open caption.
    """
    pairs, written = load_pairs(run), load_written(run)
    of_caption = {one.entity.id: one.pair for one in written}
    described = {
        one.pair[0]
        for one in written
        if one.pair in pairs and one.entity.state not in ("rejected", "inactive")
    }

    def is_open(caption_id: str, similar_id: str) -> bool:
        pair = of_caption.get(caption_id, (similar_id, caption_id))
        return pair in pairs and similar_id in described

    return is_open
