"""Output of `loupe release verify`: the verified release and the notices used."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loupe.flows.cli.release import app
from loupe.release.format.manifest import read_files, read_manifest
from loupe.release.withdrawn.files import notice_text
from loupe.schemas.withdrawal import NoticeList, WithdrawalNotice
from tests.release.cases import check_on_copies
from tests.release.forging import reseal
from tests.release.notice_samples import notice_of

OTHER = {"release": "0" * 64}


@pytest.fixture
def out(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release that is unknown to the store of the settings."""
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "home"))
    return copy


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def identified_release(details: Result) -> tuple[str | None, ...]:
    values = json.loads(details.stdout)
    return values["dataset"], values["version"], values["id"]


def test_the_id_of_an_edited_manifest_is_computed_from_its_content(out: Path) -> None:
    right = read_manifest(out).id
    text = (out / "manifest.json").read_text()
    (out / "manifest.json").write_text(text.replace(right, "0" * 64))
    assert identified_release(run("verify", out, "--json")) == ("ufine3c", "1.0.0", right)


def test_damage_is_named_and_a_new_copy_asked_for(out: Path) -> None:
    (shard,) = (out / "data").glob("*.parquet")
    shard.write_bytes(shard.read_bytes()[:-100])
    shown = run("verify", out)
    assert shown.exit_code == 1
    assert "is cut off or damaged: its footer cannot be read" in shown.output
    assert "is damaged or was changed (" in shown.output
    assert "it says it is ufine3c 1.0.0" in shown.output


def renamed(folder: Path, **change: str) -> Path:
    """Rename a release or change its version, and reseal it."""
    paths = [one.path for one in read_files(folder / "manifest.json")]
    reseal(folder, paths, lambda manifest: manifest.model_copy(update=change))
    return folder


def file_with_notice(folder: Path, **change: str) -> Path:
    """Write a file with one notice for a release similar to this one."""
    notice = notice_of(folder, 2).model_copy(update=change)
    path = folder.parent / "notices.json"
    path.write_bytes(notice_text(NoticeList(notices=(notice,))))
    return path


def file_without_notices(folder: Path) -> Path:
    path = folder.parent / "notices.json"
    notices: tuple[WithdrawalNotice, ...] = ()
    path.write_bytes(notice_text(NoticeList(notices=notices)))
    return path


NoticesCase = tuple[Callable[[Path], Path], str]


def test_notices_that_do_not_apply_cause_a_warning(out: Path, tmp_path: Path) -> None:
    cases: list[NoticesCase] = [
        (lambda f: renamed(f, version="0.9.0"), "notices of ufine3c up to 0.9.0"),
        (
            lambda f: renamed(f, version="1.0.0", dataset="walkers"),
            "notices of walkers up to 1.0.0",
        ),
        (
            lambda f: renamed(f, version="2.0.0", dataset="walkers"),
            "notices of walkers up to 2.0.0",
        ),
        (lambda f: file_with_notice(f, dataset="walkers", **OTHER), "notices of walkers"),
        (file_without_notices, "no notices"),
    ]

    def check(copy: Path, case: NoticesCase) -> None:
        notices_of, details = case
        notices = notices_of(copy)
        verified = run("verify", out, "--notices", notices)
        assert verified.exit_code == 0
        said = f"{notices} holds {details}; it states nothing about ufine3c 1.0.0"
        assert said in verified.stderr
        found = json.loads(run("verify", out, "--notices", notices, "--json").stdout)
        assert found["notices"]["apply"] is False

    check_on_copies(out, tmp_path, cases, check)


def test_the_notices_used_are_reported(out: Path, tmp_path: Path) -> None:
    cases: list[NoticesCase] = [
        (lambda f: renamed(f, version="1.0.10"), " up to 1.0.10; 0 of 0 are about ufine3c 1.0.0"),
        (lambda f: f, " up to 1.0.0; 0 of 0 are about ufine3c 1.0.0"),
        (lambda f: file_with_notice(f, **OTHER), "; 0 of 1 are about ufine3c 1.0.0"),
        (file_with_notice, "; 1 of 1 are about ufine3c 1.0.0"),
    ]

    def check(copy: Path, case: NoticesCase) -> None:
        notices_of, details = case
        notices = notices_of(copy)
        verified = run("verify", out, "--notices", notices)
        assert f"  {notices} holds notices of ufine3c{details}\n" in verified.stdout
        assert "warning" not in verified.stderr
        found = json.loads(run("verify", out, "--notices", notices, "--json").stdout)
        assert found["notices"]["apply"] is True

    check_on_copies(out, tmp_path, cases, check)
