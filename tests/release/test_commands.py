"""Output and exit codes of the `loupe release` commands."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loupe.flows.cli.release import app
from tests.release.worlds import World


@pytest.fixture
def out(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder to build into; the settings point to the store of `world`."""
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "world"))
    return tmp_path / "out"


def loupe_release(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_build_list_show_and_verify(out: Path) -> None:
    command = ("build", "ufine3c", "--version", "1.0.0", "--out", out, "--json")
    built = json.loads(loupe_release(*command).stdout)
    assert (built["is_new"], built["folder"]) == (True, str(out))
    assert json.loads(loupe_release(*command).stdout)["is_new"] is False
    assert "already exists, unchanged" in loupe_release(*command[:-1]).stdout
    (listed,) = json.loads(loupe_release("list", "--json").stdout)
    assert (listed["id"], listed["images"]) == (built["id"], 12)
    assert built["id"][:12] in loupe_release("list").stdout
    shown = json.loads(loupe_release("show", "ufine3c", "--json").stdout)
    assert shown["statistics"]["captions"] == 60
    assert "Licences and citations" in loupe_release("show", "ufine3c@1.0.0").stdout
    in_folder = json.loads(loupe_release("show", out, "--json").stdout)
    assert (in_folder["id"], in_folder["built_at"]) == (shown["id"], None)
    assert f"id {shown['id']}" in loupe_release("show", out).stdout
    assert "holds no manifest.json" in str(loupe_release("show", out.parent).exception)
    verified = loupe_release("verify", out, "--id", built["id"])
    assert (verified.exit_code, "is complete and unchanged" in verified.stdout) == (0, True)
    assert f"ufine3c 1.0.0, id {built['id']}" in verified.stdout
    details = json.loads(loupe_release("verify", out, "--json").stdout)
    assert (details["dataset"], details["version"], details["id"]) == (
        "ufine3c",
        "1.0.0",
        built["id"],
    )


def test_verification_works_without_a_reachable_store(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loupe_release("build", "ufine3c", "--version", "1.0.0", "--out", out)
    monkeypatch.setenv("LOUPE_DATABASE_URL", "postgresql://me:hunter2@127.0.0.1:1/loupe")
    verified = loupe_release("verify", out)
    assert verified.exit_code == 0
    assert "does not answer" in " ".join(verified.stderr.split())
    assert "hunter2" not in verified.output


def test_damage_and_missing_images_end_with_exit_code_1(out: Path) -> None:
    loupe_release("build", "ufine3c", "--version", "1.0.0", "--out", out)
    (out / "images/5.jpg").unlink()
    plain = loupe_release("verify", out)
    assert plain.exit_code == 1
    assert "images/5.jpg is missing" in plain.stdout
    as_json = loupe_release("verify", out, "--json")
    assert as_json.exit_code == 1
    found = json.loads(as_json.stdout)
    assert not found["ok"]
    assert found["problems"] == [
        {
            "fault": "file_missing",
            "message": "images/5.jpg is missing",
            "file": "images/5.jpg",
            "row": None,
        }
    ]
    shutil.rmtree(out / "images")
    refused = loupe_release("verify", out)
    assert (refused.exit_code, refused.stdout.count("✗")) == (1, 1)
    assert "all 12 image files are left out" in refused.stdout
    assert loupe_release("verify", out, "--without-images").exit_code == 0
