"""`loupe release report` as its user meets it."""

from pathlib import Path

from tests.flows.command_line import Loupe
from tests.release.export.kinds import released


def test_a_release_is_reported_on_once(loupe: Loupe, tmp_path: Path) -> None:
    release = released("street", tmp_path).folder
    out = tmp_path / "report"
    first = loupe("release", "report", release, "--out", out, "--json").json
    assert (first["is_new"], first["rows"], first["beside"]) == (True, 8, "release")
    assert Path(first["page"]).is_file()
    again = loupe("release", "report", release, "--out", out)
    assert (again.exit_code, "already has a report" in again.out) == (0, True)
    other = loupe("release", "report", release, "--out", out, "--previews")
    assert (other.exit_code, other.out) == (2, "")
    assert "is another report" in other.err


def test_what_is_wrong_is_one_sentence(loupe: Loupe, tmp_path: Path) -> None:
    absent = loupe("release", "report", tmp_path, "--out", tmp_path / "report")
    assert absent.exit_code == 2
    assert "there is no release in" in absent.err
    assert not (tmp_path / "report").exists()
