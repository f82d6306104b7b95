"""What a build of drawn stills accepts, compared with what was drawn: one detail differs."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image as Pictures

from benchmarks.contrast_truth import content_after, faults, true_content
from db.entities import fetch
from db.store import Store
from flows.ccd.pipeline import ccd_pipeline
from flows.engine.context import RunContext
from flows.engine.pipeline import run_pipeline
from models.builtin.editor.changes import Change, read
from models.builtin.stills.reading import Content
from profiles.loader import load_profile
from schemas.proposals import Candidate, EditedImage, FoundImage, Picture, Strategy
from schemas.records import Image
from sources.demonstration.stills import StillTruth, load_stills_truth, write_stills_world
from tests.flows.ccd_world import contrast_build, entities, searched_folder
from tests.flows.runs import context_of

pytestmark = pytest.mark.slow

ANCHORS = 12
WANTED = 0.95


class Pair(NamedTuple):
    """An accepted candidate, what was drawn of its anchor, and the change that was wanted."""

    candidate: Candidate
    truth: StillTruth
    change: Change


def test_accepted_pairs_differ_in_exactly_the_labelled_detail(
    sqlite_store: Store, tmp_path: Path
) -> None:
    stills = write_stills_world(tmp_path / "stills", seed=23, count=120)
    truths = {one.file_name: one for one in load_stills_truth(stills.folder)}
    run = context_of(sqlite_store, tmp_path / "home")
    folder = searched_folder(stills, tmp_path / "pictures")
    build = contrast_build(stills, anchors=ANCHORS, ways=("search", "edit"), search_folder=folder)
    run_pipeline(
        run, ccd_pipeline(), build, load_profile("builtin"), lambda: pytest.fail("nobody is asked")
    )
    pairs = list(_accepted(run, truths))
    wrong = {pair.candidate: found for pair in pairs if (found := _faults(run, pair, truths))}
    assert len(pairs) >= 2 * ANCHORS
    assert {pair.candidate.origin.way for pair in pairs} == {"search", "edit"}
    right = 1 - len(wrong) / len(pairs)
    assert right >= WANTED, [(one.plan, found) for one, found in wrong.items()]


def _accepted(run: RunContext, truths: dict[str, StillTruth]) -> Iterator[Pair]:
    images = {one.id: one.record(Image) for one in entities(run, Image.kind)}
    accepted = [one.record(Candidate) for one in entities(run, Candidate.kind, "accepted")]
    strategies = fetch(run.store, [str(one.strategy_id) for one in accepted])
    for candidate in accepted:
        strategy = strategies[str(candidate.strategy_id)].record(Strategy)
        change = read(strategy.editing_instruction)
        assert change is not None
        anchor = images[str(candidate.anchor.image_id)]
        yield Pair(candidate, truths[anchor.file_path], change)


def _faults(run: RunContext, pair: Pair, truths: dict[str, StillTruth]) -> list[str]:
    match pair.candidate.origin:
        case EditedImage():
            before, after = (
                _opened(run, one) for one in (pair.candidate.anchor, pair.candidate.image)
            )
            return faults(pair.truth, pair.change, before, after)
        case FoundImage(page=page):
            found = truths[page.removeprefix("folder:")]
            picture = _opened(run, pair.candidate.image)
            wanted = content_after(pair.truth, pair.change, picture)
            if wanted is None:
                return ["what was to change is not in the picture"]
            return [] if _said(wanted) == _said(true_content(found)) else ["more differs"]


def _said(content: Content) -> tuple[object, ...]:
    """The content of a drawing without its layout; positions count where a caption states them."""
    groups = sorted((one.kind, one.colour or "", one.number or 0) for one in content.groups)
    return (
        groups,
        sorted(content.clothes),
        content.action,
        content.place,
        content.style,
        content.word,
    )


def _opened(run: RunContext, picture: Picture) -> Pictures.Image:
    data = run.blobs.read(picture.sha256, picture.media_type)
    return Pictures.open(io.BytesIO(data)).convert("RGB")
