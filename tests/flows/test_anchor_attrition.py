"""A run reports how many anchors it lost, and at which step."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from loupe.db.decisions import append_decisions
from loupe.db.entities import NewDecision
from loupe.db.quarantine import quarantined
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.report import Progress
from loupe.flows.engine.software import software
from loupe.release.format.row_files import read_release
from loupe.release.verify import verify_release
from loupe.schemas.profile import StyleLimits
from tests.flows.ccd_world import (
    DATASET,
    contrast_build,
    contrast_profile,
    entities,
    run_unattended,
)
from tests.flows.drawn_stills import DrawnStills
from tests.flows.runs import copied_run

pytestmark = pytest.mark.xdist_group("ccd_build")  # the shared installation is built once


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(Progress, "say", lambda _, text: found.append(text))
    return found


@pytest.fixture
def done(edited_contrasts: RunContext, tmp_path: Path) -> Iterator[RunContext]:
    """A copy of a released benchmark of three anchors that tests may change."""
    with copied_run(edited_contrasts, tmp_path / "done") as run:
        yield run


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
    run_unattended(run, both)
    assert [one.reason for one in quarantined(run.store, DATASET)].count("no_caption") == 2
    assert verify_release(run.settings.home / "releases" / f"{DATASET}-0.1.0").problems == []
    (said,) = [one for one in messages if "have a group with captions" in one]
    whole, *lost = map(int, re.findall(r"(\d+) (?:of 4|without)", said))
    assert lost[0] == 2
    assert whole == 4 - sum(lost)
    wanted = f"{whole} of 4 anchors have a group with captions; left out: 2 without a strategy"
    assert said.startswith(wanted)


def test_an_anchor_without_contrastive_images_is_kept_with_keep_lone_anchors(
    done: RunContext, stills: StillsWorld, messages: list[str]
) -> None:
    run, build = done, contrast_build(stills)
    lone = next(one.group for one in entities(run, "strategy", "accepted"))
    strategies = [one.id for one in entities(run, "strategy", "accepted") if one.group == lone]
    with run.store.write() as connection:
        decisions = [NewDecision(one, "reject", software(), "test") for one in strategies]
        append_decisions(connection, decisions)
    released = []
    for version, keep in (("0.2.0", False), ("0.3.0", True)):
        again = build.model_copy(update={"version": version, "keep_lone_anchors": keep})
        run_unattended(run, again)
        folder = run.settings.home / "releases" / f"{DATASET}-{version}"
        assert verify_release(folder).problems == []
        released.append({row.image_entity_id for row in read_release(folder).rows})
    assert released[1] - released[0] == {lone}
    assert "3 of 3 anchors have a group with captions" in messages


def test_an_anchor_that_lost_its_captions_leaves_with_its_group(
    done: RunContext, stills: StillsWorld, messages: list[str]
) -> None:
    """Other settings refine all groups again: without a caption there is nothing to refine."""
    anchor = next(one.group for one in entities(done, "contrast_group"))
    captions = [one for one in entities(done, "caption", "proposed") if one.group == anchor]
    with done.store.write() as connection:
        decisions = [NewDecision(one.id, "reject", software(), "test") for one in captions]
        append_decisions(connection, decisions)
    profile = contrast_profile(caption_style=StyleLimits(free_words=31))
    run_unattended(done, contrast_build(stills, version="0.2.0"), profile)
    (said,) = [one for one in messages if "have a group with captions" in one]
    assert said.startswith("2 of 3 anchors have a group with captions")
    folder = done.settings.home / "releases" / f"{DATASET}-0.2.0"
    assert verify_release(folder).problems == []
    assert anchor not in {row.image_entity_id for row in read_release(folder).rows}
