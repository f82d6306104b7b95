"""`build-ccd` in this process: from drawn stills to a release, without annotators."""

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from db.blob_check import BlobCheck
from db.blobs import BlobStore
from db.entities import LIVE, parents_of
from db.quarantine import quarantined
from flows.blob_repair import repair_blobs
from flows.cli.main import app
from flows.engine.context import RunContext
from release.manifest import read_manifest
from release.verify import verify_release
from schemas.contrast import ContrastGroup, StoredEdit
from schemas.errors import ConfigurationError
from schemas.proposals import Candidate, CaptionGroup, Strategy
from schemas.provenance import Role
from schemas.records import Caption, Granularity, Image, Method
from sources.demonstration.stills import StillsWorld
from tests.flows.ccd_world import (
    ANCHORS,
    DATASET,
    contrast_build,
    entities,
    image_pipeline,
    run_unattended,
    searched_folder,
)
from tests.flows.drawn_stills import DrawnStills
from tests.flows.runs import copied_run

pytestmark = pytest.mark.xdist_group("ccd_build")  # the shared installation is built once


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


@pytest.fixture
def built(edited_contrasts: RunContext) -> RunContext:
    """An installation after a build (read-only)."""
    return edited_contrasts


def released(run: RunContext) -> list[dict[str, Any]]:
    folder = run.settings.home / "releases" / f"{DATASET}-0.1.0"
    assert verify_release(folder) == []
    rows: list[dict[str, Any]] = json.loads((folder / f"{DATASET}.json").read_text())
    return rows


def test_groups_are_released_whole(built: RunContext) -> None:
    rows = released(built)
    by_file = {row["file_path"]: row for row in rows}
    contrasts = [row for row in rows if row["contrast"]]
    assert len(contrasts) >= ANCHORS
    for row in rows:
        assert len(row["captions"]) == 5
        assert len(row["coarse_captions"]) == (0 if row["contrast"] else 5)
    for row in contrasts:
        anchor = by_file[row["contrast"]["anchor"]]
        assert anchor["contrast"] is None
        assert set(row["captions"]).isdisjoint(anchor["captions"])
    assert {row["licence"] for row in rows} == {"CC0-1.0"}


def test_lost_edits_and_overlays_are_restored_identically(
    built: RunContext, tmp_path: Path
) -> None:
    edits = [one.record(StoredEdit).picture for one in entities(built, StoredEdit.kind)]
    overlays = [one.record(Candidate).overlay for one in entities(built, Candidate.kind)]
    lost = {one.sha256 for one in (*edits, *overlays) if one is not None}
    copied = BlobStore(str(shutil.copytree(built.settings.blobs_url, tmp_path / "blobs")))
    run = replace(built, blobs=copied)
    before = {path: path.read_bytes() for path in (tmp_path / "blobs").rglob("*.png")}
    for path in before:
        if path.stem in lost:
            path.unlink()
    with hidden(built.settings.home / "releases"), BlobCheck(run.store, copied) as check:
        check.run()
        origins = {one.origin for one in repair_blobs(run, check)}
        assert list(check.faulty()) == []
    assert origins == {"edited again by loupe-coded-stills-editor@2", "drawn again"}
    assert {path: path.read_bytes() for path in before} == before


@contextmanager
def hidden(folder: Path) -> Iterator[None]:
    """Hide a folder in this context."""
    away = folder.rename(folder.with_name("away"))
    try:
        yield
    finally:
        away.rename(folder)


def test_the_images_of_a_group_are_distinct(built: RunContext) -> None:
    pictures = defaultdict(list)
    for image in entities(built, Image.kind, *LIVE):
        pictures[image.group].append(image.record(Image).sha256)
    assert all(len(set(group)) == len(group) for group in pictures.values())


def test_lineage_leads_from_a_contrastive_image_to_its_strategy(built: RunContext) -> None:
    images = [one for one in entities(built, Image.kind) if one.record(Image).contrast]
    ids = [image.id for image in images]
    anchors, candidates = (
        parents_of(built.store, ids, Role.CONTRAST_OF),
        parents_of(built.store, ids, Role.ACCEPTED_FROM),
    )
    for image in images:
        contrast = image.record(Image).contrast
        assert contrast is not None
        assert anchors[image.id] == [contrast.anchor_id] == [image.group]
    strategies = {one.id: one.record(Strategy) for one in entities(built, Strategy.kind)}
    parents = parents_of(built.store, [one[0] for one in candidates.values()], Role.MADE_FOR)
    for image in images:
        strategy = strategies[parents[candidates[image.id][0]][0]]
        contrast = image.record(Image).contrast
        assert contrast is not None
        assert (strategy.difference, strategy.plan) == (contrast.difference, contrast.plan)


