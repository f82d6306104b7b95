"""Forged releases with correct digests whose rows would mislead an export."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loupe.release.export import export_release
from loupe.release.export.formats import FORMATS
from loupe.release.format.manifest import MANIFEST, manifest_text, named, read_files, read_manifest
from loupe.release.format.rows import RowFaults
from loupe.release.report.writing import write_report
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.release import Manifest, ReleasedFile
from tests.release.cases import check_each
from tests.release.export.conftest import Releases
from tests.release.export.kinds import content_of, truth, without_image
from tests.release.forging import reseal

Rows = list[dict[str, Any]]
Change = Callable[[Rows], object]

SHARD = "data/test-00000-of-00001.parquet"
ROW_BY_ROW = ("webdataset", "coco")


def forge(release: Path, home: Path, change: Change) -> Path:
    """Copy a release, change its rows and reseal it."""
    folder = Path(shutil.copytree(release, home / "release"))
    table = pq.read_table(folder / SHARD)
    rows = table.to_pylist()
    change(rows)
    table = pa.Table.from_pylist(rows, table.schema)
    pq.write_table(table, folder / SHARD, compression="zstd")
    reseal(folder)
    return folder


def put(place: int, **values: Any) -> Change:
    def change(rows: Rows) -> None:
        rows[place].update(values)

    return change


def put_in_all(**values: Any) -> Change:
    def change(rows: Rows) -> None:
        for row in rows:
            row.update(values)

    return change


def swapped(rows: Rows) -> None:
    rows[0], rows[1] = rows[1], rows[0]


MISLEADING: dict[str, tuple[Change, str]] = {
    "split is a place": (put_in_all(split="{home}/pwned"), r"row 1 says it is in the split '/.*'"),
    "split of another file": (put(2, split="train"), r"row 3 says it is in the split 'train'"),
    "no split": (put(2, split=None), r"row 3 has no split"),
    "name goes up": (put(2, file_path="images/.."), r"row 3 calls its image 'images/\.\.'"),
    "name is a place": (put(2, file_path="{home}/3.jpg"), r"row 3 calls its image '/.*3.jpg'"),
    "name below": (put(2, file_path="images/x/3.jpg"), r"row 3 calls its image 'images/x/3"),
    "digits not ASCII": (put(2, file_path="images/٣.jpg"), r"row 3 calls its image"),
    "name with a line": (put(2, file_path="images/3.jpg\n"), r"row 3 calls its image .*jpg\\n'"),
    "name too long": (put(2, file_path=f"images/{'1' * 300}_3.jpg"), r"row 3 calls its image"),
    "name twice": (put(2, file_path="images/2.jpg"), r"row 3 calls its image 'images/2\.jpg'"),
    "name of a member": (put(2, file_path="images/3.json"), r"row 3 calls its image .*3\.json'"),
    "rows swapped": (swapped, r"row 1 calls its image 'images/2\.jpg'; expected 'images/1\.jpg'"),
    "source unknown": (put(2, source="nobody"), r"row 3 is from 'nobody', for which manifest.json"),
    "no image": (put(2, image=None), r"row 3 holds no image"),
    "no captions": (put(2, captions=None), r"row 3 has no captions"),
    "authors cut": (put(2, caption_authors=[]), r"row 3 has \d+ captions and 0 caption_authors"),
}


def exported(folder: Path, name: str, out: Path) -> None:
    if name == "report":
        write_report(folder, out)
    else:
        export_release(folder, FORMATS[name], out)


EVERYWHERE = ("split is a place", "name twice")


def test_misleading_rows_are_refused_before_any_file_is_written(
    releases: Releases, tmp_path: Path
) -> None:
    cases = [
        *((fault, "webdataset") for fault in MISLEADING),
        *((fault, "coco") for fault in EVERYWHERE),
        ("split is a place", "report"),
    ]
    plain = releases["plain"]
    check_each(cases, lambda case: check_refusal(plain, *case, tmp_path / "_".join(case)))


def check_refusal(release: Path, fault: str, name: str, home: Path) -> None:
    home.mkdir()
    change, wanted = MISLEADING[fault]

    def change_with_folder(rows: Rows) -> None:
        change(rows)
        for row in rows:
            for column in ("split", "file_path"):
                if row[column] is not None:
                    row[column] = row[column].replace("{home}", str(home / "elsewhere"))

    (home / "elsewhere").mkdir()
    folder = forge(release, home, change_with_folder)
    with pytest.raises(IntegrityError, match=rf"{SHARD}: (its )?{wanted}.*`loupe release verify`"):
        exported(folder, name, home / "below/out")
    assert sorted(path.name for path in home.iterdir()) == ["below", "elsewhere", "release"]
    assert list((home / "elsewhere").iterdir()) == []
    assert list((home / "below").iterdir()) == []


def test_a_row_count_that_differs_from_the_manifest_is_refused(
    releases: Releases, tmp_path: Path
) -> None:
    count = len(truth(releases["plain"]))
    for stated, wanted in (
        (count + 2, f"holds {count} rows; manifest.json says {count + 2}"),
        (count - 2, f"holds more rows than the {count - 2} of manifest.json"),
    ):
        folder = Path(shutil.copytree(releases["plain"], tmp_path / f"release-{stated}"))
        reseal(folder, change=partial(with_images, count=stated))
        for name in ROW_BY_ROW:
            with pytest.raises(IntegrityError, match=wanted):
                export_release(folder, FORMATS[name], tmp_path / "out")
            assert not (tmp_path / "out").exists()


def with_images(manifest: Manifest, count: int) -> Manifest:
    statistics = manifest.statistics.model_copy(update={"images": count})
    return manifest.model_copy(update={"statistics": statistics})


def test_valid_rows_have_no_faults(releases: Releases, subtests: pytest.Subtests) -> None:
    for kind, release in releases.items():
        with subtests.test(kind=kind):
            rows = truth(release)
            sources = frozenset(row["source"] for row in rows)
            for number, row in enumerate(rows, 1):
                faults = RowFaults(f"data/{row['split']}-00000-of-00001.parquet", sources)
                assert faults.first(number, without_image(row)) is None


def test_numbers_that_are_not_finite_are_faults(releases: Releases) -> None:
    row = truth(releases["street"])[0]
    faults = RowFaults(f"data/{row['split']}-x", frozenset([row["source"]]))
    row["crop"]["score"] = float("nan")
    assert faults.first(1, without_image(row)) == "has a crop with a number that is not finite"


def test_missing_values_inside_a_column_are_faults(releases: Releases) -> None:
    cases: list[tuple[str, str, str | None]] = [
        ("street", "crop", "video"),
        ("contrasts", "contrast", "plan"),
        ("contrasts", "translations", "text"),
        ("contrasts", "coarse_captions", None),
    ]
    for kind, column, hole in cases:
        rows = truth(releases[kind])
        number, row = next((n, row) for n, row in enumerate(rows, 1) if row[column])
        faults = RowFaults(f"data/{row['split']}-x", frozenset([row["source"]]))
        assert faults.first(number, without_image(row)) is None, (kind, column, hole)
        if hole is None:
            row[column][0] = None
        else:
            (row[column][0] if isinstance(row[column], list) else row[column])[hole] = None
        details = faults.first(number, without_image(row))
        assert details is not None, (kind, column, hole)
        assert "missing" in details or "not complete" in details, (kind, column, hole)


def test_impossible_paths_are_refused_even_without_verification(
    releases: Releases, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(releases["plain"], tmp_path / "release"))
    manifest, sound = read_manifest(folder), list(read_files(folder / MANIFEST))
    for path in ("images/1.jpg/x.jpg", "images/\0.jpg", "images/\0/x.jpg"):
        files = [*sound, ReleasedFile(path, "0" * 64, 1)]
        files.sort(key=lambda file: file.path)
        text = manifest_text(named(manifest, files), files)
        (folder / MANIFEST).write_bytes(b"".join(text))
        wanted = r"'images/.*' (cannot be read|is not a folder)|must name a file below the folder"
        with pytest.raises(IntegrityError, match=wanted):
            export_release(folder, FORMATS["published"], tmp_path / "out", verify=False)
        held = {f"release/{name}" for name in content_of(folder)}
        assert content_of(tmp_path).keys() == held, path


def test_a_dataset_called_export_only_conflicts_with_the_published_format(
    releases: Releases, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(releases["plain"], tmp_path / "release"))
    (folder / "ufine3c.json").rename(folder / "export.json")
    reseal(folder, change=lambda one: one.model_copy(update={"dataset": "export"}))
    with pytest.raises(UsageError, match=r"export\.json is the list of files of an export"):
        export_release(folder, FORMATS["published"], tmp_path / "published")
    assert export_release(folder, FORMATS["coco"], tmp_path / "coco").is_new
