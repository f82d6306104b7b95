"""Edited images: changed settings, faults of the editor, edits outside the requested region."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pictures

from loupe.db.entities import LIVE, StoredEntity, parents_of
from loupe.db.store import Store
from loupe.db.work import count_plans
from loupe.demo.stills.editor import Change, StillsEditor, say_change
from loupe.demo.stills.scene import KINDS, Thing, apart, read_scene
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.ccd.editing import MOST_ATTEMPTS, known_pin, pin
from loupe.flows.engine.context import RunContext
from loupe.schemas.base import Box
from loupe.schemas.build import CcdBuild
from loupe.schemas.contrast import ImageRequest, StoredEdit
from loupe.schemas.errors import ModelError
from loupe.schemas.image_edit import (
    BuiltinEditor,
    EditedPicture,
    EditFailure,
    EditOutcome,
    EditRequest,
    QwenImageEdit,
)
from loupe.schemas.profile import EditCheckSettings
from loupe.schemas.proposals import Candidate
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from tests.flows.ccd_reviewers import GATES, answer_all, build_once, open_office, right, wrong
from tests.flows.ccd_world import (
    DATASET,
    contrast_build,
    contrast_profile,
    entities,
    image_pipeline,
    run_unattended,
)
from tests.flows.drawn_stills import DrawnStills
from tests.flows.runs import context_of, copied_run

pytestmark = pytest.mark.xdist_group("ccd_build")  # the shared installation is built once

OTHER_CHECK = EditCheckSettings(visible_difference=9.5)
EDIT = StillsEditor.edit
TOO_LARGE = EditFailure(
    reason="out_of_memory", detail="it needs 80 GB; offload = 'model' needs less", retriable=True
)
ALL_PASS = EditCheckSettings(least_shift=-4.0, doubtful_shift=-4.0, doubtful_unplaced_shift=-4.0)
"""Bounds with which the embedder rejects no edit."""


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


@pytest.fixture(scope="module")
def whole(stills: StillsWorld) -> CcdBuild:
    """The build of `done`."""
    return contrast_build(stills)


@pytest.fixture(scope="module")
def build(stills: StillsWorld) -> CcdBuild:
    return contrast_build(stills, anchors=2)


@pytest.fixture
def done(edited_contrasts: RunContext, tmp_path: Path) -> Iterator[RunContext]:
    """A copy of an installation built without annotators that tests may change."""
    with copied_run(edited_contrasts, tmp_path / "home") as run:
        yield run


@pytest.fixture
def edits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of edits requested from the editor, one for each call."""
    counted: list[int] = []
    edit = StillsEditor.edit

    def counting(self: StillsEditor, requests: Any) -> Any:
        asked = list(requests)
        counted.append(len(asked))
        return edit(self, asked)

    monkeypatch.setattr(StillsEditor, "edit", counting)
    return counted


def active_candidates(run: RunContext) -> dict[str, StoredEntity]:
    """Return the live candidate of each strategy."""
    live = entities(run, Candidate.kind, *LIVE)
    strategies = parents_of(run.store, [one.id for one in live], Role.MADE_FOR)
    assert set(Counter(found[0] for found in strategies.values()).values()) == {1}
    return {strategies[one.id][0]: one for one in live}


def accepted_candidates(run: RunContext) -> set[str]:
    """Return the ids of the candidates that live contrastive images were accepted from."""
    images = [one.id for one in entities(run, Image.kind, *LIVE) if one.record(Image).contrast]
    return {found[0] for found in parents_of(run.store, images, Role.ACCEPTED_FROM).values()}


def test_changed_check_settings_measure_existing_pictures_again_without_editing(
    done: RunContext, whole: CcdBuild, edits: list[int]
) -> None:
    before = active_candidates(done)
    ordered = len(entities(done, ImageRequest.kind))
    later = [whole.model_copy(update={"version": f"0.{number}.0"}) for number in (2, 3)]
    run_unattended(done, later[0], contrast_profile(edit_check=OTHER_CHECK))
    failed = ordered - len(entities(done, StoredEdit.kind))
    assert sum(edits) <= failed, "only failed edits are tried again"
    after = active_candidates(done)
    assert not {one.id for one in before.values()} & {one.id for one in after.values()}
    both = before.keys() & after.keys()
    assert both
    for strategy in both:
        old, new = (one[strategy].record(Candidate) for one in (before, after))
        assert old.image == new.image
        assert old.measurement != new.measurement
    assert accepted_candidates(done) == {one.id for one in after.values()}
    run_unattended(done, later[1])
    assert active_candidates(done).keys() == before.keys()
    assert accepted_candidates(done) == {one.id for one in before.values()}


