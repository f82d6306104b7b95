"""Files that are damaged or not as stated: one sentence with the place, and the rest is read."""

import datetime as dt
import decimal
import os
import re
from pathlib import Path

import pytest

from loupe.schemas.columns import TableColumns
from loupe.schemas.errors import FormatError
from loupe.sources.images import ImageProblem, inspect_each
from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import BadRow, ReadOptions, SourceRow
from loupe.sources.remote import located
from tests.sources.formats.writing import FORMATS, jpeg, parquet, pictures, webdataset

Rows = list[SourceRow | BadRow]


def rows_of(name: str, path: Path, columns: TableColumns | None = None) -> Rows:
    return list(read_source(importer_for(name), path, ReadOptions(columns=columns)))


def usable(rows: Rows) -> list[SourceRow]:
    return [one for one in rows if isinstance(one, SourceRow)]


def refused(rows: Rows) -> list[tuple[str, str, int]]:
    return [(one.reason, one.file, one.index) for one in rows if isinstance(one, BadRow)]


@pytest.mark.parametrize("writer", FORMATS)
def test_an_unknown_column_is_named_with_the_nearest(tmp_path: Path, writer: str) -> None:
    name, write = FORMATS[writer]
    path = write(tmp_path, pictures())
    known = "folder" if writer == "folder" else "person"
    message = rf"column '{known[:-1]}' \(identity\): its columns are .*; did you mean {known}\?"
    with pytest.raises(FormatError, match=message):
        rows_of(name, path, TableColumns(identity=known[:-1]))


def test_images_of_mixed_types_are_read_where_they_can(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "b.jpg").write_bytes(jpeg(9))
    images = [
        {"bytes": jpeg(1), "path": None},
        {"bytes": None, "path": "b.jpg"},
        {"bytes": None, "path": None},
        {"bytes": b"no image", "path": "d.jpg"},
    ]
    columns = {"image": images, "caption": ["one", "two", "three", "four"]}
    pq.write_table(pa.table(columns), tmp_path / "mixed.parquet")
    rows = rows_of("parquet", tmp_path / "mixed.parquet")
    assert refused(rows) == [("no_image", "mixed.parquet", 2)]
    first, second, last = usable(rows)
    assert (first.file_path, second.file_path) == ("mixed.parquet/0", "b.jpg")
    found = list(inspect_each(tmp_path, (first, second, last)))
    problems = [one for one in found if isinstance(one, ImageProblem)]
    assert [one.reason for one in problems] == ["not_an_image"]
    bad = problems[0].as_bad_row(last, "folder")
    assert (bad.file, bad.index) == ("mixed.parquet", 3)


def test_an_image_column_of_another_type_is_a_sentence(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"image": [1, 2], "caption": ["a", "b"]}), tmp_path / "a.parquet")
    with pytest.raises(FormatError, match=r"got 1, wanted an image: bytes, an object of bytes and"):
        rows_of("parquet", tmp_path)


