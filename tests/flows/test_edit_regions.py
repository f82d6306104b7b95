"""Edits of the wrong object are flagged by the region to change or by the embedder."""

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO

import pytest
from PIL import Image

from db.entities import StoredEntity
from flows.engine.context import RunContext
from models.builtin.stills.editor import Change, StillsEditor, say_change
from models.builtin.stills.scene import KINDS, Thing, apart, read_scene
from schemas.base import Box
from schemas.contrast import StoredEdit
from schemas.image_edit import EditedPicture, EditOutcome, EditRequest
from schemas.profile import EditCheckSettings
from schemas.proposals import Candidate
from sources.demonstration.stills import StillsWorld
from tests.flows.ccd_world import (
    contrast_build,
    contrast_profile,
    entities,
    image_pipeline,
    run_unattended,
)
from tests.flows.drawn_stills import DrawnStills

pytestmark = pytest.mark.xdist_group("ccd_build")  # the shared installation is built once

EDIT = StillsEditor.edit
ALL_PASS = {"least_shift": -4.0, "doubtful_shift": -4.0}
"""Bounds with which the embedder rejects no edit."""
Edit = Callable[[StillsEditor, Iterable[EditRequest]], Iterator[tuple[int, EditOutcome]]]


@pytest.fixture
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


def build(run: RunContext, stills: StillsWorld, check: EditCheckSettings) -> list[Candidate]:
    """Return all candidates of a build without annotators, in any state."""
    wanted, profile = contrast_build(stills, anchors=4), contrast_profile(edit_check=check)
    run_unattended(run, wanted, profile, pipeline=image_pipeline)
    return [one.record(Candidate) for one in entities(run, Candidate.kind)]


def recolour_another_object(*, reports_regions: bool) -> Edit:
    """Return an `edit` like the built-in one that recolours an object not in the instruction."""

    def edit(
        self: StillsEditor, requests: Iterable[EditRequest]
    ) -> Iterator[tuple[int, EditOutcome]]:
        for place, request in enumerate(requests):
            ((_, asked),) = EDIT(self, [request])
            if isinstance(asked, EditedPicture) and asked.regions:
                asked = recoloured_object(self, request, asked)
                if not reports_regions:
                    asked = asked.model_copy(update={"regions": ()})
            yield place, asked

    return edit


def recoloured_object(
    editor: StillsEditor, request: EditRequest, asked: EditedPicture
) -> EditedPicture:
    """Recolour another object of the picture; return the requested edit if there is none."""
    with Image.open(BytesIO(request.image.data)) as opened:
        scene = read_scene(opened.convert("RGB"))
        scale = 320 / opened.width
    assert scene is not None
    for thing in scene.things:
        if thing.colour is None or any(touches(thing, box, scale) for box in asked.regions):
            continue
        for colour in KINDS[thing.kind].colours:
            instruction = say_change(Change("colour", colour, thing.colour, thing.kind))
            ((_, done),) = EDIT(editor, [request.model_copy(update={"instruction": instruction})])
            if isinstance(done, EditedPicture):
                return asked.model_copy(update={"image": done.image})
    return asked


def touches(thing: Thing, box: Box, scale: float) -> bool:
    left, top, right, bottom = (scale * value for value in box)
    return not apart(thing.box, (left, top, right, bottom))


def test_the_region_to_change_is_stored_and_compared_with_the_change(
    edited_contrasts: RunContext,
) -> None:
    run = edited_contrasts
    candidates = [one.record(Candidate) for one in entities(run, Candidate.kind)]
    known = [one for one in candidates if one.measurement and one.measurement.region_by]
    assert known
    assert all(one.measurement.outside_share is not None for one in known if one.measurement)
    assert not [one.warnings for one in known if any("region" in doubt for doubt in one.warnings)]
    assert any(one.record(StoredEdit).regions for one in entities(run, StoredEdit.kind))


def test_an_edit_outside_the_region_is_flagged(
    run: RunContext, stills: StillsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StillsEditor, "edit", recolour_another_object(reports_regions=True))
    settings = EditCheckSettings(**ALL_PASS, doubtful_unplaced_shift=-4.0)
    wrong = [
        one
        for one in build(run, stills, settings)
        if one.measurement and one.measurement.outside_share
    ]
    assert len(wrong) >= 4
    for one in wrong:
        assert "Next to nothing changed in the wanted region." in one.warnings
    assert not [one for one in entities(run, Candidate.kind, "accepted") if is_flagged(one)]


def test_without_a_region_the_embedder_flags_an_edit_of_the_wrong_object(
    run: RunContext, stills: StillsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StillsEditor, "edit", recolour_another_object(reports_regions=False))
    unplaced = [
        one
        for one in build(run, stills, EditCheckSettings(**ALL_PASS))
        if one.measurement and one.measurement.apart_share is not None
    ]
    wrong = [one for one in unplaced if one.measurement and (one.measurement.shift or 0) < 0.03]
    assert len(wrong) >= 4
    assert all("wanted detail may not have changed" in " ".join(one.warnings) for one in wrong)
    assert len(unplaced) > len(wrong), "some edits are right"
    assert not any(one.warnings for one in unplaced if one not in wrong)


def is_flagged(candidate: StoredEntity) -> bool:
    return bool(candidate.record(Candidate).warnings)
