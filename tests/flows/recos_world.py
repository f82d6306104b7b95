"""A small benchmark of tasks to build from drawn stills, and a profile with few validations."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loupe.annotate.backend import Desks
from loupe.demo.worlds.stills import StillsWorld, load_stills_truth
from loupe.models.profiles.loader import load_profile
from loupe.schemas.build import CcdBuild, RecosBuild, SourceSpec, TaskSpec
from loupe.schemas.profile import OpenAIChat, Profile
from loupe.schemas.recos import DiscriminabilitySettings
from loupe.schemas.similarity import NearDuplicateSettings
from loupe.schemas.taxonomy import RetrievalTask
from tests.flows.worlds import write_toml
from tests.servers.captioning import seen_completion
from tests.servers.counting_server import counting_server

DATASET = "tasks"
SETTINGS = DiscriminabilitySettings(k=6, rounds=2)
DOUBTING = NearDuplicateSettings(embedding_distance=0.15, doubtful_embedding_distance=0.5)
SHOWN = (RetrievalTask.COLOR, RetrievalTask.OBJECT)


def no_desks() -> Desks:
    """Fail, for builds without review."""
    raise AssertionError("no review server may be opened")


def stills_source(stills: StillsWorld) -> SourceSpec:
    """Return the stills as a source named `stills`."""
    return SourceSpec(
        name="stills",
        format="coco-captions",
        annotations=stills.annotation_file,
        images=stills.image_root,
        licence="CC0-1.0",
        citation="none",
    )


def write_names(stills: StillsWorld, task: RetrievalTask, file: Path) -> Path:
    """Write the file names of one task's stills that are the first of their family."""
    firsts = [one for one in load_stills_truth(stills.folder) if one.change is None]
    names = [one.file_name for one in firsts if one.task is task]
    file.write_text("\n".join([*names, ""]), encoding="utf-8")
    return file


def small_build(stills: StillsWorld, folder: Path, **values: Any) -> RecosBuild:
    """Return a build of two tasks with four images each, and a calculation task with two."""
    tasks = [
        TaskSpec(
            task=task,
            images=4,
            source="stills",
            names=write_names(stills, task, folder / f"{task}.txt"),
        )
        for task in SHOWN
    ]
    drawn = TaskSpec(task=RetrievalTask.CALCULATION, images=2, pool=6)
    return RecosBuild(
        dataset=DATASET,
        seed=3,
        neighbours=4,
        sources=(stills_source(stills),),
        tasks=(*tasks, drawn),
        **values,
    )


def small_profile(settings: DiscriminabilitySettings = SETTINGS) -> Profile:
    """Return the built-in profile, comparing a caption with fewer images."""
    builtin = load_profile("builtin")
    captioning = builtin.captioning.model_copy(update={"discriminability": settings})
    return builtin.model_copy(update={"captioning": captioning})


def doubting_profile() -> Profile:
    """Return the small profile with settings by which images with similar embeddings are asked."""
    plain = small_profile()
    captioning = plain.captioning.model_copy(update={"near_duplicates": DOUBTING})
    return plain.model_copy(update={"captioning": captioning})


@contextmanager
def seeing_profile(settings: DiscriminabilitySettings) -> Iterator[Profile]:
    """Return the small profile with a captioner that describes the colours of an image."""
    profile = small_profile(settings)
    with counting_server(complete=seen_completion) as server:
        values = {"provider": "openai", "name": "counting", "revision": "1"}
        model = OpenAIChat(base_url=server.base_url, **values)
        captioning = profile.captioning.model_copy(update={"model": model})
        yield profile.model_copy(update={"captioning": captioning})


def write_build(build: RecosBuild | CcdBuild, file: Path) -> Path:
    """Write the build to a file."""
    return write_toml(file, _plain(build.model_dump(mode="json")))


def write_profile(file: Path, captioning: Mapping[str, Any] | None = None) -> Path:
    """Write the profile to a file; `captioning` adds settings."""
    settings = {"discriminability": {"k": SETTINGS.k, "rounds": SETTINGS.rounds}}
    values = {
        "description": "few captions",
        "rewrite": {"models": [{"provider": "builtin"}]},
        "captioning": {**settings, **(captioning or {})},
    }
    return write_toml(file, values)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Remove unset values, because TOML has no null."""
    return {
        name: [_plain(one) for one in value] if _is_tables(value) else value
        for name, value in values.items()
        if value not in (None, [])
    }


def _is_tables(value: object) -> bool:
    return isinstance(value, Sequence) and any(isinstance(one, Mapping) for one in value)
