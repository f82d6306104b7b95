"""Every format gives the images, captions, splits and identities that were written."""

import json
from pathlib import Path

import pytest

from loupe.schemas.base import sha256_of
from loupe.schemas.columns import TableColumns
from loupe.sources.images import InspectedImage, inspect_each
from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import BadRow, ReadOptions, SourceRow
from loupe.sources.sniffing import format_of, sniff
from tests.sources.formats.writing import FORMATS, pictures

Rows = list[SourceRow | BadRow]


def rows_of(name: str, path: Path, **columns: str) -> Rows:
    options = ReadOptions(columns=TableColumns.model_validate(columns) if columns else None)
    root = path if path.is_dir() else path.parent
    return list(read_source(importer_for(name), path, options, root))


def image_of(row: SourceRow, path: Path) -> str:
    (found,) = inspect_each(path if path.is_dir() else path.parent, [row])
    assert isinstance(found, InspectedImage), found
    return found.source_sha256


@pytest.mark.parametrize("writer", FORMATS)
def test_what_was_written_is_read(tmp_path: Path, writer: str) -> None:
    name, write = FORMATS[writer]
    shown = pictures()
    path = write(tmp_path, shown)
    identity = "folder" if writer == "folder" else "person"
    rows = rows_of(name, path, identity=identity)
    read = {
        (image_of(row, path), row.split, row.identity, row.captions)
        for row in rows
        if isinstance(row, SourceRow)
    }
    most = 1 if writer == "img2dataset" else 2
    assert read == {
        (sha256_of(one.data), one.split, one.person, one.captions[:most]) for one in shown
    }
    refused = [row.reason for row in rows if isinstance(row, BadRow)]
    assert refused == (["not_downloaded"] if writer == "img2dataset" else [])


@pytest.mark.parametrize("writer", FORMATS)
def test_what_it_is_can_be_told(tmp_path: Path, writer: str) -> None:
    name, write = FORMATS[writer]
    path = write(tmp_path, pictures())
    assert format_of(path) == name
    found = sniff(path)
    assert len(found.rows) == 3
    assert all(isinstance(row, SourceRow) and row.captions for row in found.rows)
    assert found.columns.get("identity") == (None if writer == "folder" else "person")
    assert f'format = "{name}"' in found.table("there", "people")


def test_folders_of_hugging_face_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, write = FORMATS["ImageFolder"]
    (tmp_path / "data").mkdir()
    path = write(tmp_path / "data", pictures())
    before = sorted(path.rglob("*"))
    rows_of("hf", path)
    assert sorted(path.rglob("*")) == before


def test_a_range_of_shards_is_read_in_order(tmp_path: Path) -> None:
    import webdataset as wds

    for number in range(3):
        with wds.TarWriter(str(tmp_path / f"{number:03d}.tar")) as tar:
            tar.write({"__key__": "a", "png": pictures()[number].data, "cap": f"one {number}"})
    rows = rows_of("webdataset", tmp_path / "{000..001}.tar")
    places = [(one.file_path, one.captions) for one in rows if isinstance(one, SourceRow)]
    assert places == [("000.tar/a", ("one 0",)), ("001.tar/a", ("one 1",))]
    assert len(rows_of("webdataset", tmp_path / "*.tar")) == 3


def test_the_folder_of_images_is_found_beside_their_table(tmp_path: Path) -> None:
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans" / "a.jpg").write_bytes(pictures()[0].data)
    (tmp_path / "a.csv").write_text("file,title\na.jpg,A mug of clay\n")
    found = sniff(tmp_path / "a.csv")
    assert found.images == tmp_path / "scans"
    assert found.columns == {"captions": ["title"]}


def test_the_licence_of_an_export_is_that_of_its_release(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("image,title\na.jpg,A mug of clay\n")
    assert "the terms of the images: a release needs them" in sniff(tmp_path / "a.csv").table(
        "", ""
    )
    record = {"sources": [{"licence": "CC0-1.0"}], "files": [{"path": "a.csv"}]}
    (tmp_path / "export.json").write_text(json.dumps(record))
    table = sniff(tmp_path / "a.csv").table("a.csv", "a")
    assert table.endswith("# licence: that of the exported release, CC0-1.0 (export.json)\n")


def test_the_image_is_the_only_column_of_bytes_or_the_one_that_names_files(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = pictures()[0].data
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans" / "a.jpg").write_bytes(data)
    (tmp_path / "named.csv").write_text("sku,pic\nA,a.jpg\n")
    (tmp_path / "unnamed.csv").write_text("sku,title\nA,A mug of clay\n")
    (tmp_path / "stated.json").write_text('[{"pic": "a.jpg", "said": "A mug of clay"}]')
    pq.write_table(pa.table({"sku": ["A"], "photo_data": [data]}), tmp_path / "held.parquet")
    assert sniff(tmp_path / "named.csv").columns == {"identity": "sku", "image": "pic"}
    assert sniff(tmp_path / "held.parquet").columns == {"identity": "sku", "image": "photo_data"}
    assert sniff(tmp_path / "unnamed.csv").lacks_images
    stated = TableColumns(image="pic", captions=("said",))
    (row,) = sniff(tmp_path / "stated.json", stated).rows
    assert isinstance(row, SourceRow)
    assert (row.file_path, row.captions) == ("a.jpg", ("A mug of clay",))
