"""Importing a source warns about terms that do not permit a release."""

from pathlib import Path

import pytest

from tests.flows.command_line import Loupe
from tests.flows.hostile import write_hostile

WARNING = "nothing of it is released before its licence is given"


@pytest.fixture
def annotations(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return write_hostile(folder)


def imported(loupe: Loupe, annotations: Path, licence: str) -> str:
    arguments = ("--name", "people", "--licence", licence)
    return " ".join(loupe("import", "json-lines", annotations, *arguments).err.split())


@pytest.mark.parametrize("licence", ["research use only", "Unknown"])
def test_terms_that_would_stop_the_release_are_told(
    loupe: Loupe, annotations: Path, licence: str
) -> None:
    output = imported(loupe, annotations, licence)
    assert f"people is under terms that are no licence we know ('{licence}" in output
    assert WARNING in output


def test_no_reason_is_asked_for_where_none_would_do(loupe: Loupe, annotations: Path) -> None:
    output = imported(loupe, annotations, "CC-BY-ND-4.0")
    assert "under a licence that forbids a release ('CC-BY-ND-4.0'), which no reason over" in output
    assert "permitted_by" not in output


@pytest.mark.parametrize("licence", ["CC-BY-4.0", "CC0", "MIT OR CC-BY-ND-4.0"])
def test_a_licence_that_permits_it_is_not(loupe: Loupe, annotations: Path, licence: str) -> None:
    assert WARNING not in imported(loupe, annotations, licence)


def test_terms_that_are_stated_to_permit_it_are_not(
    loupe: Loupe, annotations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = tmp_path / "stated.toml"
    stated.write_text('[all]\npermitted_terms = { people = "agreed by letter" }\n')
    monkeypatch.setenv("LOUPE_RELEASES_FILE", str(stated))
    assert WARNING not in imported(loupe, annotations, "research use only")
