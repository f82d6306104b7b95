"""The state and the pairs of captions that the steps of `build-recos` share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from db.entities import LIVE, StoredEntity, find, parents_of
from flows.engine.context import PipelineRun
from flows.engine.embedding import CachedEmbedder, pinned
from flows.recos.captioning import Captioner
from flows.recos.similar_images import BaseTier, Judge, Pool
from flows.recos.task_images import TaskImages, images_of_tier
from models.ocr import TextReader, build_text_reader
from schemas.build import RecosBuild
from schemas.profile import CaptioningSettings
from schemas.provenance import Role
from schemas.records import Caption
from sources.rendered import RenderOptions


@dataclass
class RecosRun(PipelineRun[RecosBuild]):
    """State shared by the steps.

    Attributes:
        drawing: how images of tasks without a source are drawn.
        taken: images of each task that is not left out.
        reader: reads texts in images; None if there is no such model.
        base, judge: v0, and the `Judge` that finds similar images for it.
    """

    drawing: RenderOptions | None = None
    settings: CaptioningSettings = field(init=False)
    captioner: Captioner = field(init=False)
    embedder: CachedEmbedder = field(init=False)
    reader: TextReader | None = field(init=False)
    taken: list[TaskImages] = field(init=False, default_factory=list)
    pool: Pool = field(init=False)
    base: BaseTier = field(init=False)
    judge: Judge = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings = self.profile.captioning
        forms = [task.form for task in self.build.tasks]
        self.captioner = Captioner(self.context, self.dataset, self.settings, forms)
        embedder = pinned(self.settings.embedder)
        self.embedder = CachedEmbedder(self.store, embedder, self.context.progress)
        self.reader = build_text_reader(self.settings.text_reader)


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


def load_pairs(run: RecosRun) -> dict[PairKey, Pair]:
    """Return every active image of v1 with every accepted caption of its image, in their order."""
    similar = [one for one in images_of_tier(run.store, run.dataset, "v1") if one.state in LIVE]
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


def load_written(run: RecosRun) -> list[WrittenCaption]:
    """Return all confusing captions of a dataset, whatever was decided on them or their pairs."""
    captions = {one.id: one for one in find(run.store, run.dataset, Caption.kind)}
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
