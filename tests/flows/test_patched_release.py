"""A run whose version was patched by a withdrawal returns the patch with a warning."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loupe.flows.engine.context import BuildReport
from loupe.flows.engine.releasing import patched_release, release
from loupe.flows.withdrawal.execution import carry_out
from loupe.release.format.manifest import read_manifest
from loupe.release.verify import verify_release
from loupe.schemas.errors import UsageError
from tests.flows.runs import Released
from tests.flows.withdrawals import Home, home_of
from tests.release.worlds import DATASET, SOURCES

OF: dict[str, Any] = {"dataset": DATASET, "source": SOURCES[1].name}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = home_of(tmp_path / "home")
    yield home
    home.store.close()


def test_the_latest_patch_replaces_the_version_and_a_higher_version_is_built(
    home: Home,
) -> None:
    home.withdraw("identity", "9", **OF)
    report = BuildReport(DATASET)
    release(home.run, report, Released(), "1.0.0")
    assert report.release == home.release("1.0.1")
    warning = (
        f"{DATASET} 1.0.1 replaces {DATASET} 1.0.0: something of it was withdrawn; "
        f"to release what was decided or brought in since, raise the version of the dataset"
    )
    assert report.warnings == [warning]
    home.withdraw("identity", "10", **OF)
    for version in ("1.0.0", "1.0.1"):
        found = patched_release(home.store, DATASET, version)
        assert found is not None
        assert found.release.manifest.version == "1.0.2"
    assert patched_release(home.store, DATASET, "1.0.2") is None
    report = BuildReport(DATASET)
    release(home.run, report, Released(), "1.1.0")
    assert report.release == home.release("1.1.0")
    assert report.warnings == []


def test_an_unfinished_patch_is_a_usage_error(home: Home) -> None:
    blocked = home.release("1.0.1")
    blocked.mkdir(parents=True)
    (blocked / "notes.txt").write_text("somebody's")
    withdrawal = home.confirmed(home.plan("identity", "9", **OF))
    with pytest.raises(UsageError, match=r"1\.0\.1"):
        carry_out(home.run, withdrawal)
    with pytest.raises(UsageError, match="continue with: loupe withdraw --resume"):
        release(home.run, BuildReport(DATASET), Released(), "1.0.0")


def test_a_release_without_withdrawn_rows_is_kept(home: Home) -> None:
    """The release built after the first withdrawal is returned for its version, unchanged."""
    home.withdraw("identity", "9", **OF)
    report = BuildReport(DATASET)
    release(home.run, report, Released(), "1.1.0")
    newer = home.release("1.1.0")
    home.withdraw("identity", "9", "law", **OF)
    found = patched_release(home.store, DATASET, "1.1.0")
    assert found is not None
    assert found.release.folder == newer
    assert "stays as it is" in found.sentence


def test_a_patch_states_no_contamination_of_withdrawn_rows(home: Home) -> None:
    report = BuildReport(DATASET)
    others = home.release("1.0.0") / "images"
    release(home.run, report, Released(against=(f"theirs={others}",)), "1.1.0")
    assert report.release is not None
    assert read_manifest(report.release).contamination
    home.withdraw("identity", "9", **OF)
    patch = home.release("1.1.1")
    assert verify_release(patch).problems == []
    assert read_manifest(patch).contamination == ()
