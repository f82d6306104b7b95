"""Rendered collections in folders: written, interrupted, extended, handmade and damaged."""

import json
from pathlib import Path

import pytest

from loupe.schemas.errors import FormatError, UsageError
from loupe.schemas.records import Rejection
from loupe.schemas.taxonomy import RetrievalTask
from loupe.sources.rendered import TRUTHS_FILE, read_rendered_collection, write_rendered_collection
from loupe.sources.rendered.collection import BY_HAND, CollectionEntry

_TASK = RetrievalTask.TRANSLATION


def _bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    write_rendered_collection(folder, _TASK, 3, 4)
    return _bytes_of(folder)


def _write_files(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def test_a_written_collection_can_be_read(whole: dict[str, bytes], tmp_path: Path) -> None:
    assert list(whole) == ["00000.png", "00001.png", "00002.png", "00003.png", TRUTHS_FILE]
    entries = list(read_rendered_collection(_write_files(tmp_path, whole)))
    assert len(entries) == 4
    for number, entry in enumerate(entries):
        assert isinstance(entry, CollectionEntry)
        assert entry.path == tmp_path / f"{number:05d}.png"
        assert entry.truth.truth["number"] == number


def test_an_extended_collection_equals_one_written_at_once(
    whole: dict[str, bytes], tmp_path: Path
) -> None:
    write_rendered_collection(tmp_path, str(_TASK), 3, 2)  # by its name
    write_rendered_collection(tmp_path, _TASK, 3, 4)
    assert _bytes_of(tmp_path) == whole
    write_rendered_collection(tmp_path, _TASK, 3, 1)
    assert _bytes_of(tmp_path) == whole


def test_an_interrupted_collection_is_completed(whole: dict[str, bytes], tmp_path: Path) -> None:
    torn = whole["00001.png"][:100]
    _write_files(tmp_path, {"00000.png": whole["00000.png"], "00001.png": torn})
    write_rendered_collection(tmp_path, _TASK, 3, 4)
    assert _bytes_of(tmp_path) == whole


def test_a_damaged_image_is_drawn_again(whole: dict[str, bytes], tmp_path: Path) -> None:
    _write_files(tmp_path, {**whole, "00002.png": b"damaged"})
    write_rendered_collection(tmp_path, _TASK, 3, 4)
    assert _bytes_of(tmp_path) == whole


def test_a_collection_of_another_seed_is_not_overwritten(
    whole: dict[str, bytes], tmp_path: Path
) -> None:
    _write_files(tmp_path, whole)
    with pytest.raises(UsageError, match=r"contains other images than .* with seed 4"):
        write_rendered_collection(tmp_path, _TASK, 4, 4)
    assert _bytes_of(tmp_path) == whole


def _by_hand(**changes: object) -> dict[str, object]:
    facts = ["a sum is written by hand", "the result is 4", "the paper is white"]
    row = {"task": "numerical calculation", "question": "2 + 2", "answer": "4", "facts": facts}
    return {"file_path": "00000.png", **row, **changes}


def test_handmade_images_need_only_question_answer_and_facts(
    whole: dict[str, bytes], tmp_path: Path
) -> None:
    text = json.dumps(_by_hand()) + "\n\n"
    _write_files(tmp_path, {"00000.png": whole["00000.png"], TRUTHS_FILE: text.encode()})
    (entry,) = read_rendered_collection(tmp_path)
    assert isinstance(entry, CollectionEntry)
    assert (entry.truth.generator, entry.truth.answer) == (BY_HAND, "4")
    with pytest.raises(UsageError, match="contains other images"):
        write_rendered_collection(tmp_path, _TASK, 3, 4)


def test_bad_lines_are_rejected_and_the_others_are_read(
    whole: dict[str, bytes], tmp_path: Path
) -> None:
    bad: list[tuple[str, str]] = [
        ("{", "malformed_json"),
        ("[" * 100_000, "malformed_json"),
        ("[]", "wrong_type"),
        (json.dumps(_by_hand(file_path=1)), "wrong_type"),
        (json.dumps(_by_hand(file_path="a.png", facts=["one"])), "invalid_truth"),
        (json.dumps(_by_hand(file_path="b.png", task="a/b")), "invalid_truth"),
        (json.dumps(_by_hand(file_path="none.png")), "missing_image"),
        (json.dumps(_by_hand(file_path="../x.png")), "path_outside_root"),
        (json.dumps(_by_hand(file_path="00001.png", sha256="0" * 64)), "changed_image"),
        ('"' + "x" * 2_000_000 + '"', "record_too_large"),
    ]
    good = json.dumps(_by_hand())
    text = "\n".join([*(line for line, _ in bad), good, good]) + "\n"
    images = {name: whole[name] for name in ("00000.png", "00001.png")}
    _write_files(tmp_path, {**images, TRUTHS_FILE: text.encode()})
    *rejected, entry, repeated = read_rendered_collection(tmp_path)
    assert [one.reason for one in rejected if isinstance(one, Rejection)] == [why for _, why in bad]
    assert isinstance(entry, CollectionEntry)
    assert isinstance(repeated, Rejection)
    assert repeated.reason == "duplicate_image"
    assert repeated.context["line"] == len(bad) + 2


def test_a_folder_without_a_truths_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"truths\.jsonl cannot be read: does not exist"):
        list(read_rendered_collection(tmp_path))
