"""The state that the steps of `build-recos` share."""

from dataclasses import dataclass, field

from flows.engine.context import PipelineRun
from flows.engine.embedding import CachedEmbedder
from flows.recos.captioning import Captioner
from flows.recos.similar_images import BaseTier, Judge, Pool
from flows.recos.task_images import TaskImages
from models.ocr import TextReader, build_text_reader
from retrieval.embedders import pinned
from schemas.build import RecosBuild
from schemas.profile import CaptioningSettings
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
