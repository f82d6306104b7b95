import json
from pathlib import Path
from typing import Any

import pytest

from loupe.schemas.errors import FormatError
from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import BadRow, Row, SourceRow

IMAGES = [{"id": 9, "file_name": "000009.jpg"}, {"id": 4, "file_name": "000004.jpg"}]
ANNOTATIONS = [
    {"id": 1, "image_id": 4, "caption": "A cat."},
    {"id": 2, "image_id": 9, "caption": "A dog.\n"},
    {"id": 3, "image_id": 4, "caption": "A small cat."},
]


def read(folder: Path, content: dict[str, Any], name: str = "captions_val2017.json") -> list[Row]:
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return list(read_source(importer_for("coco-captions"), path))


def row(index: int, identity: str, *captions: str) -> SourceRow:
    return SourceRow(
        index=index,
        identity=identity,
        split="val",
        file_path=f"{identity:0>6}.jpg",
        captions=captions,
        positions=tuple(range(len(captions))),
    )


def test_images_and_captions_may_come_in_any_order(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    cases: list[str] = [
        "images",
        "annotations",
    ]
    for first in cases:
        with subtests.test(first=first):
            content: dict[str, Any] = {"info": {"year": 2017}, "licenses": [{"id": 1}]}
            lists = {"images": IMAGES, "annotations": ANNOTATIONS}
            content |= {first: lists[first]} | lists
            assert list(content)[2] == first
            assert read(tmp_path, content) == [
                row(0, "9", "A dog."),
                row(1, "4", "A cat.", "A small cat."),
            ]


def test_images_and_captions_that_do_not_match_are_reported(tmp_path: Path) -> None:
    images = [*IMAGES, {"id": 9, "file_name": "again.jpg"}, {"id": 5, "file_name": "5.jpg"}]
    annotations = [*ANNOTATIONS, {"image_id": 77, "caption": "Nobody's."}]
    rows = read(tmp_path, {"images": images, "annotations": annotations})
    bad = [(b.scope, b.index, b.field, b.reason) for b in rows if isinstance(b, BadRow)]
    assert bad == [
        ("record", 2, "images[2].id", "duplicate_image"),
        ("caption", 3, "annotations[3].image_id", "unknown_image"),
        ("record", 3, "images[3]", "no_usable_caption"),
    ]
    assert sum(isinstance(r, SourceRow) for r in rows) == len(IMAGES)


def test_bad_captions_leave_gaps_and_bad_images_are_reported(tmp_path: Path) -> None:
    annotations = [{"image_id": 4, "caption": ""}, *ANNOTATIONS, {"image_id": "x", "caption": 1}, 7]
    images = [*IMAGES, {"id": 3}, "x"]
    rows = read(tmp_path, {"annotations": ANNOTATIONS[:1] + annotations, "images": images})
    bad = [(b.scope, b.field, b.reason) for b in rows if isinstance(b, BadRow)]
    assert bad == [
        ("caption", "annotations[1].caption", "empty_caption"),
        ("caption", "annotations[5].caption", "wrong_type"),
        ("caption", "", "wrong_type"),
        ("record", "images[2].file_name", "missing_field"),
        ("record", "", "wrong_type"),
    ]
    cat = next(r for r in rows if isinstance(r, SourceRow) and r.identity == "4")
    assert cat.captions == ("A cat.", "A cat.", "A small cat.")
    assert cat.positions == (0, 2, 3)


def test_a_truncated_file_keeps_the_captions_read_so_far(tmp_path: Path) -> None:
    path = tmp_path / "captions.json"
    text = json.dumps({"images": IMAGES, "annotations": ANNOTATIONS})
    path.write_text(text[:-20])
    rows = list(importer_for("coco-captions").rows(path))
    assert [(b.scope, b.reason) for b in rows if isinstance(b, BadRow)] == [
        ("file", "truncated_file")
    ]
    assert [r.captions for r in rows if isinstance(r, SourceRow)] == [("A dog.",), ("A cat.",)]


def test_a_file_of_another_format_raises_a_format_error(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "it has no records under 'images'"),
        ({"images": IMAGES}, "it has no records under 'annotations'; for images without .*"),
        (
            {"images": IMAGES, "annotations": {}},
            "it has no records under 'annotations'; for images without captions, .*",
        ),
        (
            {"images": IMAGES, "annotations": [{"image_id": 9, "bbox": [0, 0, 1, 1]}]},
            "its first record under 'annotations' has none of the fields caption",
        ),
    ]
    for content, message in cases:
        with (
            subtests.test(message=message),
            pytest.raises(FormatError, match=f"is not a coco-captions file: {message}$"),
        ):
            read(tmp_path, content)


def test_the_split_is_read_from_the_file_name(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[str, str]] = [
        ("captions_train2014.json", "train"),
        ("captions_val2017.json", "val"),
        ("Captions-Test.json", "test"),
        ("captions.json", "test"),
        ("trainer_interval.json", "test"),
    ]
    for name, split in cases:
        with subtests.test(name=name, split=split):
            path = tmp_path / name
            path.write_text(json.dumps({"images": IMAGES, "annotations": ANNOTATIONS}))
            found = importer_for("coco-captions").rows(path)
            assert {one.split for one in found if isinstance(one, SourceRow)} == {split}
