"""Whole runs over sources in the formats of other libraries, and at addresses."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import loupe
from loupe.flows.cli.main import app
from loupe.models.profiles.settings import Settings
from loupe.schemas.errors import UsageError
from tests.sources.formats.writing import huggingface, jpeg, parquet, pictures, table, webdataset
from tests.sources.test_remote import served


def built(folder: Path, home: Path, name: str, annotations: str | Path, **options: Any) -> Any:
    """Build a release of a source, and return it."""
    pipeline = loupe.Pipeline(
        "people",
        version="0.1.0",
        sources=[
            loupe.source(
                name, annotations, identity="person", licence="CC0-1.0", name="shown", **options
            )
        ],
        steps=[loupe.release()],
        folder=folder,
    )
    return pipeline.run(settings=Settings(home=home), quiet=True).release


def rows_of(release: Any) -> set[tuple[str, tuple[str, ...]]]:
    return {(row["identity"], tuple(row["captions"])) for row in release.rows()}


@pytest.mark.parametrize(
    ("name", "write"), [("parquet", parquet), ("hf", huggingface), ("webdataset", webdataset)]
)
def test_a_release_is_built_of_what_others_wrote(
    tmp_path: Path, name: str, write: Callable[..., Path]
) -> None:
    path = write(tmp_path, pictures())
    release = built(tmp_path, tmp_path / "home", name, path)
    release.verify()
    assert rows_of(release) == {(one.person, one.captions) for one in pictures()}


def test_a_release_holds_what_its_source_states_now_whatever_the_home_read_before(
    tmp_path: Path,
) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(60 * number))
    rows = [f"{one}.jpg,Title {one},Alt {one},Painter {one},CC0-1.0,val" for one in range(3)]
    table = "\n".join(["file,title,alt,painter,rights,part", *rows])
    (tmp_path / "art.csv").write_text(table, encoding="utf-8")

    def released(home: str, version: str, **options: Any) -> Any:
        source = loupe.source("csv", "art.csv", name="art", image="file", **options)
        steps = [loupe.release()]
        made = loupe.Pipeline(
            "shown", version=version, sources=[source], steps=steps, folder=tmp_path
        )
        release = made.run(settings=Settings(home=tmp_path / home), quiet=True).release
        release.verify()
        return release

    in_words = {"licence": "Ask the museum", "permitted_by": "The museum agreed."}
    stated: list[dict[str, Any]] = [
        {"captions": ["title"], "licence": "CC-BY-4.0"},
        {"captions": ["alt"], "licence": "CC-BY-4.0"},
        {"captions": ["alt"], "split": "train", "attribution": "painter", **in_words},
        {"captions": ["title"], "licence_column": "rights", "split_column": "part"},
    ]
    for number, options in enumerate(stated):
        version = f"0.{number}.0"
        used = released("used", version, **options)
        assert used.manifest.id == released(f"fresh-{number}", version, **options).manifest.id
        if "attribution" in options:
            shown = {(row["creator"], row["licence"], *row["captions"]) for row in used.rows()}
            assert shown == {(f"Painter {one}", "Ask the museum", f"Alt {one}") for one in range(3)}
            assert "Painter 1" in (used.folder / "ATTRIBUTION.md").read_text(encoding="utf-8")


def test_an_address_gives_the_release_of_the_path(tmp_path: Path) -> None:
    path = table(tmp_path, pictures())
    here = built(tmp_path, tmp_path / "home", "csv", path)
    with served(tmp_path) as server:
        there = built(tmp_path, tmp_path / "other", "csv", f"{server}/{path.name}")
    assert rows_of(here) == {(one.person, one.captions) for one in pictures()}
    assert here.manifest.id == there.manifest.id


def test_init_writes_a_build_file_that_passes_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "home"))
    (tmp_path / "people").mkdir()
    parquet(tmp_path / "people", pictures())
    for build, name in (("pipeline", "own"), ("build-ufine3c", "rewritten")):
        stated = ["--build", build, "--name", name, "--licence", "CC0-1.0", "--review", "auto"]
        made = CliRunner().invoke(app, ["init", "people", *stated])
        assert made.exit_code == 0, made.output
        content = (tmp_path / f"{name}.toml").read_text(encoding="utf-8")
        assert 'annotations = "people"' in content
        assert 'identity = "person"' in content
        flow = [f"{name}.toml"] if build == "pipeline" else [build, "--config", f"{name}.toml"]
        checked = CliRunner().invoke(app, ["run", *flow, "--check"])
        assert checked.exit_code == 0, checked.output
        again = CliRunner().invoke(app, ["init", "people", *stated])
        assert isinstance(again.exception, UsageError)
        assert str(again.exception) == f"{name}.toml exists; state another file with --out"
    missing = CliRunner().invoke(app, ["init", "people"])
    assert str(missing.exception).startswith("--build is missing; state it, or answer")


def test_init_asks_for_what_is_not_stated(tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    parquet(tmp_path / "people", pictures())
    typed = ("people", "no such build", "", "asked", "CC0-1.0", "")  # Enter takes the proposal
    screen, keyboard = pty.openpty()
    os.write(screen, "".join(f"{answer}\n" for answer in typed).encode())
    program = [sys.executable, "-m", "loupe.flows.cli.main", "init"]
    own = {**os.environ, "LOUPE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        program, stdin=keyboard, cwd=tmp_path, env=own, capture_output=True, check=False
    )
    os.close(keyboard)
    os.close(screen)
    assert done.returncode == 0, done.stderr.decode()
    assert b"'no such build' is none of pipeline, build-ufine3c, build-ccd" in done.stderr
    content = (tmp_path / "asked.toml").read_text(encoding="utf-8")
    assert 'licence = "CC0-1.0"' in content
    assert 'policy = "auto"' in content
