"""`build-recos` on real photographs, some of them broken.

The captioning server describes only where colours are in a photograph, so the thresholds for
captions are low. The built-in captioner refuses photographs.
"""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loupe.db.entities import find
from loupe.db.quarantine import quarantined
from loupe.db.store import Store
from loupe.flows.engine.context import BuildReport
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.release.verify import verify_release
from loupe.schemas.build import RecosBuild, SourceSpec, TaskSpec
from loupe.schemas.errors import ModelError
from loupe.schemas.records import Caption, Image
from loupe.schemas.recos import DiscriminabilitySettings, ExpansionReport
from loupe.schemas.taxonomy import RetrievalTask
from tests.flows.recos_world import no_desks, seeing_profile, small_profile
from tests.flows.runs import context_of
from tests.requirements import unavailable

DATA = Path(__file__).parents[3] / "shared" / "data"
COCO, PHOTOS = DATA / "coco_captions", DATA / "photos"
V0_COUNTS = {RetrievalTask.OBJECT: 5, RetrievalTask.SCENE: 3}


@pytest.fixture
def build(tmp_path: Path) -> RecosBuild:
    """Ten captioned photographs and six without captions, each with one broken file added."""
    if not (COCO.is_dir() and PHOTOS.is_dir()):
        unavailable("the photographs are not there: ../shared/data/coco_captions and photos")
    coco = shutil.copytree(COCO, tmp_path / "coco")
    whole = (coco / "0.jpg").read_bytes()
    (coco / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    with (coco / "annotations.jsonl").open("a") as file:
        file.write("\n" + json.dumps({"file_name": "cut.jpg", "captions": ["It is cut off."]}))
    photos = shutil.copytree(PHOTOS, tmp_path / "photos")
    (photos / "text.jpg").write_text("A letter, not a picture.")
    names = sorted(path.name for path in photos.glob("*.jpg"))
    (photos / "list.txt").write_text("\n".join(names))
    sources = (
        SourceSpec(
            name="coco",
            format="json-lines",
            annotations=coco / "annotations.jsonl",
            images=coco,
            licence="CC BY 4.0 (annotations)",
            permitted_by="a test, which gives them to nobody",
        ),
        SourceSpec(
            name="photos",
            format="image-list",
            annotations=photos / "list.txt",
            images=photos,
            licence="for tests only",
            permitted_by="a test, which gives them to nobody",
        ),
    )
    tasks = (
        TaskSpec(task=RetrievalTask.OBJECT, images=5, source="coco"),
        TaskSpec(task=RetrievalTask.SCENE, images=3, source="photos"),
    )
    return RecosBuild(dataset="real", seed=1, neighbours=3, sources=sources, tasks=tasks)


def stage(report: BuildReport, name: str) -> Any:
    """Return the first stage with this name."""
    return next(one for one in report.stages if one.stage == name)


def test_photographs_become_a_benchmark_and_broken_files_are_quarantined(
    build: RecosBuild, sqlite_store: Store, tmp_path: Path
) -> None:
    run = context_of(sqlite_store, tmp_path / "home")
    settings = DiscriminabilitySettings(k=4, eta=0.6, rounds=2)
    with seeing_profile(settings) as seeing:
        report = run_pipeline(run, recos_pipeline(), build, seeing, no_desks)

    coco, photos = stage(report, "import coco"), stage(report, "import photos")
    assert (coco.done, coco.rejected) == (10, {"truncated_image": 1})
    assert (photos.done, photos.rejected) == (6, {"not_an_image": 1})
    lost = [*quarantined(sqlite_store, "coco"), *quarantined(sqlite_store, "photos")]
    assert {one.detail for one in lost} == {
        "image 'cut.jpg' is cut off: the file ends before its last pixel",
        "image 'text.jpg' is not an image: begins with b'A letter', wanted JPEG, PNG, WebP or BMP",
    }

    stored = list(find(sqlite_store, "real", Image.kind))
    images = [one.record(Image) for one in stored]
    assert Counter(one.task for one in images if one.tier == "v0") == V0_COUNTS
    assert len({one.sha256 for one in images}) == len(images) == 16  # every image is in one tier
    captions = list(find(sqlite_store, "real", Caption.kind))
    assert {one.state for one in captions} == {"accepted", "rejected"}
    described = {one.group for one in captions if one.state == "accepted"}
    v0_ids = {one.id for one in stored if one.record(Image).tier == "v0"}
    matched = stage(report, "match similar images")
    assert matched.finished == len(v0_ids & described)
    (counts,) = (
        one.record(ExpansionReport) for one in find(sqlite_store, "real", ExpansionReport.kind)
    )
    assert counts.new == counts.outside - counts.exact - counts.near
    assert counts.new == sum(one.tier == "v2" for one in images)
    for version in ("0.1.0", "1.1.0", "2.1.0"):
        assert verify_release(run.settings.home / "releases" / f"real-{version}").problems == []

    other = build.model_copy(update={"dataset": "other"})
    with pytest.raises(ModelError, match="can caption no photograph; choose a profile"):
        run_pipeline(run, recos_pipeline(), other, small_profile(settings), no_desks)
