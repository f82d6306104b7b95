"""A benchmark of tasks chosen and validated with BLIP-2, whose images have several vectors."""

from pathlib import Path

import pytest

from loupe.db.entities import find
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.schemas.embedding import TransformersEmbedder
from loupe.schemas.recos import DiscriminabilityReport, DiscriminabilitySettings
from tests.flows.drawn_stills import DrawnStills
from tests.flows.recos_world import DATASET, no_desks, small_build, small_profile
from tests.models.tiny_embedders import build_blip2


@pytest.fixture(scope="session")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(60)


def test_every_step_takes_images_with_several_vectors(
    run: RunContext, stills: StillsWorld, tmp_path: Path
) -> None:
    embedder = TransformersEmbedder(
        provider="transformers",
        name=str(build_blip2(tmp_path / "blip2")),
        revision="test",
        device="cpu",
        scoring="maximum",
    )
    profile = small_profile(DiscriminabilitySettings(k=6, rounds=0))
    captioning = profile.captioning.model_copy(update={"embedder": embedder})
    profile = profile.model_copy(update={"captioning": captioning})
    report = run_pipeline(
        run,
        recos_pipeline(),
        small_build(stills, tmp_path, max_unusable_share=1),
        profile,
        no_desks,
    )
    assert report is not None
    assert list(find(run.store, DATASET, DiscriminabilityReport.kind))
