"""Exported COCO captions, read with pycocotools and our importer."""

import json
from pathlib import Path
from typing import Any

import pytest

from loupe.schemas.licences import spdx_page
from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import SourceRow
from tests.release.export.conftest import Releases
from tests.release.export.kinds import truth

CAPTION_FIELDS = {
    "captions": "caption",
    "caption_entity_ids": "entity_id",
    "caption_authors": "author",
    "caption_origins": "origin",
    "caption_reviewed": "reviewed",
}


def rebuilt(folder: Path, split: str) -> dict[int, dict[str, Any]]:
    """Reconstruct the rows of a split with the COCO API, by image id."""
    from pycocotools.coco import COCO

    coco = COCO(str(folder / "annotations" / f"captions_{split}.json"))
    rows = {}
    for image in coco.loadImgs(sorted(coco.getImgIds())):
        row = dict(image)
        annotations = coco.loadAnns(sorted(coco.getAnnIds(imgIds=[image["id"]])))
        number, name = row.pop("id"), row.pop("file_name")
        row["image"] = (folder / "images" / name).read_bytes()
        row["file_path"] = f"images/{name}"
        row["id"] = row.pop("identity_id")
        row["width_px"], row["height_px"] = row.pop("width"), row.pop("height")
        licences = {one["id"]: one["name"] for one in coco.dataset["licenses"]}
        row["licence of coco"] = licences[row.pop("license")]
        for column, field in CAPTION_FIELDS.items():
            row[column] = [annotation[field] for annotation in annotations]
        rows[number] = row
    return rows


def test_the_coco_api_reads_every_row(
    releases: Releases, subtests: pytest.Subtests, exports: Releases
) -> None:
    for kind, release in releases.items():
        with subtests.test(kind=kind):
            folder, wanted = exports[f"{kind}/coco"], truth(release)
            manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
            of_source = {one["name"]: one["licence"] for one in manifest["sources"]}
            rows: dict[int, dict[str, Any]] = {}
            for split in {row["split"] for row in wanted}:
                found = rebuilt(folder, split)
                assert {row["split"] for row in found.values()} == {split}
                rows |= found
            assert sorted(rows) == list(range(1, len(wanted) + 1))
            for number, true in enumerate(wanted, 1):
                licence = rows[number].pop("licence of coco")
                assert licence == true.get("licence", of_source[true["source"]])
                assert rows[number] == true


def test_files_list_the_licences_of_their_images(
    releases: Releases, subtests: pytest.Subtests, exports: Releases
) -> None:
    for kind, release in releases.items():
        with subtests.test(kind=kind):
            manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
            of_source = {one["name"]: one["licence"] for one in manifest["sources"]}
            numbers: dict[str, int] = {}
            for file in (exports[f"{kind}/coco"] / "annotations").glob("captions_*.json"):
                listed = json.loads(file.read_text(encoding="utf-8"))["licenses"]
                wanted = {
                    row.get("licence") or of_source[row["source"]]
                    for row in truth(release)
                    if f"captions_{row['split']}" == file.stem
                }
                assert sorted(one["name"] for one in listed) == sorted(wanted)
                for one in listed:
                    assert numbers.setdefault(one["name"], one["id"]) == one["id"]
                    assert one["url"] == (spdx_page(one["name"]) or "")
            assert len(set(numbers.values())) == len(numbers)


def test_our_importer_reads_exported_coco_captions(releases: Releases, exports: Releases) -> None:
    wanted = [row for row in truth(releases["street"]) if row["split"] == "train"]
    file = exports["street/coco"] / "annotations" / "captions_train.json"
    rows = list(read_source(importer_for("coco-captions"), file))
    assert [
        (row.split, f"images/{row.file_path}", list(row.captions))
        for row in rows
        if isinstance(row, SourceRow)
    ] == [("train", row["file_path"], row["captions"]) for row in wanted]
