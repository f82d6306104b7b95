"""The faults of a row of a Parquet file, each planted alone in a sound row."""

from collections.abc import Callable
from typing import Any

import pytest

from loupe.release.format.rows import RowFaults, number_in

Row = dict[str, Any]
SHARD = "data/test-00000-of-00001.parquet"
NAN, INFINITE = float("nan"), float("inf")


def sound_row() -> Row:
    """A row with everything that may be wrong."""
    return {
        "id": 1,
        "source": "s",
        "identity": "1",
        "split": "test",
        "file_path": "images/4.jpg",
        "source_file_path": "4.jpg",
        "captions": ["a", "b"],
        "caption_entity_ids": ["0" * 32, "1" * 32],
        "caption_authors": ["m", "m"],
        "caption_origins": ["written", "written"],
        "caption_reviewed": [False, False],
        "image_entity_id": "2" * 32,
        "width_px": 12,
        "height_px": 24,
        "sha256": "a" * 64,
        "crop": {"time_seconds": 1.0, "score": 0.5, "box_xyxy": [1.0, 2.0, 3.0, 4.0]},
        "coarse_captions": [],
        "coarse_caption_entity_ids": [],
        "coarse_caption_authors": [],
        "coarse_caption_origins": [],
        "coarse_caption_reviewed": [],
        "translations": [{"language": "de", "caption": 1, "text": "b", "entity_id": "3" * 32}],
    }


def faults_of(row: Row, number: int | None = 4) -> list[tuple[str, str]]:
    return list(RowFaults(SHARD, frozenset({"s"})).all(number, row))


def test_a_sound_row_has_no_faults() -> None:
    assert faults_of(sound_row()) == []


@pytest.mark.parametrize(
    ("change", "fault", "says"),
    [
        (
            lambda row: row["translations"][0].update(caption=2),
            "translation_of_nothing",
            "has a translation of a caption that does not exist",
        ),
        (lambda row: row["translations"][0].update(caption=-1), "translation_of_nothing", "exist"),
        (lambda row: row["translations"][0].update(text=None), "row_malformed", "not complete"),
        (lambda row: row["crop"].update(time_seconds=NAN), "row_malformed", "not finite"),
        (lambda row: row["crop"].update(score=INFINITE), "row_malformed", "not finite"),
        (lambda row: row["crop"]["box_xyxy"].append(NAN), "row_malformed", "not finite"),
        (lambda row: row["crop"]["box_xyxy"].append(None), "row_malformed", "not complete"),
        (
            lambda row: row.update(file_path="images/5.jpg"),
            "row_unnumbered",
            "calls its image 'images/5.jpg'; expected 'images/4.jpg'",
        ),
        (lambda row: row.update(split="train"), "split_wrong", "'train'"),
        (lambda row: row.update(source="t"), "licence_missing", "'t'"),
        (lambda row: row["caption_reviewed"].pop(), "captions_differ", "1 caption_reviewed"),
    ],
)
def test_each_fault_of_a_row_is_named(
    change: Callable[[Row], object], fault: str, says: str
) -> None:
    row = sound_row()
    change(row)
    ((found, what),) = faults_of(row)
    assert (found, says in what) == (fault, True), what


@pytest.mark.parametrize("path", ["images/a.jpg", "4.jpg", 4, b"images/4.jpg"])
def test_a_row_whose_image_has_no_number_is_named(path: object) -> None:
    assert number_in(path) is None
    ((fault, what),) = faults_of(sound_row() | {"file_path": path}, None)
    assert (fault, what) == (
        "row_unnumbered",
        f"calls its image {path!r}; expected 'images/NUMBER.jpg'",
    )