def test_candidates_of_a_new_editor_replace_those_of_the_old_one(
    done: RunContext, whole: CcdBuild
) -> None:
    profile = contrast_profile(editor=BuiltinEditor(revision="3"))
    run_unattended(done, whole, profile, pipeline=image_pipeline)
    origins = [one.record(Candidate).origin for one in active_candidates(done).values()]
    assert origins
    assert {one.model for one in origins if one.method == "edit"} == {"loupe-coded-stills-editor@3"}


def test_verdicts_on_a_picture_hold_after_it_is_measured_again(
    run: RunContext, build: CcdBuild
) -> None:
    office, people = open_office(run)
    build = build.model_copy(update={"candidates_gate": GATES["candidates_gate"]})
    profile = contrast_profile()
    assert build_once(run, build, office, profile, image_pipeline).waiting
    rejected = min(entities(run, Candidate.kind, "proposed"), key=lambda one: one.seq)
    answer_all(run, office, people, lambda one: wrong(one) if one.id == rejected.id else right(one))
    assert not build_once(run, build, office, profile, image_pipeline).waiting
    before = active_candidates(run)
    other = contrast_profile(edit_check=OTHER_CHECK)
    report = build_once(run, build, office, other, image_pipeline)
    after = active_candidates(run)
    seen = {one.record(Candidate).image.sha256 for one in [rejected, *before.values()]}
    waiting = entities(run, Candidate.kind, "proposed")
    assert not seen & {one.record(Candidate).image.sha256 for one in waiting}
    assert report.waiting == len(waiting)
    assert before.items() <= after.items()


