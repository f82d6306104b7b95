import json
from pathlib import Path
from typing import Any

import pytest

from loupe.schemas.errors import FormatError, UsageError
from loupe.schemas.plugins import plugins
from loupe.sources.importer import IMPORTERS, importer_for, read_source


def test_importers_are_registered_by_format_with_licence_and_citation() -> None:
    for name, importer in IMPORTERS.items():
        assert importer.format == name
        assert importer.licence
        # A general format has no citation; every collection has one.
        assert (importer.citation == "") == (importer.licence == "Unknown: the format names none")


def test_names_of_formats_ignore_case_spaces_and_underscores(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "cuhk-pedes",
        "CUHK-PEDES",
        " cuhk_pedes ",
    ]
    for written in cases:
        with subtests.test(written=written):
            assert importer_for(written) is IMPORTERS["cuhk-pedes"]


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"^no format is called 'voc'; known are ") as refused:
        importer_for("voc")
    listed = str(refused.value).partition("known are ")[2].split(", ")
    assert listed == sorted(listed)
    assert {*IMPORTERS, *plugins("formats")} <= {*listed}  # and those that pipelines declared


def test_a_file_without_captions_names_the_formats_that_need_none(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    one: dict[str, Any] = {"file_name": "a.jpg", "id": 1, "split": "test"}
    records = [one, {**one, "file_name": "b.jpg", "id": 2}]
    blank = [{**record, "captions": []} for record in records]
    sentences = [{**record, "filename": record["file_name"], "sentences": []} for record in records]
    paths = [{**record, "file_path": record["file_name"]} for record in records]
    cases: list[tuple[str, str]] = [
        ("json-lines", "\n".join(map(json.dumps, records))),
        ("json-lines", "\n".join(map(json.dumps, blank))),
        ("json-lines", "file_name\na.jpg\nb.jpg\n"),
        ("json-lines", "file_name,text\na.jpg,\nb.jpg,\n"),
        ("icfg-pedes", json.dumps(paths)),
        ("karpathy-flickr30k", json.dumps({"images": sentences})),
        ("coco-captions", json.dumps({"images": records, "annotations": []})),
    ]
    for name, text in cases:
        with subtests.test(name=name, text=text):
            file = tmp_path / "annotations"
            file.write_text(text, encoding="utf-8")
            wanted = "for images without captions, use the format image-list"
            with pytest.raises(FormatError, match=wanted):
                read_source(IMPORTERS[name], file)
    unsplit = [{**one, "captions": ["A red mug."], "split": None} for one in paths]
    file.write_text(json.dumps(unsplit), encoding="utf-8")
    with pytest.raises(FormatError) as caught:
        read_source(IMPORTERS["icfg-pedes"], file)
    assert "image-list" not in str(caught.value), "what all records lack is another field"
