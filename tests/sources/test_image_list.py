from pathlib import Path

import pytest

from loupe.schemas.errors import FormatError
from loupe.sources.importer import importer_for
from loupe.sources.records import BadRow, ReadOptions, SourceRow


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "photos.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_line_becomes_a_row_without_captions(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeff# my photos\n./a.jpg\r\n\nsub folder/b.PNG\n")
    rows = list(importer_for("image-list").rows(path, ReadOptions(split="val")))
    assert [row.file_path for row in rows if isinstance(row, SourceRow)] == [
        "a.jpg",
        "sub folder/b.PNG",
    ]
    assert all(
        isinstance(row, SourceRow) and not row.captions and row.split == "val" for row in rows
    )
    assert [row.index for row in rows] == [0, 1]


def test_an_invalid_path_is_rejected_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jpg\nb\x00.jpg\nc.jpg\n")
    rows = list(importer_for("image-list").rows(path))
    assert [isinstance(row, BadRow) for row in rows] == [False, True, False]


def test_a_file_that_is_no_list_of_images_is_refused(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    cases: list[tuple[str, str]] = [
        ("", "is empty"),
        ("# nothing\n", "names no image"),
        ("id,name\n", "is not the path"),
    ]
    for text, sentence in cases:
        with subtests.test(text=text), pytest.raises(FormatError, match=sentence):
            list(importer_for("image-list").rows(write(tmp_path, text)))