def test_an_editor_revision_is_looked_up_once_a_dataset(
    run: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[QwenImageEdit] = []

    def hub(spec: QwenImageEdit) -> QwenImageEdit:
        asked.append(spec)
        return spec.model_copy(update={"revision": "c" * 40})

    monkeypatch.setattr("loupe.models.qwen_image_edit.pinned_editor", hub)
    editor = QwenImageEdit(provider="qwen-image-edit")
    assert known_pin(run, DATASET, editor) is None
    first = pin(run, DATASET, editor)
    again = pin(run, DATASET, editor.model_copy(update={"steps": 9}))
    assert (first.revision, again.revision, len(asked)) == ("c" * 40, "c" * 40, 1)
    assert known_pin(run, DATASET, editor) == first
    assert known_pin(run, "another", editor) is None
    assert pin(run, DATASET, BuiltinEditor()) == BuiltinEditor()


def test_edits_made_before_an_editor_fault_are_kept(
    run: RunContext, build: CcdBuild, edits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    edit = StillsEditor.edit  # counting
    delivered: list[EditedPicture] = []

    def failing(self: StillsEditor, requests: Any) -> Iterator[tuple[int, EditOutcome]]:
        for number, outcome in edit(self, requests):
            if delivered:
                raise ModelError("the editor is gone")
            delivered.extend([outcome] if isinstance(outcome, EditedPicture) else [])
            yield number, outcome

    with monkeypatch.context() as broken:
        broken.setattr(StillsEditor, "edit", failing)
        with pytest.raises(ModelError, match="the editor is gone"):
            run_unattended(run, build, pipeline=image_pipeline)
    (kept,) = entities(run, StoredEdit.kind)
    asked = edits[0]
    edits.clear()
    run_unattended(run, build, pipeline=image_pipeline)
    assert edits[0] == asked - 1
    pictures = Counter(one.record(StoredEdit).key for one in entities(run, StoredEdit.kind))
    assert set(pictures.values()) == {1}
    assert kept.record(StoredEdit).key in pictures


def test_an_edit_that_never_fits_into_memory_is_given_up(
    run: RunContext, build: CcdBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: list[str] = []

    def edit(
        self: StillsEditor, requests: Iterable[EditRequest]
    ) -> Iterator[tuple[int, EditOutcome]]:
        for place, request in enumerate(requests):
            first.append(request.instruction)
            if request.instruction == first[0]:
                yield place, TOO_LARGE
            else:
                ((_, outcome),) = EDIT(self, [request])
                yield place, outcome

    monkeypatch.setattr(StillsEditor, "edit", edit)
    candidates = []
    for attempt in range(1, MOST_ATTEMPTS):
        with pytest.raises(ModelError, match=r"1 out_of_memory\).*it needs 80 GB"):
            run_unattended(run, build)
        assert attempts(run) == [attempt]
        candidates.append({one.id for one in entities(run, Candidate.kind)})
    assert candidates[0]
    assert all(one == candidates[0] for one in candidates), "the first run made the others"
    assert run_unattended(run, build).release_id is not None
    assert {one.id for one in entities(run, Candidate.kind)} == candidates[0]
    assert attempts(run) == [MOST_ATTEMPTS]


def attempts(run: RunContext) -> list[int]:
    """Return the number of runs in which each failed edit was attempted."""
    orders = [one.seq for one in entities(run, ImageRequest.kind)]
    return list(count_plans(run.store, "failed_edit", orders).values())


def recolour_another_object(
    self: StillsEditor, requests: Iterable[EditRequest]
) -> Iterator[tuple[int, EditOutcome]]:
    """Edit like the built-in editor, but recolour an object not in the instruction."""
    for place, request in enumerate(requests):
        ((_, asked),) = EDIT(self, [request])
        if isinstance(asked, EditedPicture) and asked.regions:
            asked = recoloured_object(self, request, asked)
        yield place, asked


def recoloured_object(
    editor: StillsEditor, request: EditRequest, asked: EditedPicture
) -> EditedPicture:
    """Recolour another object of the picture; return the requested edit if there is none."""
    with Pictures.open(BytesIO(request.image.data)) as opened:
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
    monkeypatch.setattr(StillsEditor, "edit", recolour_another_object)
    build, profile = contrast_build(stills, anchors=4), contrast_profile(edit_check=ALL_PASS)
    run_unattended(run, build, profile, pipeline=image_pipeline)
    candidates = [one.record(Candidate) for one in entities(run, Candidate.kind)]
    wrong = [one for one in candidates if one.measurement and one.measurement.outside_share]
    assert len(wrong) >= 4
    for one in wrong:
        assert "Next to nothing changed in the wanted region." in one.warnings
    accepted = entities(run, Candidate.kind, "accepted")
    assert not any(one.record(Candidate).warnings for one in accepted)


def test_runs_that_judge_edits_differently_make_none_twice(
    run: RunContext, build: CcdBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run with other settings begins while the first edit is being made."""
    made: Counter[str] = Counter()
    is_editing = threading.Event()

    def edit(
        self: StillsEditor, requests: Iterable[EditRequest]
    ) -> Iterator[tuple[int, EditOutcome]]:
        for place, request in enumerate(requests):
            made[f"{request.instruction} {request.seed}"] += 1
            is_editing.set()
            time.sleep(0.05)  # lets the other run come to the same edits
            ((_, outcome),) = EDIT(self, [request])
            yield place, outcome

    def run_beside() -> None:
        is_editing.wait()
        url = run.store.engine.url.render_as_string(hide_password=False)
        with closing(Store.open(url)) as store:
            beside = context_of(store, run.settings.home)
            profile = contrast_profile(edit_check=OTHER_CHECK)
            run_unattended(beside, build, profile, pipeline=image_pipeline)

    monkeypatch.setattr(StillsEditor, "edit", edit)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(run_beside)
        run_unattended(run, build, pipeline=image_pipeline)
        other.result()
    assert len(made) > 1
    failed = len(made) - len(entities(run, StoredEdit.kind))
    assert made.total() <= len(made) + failed, "only failed edits are tried again"
