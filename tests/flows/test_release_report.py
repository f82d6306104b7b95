"""`loupe release report`."""

from pathlib import Path

from tests.flows.command_line import Loupe
from tests.release.export.kinds import released


def test_a_report_is_written_once(loupe: Loupe, tmp_path: Path) -> None:
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
