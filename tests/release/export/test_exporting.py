"""Exports in all formats: identical bytes, complete file lists, nothing overwritten."""

import hashlib
import json
import shutil
from itertools import product
from pathlib import Path

import pytest

from loupe.release.export import export_release
from loupe.release.export.formats import FORMATS, format_called
from loupe.release.format.manifest import read_manifest
from loupe.release.verify import verify_release
from loupe.schemas.errors import IntegrityError, UsageError
from tests.release.export.conftest import Releases
from tests.release.export.kinds import content_of, truth


@pytest.fixture
def copy(releases: Releases, tmp_path: Path) -> Path:
    """A copy of a release that a test may damage."""
    return Path(shutil.copytree(releases["plain"], tmp_path / "release"))


def test_every_file_is_listed_with_its_digest(releases: Releases, exports: Releases) -> None:
    for kind, format_name in product(releases, FORMATS):
        folder = exports[f"{kind}/{format_name}"]
        record = json.loads((folder / "export.json").read_text(encoding="utf-8"))
        manifest, rows = read_manifest(releases[kind]), truth(releases[kind])
        assert (record["release"], record["format"]) == (manifest.id, format_name)
        assert record["images"] == len(rows)
        assert record["captions"] == sum(len(row["captions"]) for row in rows)
        assert {one["split"]: one["images"] for one in record["splits"]} == {
            split: sum(row["split"] == split for row in rows)
            for split in {row["split"] for row in rows}
        }
        assert {one["name"]: one["licence"] for one in record["sources"]} == {
            one.name: one.licence for one in manifest.sources
        }
        files = content_of(folder)
        del files["export.json"]
        assert {one["path"]: (one["sha256"], one["size_bytes"]) for one in record["files"]} == {
            path: (hashlib.sha256(data).hexdigest(), len(data)) for path, data in files.items()
        }
        assert not any(path.endswith((".pkl", ".lock")) or "lock" in path for path in files)


def test_every_export_includes_the_attribution(releases: Releases, exports: Releases) -> None:
    for format_name in FORMATS:
        wanted = (releases["contrasts"] / "ATTRIBUTION.md").read_bytes()
        assert (exports[f"contrasts/{format_name}"] / "ATTRIBUTION.md").read_bytes() == wanted
        assert not (exports[f"plain/{format_name}"] / "ATTRIBUTION.md").exists()


def test_the_same_release_gives_the_same_bytes(
    releases: Releases, exports: Releases, tmp_path: Path
) -> None:
    elsewhere = Path(shutil.copytree(releases["contrasts"], tmp_path / "another name"))
    for format_name in FORMATS:
        again = export_release(
            elsewhere, FORMATS[format_name], tmp_path / format_name, verify=False
        )
        assert again.is_new
        assert content_of(again.folder) == content_of(exports[f"contrasts/{format_name}"])
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert verify_release(elsewhere, decode=False).problems == []


def test_exporting_again_leaves_the_files_untouched(copy: Path, tmp_path: Path) -> None:
    for format_name in FORMATS:
        out = tmp_path / format_name
        first = export_release(copy, FORMATS[format_name], out)
        before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
        again = export_release(copy, FORMATS[format_name], out)
        assert (first.is_new, again.is_new, first.record) == (True, False, again.record)
        assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_other_files_and_exports_are_never_overwritten(
    releases: Releases, copy: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="exists and is not an export; choose a folder"):
        export_release(copy, FORMATS["coco"], out)
    with pytest.raises(UsageError, match="exists and is not an export"):
        export_release(copy, FORMATS["coco"], out / "thesis.txt")
    assert content_of(out) == {"thesis.txt": b"mine"}
    export_release(copy, FORMATS["webdataset"], tmp_path / "wds")
    for folder, format_ in (
        (copy, FORMATS["coco"]),
        (copy, format_called("webdataset", 1000)),
        (releases["street"], FORMATS["webdataset"]),
    ):
        with pytest.raises(UsageError, match=r"is another export: ufine3c 1.0.0 .* as webdataset"):
            export_release(folder, format_, tmp_path / "wds")


def test_a_damaged_export_is_refused(copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_release(copy, FORMATS["coco"], out)

    def refused(fault: str) -> None:
        with pytest.raises(UsageError, match=rf"is this export, but .*{fault}"):
            export_release(copy, FORMATS["coco"], out)

    (out / "more.json").write_text("[]")
    refused("more.json is not")
    (out / "more.json").unlink()
    captions = out / "annotations/captions_test.json"
    sound = captions.read_bytes()
    data = bytearray(sound)
    data[len(data) // 2] ^= 1
    captions.write_bytes(data)
    refused("annotations/captions_test.json is damaged")
    captions.write_bytes(sound)
    (out / "images/1.jpg").unlink()
    refused("images/1.jpg is missing")


def test_files_of_file_managers_in_an_export_are_ignored(copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_release(copy, FORMATS["coco"], out)
    for path in (".DS_Store", "images/Thumbs.db", "annotations/desktop.ini"):
        (out / path).write_bytes(b"seen")
    assert not export_release(copy, FORMATS["coco"], out).is_new
    (out / "images" / "1.jpg").unlink()
    with pytest.raises(UsageError, match=r"is this export, but images/1\.jpg is missing"):
        export_release(copy, FORMATS["coco"], out)


def test_exporting_into_the_release_is_refused(copy: Path) -> None:
    for out in (copy, copy / "exports" / "coco"):
        with pytest.raises(UsageError, match="is inside the release, which never changes"):
            export_release(copy, FORMATS["coco"], out)
    assert verify_release(copy).problems == []


def test_a_damaged_release_is_not_exported(copy: Path, tmp_path: Path) -> None:
    image = copy / "images" / "5.jpg"
    image.write_bytes(image.read_bytes()[:-1] + b"?")
    for format_ in FORMATS.values():
        with pytest.raises(IntegrityError, match=r"images/5.jpg is damaged or was changed"):
            export_release(copy, format_, tmp_path / "out")
    image.unlink()
    for format_ in FORMATS.values():
        with pytest.raises(IntegrityError, match=r"images/5.jpg is missing"):
            export_release(copy, format_, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release"]


def test_copied_files_are_checked_even_without_verification(copy: Path, tmp_path: Path) -> None:
    for path in [*(copy / "data").iterdir(), copy / "images/5.jpg"]:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    for name in ("hf", "parquet", "published"):
        with pytest.raises(IntegrityError, match="is damaged or was changed"):
            export_release(copy, FORMATS[name], tmp_path / "out", verify=False)
        assert not (tmp_path / "out").exists(), name


def test_export_formats_are_selected_by_name() -> None:
    assert list(FORMATS) == ["webdataset", "hf", "coco", "csv", "fiftyone", "parquet", "published"]
    assert format_called("webdataset", 5).options == {"shard_bytes": 5}
    with pytest.raises(UsageError, match=r"must be one of webdataset, hf, .*; got 'zip'"):
        format_called("zip")
    with pytest.raises(UsageError, match="only webdataset has shards"):
        format_called("coco", 5)
    with pytest.raises(UsageError, match="at least 1 byte"):
        format_called("webdataset", 0)
