"""`build-ccd` on real photographs with the built-in models, which cannot interpret them.

The strategies propose only changes that the editor can make.
"""

import io
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pictures

from loupe.annotate.queues import SHARED
from loupe.db.entities import StoredEntity, find
from loupe.flows.engine.context import RunContext
from loupe.release.verify import verify_release
from loupe.schemas.build import CcdBuild, SourceSpec
from loupe.schemas.proposals import Candidate
from loupe.schemas.records import Picture
from loupe.schemas.taxonomy import DifferenceType
from tests.annotate.interfaces.regions import Regions
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.ccd_reviewers import answer, build_once, right, wrong
from tests.requirements import unavailable

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[3] / "shared" / "data"
COCO, PHOTOS = DATA / "coco_captions", DATA / "photos"
DATASET = "real"
ANCHORS = 2
WHOLE_PICTURE = {DifferenceType.SCENE_ATTRIBUTE, DifferenceType.STYLE}
NOT_TO_BE_CHANGED = "CC BY-ND 2.0"


@pytest.fixture
def build(tmp_path: Path) -> CcdBuild:
    """A build with captioned photographs as anchors and a search folder."""
    if not (COCO.is_dir() and PHOTOS.is_dir()):
        unavailable("the photographs are not there: ../shared/data/coco_captions and photos")
    return CcdBuild(
        dataset=DATASET,
        seed=1,
        anchors=ANCHORS,
        methods=("search", "edit"),
        search_folder=searched(tmp_path / "searched"),
        sources=(
            SourceSpec(
                name="coco",
                format="json-lines",
                annotations=COCO / "annotations.jsonl",
                images=COCO,
                licence="CC BY 4.0 (annotations)",
                permitted_by="a test, which gives them to nobody",
            ),
        ),
    )


def searched(folder: Path) -> Path:
    """Create a folder with all photographs and their licences, one of which forbids changes."""
    shutil.copytree(PHOTOS, folder)
    for path in COCO.glob("*.jpg"):
        shutil.copy(path, folder)
    names = sorted(path.name for path in folder.glob("*.jpg"))
    lines = (
        {
            "file_name": name,
            "licence": NOT_TO_BE_CHANGED if name == names[-1] else "CC BY 2.0",
            "creator": "Somebody with a camera",
            "source_url": f"https://example.org/{name}",
        }
        for name in names
    )
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "licences.jsonl").write_text(text, encoding="utf-8")
    return folder


def stored(run: RunContext, kind: str, *states: str) -> list[StoredEntity]:
    return list(find(run.store, DATASET, kind, states=states or None))


def test_with_review_found_images_are_rejected_and_edits_are_released(
    run: RunContext, build: CcdBuild
) -> None:
    office = MemoryOffice()
    asked = build.model_copy(update={"candidates_gate": "required", "groups_gate": "required"})
    assert build_once(run, asked, office).waiting
    found = [one.record(Candidate) for one in stored(run, Candidate.kind, "proposed")]
    assert {one.origin.method for one in found} == {"search"}
    for one in found:
        assert one.image.sha256 != one.anchor.sha256, "the anchor itself is in the folder"
        assert one.origin.method == "search"
        assert one.origin.licence != NOT_TO_BE_CHANGED

    answer(run, office, SHARED, only_edits)
    while (report := build_once(run, asked, office)).waiting:
        assert answer(run, office, SHARED, only_edits)
    edits = [one.record(Candidate) for one in stored(run, Candidate.kind, "accepted")]
    assert Counter(one.difference for one in edits) == dict.fromkeys(WHOLE_PICTURE, ANCHORS)
    for one in edits:
        assert_light_or_style_changed(run, one)
    folder = run.settings.home / "releases" / f"{DATASET}-{build.version}"
    assert report.release is not None
    assert verify_release(folder).problems == []
    rows = json.loads((folder / f"{DATASET}.json").read_text())
    assert len(rows) == 3 * ANCHORS
    assert {one["contrast"]["method"] for one in rows if one["contrast"]} == {"edit"}
    by_file = {row["file_path"]: row for row in rows}
    for row in rows:
        if row["contrast"]:
            anchor = by_file[row["contrast"]["anchor"]]
            assert set(row["captions"]).isdisjoint(anchor["captions"])
            assert row["licence"] == anchor["licence"]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "**Demonstration.**" in card
    assert f"| **Style & Presentation** | {ANCHORS} | 0 | {ANCHORS} |" in card


def only_edits(shown: StoredEntity) -> Regions:
    """Reject images found by search; accept edits and their captions."""
    is_found = shown.kind == Candidate.kind and shown.record(Candidate).origin.method == "search"
    return wrong(shown) if is_found else right(shown)


def assert_light_or_style_changed(run: RunContext, edit: Candidate) -> None:
    """The edit shows the anchor in other light or without its colours, with the same layout."""
    anchor, edited = (pixels(run, one) for one in (edit.anchor, edit.image))
    assert anchor.shape == edited.shape
    assert (np.abs(anchor - edited).max(axis=2) > 20).mean() > 0.02, "the change is visible"
    if edit.detail == "the light":
        assert edited.mean() < anchor.mean() - 10, "it is darker"
        before, after = anchor.mean(axis=2).ravel(), edited.mean(axis=2).ravel()
        assert np.corrcoef(before, after)[0, 1] > 0.9, "the content is the same"
    else:
        spread = edited.max(axis=2) - edited.min(axis=2)
        assert spread.mean() < 5, "black-and-white, or a sketch"


def pixels(run: RunContext, picture: Picture) -> "np.ndarray[tuple[int, ...], np.dtype[np.int16]]":
    with Pictures.open(io.BytesIO(run.blobs.read(picture.sha256, picture.media_type))) as opened:
        return np.asarray(opened.convert("RGB"), np.int16)
