"""A small contrastive benchmark to build from drawn stills, edited or found in a folder."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loupe.annotate.backend import Desks
from loupe.db.entities import StoredEntity, find
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.ccd.pipeline import ccd_pipeline
from loupe.flows.ccd.run import CcdRun
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.pipeline import PipelineSpec, run_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.schemas.build import CcdBuild
from loupe.schemas.profile import OpenAIChat, Profile
from tests.flows.recos_world import stills_source
from tests.flows.worlds import write_toml

DATASET = "contrasts"
ANCHORS = 3


def contrast_build(stills: StillsWorld, **values: Any) -> CcdBuild:
    """Return a build of a few anchors; by default their contrastive images are edited."""
    defaults: dict[str, Any] = {
        "dataset": DATASET,
        "seed": 3,
        "anchors": ANCHORS,
        "methods": ("edit",),
        "sources": (stills_source(stills),),
    }
    return CcdBuild(**{**defaults, **values})


def image_pipeline(**values: Any) -> PipelineSpec[CcdBuild, CcdRun]:
    """Return `build-ccd` up to its images, which are chosen but neither grouped nor released."""
    return _until("candidates", **values)


def strategy_pipeline(**values: Any) -> PipelineSpec[CcdBuild, CcdRun]:
    """Return `build-ccd` up to its strategies, which are accepted."""
    return _until("strategies", **values)


def _until(queue: str, **values: Any) -> PipelineSpec[CcdBuild, CcdRun]:
    """Return `build-ccd` up to the step with the gate of a queue."""
    whole = ccd_pipeline(**values)
    place = next(place for place, step in enumerate(whole.steps) if queue in step.gates)
    return replace(whole, steps=whole.steps[: place + 1])


def run_unattended(
    run: RunContext,
    build: CcdBuild,
    profile: Profile | None = None,
    pipeline: Callable[[], PipelineSpec[CcdBuild, CcdRun]] = ccd_pipeline,
) -> BuildReport:
    """Run the build without annotators."""

    def no_desks() -> Desks:
        raise AssertionError("no annotator may be asked")

    return run_pipeline(run, pipeline(), build, profile or contrast_profile(), no_desks)


def counted_model(base_url: str, **values: Any) -> OpenAIChat:
    """Return the specification of a model on a counting server."""
    defaults = {"provider": "openai", "name": "counting", "revision": "1", "base_url": base_url}
    return OpenAIChat(**{**defaults, "max_in_flight": 4, "max_retries": 0, **values})


def contrast_profile(**contrast: Any) -> Profile:
    """Return the built-in profile with these changes to `contrast`."""
    builtin = load_profile("builtin")
    settings = builtin.contrast.model_copy(update=contrast)
    return builtin.model_copy(update={"contrast": settings})


def write_contrast_profile(file: Path, contrast: Mapping[str, Any]) -> Path:
    """Write a profile of the built-in models with these settings of `contrast`."""
    values = {
        "description": "contrastive images",
        "rewrite": {"models": [{"provider": "builtin"}]},
        "contrast": dict(contrast),
    }
    return write_toml(file, values)


def searched_folder(stills: StillsWorld, folder: Path) -> Path:
    """Create a folder with all stills and the licence of each."""
    folder.mkdir()
    names = []
    for image in sorted(stills.image_root.glob("*.jpg")):
        (folder / image.name).write_bytes(image.read_bytes())
        names.append(image.name)
    lines = [f'{{"file_name": "{name}", "licence": "CC0-1.0", "creator": "C"}}' for name in names]
    (folder / "licences.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def entities(run: RunContext, kind: str, *states: str) -> list[StoredEntity]:
    """Return the dataset's entities of a kind, in these states (default: all)."""
    return list(find(run.store, DATASET, kind, states=states or None))
