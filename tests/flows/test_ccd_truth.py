"""Accepted candidates of drawn stills compared with ground truth: one detail differs."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image as Pictures

from loupe.db.entities import fetch
from loupe.db.store import Store
from loupe.demo.stills.editor import Change, UneditableError, changed_scene, read_change
from loupe.demo.stills.scene import Scene, read_scene
from loupe.demo.stills.text import content_of
from loupe.demo.worlds.stills import StillTruth, load_stills_truth, write_stills_world
from loupe.flows.engine.context import RunContext
from loupe.schemas.proposals import Candidate, EditedImage, FoundImage, Strategy
from loupe.schemas.records import Image, Picture
from tests.flows.ccd_world import (
    contrast_build,
    entities,
    image_pipeline,
    run_unattended,
    searched_folder,
)
from tests.flows.runs import context_of

pytestmark = pytest.mark.slow

ANCHORS = 7
MIN_CORRECT_SHARE = 0.95


class Pair(NamedTuple):
    """An accepted candidate, the ground truth of its anchor, and the requested change."""

    candidate: Candidate
    truth: StillTruth
    change: Change


def test_accepted_pairs_differ_in_exactly_the_labelled_detail(
    sqlite_store: Store, tmp_path: Path
) -> None:
    stills = write_stills_world(tmp_path / "stills", seed=23, count=70)
    truths = {one.file_name: one for one in load_stills_truth(stills.folder)}
    run = context_of(sqlite_store, tmp_path / "home")
    folder = searched_folder(stills, tmp_path / "pictures")
    build = contrast_build(
        stills, anchors=ANCHORS, methods=("search", "edit"), search_folder=folder
    )
    run_unattended(run, build, pipeline=image_pipeline)
    pairs = list(_accepted(run, truths))
    wrong = {pair.candidate: found for pair in pairs if (found := _faults(run, pair, truths))}
    assert len(pairs) >= 2 * ANCHORS
    assert {pair.candidate.origin.method for pair in pairs} == {"search", "edit"}
    right = 1 - len(wrong) / len(pairs)
    assert right >= MIN_CORRECT_SHARE, [(one.plan, found) for one, found in wrong.items()]


def _accepted(run: RunContext, truths: dict[str, StillTruth]) -> Iterator[Pair]:
    images = {one.id: one.record(Image) for one in entities(run, Image.kind)}
    accepted = [one.record(Candidate) for one in entities(run, Candidate.kind, "accepted")]
    strategies = fetch(run.store, [str(one.strategy_id) for one in accepted])
    for candidate in accepted:
        strategy = strategies[str(candidate.strategy_id)].record(Strategy)
        change = read_change(strategy.editing_instruction)
        assert change is not None
        anchor = images[str(candidate.anchor.image_id)]
        yield Pair(candidate, truths[anchor.file_path], change)


def _faults(run: RunContext, pair: Pair, truths: dict[str, StillTruth]) -> list[str]:
    """Return the differences of the candidate from the scene that was requested."""
    try:
        wanted = changed_scene(pair.truth.scene, pair.change)
    except UneditableError as fault:
        return [str(fault)]
    match pair.candidate.origin:
        case EditedImage():
            found = read_scene(_opened(run, pair.candidate.image))
            same = found is not None and found.things == wanted.things
        case FoundImage(page=page):
            found = truths[page.removeprefix("folder:")].scene
            same = True
    is_right = found is not None and same and _content(found) == _content(wanted)
    return [] if is_right else [f"{found} is not {wanted}"]


def _content(scene: Scene) -> tuple[object, ...]:
    """Return the content of a scene without its layout, except positions stated in captions."""
    content = content_of(scene)
    return (sorted(map(str, content.groups)), *content[1:-2], content.word)


def _opened(run: RunContext, picture: Picture) -> Pictures.Image:
    data = run.blobs.read(picture.sha256, picture.media_type)
    return Pictures.open(io.BytesIO(data)).convert("RGB")
