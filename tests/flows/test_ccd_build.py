"""`build-ccd` in this process: from drawn stills to a release, without annotators."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from loupe.db.blob_check import BlobCheck
from loupe.db.blobs import BlobStore
from loupe.db.entities import AgentRef
from loupe.db.withdrawal_graph import WithdrawalTarget
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.blob_repair import repair_blobs
from loupe.flows.engine.context import RunContext
from loupe.flows.withdrawal.execution import carry_out
from loupe.flows.withdrawal.plan import confirm, plan_withdrawal, request_of
from loupe.release.format.manifest import read_manifest
from loupe.release.verify import verify_release
from loupe.schemas.contrast import ContrastGroup, StoredEdit
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.proposals import Candidate, CaptionGroup, Strategy
from loupe.schemas.records import Caption, Image
from tests.flows.ccd_world import ANCHORS, DATASET, contrast_build, entities, run_unattended
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
    assert verify_release(folder).problems == []
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


def test_without_review_flagged_candidates_and_groups_are_rejected(built: RunContext) -> None:
    groups = entities(built, CaptionGroup.kind)
    candidates = entities(built, Candidate.kind)
    judged = [(one.state, one.record(CaptionGroup).warnings) for one in groups]
    judged += [(one.state, one.record(Candidate).warnings) for one in candidates]
    assert {state for state, warnings in judged if warnings} <= {"rejected"}
    assert {state for state, warnings in judged if not warnings} == {"accepted"}


def test_a_withdrawn_caption_is_in_no_file_of_any_release(
    built: RunContext, tmp_path: Path
) -> None:
    """Nor are the copies in strategies, candidates and groups, which are not withdrawn with it."""
    text = entities(built, Strategy.kind)[0].record(Strategy).caption
    (caption,) = (
        one.id for one in entities(built, Caption.kind) if one.record(Caption).text == text
    )

    def contents(path: Path) -> str:
        if path.suffix == ".parquet":
            return str(pq.read_table(path).to_pylist())
        return path.read_bytes().decode("utf-8", "replace")

    def files_with_text(folder: Path) -> list[Path]:
        files = [path for path in folder.rglob("*") if path.is_file()]
        return [path for path in files if text in contents(path)]

    with copied_run(built, tmp_path / "home") as run:
        request = request_of(WithdrawalTarget(sort="entity", name=caption), "privacy", None)
        plan = plan_withdrawal(run.store, request)
        releases = run.settings.home / "releases"
        assert files_with_text(releases)
        carry_out(run, confirm(run.store, plan, "asked for", AgentRef("person", "operator")))
        assert verify_release(releases / f"{DATASET}-0.1.1").problems == []
        assert not files_with_text(releases)


def test_a_second_run_changes_nothing_and_gives_the_same_release(
    built: RunContext, stills: StillsWorld, tmp_path: Path
) -> None:
    with copied_run(built, tmp_path / "home") as run:
        before = Counter((one.kind, one.state) for kind in _KINDS for one in entities(run, kind))
        second = run_unattended(run, contrast_build(stills))
        after = Counter((one.kind, one.state) for kind in _KINDS for one in entities(run, kind))
    first = read_manifest(built.settings.home / "releases" / f"{DATASET}-0.1.0")
    assert second.release_id == first.id
    contrasts = first.statistics.contrasts
    assert contrasts is not None
    edited = sum(one.edited for one in contrasts.differences)
    assert [(one.purpose, one.count) for one in first.embedders] == [("edited_images", edited)]
    assert before == after
    assert sum(stage.done for stage in second.stages if stage.stage in _PAID) == 0


_KINDS = (Image.kind, Strategy.kind, Candidate.kind, ContrastGroup.kind, Caption.kind)
_PAID = ("propose strategies", "edit images", "refine captions")


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
