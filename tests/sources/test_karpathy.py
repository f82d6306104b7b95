import json
from pathlib import Path
from typing import Any

import pytest

from loupe.schemas.errors import FormatError
from loupe.sources.importer import importer_for
from loupe.sources.records import BadRow, Row, SourceRow

COCO = {
    "filepath": "val2014",
    "sentids": [770337],
    "filename": "COCO_val2014_000000391895.jpg",
    "imgid": 0,
    "split": "restval",
    "sentences": [{"tokens": ["a", "man"], "raw": "A man.", "imgid": 0, "sentid": 770337}],
    "cocoid": 391895,
}
FLICKR = {
    "sentids": [0, 1],
    "imgid": 0,
    "sentences": [{"raw": "Two young guys."}, {"raw": "Two men in green."}],
    "split": "test",
    "filename": "1000092795.jpg",
}


def read(folder: Path, format: str, images: Any) -> list[Row]:  # noqa: A002
    path = folder / "dataset.json"
    path.write_text(json.dumps({"images": images, "dataset": "any"}))
    return list(importer_for(format).rows(path))


def test_coco_images_are_identified_by_cocoid_and_restval_is_train(tmp_path: Path) -> None:
    (row,) = read(tmp_path, "karpathy-coco", [COCO])
    assert row == SourceRow(
        index=0,
        identity="391895",
        split="train",
        file_path="val2014/COCO_val2014_000000391895.jpg",
        captions=("A man.",),
        positions=(0,),
    )


def test_flickr_images_are_identified_by_file_name(tmp_path: Path) -> None:
    (row,) = read(tmp_path, "karpathy-flickr30k", [FLICKR])
    assert isinstance(row, SourceRow)
    assert (row.identity, row.file_path, row.split) == (
        "1000092795.jpg",
        "1000092795.jpg",
        "test",
    )
    assert row.captions == ("Two young guys.", "Two men in green.")


def test_a_bad_sentence_is_reported_with_its_json_path(tmp_path: Path) -> None:
    sentences = [{"raw": "Good."}, {"tokens": ["no", "raw"]}, 5]
    rows = read(tmp_path, "karpathy-coco", [COCO | {"sentences": sentences}])
    assert [(b.field, b.reason) for b in rows if isinstance(b, BadRow)] == [
        ("sentences[1].raw", "missing_field"),
        ("sentences[2]", "wrong_type"),
    ]


def test_a_file_of_another_format_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[Any] = [
        [],
        {},
        [{"id": 1, "file_name": "a.jpg"}],
    ]
    for images in cases:
        with (
            subtests.test(images=images),
            pytest.raises(FormatError, match="is not a karpathy-coco file: it"),
        ):
            read(tmp_path, "karpathy-coco", images)
