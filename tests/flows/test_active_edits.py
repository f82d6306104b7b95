"""Edits after changed settings: pictures are kept, their measurements are renewed."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from db.entities import LIVE, StoredEntity, children_of, parents_of
from flows.ccd.editing import known_pin, pin
from flows.engine.context import RunContext
from models.builtin.stills.editor import StillsEditor
from schemas.build import CcdBuild
from schemas.contrast import ImageRequest, StoredEdit
from schemas.errors import ModelError
from schemas.image_edit import BuiltinEditor, EditedPicture, EditOutcome, QwenImageEdit
from schemas.profile import EditCheckSettings
from schemas.proposals import Candidate
from schemas.provenance import Role
from schemas.records import Image
from sources.demonstration.stills import StillsWorld
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
from tests.flows.runs import copied_run

pytestmark = pytest.mark.xdist_group("ccd_build")  # the shared installation is built once

OTHER_CHECK = EditCheckSettings(visible_difference=9.5)


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


def unattended(run: RunContext, build: CcdBuild, version: str = "0.1.0", **contrast: Any) -> None:
    """Run the whole build without annotators."""
    later = build.model_copy(update={"version": version})
    run_unattended(run, later, contrast_profile(**contrast))


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
    unattended(done, whole, "0.2.0", edit_check=OTHER_CHECK)
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
    unattended(done, whole, "0.3.0")
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
    office, people, _ = open_office(run)
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


def test_an_edited_picture_is_linked_to_its_strategy_and_candidate(
    edited_contrasts: RunContext,
) -> None:
    run = edited_contrasts
    candidates = active_candidates(run)
    stored_edits = parents_of(run.store, [one.id for one in candidates.values()], Role.EDITED_AS)
    of_strategy = children_of(run.store, candidates, Role.EDITED_FOR)
    assert all(
        stored_edits[one.id][0] in of_strategy[strategy] for strategy, one in candidates.items()
    )
    pictures = {one.id: one.record(StoredEdit) for one in entities(run, StoredEdit.kind)}
    for one in candidates.values():
        edit = pictures[stored_edits[one.id][0]]
        assert edit.picture == one.record(Candidate).image
        assert edit.model == "loupe-coded-stills-editor@2"


def test_an_editor_revision_is_looked_up_at_the_first_edit_and_once_a_dataset(
    run: RunContext, build: CcdBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[QwenImageEdit] = []

    def hub(spec: QwenImageEdit) -> QwenImageEdit:
        asked.append(spec)
        return spec.model_copy(update={"revision": "c" * 40})

    monkeypatch.setattr("models.qwen_image_edit.pinned_editor", hub)
    editor = QwenImageEdit(provider="qwen-image-edit")
    office, _, _ = open_office(run)
    asking = build.model_copy(update={"strategies_gate": "required"})
    assert build_once(run, asking, office, contrast_profile(editor=editor)).waiting
    assert asked == []
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
    edit = StillsEditor.edit
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
