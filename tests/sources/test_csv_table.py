"""Tables of images in the dialects and encodings that people save."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from loupe.schemas.columns import TableColumns
from loupe.schemas.errors import FormatError
from loupe.sources.importer import importer_for
from loupe.sources.records import BadRow, ReadOptions, SourceRow

NAMED = TableColumns(identity="SKU", captions=("title", "more"), split_column="split")
TEXT = 'sku;title;more;split\n7;"Café; noir";a mug;train\n8;;b;test\n'


def rows(path: Path, columns: TableColumns | None) -> list[SourceRow | BadRow]:
    return list(importer_for("csv").rows(path, ReadOptions(columns=columns)))


@pytest.mark.parametrize("delimiter", [";", ",", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_delimiter_and_unicode_are_found_out(tmp_path: Path, delimiter: str, encoding: str) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(TEXT.replace(";", delimiter), encoding=encoding)
    first, second = rows(path, NAMED)
    assert isinstance(first, SourceRow)
    assert (first.identity, first.split, first.file_path) == ("7", "train", "7.jpg")
    assert first.captions == (" ".join(f"Café{delimiter} noir".split()), "a mug")
    assert isinstance(second, SourceRow)
    assert (second.captions, second.positions) == (("b",), (1,))


def test_other_encodings_are_stated(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(TEXT, encoding="cp1252")
    with pytest.raises(
        FormatError, match=r"is not UTF-8 .byte 0xe9 in line 2.*may be cp1252 .Café."
    ):
        rows(path, NAMED)
    (first, _) = rows(path, NAMED.model_copy(update={"encoding": "cp1252"}))
    assert isinstance(first, SourceRow)
    assert first.captions[0] == "Café; noir"
    with pytest.raises(
        ValidationError, match="known encoding, such as cp1252; got 'utf-88'; did you mean utf-8"
    ):
        TableColumns(encoding="utf-88")


@pytest.mark.parametrize("whole", [2, 200])
def test_a_damaged_byte_spoils_its_line_of_a_utf_8_table_only(tmp_path: Path, whole: int) -> None:
    path = tmp_path / "coats.csv"
    line = "{}.jpg,Ein grüner Mantel und ein weißer Hut\n"
    text = "file_name,caption\n" + "".join(map(line.format, range(whole)))
    path.write_bytes(text.encode() + b"last.jpg,Ein wei\xdfer Hut\n")
    found = rows(path, None)
    captions = [one.captions for one in found if isinstance(one, SourceRow)]
    assert captions == [("Ein grüner Mantel und ein weißer Hut",)] * whole + [()]
    assert [one.reason for one in found if isinstance(one, BadRow)] == ["invalid_unicode"]


def test_values_that_libraries_write_for_a_missing_one_are_no_identity(tmp_path: Path) -> None:
    path = tmp_path / "photos.csv"
    missing = ["nan", "NaN", "None", "null", "<NA>", "N/A"]
    lines = [f"{number}.jpg,{one},A mug" for number, one in enumerate([*missing, "Nana", "0"])]
    path.write_text("\n".join(["image,identity,caption", *lines]), encoding="utf-8")
    found = rows(path, None)
    reasons = [one.reason for one in found if isinstance(one, BadRow)]
    assert reasons == ["missing_identity"] * len(missing)
    assert [one.identity for one in found if isinstance(one, SourceRow)] == ["Nana", "0"]


def test_one_name_in_two_normal_forms_is_one_identity(tmp_path: Path) -> None:
    path = tmp_path / "photos.csv"
    lines = ["identity,caption", "caf\u00e9,A mug", "cafe\u0301,A cup"]
    path.write_text("\n".join(lines), encoding="utf-8")
    (row,) = rows(path, TableColumns(identity="identity"))
    assert isinstance(row, SourceRow)
    assert (row.identity, row.captions) == ("caf\u00e9", ("A mug", "A cup"))
    assert {"caf\u00e9.jpg", "cafe\u0301.jpg"} <= {row.file_path, *row.other_paths}


def test_a_missing_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(TEXT, encoding="utf-8")
    with pytest.raises(FormatError, match=r"column 'titel' \(captions\).*did you mean title"):
        rows(path, TableColumns(identity="sku", captions=("titel",)))
    with pytest.raises(FormatError, match="state the column of the image or its path"):
        rows(path, None)


def test_a_repeated_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("file_name,caption,Caption\n1.jpg,A mug,A cup\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"shop.csv has two columns called 'caption'; rename"):
        rows(path, None)
    with pytest.raises(FormatError, match="two columns called 'caption'"):
        list(importer_for("json-lines").rows(path))


def test_every_line_is_a_row_or_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    lines = ["image,licence,title", "a.jpg,CC0-1.0,A mug", "b.jpg,,A cup", ",CC0-1.0,A jug"]
    path.write_text("\n".join([*lines, "c.jpg,CC0-1.0,one,two"]), encoding="utf-8")
    columns = TableColumns(captions=("title",), licence_column="licence")
    found = rows(path, columns)
    assert [type(one).__name__ for one in found] == ["SourceRow", "BadRow", "BadRow", "BadRow"]
    reasons = [one.reason for one in found if isinstance(one, BadRow)]
    assert reasons == ["missing_licence", "empty_field", "malformed_csv"]
