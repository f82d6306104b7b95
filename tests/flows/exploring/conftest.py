"""A small dataset of people, built without review, and again after decisions."""

from pathlib import Path

import pytest

from loupe.db.entities import fetch
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.embedding import CachedEmbedder, stored_image
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.exploring.items import StoreItems
from loupe.flows.ufine3c.pipeline import ufine3c_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.schemas.build import SourceSpec, UFine3CBuild
from loupe.schemas.embedding import BuiltinEmbedder
from loupe.schemas.records import Granularity
from tests.flows.worlds import write_people

DATASET = "people"


class People:
    """The dataset: three people with two images each, and embeddings of images and texts."""

    def __init__(self, run: RunContext, folder: Path) -> None:
        self.run = run
        self._specs: list[SourceSpec] = []
        self.grow(people=3, folder=folder)

    def grow(self, people: int, folder: Path) -> None:
        """Add a source with people, each with two images, for the next build."""
        annotations = write_people(
            folder, Granularity.FINE, identities=people, images=2, captions=2
        )
        spec = SourceSpec(
            name="source" if not self._specs else f"source-{len(self._specs)}",
            format="cuhk-pedes",
            annotations=annotations,
            images=annotations.parent,
            licence="CC0-1.0",
        )
        self._specs.append(spec)

    def build(self, version: str) -> BuildReport:
        """Build a version, as a run of the pipeline does."""
        build = UFine3CBuild(dataset=DATASET, sources=tuple(self._specs), version=version)
        profile = load_profile("builtin")
        return run_pipeline(self.run, ufine3c_pipeline(), build, profile, lambda: None)

    @property
    def items(self) -> StoreItems:
        return StoreItems(self.run.store, self.run.blobs, DATASET)

    def embed(self) -> None:
        """Store embeddings, as an evaluation does."""
        embedder = CachedEmbedder(self.run.store, BuiltinEmbedder())
        ids = self.items.ids()
        images = fetch(self.run.store, ids).values()
        embedder.embed_images([stored_image(self.run.blobs, one) for one in images])
        texts = [text.text for item in self.items.read(ids) for text in item.texts]
        embedder.embed_texts(texts)


@pytest.fixture
def people(home_run: RunContext, tmp_path: Path) -> People:
    """The dataset without a build, in an installation."""
    return People(home_run, tmp_path / "source")
