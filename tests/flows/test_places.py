"""Releases remove the GPS position from photographs."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from loupe.db.quarantine import quarantined
from loupe.db.store import Store
from loupe.flows.engine.context import BuildReport
from loupe.flows.engine.importing import import_source
from loupe.flows.engine.releasing import release
from loupe.release.verify import verify_release
from loupe.schemas.build import SourceSpec
from tests.flows.runs import Released, context_of
from tests.sources.carriers import CARRIERS, contains_place

SOURCE = "photographs"


def test_no_file_of_a_release_contains_a_gps_position(sqlite_store: Store, tmp_path: Path) -> None:
    run = context_of(sqlite_store, tmp_path / "home")
    assert import_source(run, photographs(tmp_path / "taken"))[1].done == len(CARRIERS)
    assert list(quarantined(run.store, SOURCE)) == []
    report = BuildReport(SOURCE)
    release(run, report, Released(), "1.0.0")
    assert report.release is not None
    assert verify_release(report.release).problems == []
    files = [path for path in report.release.rglob("*") if path.is_file()]
    assert len([path for path in files if path.parent.name == "images"]) == len(CARRIERS)
    assert [path.name for path in files if contains_place(path.read_bytes())] == []
    tables = [pq.read_table(path) for path in files if path.parent.name == "data"]
    images = [one["bytes"] for table in tables for one in table["image"].to_pylist()]
    assert len(images) == len(CARRIERS)
    assert not any(map(contains_place, images))


def photographs(folder: Path) -> SourceSpec:
    """A source of photographs with GPS positions, one caption each."""
    folder.mkdir()
    lines = []
    for number, data in enumerate(CARRIERS.values()):
        (folder / f"{number}.jpg").write_bytes(data)
        caption = f"A red, a green, a blue and a white field, number {number}."
        lines.append(json.dumps({"file_name": f"{number}.jpg", "captions": [caption]}))
    annotations = folder / "captions.jsonl"
    annotations.write_text("\n".join(lines))
    return SourceSpec(
        name=SOURCE,
        format="json-lines",
        granularity="fine",
        annotations=annotations,
        images=folder,
        licence="CC-BY-4.0",
    )
