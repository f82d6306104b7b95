"""The command `loupe release diff`."""

import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import update
from typer.testing import CliRunner, Result

from loupe.db.blobs import BlobStore
from loupe.db.entities import ActivityRecord, NewDecision, WorkResult
from loupe.db.store import Store
from loupe.db.tables import Release
from loupe.db.work import commit_chunk, register_plan
from loupe.flows.cli.release import app
from tests.release.later import Later
from tests.release.worlds import (
    DATASET,
    PERSON,
    SOURCES,
    Composer,
    World,
    decide,
    picture,
    small_world,
    store_world,
)


class Home(NamedTuple):
    """An installation with a dataset that can be released repeatedly."""

    world: World
    composer: Composer
    folder: Path

    def build(self, version: str, *options: str) -> Result:
        """Release the current state of the dataset."""
        out = self.folder / version
        return loupe_release(
            "build", DATASET, "--version", version, "--out", out, "--no-measure", *options
        )

    def withdraw_image(self) -> None:
        image = self._image()
        plan = register_plan(self.world.store, "test", "2", {})
        decide(self.world.store, plan, [NewDecision(image, "withdraw", PERSON)])

    def reject_image(self) -> None:
        Later(self.world, DATASET).verdict(self._image(), "reject")

    def _image(self) -> str:
        return next(one.id for one in self.composer.entities.values() if one.kind == "image")

    def add_image(self) -> None:
        composer = Composer()
        data = picture(99)
        image = composer.image(SOURCES[1], "77", "dir/new.jpg", data=data)
        composer.caption(image, SOURCES[1], "Somebody new, in [red].", 0)
        self.world.blobs.put(data, "image/jpeg")
        plan = register_plan(self.world.store, "test", "3", {})
        activity = ActivityRecord(plan, DATASET, "revision", "run", datetime.now(UTC))
        added = [one for one in composer.entities.values() if one.id not in self.composer.entities]
        for place, one in enumerate(added):
            commit_chunk(self.world.store, activity, [WorkResult(70_000_000 + place, (one,))])


def loupe_release(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installation that released 1.0.0, to be copied."""
    folder = tmp_path_factory.mktemp("released")
    composer = small_world()
    world = store_world(folder / "home", composer.contents())
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LOUPE_HOME", str(folder / "home"))
        assert Home(world, composer, folder).build("1.0.0").exit_code == 0
    world.store.close()
    return folder


@pytest.fixture
def home(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "home"))
    shutil.copytree(released, tmp_path, dirs_exist_ok=True)
    store = Store.open(f"sqlite:///{tmp_path / 'home' / 'loupe.db'}")
    with store.write() as connection:
        connection.execute(update(Release).values(folder=str(tmp_path / "1.0.0")))
    yield Home(World(store, BlobStore(str(tmp_path / "home/blobs"))), small_world(), tmp_path)
    store.close()


def test_equal_releases_give_exit_code_0(home: Home) -> None:
    assert home.build("1.0.1").stderr == ""
    result = loupe_release("diff", home.folder / "1.0.0", home.folder / "1.0.1")
    assert (result.exit_code, "the same: 12 rows" in result.stdout) == (0, True)
    found = json.loads(loupe_release("diff", f"{DATASET}@1.0.0", DATASET, "--json").stdout)
    assert (found["same"], found["rows"], found["counts"]["same"]) == (True, [], 12)


def test_different_releases_give_exit_code_1(home: Home) -> None:
    home.withdraw_image()
    home.add_image()
    home.build("1.1.0")
    result = loupe_release("diff", f"{DATASET}@1.0.0", f"{DATASET}@1.1.0")
    assert result.exit_code == 1
    output = result.stdout
    assert "ufine3c 1.0.0 → ufine3c 1.1.0" in output
    assert "rows: 1 added, 1 removed; 11 the same" in output
    assert "+ Somebody new, in [red]." in output
    assert re.search(r"lineage/decisions: \d+ rows added, \d+ removed", output)
    assert "CUHK-PEDES: dir/0.jpg (images/1.jpg)" in output
    result = loupe_release("diff", f"{DATASET}@1.1.0", f"{DATASET}@1.0.0", "--json")
    found = json.loads(result.stdout)
    assert [(one["kind"], one["source_file_path"]) for one in found["rows"]] == [
        ("added", "dir/0.jpg"),
        ("removed", "dir/new.jpg"),
    ]


def test_an_unreadable_release_gives_exit_code_2(home: Home) -> None:
    release = home.folder / "1.0.0"
    torn = Path(shutil.copytree(release, home.folder / "torn"))
    (torn / "manifest.json").write_text("{}")
    for name, reason in (
        (home.folder / "nothing", "is not a folder"),
        (home.folder / "home", "there is no release in"),
        (torn, "manifest.json: id: Field required"),
        ("unheard-of", "no release named"),
    ):
        result = loupe_release("diff", release, name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert reason in result.stderr
    shutil.rmtree(release)
    gone = loupe_release("diff", DATASET, torn)
    assert (gone.exit_code, "which no longer exists" in gone.stderr) == (2, True)
