import json
from pathlib import Path

import pytest

from schemas.base import Split
from schemas.errors import FormatError
from sources.importer import identities_in_two_splits, importer_for, read_source
from sources.records import SourceRow


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
    assert identities_in_two_splits(rows) == {"1": ("train", "val")}
    assert identities_in_two_splits([*rows, row("1", "test")]) == {"1": ("test", "train", "val")}
    assert identities_in_two_splits([]) == {}


def test_identities_in_two_splits_are_found_across_batches() -> None:
    rows = [row(str(index), "train") for index in range(5_001)]
    assert identities_in_two_splits([*rows, row("3", "test")]) == {"3": ("test", "train")}


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