@pytest.mark.parametrize(
    ("column", "got"),
    [
        ("caption", r"\(1 bytes\)"),
        ("identity", r"\(1 bytes\)"),
        ("split", "2020-01-01"),
        ("person", "1.50"),
    ],
)
def test_columns_of_other_types_are_a_sentence(tmp_path: Path, column: str, got: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    values = {
        "caption": b"a",
        "identity": b"a",
        "split": dt.date(2020, 1, 1),
        "person": decimal.Decimal("1.50"),
    }
    fields = {"image": ["1.jpg"], "caption": ["A mug"], column: [values[column]]}
    pq.write_table(pa.table(fields), tmp_path / "a.parquet")
    stated = TableColumns(identity="person") if column == "person" else None
    (fault,) = [one for one in rows_of("parquet", tmp_path, stated) if isinstance(one, BadRow)]
    assert fault.reason == "wrong_type"
    assert re.search(f'{column}.* has the wrong type: got "{got}", wanted', fault.detail)


def test_two_columns_of_one_name_are_refused_if_they_are_used(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    values = [pa.array([one]) for one in ("1.jpg", "A mug", "A cup", "x", "y")]
    names = ["image", "caption", "Caption", "size", "size"]
    pq.write_table(pa.Table.from_arrays(values, names=names), path)
    with pytest.raises(FormatError, match=r"a.parquet has two columns called 'caption'; rename"):
        rows_of("parquet", path)
    names[2] = "title"
    pq.write_table(pa.Table.from_arrays(values, names=names), path)
    assert [one.captions for one in usable(rows_of("parquet", path))] == [("A mug",)]


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "a.parquet"
    os.mkfifo(pipe)
    for read in (
        lambda: located(pipe, "", tmp_path),
        lambda: rows_of("parquet", tmp_path),
        lambda: located(Path("/dev/null"), "", tmp_path),
        lambda: importer_for("hf").digest(tmp_path),
    ):
        with pytest.raises(FormatError, match=r"is a (pipe|device), and a source is read several"):
            read()


def test_a_tar_shard_that_is_cut_keeps_what_is_before_and_after(tmp_path: Path) -> None:
    path = webdataset(tmp_path, pictures())
    shard = path / "test-000000.tar"
    second = shard.read_bytes().index(b"003.jpg")
    shard.write_bytes(shard.read_bytes()[: second + 700])
    rows = rows_of("webdataset", path, TableColumns(identity="person"))
    assert refused(rows) == [("unreadable_shard", "test-000000.tar", 1)]
    assert [one.file_path.partition("/")[2] for one in usable(rows)] == ["002", "000", "001"]
    (cut,) = [one for one in rows if isinstance(one, BadRow)]
    assert "test-000000.tar breaks after 1 samples: unexpected end of data" in cut.detail


def test_a_parquet_file_that_is_cut_leaves_the_others(tmp_path: Path) -> None:
    path = parquet(tmp_path, pictures())
    file = path / "train-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    rows = rows_of("parquet", path, TableColumns(identity="person"))
    assert refused(rows) == [("unreadable_shard", file.name, 0)]
    assert len(usable(rows)) == 2
    with pytest.raises(FormatError, match=r"is not a parquet file: .*magic bytes"):
        rows_of("parquet", file)


def test_the_second_image_of_one_key_is_refused(tmp_path: Path) -> None:
    import webdataset as wds

    with wds.TarWriter(str(tmp_path / "a.tar")) as tar:
        for key in ("a", "b", "a"):
            tar.write({"__key__": key, "jpg": jpeg(1), "txt": f"It is {key}."})
        tar.write({"__key__": "c", "jpg": jpeg(1), "png": jpeg(2), "txt": "It is c."})
    rows = rows_of("webdataset", tmp_path / "a.tar")
    assert refused(rows) == [("duplicate_image", "a.tar", 2), ("duplicate_member", "a.tar", 3)]
    assert [one.file_path for one in usable(rows)] == ["a.tar/a", "a.tar/b"]


def test_a_table_whose_quotes_break_names_the_line(tmp_path: Path) -> None:
    lines = ["file_name,caption", 'a.jpg,"A mug."', 'b.jpg,"A cup', "c.jpg,A jug."]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    rows = rows_of("csv", tmp_path / "a.csv")
    assert [one.file_path for one in usable(rows)] == ["a.jpg"]
    (broken,) = [one for one in rows if isinstance(one, BadRow)]
    assert broken.detail.startswith("a.csv breaks at line 3: a cell that begins here is not closed")


@pytest.mark.parametrize(
    "text",
    [
        "file_name,caption\n'a.jpg','A mug, red'\n'b.jpg','A cup'\n",
        'file_name,caption\n"a.jpg","A mug, red"\n"b.jpg","A cup"\n',
        'file_name,caption\n"a.jpg","A \\"mug, red"\n"b.jpg","A cup"\n',
        "file_name|caption\na.jpg|A mug, red\nb.jpg|A cup\n",
        "sep=;\nfile_name;caption\na.jpg;A mug, red\nb.jpg;A cup\n",
    ],
)
def test_tables_of_every_dialect_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    found = [(one.file_path, one.captions) for one in usable(rows_of("csv", tmp_path / "a.csv"))]
    first = "A mug, red" if "\\" not in text else 'A "mug, red'
    assert found == [("a.jpg", (first,)), ("b.jpg", ("A cup",))]


def test_a_second_language_of_bytes_is_told_or_asked_for(tmp_path: Path) -> None:
    path, columns = tmp_path / "a.csv", TableColumns(encoding="cp1251")
    chinese = "file_name,caption\n" + "a.jpg,一个穿红衣服的男人坐在码头上看船\n" * 3
    path.write_text(chinese, encoding="gb18030")
    (row,) = usable(rows_of("csv", path))
    assert row.captions[0] == "一个穿红衣服的男人坐在码头上看船"
    path.write_text("file_name,caption\na.jpg,Мужчина\n", encoding="cp1251")
    with pytest.raises(FormatError, match=r"encoding is uncertain: it may be .*cp1251 .Мужчина."):
        rows_of("csv", path)
    (row,) = usable(rows_of("csv", path, columns))
    assert row.captions == ("Мужчина",)


def test_a_shard_with_a_pickle_runs_nothing(tmp_path: Path) -> None:
    import io
    import tarfile

    payload = b"cos\nsystem\n(S'touch " + str(tmp_path / "run").encode() + b"'\ntR."
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, data in (("a.jpg", jpeg(1)), ("a.pkl", payload), ("a.txt", b"A mug.")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    (row,) = usable(rows_of("webdataset", tmp_path / "a.tar"))
    assert row.captions == ("A mug.",)
    assert not (tmp_path / "run").exists()


def test_a_column_that_cannot_hold_what_was_asked_of_it_is_named_with_its_key(
    tmp_path: Path,
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = {"image": ["1.jpg", "2.jpg"], "title": [["a", "b"], ["c"]]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(FormatError) as raised:
        rows_of("parquet", tmp_path, TableColumns(captions=("title",), attribution="title"))
    assert 'title (attribution) has the wrong type: got ["a", "b"]' in str(raised.value)
    assert "looks like" not in str(raised.value)
