"""A run reports how many anchors it lost, and at which step."""

from pathlib import Path

import pytest

from annotate.projects import Desks
from db.decisions import NewDecision, append_decisions
from flows.ccd.groups import anchor_attrition
from flows.ccd.pipeline import ccd_pipeline
from flows.engine.context import RunContext
from flows.engine.pipeline import run_pipeline
from flows.engine.report import Progress
from models.profiles.loader import load_profile
from release.row_files import read_release
from release.verify import verify_release
from schemas.errors import ModelError
from sources.demonstration.stills import StillsWorld
from tests.flows.ccd_world import DATASET, contrast_build, entities
from tests.flows.drawn_stills import DrawnStills


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(Progress, "say", lambda _, text: found.append(text))
    return found


def no_desks() -> Desks:
    raise AssertionError("no annotator may be asked")


def test_each_lost_anchor_is_counted_at_the_step_that_lost_it(
    run: RunContext, stills: StillsWorld, messages: list[str], tmp_path: Path
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
    assert messages[-1].startswith(
        f"{whole} of 4 anchors came to a group with captions; left out: 2 "
    )


def test_an_anchor_without_contrastive_images_is_kept_with_keep_lone_anchors(
    run: RunContext, stills: StillsWorld, messages: list[str]
) -> None:
    build = contrast_build(stills, anchors=3)
    run_pipeline(run, ccd_pipeline(), build, load_profile("builtin"), no_desks)
    lone = next(one.group for one in entities(run, "strategy", "accepted"))
    strategies = [one.id for one in entities(run, "strategy", "accepted") if one.group == lone]
    with run.store.write() as connection:
        decisions = [NewDecision(one, "reject", run.software, "test") for one in strategies]
        append_decisions(connection, decisions)
    released = []
    for version, keep in (("0.2.0", False), ("0.3.0", True)):
        again = build.model_copy(update={"version": version, "keep_lone_anchors": keep})
        run_pipeline(run, ccd_pipeline(), again, load_profile("builtin"), no_desks)
        folder = run.settings.home / "releases" / f"{DATASET}-{version}"
        assert verify_release(folder) == []
        released.append({row.image_entity_id for row in read_release(folder).rows})
    assert released[1] - released[0] == {lone}
    assert messages[-1] == "3 of 3 anchors came to a group with captions"


def test_a_second_language_the_model_cannot_write_raises_an_error(
    run: RunContext, stills: StillsWorld, messages: list[str]
) -> None:
    build = contrast_build(stills, anchors=2)
    run_pipeline(run, ccd_pipeline(), build, load_profile("builtin"), no_desks)
    assert not messages[-1].startswith("0 of 2")
    translated = build.model_copy(update={"version": "0.2.0", "second_language": "zh"})
    with pytest.raises(ModelError, match="captions are written in English only"):
        run_pipeline(run, ccd_pipeline(), translated, load_profile("builtin"), no_desks)
    message = "0 of 2 anchors came to a group with captions; left out: 2 without captions"
    assert messages[-1] == message
