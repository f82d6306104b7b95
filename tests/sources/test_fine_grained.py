"""MSCOCO-FG and Flickr30K-FG: an object of image names and their captions."""

import json
from pathlib import Path

import pytest

from loupe.schemas.errors import FormatError
from loupe.sources.importer import importer_for
from loupe.sources.records import BadRow, ReadOptions, Row, SourceRow


def read(folder: Path, text: str, **options: str) -> list[Row]:
    path = folder / "annotations.json"
    path.write_text(text, encoding="utf-8")
    return list(importer_for("mscoco-fg").rows(path, ReadOptions.model_validate(options)))


def test_a_row_has_the_name_the_file_and_the_captions_of_an_image(tmp_path: Path) -> None:
    name = "COCO_val2014_000000452113"
    (row,) = read(tmp_path, json.dumps({name: ["five people", "people with cupcakes"]}))
    assert row == SourceRow(
        index=0,
        identity=name,
        split="test",
        file_path=f"{name}.jpg",
        captions=("five people", "people with cupcakes"),
        positions=(0, 1),
    )
    (row,) = read(tmp_path, json.dumps({name: ["five people"]}), split="val")
    assert isinstance(row, SourceRow)
    assert row.split == "val"


def test_bad_records_are_rejected_alone(tmp_path: Path) -> None:
    images = {"1": ["a dog"], "2": 5, "3": [], "4": [7], "5": ["a hat", None], "6": ["x"]}
    rows = read(tmp_path, json.dumps(images))
    assert [row.index for row in rows if isinstance(row, SourceRow)] == [0, 4, 5]
    bad = [(row.index, row.scope) for row in rows if isinstance(row, BadRow)]
    assert bad == [(1, "record"), (2, "record"), (3, "caption"), (3, "record"), (4, "caption")]


def test_a_truncated_file_keeps_its_complete_records(tmp_path: Path) -> None:
    first, last = read(tmp_path, '{"1": ["a dog"], "2": ["a c')
    assert isinstance(first, SourceRow)
    assert isinstance(last, BadRow)
    assert last.scope == "file"


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    for text in ("{}", "[]", "nothing", '{"images": [{"filename": "1.jpg"}]}', '{"a": {}}'):
        with pytest.raises(FormatError, match="is not a mscoco-fg file"):
            read(tmp_path, text)
