"""Edits of the wrong thing are flagged where the region to change is known."""

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO

import pytest
from PIL import Image

from db.entities import StoredEntity
from flows.ccd.pipeline import ccd_pipeline
from flows.engine.context import RunContext
from flows.engine.pipeline import run_pipeline
from models.builtin.stills.editor import Change, StillsEditor, say_change
from models.builtin.stills.scene import KINDS, Thing, apart, read_scene
from schemas.contrast import EditCheckSettings, StoredEdit
from schemas.image_edit import EditedPicture, EditOutcome, EditRequest
from schemas.proposals import Candidate
from schemas.records import Box
from sources.demonstration.stills import StillsWorld
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.ccd_world import contrast_build, contrast_profile, entities
from tests.flows.drawn_stills import DrawnStills

EDIT = StillsEditor.edit
ALL_PASS = {"least_shift": -4.0, "doubtful_shift": -4.0}
"""The embedder's word throws nothing out."""
Edit = Callable[[StillsEditor, Iterable[EditRequest]], Iterator[tuple[int, EditOutcome]]]


@pytest.fixture
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


def build(
    run: RunContext, stills: StillsWorld, check: EditCheckSettings, anchors: int
) -> list[Candidate]:
    """The candidates of a build in which nobody looks, whatever became of them."""

    def no_desks() -> MemoryOffice:
        raise AssertionError("nobody is to be asked")

    wanted = contrast_build(stills, anchors=anchors)
    run_pipeline(run, ccd_pipeline(), wanted, contrast_profile(edit_check=check), no_desks)
    return [one.record(Candidate) for one in entities(run, Candidate.kind)]


def on_the_wrong_thing(*, tells_regions: bool) -> Edit:
    """The built-in editor, but that it gives another colour to a thing that nobody spoke of."""

    def edit(
        self: StillsEditor, requests: Iterable[EditRequest]
    ) -> Iterator[tuple[int, EditOutcome]]:
        for place, request in enumerate(requests):
            ((_, asked),) = EDIT(self, [request])
            if isinstance(asked, EditedPicture) and asked.regions:
                asked = recoloured_elsewhere(self, request, asked)
                if not tells_regions:
                    asked = asked.model_copy(update={"regions": ()})
            yield place, asked

    return edit


def recoloured_elsewhere(
    editor: StillsEditor, request: EditRequest, asked: EditedPicture
) -> EditedPicture:
    """Another thing of the picture in another colour; as it was asked for where there is none."""
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


def test_where_it_was_to_change_is_stored_and_held_against_what_did(
    run: RunContext, stills: StillsWorld
) -> None:
    made = build(run, stills, EditCheckSettings(), anchors=2)
    known = [one for one in made if one.measurement and one.measurement.region_by]
    assert known
    assert all(one.measurement.outside_share is not None for one in known if one.measurement)
    assert not [one.doubts for one in known if any("region" in doubt for doubt in one.doubts)]
    assert any(one.record(StoredEdit).regions for one in entities(run, StoredEdit.kind))


def test_an_edit_of_the_wrong_thing_is_doubted_by_its_region(
    run: RunContext, stills: StillsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StillsEditor, "edit", on_the_wrong_thing(tells_regions=True))
    settings = EditCheckSettings(**ALL_PASS, doubtful_unplaced_shift=-4.0)
    wrong = [
        one
        for one in build(run, stills, settings, anchors=4)
        if one.measurement and one.measurement.outside_share
    ]
    assert len(wrong) >= 4
    for one in wrong:
        assert "Next to nothing changed in the wanted region." in one.doubts
    assert not [one for one in entities(run, Candidate.kind, "accepted") if doubted(one)]


def test_where_no_region_is_known_the_embedder_raises_the_doubt(
    run: RunContext, stills: StillsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StillsEditor, "edit", on_the_wrong_thing(tells_regions=False))
    unplaced = [
        one
        for one in build(run, stills, EditCheckSettings(**ALL_PASS), anchors=4)
        if one.measurement and one.measurement.apart_share is not None
    ]
    wrong = [one for one in unplaced if one.measurement and (one.measurement.shift or 0) < 0.03]
    assert len(wrong) >= 4
    assert all("wanted detail may not have changed" in " ".join(one.doubts) for one in wrong)
    assert len(unplaced) > len(wrong), "right edits are among them"
    assert not any(one.doubts for one in unplaced if one not in wrong)


def doubted(candidate: StoredEntity) -> bool:
    return bool(candidate.record(Candidate).doubts)
