"""A run says how many anchors it lost, and where."""

from pathlib import Path

import pytest

from annotate.projects import Desks
from flows.ccd.groups import anchor_attrition
from flows.ccd.pipeline import ccd_pipeline
from flows.engine.context import RunContext
from flows.engine.pipeline import run_pipeline
from flows.engine.progress import SilentProgress
from profiles.loader import load_profile
from schemas.errors import ModelError
from sources.demonstration.stills import StillsWorld
from tests.flows.ccd_world import DATASET, contrast_build
from tests.flows.drawn_stills import DrawnStills


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    messages: list[str] = []
    monkeypatch.setattr(SilentProgress, "say", lambda _, text: messages.append(text))
    return messages


def no_desks() -> Desks:
    raise AssertionError("nobody is to be asked")


def test_each_anchor_is_counted_at_the_step_that_lost_it(
    run: RunContext, stills: StillsWorld, said: list[str], tmp_path: Path
) -> None:
    listed = tmp_path / "names.txt"
    names = sorted(path.name for path in stills.image_root.glob("*.jpg"))[:2]
    listed.write_text("\n".join(names) + "\n", encoding="utf-8")
    build = contrast_build(stills, anchors=2)
    bare = build.sources[0].model_copy(
        update={"name": "bare", "format": "image-list", "annotations": listed}
    )
    both = build.model_copy(update={"sources": (*build.sources, bare)})
    run_pipeline(run, ccd_pipeline(), both, load_profile("builtin"), no_desks)
    count, lost = anchor_attrition(run.store, DATASET)
    assert (count, lost["without a strategy"]) == (4, 2)
    whole = 4 - sum(lost.values())
    assert said[-1].startswith(f"{whole} of 4 anchors came to a group with captions; left out: 2 ")


def test_a_language_that_the_model_does_not_write_is_reported(
    run: RunContext, stills: StillsWorld, said: list[str]
) -> None:
    build = contrast_build(stills, anchors=2)
    run_pipeline(run, ccd_pipeline(), build, load_profile("builtin"), no_desks)
    assert not said[-1].startswith("0 of 2")
    translated = build.model_copy(update={"version": "0.2.0", "second_language": "zh"})
    with pytest.raises(ModelError, match="captions are written in English only"):
        run_pipeline(run, ccd_pipeline(), translated, load_profile("builtin"), no_desks)
    message = "0 of 2 anchors came to a group with captions; left out: 2 without captions"
    assert said[-1] == message
