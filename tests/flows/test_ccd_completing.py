"""A strategy of which no image came is replaced by another, in as many rounds as a build states."""

from collections.abc import Iterable, Iterator

import pytest

from loupe.db.quarantine import quarantined
from loupe.demo.stills.editor import StillsEditor
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.schemas.image_edit import EditFailure, EditOutcome, EditRequest
from loupe.schemas.proposals import Strategy
from tests.flows.ccd_world import DATASET, contrast_build, entities, run_unattended
from tests.flows.drawn_stills import DrawnStills


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(40)


@pytest.fixture
def impossible(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The first instruction to the editor, which it refuses from then on."""
    refused: set[str] = set()
    edited = StillsEditor.edit

    def edit(
        self: StillsEditor, requests: Iterable[EditRequest]
    ) -> Iterator[tuple[int, EditOutcome]]:
        for position, one in enumerate(requests):
            if not refused or one.instruction in refused:
                refused.add(one.instruction)
                yield position, EditFailure(reason="refused", detail="Not this.", retriable=False)
            else:
                ((_, outcome),) = edited(self, [one])
                yield position, outcome

    monkeypatch.setattr(StillsEditor, "edit", edit)
    return refused


def test_a_strategy_without_an_image_is_replaced(
    run: RunContext, stills: StillsWorld, impossible: set[str]
) -> None:
    def built(version: str, further_rounds: int) -> BuildReport:
        build = contrast_build(stills, anchors=1, version=version, further_rounds=further_rounds)
        return run_unattended(run, build)

    before = built("0.1.0", 0)
    assert sum(one.asked - one.reached for one in before.missing) == 1
    assert len(entities(run, Strategy.kind, "accepted")) == before.images  # one has no image
    (refused,) = quarantined(run.store, DATASET)
    assert refused.context["instruction"] in impossible
    assert refused.context["model"] == "loupe-coded-stills-editor@2"

    after = built("0.2.0", 1)
    assert after.missing == []
    assert after.images == before.images + 1
    (replaced,) = entities(run, Strategy.kind, "rejected")
    assert replaced.record(Strategy).editing_instruction in impossible
    again = built("0.2.0", 1)
    assert again.release_id == after.release_id
    assert not [one for one in again.stages if one.done or one.rejected]