def test_fine_captions_have_authors_and_coarse_captions_stay_proposed(built: RunContext) -> None:
    captions = [one.record(Caption) for one in entities(built, Caption.kind, "accepted")]
    assert {caption.author for caption in captions} == {"loupe-coded-stills-contraster@2"}
    coarse = [
        one.record(Caption)
        for one in entities(built, Caption.kind, "proposed")
        if one.record(Caption).granularity is Granularity.COARSE
    ]
    assert len(coarse) == 5 * ANCHORS
    assert not any(caption.author for caption in coarse)


def test_without_review_flagged_candidates_and_groups_are_rejected(built: RunContext) -> None:
    groups = entities(built, CaptionGroup.kind)
    candidates = entities(built, Candidate.kind)
    judged = [(one.state, one.record(CaptionGroup).warnings) for one in groups]
    judged += [(one.state, one.record(Candidate).warnings) for one in candidates]
    assert {state for state, warnings in judged if warnings} <= {"rejected"}
    assert {state for state, warnings in judged if not warnings} == {"accepted"}


def test_a_second_run_changes_nothing_and_gives_the_same_release(
    built: RunContext, stills: StillsWorld, tmp_path: Path
) -> None:
    with copied_run(built, tmp_path / "home") as run:
        before = Counter((one.kind, one.state) for kind in _KINDS for one in entities(run, kind))
        second = run_unattended(run, contrast_build(stills))
        after = Counter((one.kind, one.state) for kind in _KINDS for one in entities(run, kind))
    first = read_manifest(built.settings.home / "releases" / f"{DATASET}-0.1.0")
    assert second.release_id == first.id
    assert before == after
    assert sum(stage.done for stage in second.stages if stage.stage in _PAID) == 0


_KINDS = (Image.kind, Strategy.kind, Candidate.kind, ContrastGroup.kind, Caption.kind)
_PAID = ("propose strategies", "edit images", "refine captions")


def test_a_folder_is_searched_before_images_are_edited(
    run: RunContext, drawn_stills: DrawnStills, tmp_path: Path
) -> None:
    stills = drawn_stills(40)
    folder = searched_folder(stills, tmp_path / "pictures")
    with (folder / "licences.jsonl").open("a", encoding="utf-8") as listed:
        listed.write('{"file_name": "none-such.jpg", "licence": "CC0-1.0"}\n')
    methods: tuple[Method, ...] = ("search", "edit")
    build = contrast_build(stills, anchors=4, methods=methods, search_folder=folder)
    run_unattended(run, build, pipeline=image_pipeline)
    candidates = [one.record(Candidate) for one in entities(run, Candidate.kind)]
    found = [one for one in candidates if one.origin.method == "search"]
    assert found, "the folder holds similar images"
    rejected = {one.strategy_id for one in candidates if one.warnings}
    accepted = Counter(one.strategy_id for one in candidates if not one.warnings)
    assert set(accepted.values()) == {1}, "one image a strategy"
    assert "missing_image" in {one.reason for one in quarantined(run.store, DATASET)}
    assert any(one.origin.method == "edit" and one.strategy_id in rejected for one in candidates)


def test_a_missing_search_folder_is_reported_before_any_model_is_asked(
    run: RunContext, stills: StillsWorld, tmp_path: Path
) -> None:
    folder = tmp_path / "pictures"
    build = contrast_build(stills, methods=("search",), search_folder=folder)
    for missing in ("pictures", "pictures/licences.jsonl"):
        with pytest.raises(ConfigurationError, match=f"search_folder must hold .*{missing}"):
            run_unattended(run, build)
        assert entities(run, Image.kind) == []
        folder.mkdir(exist_ok=True)


def test_the_command_builds_the_demonstration_from_a_file(
    stills: StillsWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "home"))
    config = tmp_path / "ccd.toml"
    config.write_text(
        f"""
dataset = "{DATASET}"
anchors = 2
methods = ["edit"]
[[sources]]
name = "stills"
format = "coco-captions"
annotations = "{stills.annotation_file}"
images = "{stills.image_root}"
licence = "CC0-1.0"
""",
        encoding="utf-8",
    )
    done = CliRunner().invoke(app, ["run", "build-ccd", "--in-process", "--config", str(config)])
    assert done.exit_code == 0, done.output
    assert verify_release(tmp_path / "home" / "releases" / f"{DATASET}-0.1.0") == []
