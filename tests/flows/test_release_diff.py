"""`loupe release diff`, and the version that the next build must have."""

import json
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
from loupe.schemas.errors import UsageError
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
    assert found["version"] == {"required": "none", "at_least": "1.0.0", "fault": None}


def test_different_releases_give_exit_code_1(home: Home) -> None:
    home.withdraw_image()
    home.add_image()
    home.build("1.1.0")
    result = loupe_release("diff", f"{DATASET}@1.0.0", f"{DATASET}@1.1.0")
    assert result.exit_code == 1
    output = result.stdout
    assert "rows: 1 added, 1 removed; 11 the same" in output
    assert "+ Somebody new, in [red]." in output
    assert "CUHK-PEDES: dir/0.jpg (test, images/1.jpg)" in output
    assert "✗ version is 1.1.0, must be at least 2.0.0: 1 row was removed" in output
    back = loupe_release("diff", f"{DATASET}@1.1.0", f"{DATASET}@1.0.0").stdout
    assert "+ A tall person 0 in a blue coat." in back
    assert "no version is required" in back


def test_json_has_every_row_unless_limited(home: Home) -> None:
    home.withdraw_image()
    home.add_image()
    home.build("2.0.0")
    folders = home.folder / "1.0.0", home.folder / "2.0.0"
    result = loupe_release("diff", *folders, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [(one["kind"], one["source_file_path"]) for one in found["rows"]] == [
        ("removed", "dir/0.jpg"),
        ("added", "dir/new.jpg"),
    ]
    assert found["rows"][1]["row"]["texts"]["captions"][0]["text"] == "Somebody new, in [red]."
    assert found["counts"] == {
        "same": 11,
        "added": 1,
        "removed": 1,
        "withdrawn": 0,
        "changed": 0,
        "moved": 0,
        "restated": 0,
    }
    assert found["version"] == {"required": "major", "at_least": "2.0.0", "fault": None}
    assert "statistics.captions" in [one["field"] for one in found["metadata"]]
    few = json.loads(loupe_release("diff", *folders, "--json", "--examples", "0").stdout)
    assert few == {**found, "rows": []}


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


@pytest.mark.parametrize("harm", ["damaged", "another"])
def test_a_strict_version_is_compared_with_the_rebuilt_release(home: Home, harm: str) -> None:
    home.reject_image()
    earlier = home.folder / "1.0.0"
    if harm == "damaged":
        (earlier / "manifest.json").write_text("{}")
    else:
        shutil.rmtree(earlier)
        home.build("0.9.0")
        (home.folder / "0.9.0").rename(earlier)
    result = home.build("1.0.1", "--strict-version")
    assert str(result.exception) == (
        "the version of ufine3c is 1.0.1, must be at least 2.0.0: 1 row was removed since 1.0.0; "
        "nothing was released"
    )
    assert not (home.folder / "1.0.1").exists()
    assert [path for path in home.folder.iterdir() if ".building-" in path.name] == []
    result = home.build("2.0.0", "--strict-version")
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_strict_version_is_refused_if_the_earlier_release_cannot_be_rebuilt(home: Home) -> None:
    home.withdraw_image()
    shutil.rmtree(home.folder / "1.0.0")
    result = home.build("2.0.0", "--strict-version")
    assert isinstance(result.exception, UsageError)
    assert str(result.exception).startswith(
        "nothing was released: a strict version is compared with ufine3c 1.0.0, which is not "
        f"sound in {home.folder / '1.0.0'} and cannot be rebuilt: ufine3c 1.0.0 is not rebuilt: 1 "
        "of its entities was withdrawn"
    )
    assert not (home.folder / "2.0.0").exists()


def test_a_version_lower_than_an_earlier_one_is_a_warning(home: Home) -> None:
    assert home.build("0.9.0").stderr == (
        "warning: ufine3c was released as 1.0.0 before; 0.9.0 comes after it and is compared with "
        "none\n"
    )
    output = home.build("0.9.1", "--strict-version")
    assert (output.exit_code, "is compared with 0.9.0" in output.stderr) == (0, True)
    assert home.build("0.9.0").stderr == ""


def test_a_damaged_earlier_release_does_not_stop_a_build(home: Home) -> None:
    (home.folder / "1.0.0/manifest.json").write_text("{}")
    result = home.build("1.0.1")
    assert (result.exit_code, "1.0.0 cannot be compared with: " in result.stderr) == (0, True)
