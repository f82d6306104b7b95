import json
from pathlib import Path

import pytest

from loupe.schemas.base import Split
from loupe.schemas.errors import FormatError
from loupe.sources.images import ImageProblem, inspect_image
from loupe.sources.importer import Survey, importer_for, read_source
from loupe.sources.records import BadRow, ReadOptions, SourceRow


def row(identity: str, split: Split) -> SourceRow:
    return SourceRow(
        index=0,
        identity=identity,
        split=split,
        file_path="a.jpg",
        captions=("A man.",),
        positions=(0,),
    )


def test_identities_in_two_splits_are_returned_with_their_splits() -> None:
    rows = [row("1", "train"), row("2", "test"), row("1", "val"), row("2", "test")]
    assert Survey("a", rows).torn == {"1": ("train", "val")}
    assert Survey("a", [*rows, row("1", "test")]).torn == {"1": ("test", "train", "val")}
    assert Survey("a", []).torn == {}


def test_identities_in_two_splits_are_found_across_batches() -> None:
    rows = [row(str(index), "train") for index in range(5_001)]
    assert Survey("a", [*rows, row("3", "test")]).torn == {"3": ("test", "train")}


def test_a_file_of_another_format_is_refused_before_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")
    with pytest.raises(FormatError):
        read_source(importer_for("cuhk-pedes"), path)


def test_a_rejected_record_does_not_put_an_identity_into_two_splits(tmp_path: Path) -> None:
    good = {"id": 1, "split": "train", "file_path": "1.jpg", "captions": ["A man."]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([good, good | {"split": "test", "captions": [""]}]))
    rows = list(read_source(importer_for("cuhk-pedes"), path))
    assert [r.identity for r in rows if isinstance(r, SourceRow)] == ["1"]


def write(folder: Path, *records: dict[str, object]) -> Path:
    path = folder / "caption_all.json"
    path.write_text(json.dumps(records))
    return path


def unsplit(number: int) -> dict[str, object]:
    return {"id": number, "file_path": f"{number}.jpg", "captions": [f"Person {number}."]}


def test_a_file_of_one_defect_is_refused_as_a_whole(tmp_path: Path) -> None:
    bad = [{"id": one, "split": "train", "file_path": f"{one}.jpg"} for one in range(3)]
    message = "none of its 3 records can be used, for the same reason; the first: captions is miss"
    with pytest.raises(FormatError, match=message):
        read_source(importer_for("icfg-pedes"), write(tmp_path, *bad))
    good = bad[0] | {"captions": ["A man."]}
    rows = list(read_source(importer_for("icfg-pedes"), write(tmp_path, *bad[1:], good)))
    assert [isinstance(row, SourceRow) for row in rows] == [False, False, True]


def test_a_file_without_splits_names_the_one_that_has_them(tmp_path: Path) -> None:
    path = write(tmp_path, unsplit(1), unsplit(2))
    message = "wanted one of train, val, test; use reid_raw.json, which has them, or state one"
    with pytest.raises(FormatError, match=message):
        read_source(importer_for("cuhk-pedes"), path, ReadOptions(split="test"))


def test_a_stated_split_is_that_of_a_whole_file_only(tmp_path: Path) -> None:
    options = ReadOptions(split="train", is_split_stated=True)
    importer = importer_for("cuhk-pedes")
    rows = list(read_source(importer, write(tmp_path, unsplit(1), unsplit(2)), options))
    assert [row.split for row in rows if isinstance(row, SourceRow)] == ["train", "train"]
    mixed = write(tmp_path, unsplit(1), unsplit(2) | {"split": "test"})
    bad, good = read_source(importer, mixed, options)
    assert isinstance(bad, BadRow)
    assert bad.detail == "split is missing, wanted one of train, val, test"
    assert isinstance(good, SourceRow)


def test_a_file_under_several_identities_is_none_of_theirs(tmp_path: Path) -> None:
    records = [unsplit(one) | {"split": "test"} for one in (1, 2, 3)]
    path = write(tmp_path, records[0], records[1] | {"file_path": "1.jpg"}, records[2])
    first, second, other = read_source(importer_for("cuhk-pedes"), path)
    assert isinstance(other, SourceRow)
    for bad in (first, second):
        assert isinstance(bad, BadRow)
        assert bad.reason == "image_of_several_identities"
        assert "image '1.jpg' is under the identities 1 and 2" in bad.detail


def test_an_identity_keeps_its_meaning_however_it_is_written(tmp_path: Path) -> None:
    names: list[object] = [12, 12.0, "0007", "7th", 0.5]
    path = write(
        tmp_path, *(unsplit(one) | {"split": "test", "id": name} for one, name in enumerate(names))
    )
    *rows, bad = read_source(importer_for("cuhk-pedes"), path)
    assert [r.identity for r in rows if isinstance(r, SourceRow)] == ["12", "12", "0007", "7th"]
    assert isinstance(bad, BadRow)
    assert bad.reason == "wrong_type"


def test_identities_that_may_be_one_are_neither_merged_nor_split(tmp_path: Path) -> None:
    names: list[object] = [12, "0012", "12.0", 13]
    path = write(
        tmp_path, *(unsplit(one) | {"split": "test", "id": name} for one, name in enumerate(names))
    )
    *bad, good = read_source(importer_for("cuhk-pedes"), path)
    assert isinstance(good, SourceRow)
    for row in bad:
        assert isinstance(row, BadRow)
        assert row.reason == "identity_written_in_two_ways"
        assert "is written 0012 and 12 and 12.0, wanted one way" in row.detail


def test_absolute_paths_below_the_image_root_become_relative(tmp_path: Path) -> None:
    root = tmp_path / "images"
    path = tmp_path / "a.jsonl"
    names = (root / "sub" / "1.jpg", tmp_path / "2.jpg")
    path.write_text(
        "".join(json.dumps({"file_name": str(one), "text": "A cat."}) + "\n" for one in names)
    )
    inside, outside = read_source(importer_for("json-lines"), path, image_root=root)
    assert isinstance(inside, SourceRow)
    assert isinstance(outside, SourceRow)
    assert (inside.file_path, inside.identity) == ("sub/1.jpg", "sub/1.jpg")
    problem = inspect_image(root, outside.file_path)
    assert isinstance(problem, ImageProblem)
    assert "leads out of the image root, wanted a path below it" in problem.detail
