"""Importing the published layout of CCD: it is released and evaluated like the original."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loupe.db.entities import find
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.importing import import_source
from loupe.flows.evaluation.run import evaluate_release
from loupe.release.build import build_release
from loupe.release.format.row_files import CCD_LINES, read_release
from loupe.release.verify import verify_release
from loupe.schemas.build import SourceSpec
from loupe.schemas.embedding import PrecomputedEmbedder
from loupe.schemas.records import Caption, Image
from tests.flows.test_evaluation_contrasts import accuracies, built, noisy

NAME = "mscoco-ccd"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in the authors' published layout: annotation lines next to an image folder."""
    home = tmp_path_factory.mktemp("published")
    folder = built(home, groups=4, size=2)
    shutil.copytree(folder / "images", home / "data/images")
    shutil.copy(folder / CCD_LINES, home / "data/test.json")
    return home


def imported(run: RunContext, folder: Path) -> Path:
    spec = SourceSpec(
        name=NAME, format="ccd", annotations=folder / "test.json", images=folder / "images"
    )
    _, report = import_source(run, spec)
    assert not report.rejected, report
    out = run.settings.home / "released"
    build_release(run.store, run.blobs, NAME, "1.0.0", out)
    return out


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    rows = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    fields = ("captions", "coarse_captions", "creator", "source_url")
    return [
        {field: row[field] for field in fields}
        | {"contrast": row["contrast"] and {**row["contrast"], "anchor": None}}
        for row in rows
    ]


def order(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def test_published_files_can_be_imported_released_and_evaluated(
    home_run: RunContext, published: Path, tmp_path: Path
) -> None:
    release = imported(home_run, published / "data")
    assert verify_release(release).problems == []
    ours, theirs = rows_of(release, NAME), rows_of(published / "release", "coco-ccd")
    assert sorted(ours, key=order) == sorted(theirs, key=order)
    read = read_release(release)
    assert read.manifest.statistics.contrasts is not None
    assert read.manifest.statistics.contrasts.contrastive == 8
    images, texts = noisy(read, 1.0)
    paths = tmp_path / "i.npy", tmp_path / "t.npy"
    for path, vectors in zip(paths, (images, texts), strict=True):
        np.save(path, vectors)
    spec = PrecomputedEmbedder(provider="precomputed", name="m", images=paths[0], texts=paths[1])
    result = evaluate_release(home_run, release, spec).evaluation.result
    assert 50 < accuracies(result, "text-to-image")[0] <= 100


def test_contrastive_images_are_in_the_group_of_their_anchor(
    home_run: RunContext, published: Path
) -> None:
    imported(home_run, published / "data")
    for image in find(home_run.store, NAME, Image.kind):
        contrast = image.record(Image).contrast
        assert image.group == (contrast.anchor_id if contrast else image.id)
    groups = {image.group for image in find(home_run.store, NAME, Image.kind)}
    assert {caption.group for caption in find(home_run.store, NAME, Caption.kind)} == groups
    assert len(groups) == 4


def test_a_group_whose_anchor_has_no_image_is_rejected(
    home_run: RunContext, published: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(published / "data", tmp_path / "data"))
    lines = (folder / "test.json").read_text("utf-8").splitlines()
    anchor = next(row for row in map(json.loads, lines) if "ori_image" not in row)
    (folder / "images" / anchor["image"]).unlink()
    spec = SourceSpec(
        name=NAME, format="ccd", annotations=folder / "test.json", images=folder / "images"
    )
    _, report = import_source(home_run, spec)
    assert dict(report.rejected) == {"missing_image": 3}


def test_originals_are_found_under_their_coco_file_names(
    home_run: RunContext, published: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(published / "data", tmp_path / "data"))
    for path in list((folder / "images").glob("*.jpg")):
        if "_" not in path.name:
            path.rename(path.with_name(f"COCO_val2014_{int(path.stem):012d}.jpg"))
    imported(home_run, folder)
    anchors = [one.record(Image) for one in find(home_run.store, NAME, Image.kind)]
    names = [one.file_path for one in anchors if one.contrast is None]
    assert all(name.startswith("COCO_val2014_0") for name in names)
