import json
from pathlib import Path

import pytest

from loupe.schemas.errors import FormatError
from loupe.sources.importer import importer_for
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, SourceRow

GOOD = {"id": 1, "split": "train", "file_path": "a/1.jpg", "captions": ["A man.", "A tall man."]}


def write_annotations(tmp_path: Path, value: object) -> Path:
    path = tmp_path / "annotations.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def read(
    path: Path,
    image_format: str = "cuhk-pedes",
    options: ReadOptions = DEFAULT_OPTIONS,
) -> list[Row]:
    return list(importer_for(image_format).rows(path, options))


def test_a_record_becomes_a_row(tmp_path: Path) -> None:
    (row,) = read(write_annotations(tmp_path, [GOOD]))
    assert row == SourceRow(
        index=0,
        identity="1",
        split="train",
        file_path="a/1.jpg",
        captions=("A man.", "A tall man."),
        positions=(0, 1),
    )


def test_all_pedes_importers_read_the_common_format(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for image_format in ("cuhk-pedes", "icfg-pedes", "ufine6926", "ufine3c"):
        with subtests.test(image_format=image_format):
            extra = {"processed_tokens": [["a", "man"]], "source": "UFine6926"}
            (row,) = read(write_annotations(tmp_path, [GOOD | extra]), image_format)
            assert isinstance(row, SourceRow)


def test_rstpreid_reads_the_path_from_img_path(tmp_path: Path) -> None:
    record = {"id": 0, "img_path": "0000_c14_0031.jpg", "captions": ["A man."], "split": "val"}
    (row,) = read(write_annotations(tmp_path, [record]), "rstpreid")
    assert isinstance(row, SourceRow)
    assert (row.identity, row.file_path, row.split) == ("0", "0000_c14_0031.jpg", "val")


def test_texts_are_normalised_and_a_bad_caption_leaves_a_gap(tmp_path: Path) -> None:
    captions = ["  Cafe\u0301 \n\tman\u00a0here ", "", 5, "bell\x07", "The last."]
    record = GOOD | {"file_path": "cam_a\\.\\000_45.bmp", "captions": captions}
    *bad, row = read(write_annotations(tmp_path, [record]))
    assert isinstance(row, SourceRow)
    assert row.captions == ("Café man here", "The last.")
    assert row.positions == (0, 4)
    assert row.file_path == "cam_a/000_45.bmp"
    found = [(b.scope, b.field, b.reason) for b in bad if isinstance(b, BadRow)]
    assert found == [
        ("caption", "captions[1]", "empty_caption"),
        ("caption", "captions[2]", "wrong_type"),
        ("caption", "captions[3]", "control_characters"),
    ]


def test_a_file_of_another_format_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[str, str]] = [
        ("", "is empty; expected an annotation file"),
        ("hello", 'its first line, "hello", is not JSON; expected a JSON file'),
        ("  {}", "is not a cuhk-pedes file, at byte 2: expecting '[', got '{'"),
        ("[]", "is not a cuhk-pedes file: it has no records in its list"),
        ("[1]", "its first record has none of the fields captions, file_path, id"),
        ('[{"a": 1}]', "its first record has none of the fields captions, file_path, id"),
        ('[{"id": 1, ', "is not a cuhk-pedes file, at byte 11: the file ends too early"),
    ]
    for content, message in cases:
        with subtests.test(content=content, message=message):
            with pytest.raises(FormatError) as caught:
                read(write_annotations(tmp_path, content))
            assert str(
                caught.value
            ) == f"{tmp_path / 'annotations.json'} {message}" or message in str(caught.value)


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.json cannot be read: does not exist$"):
        read(tmp_path / "none.json")
    with pytest.raises(FormatError, match=r"is a directory; expected an annotation file$"):
        read(tmp_path)


def test_a_table_where_json_is_wanted_is_named(tmp_path: Path) -> None:
    path = write_annotations(tmp_path, "file_path,id,captions\n1.jpg,1,A man.\n")
    message = 'its first line, "file_path,id,captions", is not JSON; expected a JSON file'
    with pytest.raises(FormatError, match=message):
        read(path)
