"""The command `loupe release upload`, a dry run by default."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loupe.flows.cli.release import app
from loupe.release.build import build_release
from loupe.release.withdrawn.notices import mark_release
from loupe.schemas.errors import UsageError
from tests.release.notice_samples import notice_of
from tests.release.worlds import DATASET, World


@pytest.fixture
def folder(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "world"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # no server listens there
    return build_release(world.store, world.blobs, DATASET, "1.0.0", tmp_path / "release").folder


def upload(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["upload", *map(str, arguments)])


def test_the_default_is_a_dry_run(folder: Path) -> None:
    details = upload(folder, "--to", "a-lab/people")
    assert details.exit_code == 0, details.output
    assert "ufine3c 1.0.0 would be uploaded to a-lab/people, with its image files" in details.stdout
    assert "nothing was uploaded; add --upload to upload it" in details.stdout
    plan = json.loads(upload(folder, "--to", "a-lab/people", "--no-images", "--json").stdout)
    assert (plan["uploaded"], plan["with_images"], plan["url"]) == (False, False, None)


def test_a_partly_withdrawn_release_is_not_uploaded(folder: Path) -> None:
    mark_release(folder, [notice_of(folder, 3)], erase=False)
    refused = upload(folder, "--to", "a-lab/people")
    assert isinstance(refused.exception, UsageError)
    assert str(refused.exception).endswith("it is not uploaded")
