"""`verify` names any single fault in a damaged copy of a release."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loupe.release.format.findings import LIMIT, Problem
from loupe.release.format.manifest import read_files, read_manifest
from loupe.release.verify import verify_release
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import UsageError
from tests.release.cases import check_on_copies
from tests.release.forging import reseal
from tests.release.worlds import DATASET, picture
from tests.sources.pictures import jpeg_of_scans

JSON = f"{DATASET}.json"
PARQUET = "data/test-00000-of-00001.parquet"


def test_a_valid_copy_has_no_problems(copy: Path) -> None:
    assert verify_release(copy).problems == []
    assert verify_release(copy, decode=True).problems == []
    assert verify_release(copy, expected_id=read_manifest(copy).id).problems == []


def edit_rows(folder: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    rows = json.loads((folder / JSON).read_text("utf-8"))
    change(rows)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / JSON).write_text(f"[\n{lines}\n]\n", "utf-8")


def edit_parquet(folder: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    table = pq.read_table(folder / PARQUET)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), folder / PARQUET)


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads((folder / "manifest.json").read_text("utf-8"))
    change(values)
    (folder / "manifest.json").write_text(json.dumps(values), "utf-8")


def reseal_listed(folder: Path) -> None:
    """Reseal the release after a change, as a forger would."""
    listed = [entry.path for entry in read_files(folder / "manifest.json")]
    reseal(folder, [path for path in listed if (folder / path).exists()])


def embed(folder: Path, index: int, data: bytes) -> None:
    """Replace an image in Parquet by other bytes with their digest."""

    def change(rows: list[dict[str, Any]]) -> None:
        rows[index]["image"]["bytes"] = data
        rows[index]["sha256"] = sha256_of(data)

    edit_parquet(folder, change)


class Fault(NamedTuple):
    """A change of a copy, and the fault and message expected from `verify`."""

    name: str
    do: Callable[[Path], object]
    fault: str
    says: str


# `test_single_faults` has the other faults of files, rows and the manifest.
FAULTS = [
    Fault("row added to JSON", lambda f: edit_rows(
          f, lambda rows: rows.append({**rows[-1], "file_path": "images/13.jpg"})),
          "rows_differ", f"{JSON}: row 13 is in no Parquet file"),
    Fault("caption removed in Parquet", lambda f: edit_parquet(
          f, lambda rows: rows[2]["captions"].pop()),
          "captions_differ", f"{PARQUET}: row 3 has 3 captions and 4 caption_entity_ids"),
    Fault("field added in JSON", lambda f: edit_rows(
          f, lambda rows: rows[2].update(note="x")),
          "rows_differ", f"{JSON}: row 3 says note 'x'; Parquet says None"),
    Fault("value removed in Parquet", lambda f: edit_parquet(
          f, lambda rows: rows[2].update(source=None)),
          "row_malformed", f"{PARQUET}: row 3 has no source"),
    Fault("JSON cut short", lambda f: (f / JSON).write_bytes((f / JSON).read_bytes()[:900]),
          "rows_differ", f"{JSON}: row 3 is not a row"),
    Fault("Parquet cut short", lambda f: (f / PARQUET).write_bytes(b"PAR1"),
          "rows_unreadable", f"{PARQUET} cannot be read"),
    Fault("manifest a list", lambda f: (f / "manifest.json").write_text("[]"),
          "manifest_unreadable", "it must be a JSON object"),
    Fault("manifest reformatted", lambda f: edit_manifest(f, lambda _: None),
          "manifest_edited", "other bytes than it was written with"),
    Fault("file struck from the manifest", lambda f: edit_manifest(f, lambda m: m["files"].pop()),
          "file_extra", "words.svg is not a listed file"),
    Fault("file listed twice", lambda f: edit_manifest(
          f, lambda m: m["files"].append(m["files"][0])),
          "file_listed_twice", "twice"),
    Fault("digest mangled in the manifest", lambda f: edit_manifest(
          f, lambda m: m["files"][0].update(sha256="x")),
          "manifest_invalid", "manifest.json: files[0].sha256"),
]  # fmt: skip


def is_reported(problems: list[Problem], fault: Fault) -> bool:
    return any(one.fault == fault.fault and fault.says in one.message for one in problems)


def test_any_single_fault_is_reported(sound: Path, tmp_path: Path) -> None:
    def check(copy: Path, fault: Fault) -> None:
        fault.do(copy)
        problems = verify_release(copy).problems
        assert is_reported(problems, fault), "\n".join(one.message for one in problems)
        assert len(problems) <= 8, "one fault must not cause many problems"
        assert all("\n" not in one.message for one in problems)

    check_on_copies(sound, tmp_path, FAULTS, check)


def test_a_duplicated_row_with_a_new_file_name_is_reported(copy: Path) -> None:
    def repeat_last_row(rows: list[dict[str, Any]]) -> None:
        rows.append({**rows[-1], "file_path": "images/13.jpg"})

    def repeat_last_parquet_row(rows: list[dict[str, Any]]) -> None:
        repeat_last_row(rows)
        rows[-1]["image"] = {**rows[-1]["image"], "path": "images/13.jpg"}

    edit_rows(copy, repeat_last_row)
    edit_parquet(copy, repeat_last_parquet_row)
    shutil.copy(copy / "images/12.jpg", copy / "images/13.jpg")
    reseal_listed(copy)
    assert "totals_differ" in {one.fault for one in verify_release(copy).problems}


def test_a_malformed_or_too_short_id_is_refused(sound: Path) -> None:
    for cited in ("", "2", "0" * 11, "0" * 65, "x" * 12, " " * 12):
        with pytest.raises(UsageError, match="12 to 64 hex digits"):
            verify_release(sound, expected_id=cited)


def test_twelve_digits_of_an_id_are_sufficient(copy: Path) -> None:
    right = read_manifest(copy).id
    assert verify_release(copy, expected_id=right[:12].upper()).problems == []
    wrong = right[:11] + ("0" if right[11] != "0" else "1")
    assert [one.fault for one in verify_release(copy, expected_id=wrong).problems] == [
        "other_release"
    ]


def swap_images(rows: list[dict[str, Any]]) -> None:
    rows[0]["image"]["bytes"], rows[1]["image"]["bytes"] = (
        rows[1]["image"]["bytes"],
        rows[0]["image"]["bytes"],
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (swap_images, "row 1 holds other bytes than images/1.jpg"),
        (lambda rows: rows[0].update(image=None), "row 1 holds no image"),
        (lambda rows: rows[0].update(width_px=99), "row 1 says its image has (99, 24) pixels"),
        (lambda rows: rows[0]["image"].update(path="x"), "row 1 calls its image 'x'"),
    ],
)
def test_images_that_are_not_those_of_their_rows_are_found_by_decoding(
    copy: Path, change: Callable[[list[dict[str, Any]]], object], says: str
) -> None:
    edit_parquet(copy, change)
    reseal_listed(copy)
    assert verify_release(copy).problems == []
    problems = verify_release(copy, decode=True).problems
    assert {one.fault for one in problems} == {"image_wrong"}
    assert says in problems[0].message


def test_an_undecodable_image_is_reported(copy: Path) -> None:
    broken = picture(0)[:-200]
    (copy / "images/1.jpg").write_bytes(broken)
    embed(copy, 0, broken)
    reseal_listed(copy)
    (problem,) = verify_release(copy, decode=True).problems
    assert problem.fault == "image_wrong"
    assert "row 1 has an image that does not decode" in problem.message
    assert verify_release(copy).problems == []


def test_a_jpeg_of_too_many_scans_is_not_decoded(copy: Path) -> None:
    costly = jpeg_of_scans((12, 24), 200)
    (copy / "images/1.jpg").write_bytes(costly)
    embed(copy, 0, costly)
    reseal_listed(copy)
    (problem,) = verify_release(copy, decode=True).problems
    assert "row 1 has an image that is a JPEG of more than 100 scans" in problem.message


def test_a_manifest_cannot_list_files_outside_the_folder(copy: Path) -> None:
    (copy.parent / "secret.txt").write_text("secret")
    edit_manifest(copy, lambda m: m["files"][0].update(path="../secret.txt"))
    problems = verify_release(copy).problems
    assert "a path must name a file below the folder of the release" in problems[0].message


@pytest.mark.parametrize("name", ["terms", "lineage"])
@pytest.mark.parametrize("is_null", [False, True])
def test_required_fields_of_the_manifest_cannot_be_left_out(
    copy: Path, name: str, is_null: bool
) -> None:
    def leave_out(values: dict[str, Any]) -> None:
        del values[name]
        if is_null:
            values[name] = None

    edit_manifest(copy, leave_out)
    problems = verify_release(copy).problems
    assert any(one.fault == "manifest_invalid" and name in one.message for one in problems)


def test_terms_that_forbid_the_release_are_reported(copy: Path) -> None:
    def forbid(values: dict[str, Any]) -> None:
        for source in values["sources"]:
            source["licence"] = "all rights reserved"

    edit_manifest(copy, forbid)
    reseal_listed(copy)
    assert {"licence_forbids", "terms_differ"} <= {
        one.fault for one in verify_release(copy).problems
    }


def test_a_missing_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        verify_release(tmp_path / "nowhere")


def test_problems_beyond_the_limit_are_not_collected(copy: Path) -> None:
    for number in range(LIMIT + 5):
        (copy / f"extra-{number}").touch()
    assert len(verify_release(copy).problems) == LIMIT


def test_hostile_json_is_reported_without_an_exception(sound: Path, tmp_path: Path) -> None:
    hostile = [
        b"[%s]" % (b"9" * 5_000),
        b'[{"id": %s}]' % (b"9" * 100_000),
        b"[" * 100_000,
        b'[{"id": NaN}]',
        b'[{"id": "\xff"}]',
        b'[{"id": "\x01"}]',
        b'[{"id": 1}',
        b"{}",
        b"",
        b'["%s"]' % (b"a" * (17 * 1024 * 1024)),
    ]

    def check(copy: Path, hostile: bytes) -> None:
        (copy / JSON).write_bytes(hostile)
        found = {problem.fault for problem in verify_release(copy).problems}
        assert found & {"rows_unreadable", "rows_differ", "row_missing", "rows_missing"}
        for manifest in (hostile, b'{"files": %s}' % hostile, b'{"id": %s}' % hostile):
            (copy / "manifest.json").write_bytes(manifest)
            assert verify_release(copy).problems

    check_on_copies(sound, tmp_path, hostile, check)
