"""Edits that an editor cannot make do not stop the others and are given up after some attempts."""

from collections.abc import Iterable, Iterator

import pytest

from flows.ccd.editing import MOST_ATTEMPTS
from flows.ccd.pipeline import ccd_pipeline
from flows.engine.context import RunContext
from flows.engine.pipeline import run_pipeline
from models.builtin.stills.editor import StillsEditor
from schemas.errors import ModelError
from schemas.image_edit import EditFailure, EditOutcome, EditRequest, FailedEdit
from schemas.proposals import Candidate
from sources.demonstration.stills import StillsWorld
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.ccd_world import contrast_build, contrast_profile, entities
from tests.flows.drawn_stills import DrawnStills

EDIT = StillsEditor.edit
TOO_LARGE = EditFailure(
    reason="out_of_memory", detail="it needs 80 GB; offload = 'model' needs less", retriable=True
)


@pytest.fixture
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


def unattended(run: RunContext, stills: StillsWorld) -> str | None:
    def no_desks() -> MemoryOffice:
        raise AssertionError("no annotator may be asked")

    return run_pipeline(
        run, ccd_pipeline(), contrast_build(stills, anchors=2), contrast_profile(), no_desks
    ).release_id


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Instructions that do not fit into memory; if empty, the first requested one is added."""
    too_large: list[str] = []

    def edit(
        self: StillsEditor, requests: Iterable[EditRequest]
    ) -> Iterator[tuple[int, EditOutcome]]:
        for place, request in enumerate(requests):
            if not too_large:
                too_large.append(request.instruction)
            if request.instruction in too_large:
                yield place, TOO_LARGE
            else:
                ((_, outcome),) = EDIT(self, [request])
                yield place, outcome

    monkeypatch.setattr(StillsEditor, "edit", edit)
    return too_large


def test_an_edit_that_never_fits_into_memory_is_given_up(
    run: RunContext, stills: StillsWorld, small_memory: list[str]
) -> None:
    candidates = []
    for attempt in range(1, MOST_ATTEMPTS):
        with pytest.raises(ModelError, match=r"1 out_of_memory\).*it needs 80 GB"):
            unattended(run, stills)
        failed = [one.record(FailedEdit) for one in entities(run, FailedEdit.kind)]
        assert [one.attempt for one in failed] == list(range(1, attempt + 1))
        candidates.append({one.id for one in entities(run, Candidate.kind)})
    assert candidates[0]
    assert all(one == candidates[0] for one in candidates), "the first run made the others"
    assert unattended(run, stills) is not None
    assert {one.id for one in entities(run, Candidate.kind)} == candidates[0]
    assert len(entities(run, FailedEdit.kind)) == MOST_ATTEMPTS


def test_an_edit_that_fits_later_is_made(
    run: RunContext, stills: StillsWorld, small_memory: list[str]
) -> None:
    with pytest.raises(ModelError, match="out_of_memory"):
        unattended(run, stills)
    before = len(entities(run, Candidate.kind))
    small_memory[:] = ["nothing that is asked for"]
    assert unattended(run, stills) is not None
    assert len(entities(run, Candidate.kind)) == before + 1
