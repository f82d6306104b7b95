"""`loupe release export` and `loupe release report`."""

from pathlib import Path

import pytest

from tests.flows.command_line import Loupe
from tests.release.export.kinds import released


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return released("street", tmp_path_factory.mktemp("street")).folder


def test_a_release_is_exported_once(loupe: Loupe, release: Path, tmp_path: Path) -> None:
    out = tmp_path / "wds"
    command = ("release", "export", release, "--format", "webdataset", "--out", out)
    first = loupe(*command, "--shard-mb", 1, "--json").json
    assert (first["is_new"], first["folder"]) == (True, str(out))
    assert (first["images"], first["captions"], first["options"]) == (8, 16, {"shard_bytes": 10**6})
    assert (out / "train-000000.tar").is_file()
    again = loupe(*command, "--shard-mb", 1)
    assert (again.exit_code, "already exists, unchanged" in again.out) == (0, True)
    other = loupe(*command)
    assert (other.exit_code, other.out) == (2, "")
    assert "is another export" in other.err


def test_wrong_arguments_are_one_line_errors(loupe: Loupe, release: Path, tmp_path: Path) -> None:
    strange = loupe("release", "export", release, "--format", "zip", "--out", tmp_path / "zip")
    assert strange.exit_code == 2
    assert "must be one of webdataset, hf, coco" in strange.err
    absent = loupe("release", "export", tmp_path, "--format", "hf", "--out", tmp_path / "hf")
    assert absent.exit_code == 2
    assert "there is no release in" in absent.err
    assert not (tmp_path / "hf").exists()


def test_a_damaged_release_is_exported_only_with_no_verify(
    loupe: Loupe, release: Path, tmp_path: Path
) -> None:
    command = ("release", "export", release, "--format", "coco", "--out", tmp_path / "coco")
    image = release / "images" / "1.jpg"
    data = image.read_bytes()
    image.write_bytes(data[:-1])
    try:
        checked = loupe(*command)
        assert checked.exit_code == 1
        assert "images/1.jpg has" in checked.err
        assert loupe(*command, "--no-verify").exit_code == 0
    finally:
        image.write_bytes(data)


def test_a_report_is_written_once(loupe: Loupe, tmp_path: Path) -> None:
    release = released("street", tmp_path).folder
    out = tmp_path / "report"
    first = loupe("release", "report", release, "--out", out, "--json").json
    assert (first["is_new"], first["rows"]) == (True, 8)
    assert Path(first["page"]).is_file()
    again = loupe("release", "report", release, "--out", out)
    assert (again.exit_code, "already has a report" in again.out) == (0, True)
    other = loupe("release", "report", release, "--out", out, "--previous", release)
    assert (other.exit_code, other.out) == (2, "")
    assert "is another report" in other.err
