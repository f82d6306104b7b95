"""`loupe store check`: damaged and missing blobs are found and restored."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from loupe.db.blob_check import BlobCheck
from loupe.db.blobs import BlobStore
from loupe.db.store import Store
from loupe.flows.blob_repair import repair_blobs
from loupe.models.profiles.settings import load_settings
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import ServiceError
from loupe.schemas.records import Granularity
from loupe.services.diagnosis import Verdict, diagnose
from tests.flows.command_line import Loupe
from tests.flows.withdrawals import home_of
from tests.flows.worlds import write_people
from tests.release.worlds import DATASET, SOURCES


@pytest.fixture
def imported(loupe: Loupe, home_store: Store, tmp_path: Path) -> Path:
    """The folder of an imported source of six images."""
    people = write_people(tmp_path / "people", Granularity.FINE, identities=3, images=2, captions=1)
    done = loupe("import", "cuhk-pedes", people, "--name", "people")
    assert done.exit_code == 0, done.err
    return people.parent


def blobs_in(home: Path) -> list[Path]:
    return sorted((home / "blobs" / "sha256").rglob("*.*"))


def damage_blobs(home: Path) -> dict[Path, bytes]:
    """Delete a blob, damage another, and return the original contents of both."""
    first, second, *_ = blobs_in(home)
    originals = {one: one.read_bytes() for one in (first, second)}
    first.unlink()
    second.write_bytes(originals[second][:-1] + b"\0")
    return originals


def test_missing_and_damaged_blobs_are_named_and_restored_from_the_source(
    loupe: Loupe, home: Path, imported: Path
) -> None:
    assert loupe("store", "check").exit_code == 0
    originals = damage_blobs(home)
    found = loupe("store", "check", "--json")
    assert found.exit_code == 1
    assert found.json["checked"] == 6
    assert {one["sha256"]: one["fault"] for one in found.json["faults"]} == {
        path.stem: fault for path, fault in zip(originals, ("missing", "damaged"), strict=True)
    }
    without = loupe("store", "check", "--repair")
    assert without.exit_code == 1
    assert "--from" in without.out
    repaired = loupe("store", "check", "--repair", "--from", imported, "--json")
    assert (repaired.exit_code, repaired.json["repaired"]) == (0, 2)
    assert {path: path.read_bytes() for path in originals} == originals
    assert loupe("store", "check").exit_code == 0


def test_changed_source_files_are_not_used_for_repair(
    loupe: Loupe, home: Path, imported: Path
) -> None:
    damage_blobs(home)
    before = {path: path.read_bytes() for path in blobs_in(home)}
    for path in imported.glob("*.jpg"):
        path.write_bytes((imported / "0001_0.jpg").read_bytes())
    done = loupe("store", "check", "--repair", "--from", imported, "--json")
    assert done.json["faulty"] + done.json["repaired"] == 2
    assert done.json["repaired"] <= 1  # only if that image was damaged
    assert {path: path.read_bytes() for path in blobs_in(home) if path in before} | before == before


def test_blobs_are_restored_from_releases_and_withdrawn_ones_are_not_missing(
    tmp_path: Path,
) -> None:
    home = home_of(tmp_path / "home")
    before = {path: path.read_bytes() for path in blobs_in(home.folder)}
    home.withdraw("identity", "9", dataset=DATASET, source=SOURCES[1].name)
    erased = before.keys() - set(blobs_in(home.folder))
    assert erased
    for path in blobs_in(home.folder):
        path.write_bytes(b"")
    with BlobCheck(home.store, home.run.blobs) as check:
        checked = check.run()
        assert checked == len(before) - len(erased)
        origins = {one.origin for one in repair_blobs(home.run, check)}
        assert list(check.faulty()) == []
    assert origins
    assert all(str(home.folder / "releases") in one for one in origins)
    assert {path: path.read_bytes() for path in blobs_in(home.folder)} == {
        path: data for path, data in before.items() if path not in erased
    }
    home.store.close()


def test_orphans_are_listed_and_kept(loupe: Loupe, home: Path, imported: Path) -> None:
    sha256 = BlobStore(str(home / "blobs")).put(b"nobody's", "image/png")
    done = loupe("store", "check", "--orphans", "--json")
    assert done.exit_code == 0
    (path,) = done.json["orphan_paths"]
    assert sha256 in path
    assert Path(path).exists()


def test_doctor_checks_a_sample_of_the_blobs(home: Path, imported: Path) -> None:
    def finding() -> tuple[Verdict, str]:
        found = diagnose(load_settings(home=home))
        return next((one.verdict, one.remedy) for one in found if one.subject == "blob store")

    assert finding() == (Verdict.OK, "")
    for path in blobs_in(home):
        path.unlink()
    assert finding() == (Verdict.LACKING, "loupe store check --repair")


def test_wrong_usage_gives_exit_code_2(loupe: Loupe, imported: Path, tmp_path: Path) -> None:
    assert loupe("store", "check", "--from", tmp_path).exit_code == 2
    assert loupe("store", "check", "--repair", "--from", tmp_path / "nowhere").exit_code == 2


@pytest.fixture
def in_shards(loupe: Loupe, home_store: Store, tmp_path: Path) -> Path:
    """The folder of a source of six images that was imported into shards of two records."""
    people = write_people(tmp_path / "people", Granularity.FINE, identities=3, images=2, captions=1)
    command = ("import", "cuhk-pedes", people, "--name", "people", "--licence", "CC0-1.0")
    done = loupe(*command, "--citation", "none", "--shards")
    assert done.exit_code == 0, done.err
    return people.parent


def shards_in(home: Path) -> list[Path]:
    return sorted((home / "blobs" / "shards").rglob("*.parquet"))


def test_shards_and_their_images_are_checked_and_restored(
    loupe: Loupe, home: Path, in_shards: Path, tmp_path: Path
) -> None:
    (shard,) = shards_in(home)
    assert loupe("store", "check", "--orphans", "--json").json["orphans"] == 0
    assert loupe("store", "check", "--json").json["checked"] == 7
    originals = damage_blobs(home)
    repaired = loupe("store", "check", "--repair", "--from", in_shards, "--json")
    assert (repaired.exit_code, repaired.json["repaired"]) == (0, 2), repaired
    assert {path: path.read_bytes() for path in originals} == originals
    backup = tmp_path / "backup" / shard.name
    backup.parent.mkdir()
    shutil.copy(shard, backup)
    shard.write_bytes(shard.read_bytes()[:-9])
    found = loupe("store", "check", "--json")
    assert [(one["sha256"], one["fault"]) for one in found.json["faults"]] == [
        (shard.stem, "damaged")
    ]
    assert loupe("store", "check", "--repair", "--from", backup.parent).exit_code == 0
    assert shard.read_bytes() == backup.read_bytes()
    shard.unlink()
    assert "the import into shards" in loupe("store", "check", "--repair").out
    annotations = in_shards / "annotations.json"
    command = ("import", "cuhk-pedes", annotations, "--name", "people", "--licence", "CC0-1.0")
    assert loupe(*command, "--citation", "none", "--shards").exit_code == 0
    assert shard.read_bytes() == backup.read_bytes()


def test_the_check_goes_on_after_files_that_cannot_be_read(
    loupe: Loupe, home: Path, imported: Path, tmp_path: Path
) -> None:
    pipe, folder, device, *_ = originals = blobs_in(home)
    content = device.read_bytes()
    for one in originals[:3]:
        one.unlink()
    os.mkfifo(pipe)
    folder.mkdir()
    device.symlink_to("/dev/zero")
    os.mkfifo(tmp_path / pipe.name)
    found = loupe("store", "check", "--json")
    assert found.json["checked"] == 6
    assert {one["fault"] for one in found.json["faults"]} == {"unreadable"}
    assert len(found.json["faults"]) == 3
    with pytest.raises(ServiceError, match="it is not a file"):
        BlobStore(str(home / "blobs")).read(pipe.stem, "image/png")
    done = loupe("store", "check", "--repair", "--from", tmp_path, "--from", imported, "--json")
    assert [one["sha256"] for one in done.json["faults"]] == [folder.stem], "it is left there"
    assert device.read_bytes() == content


def test_the_database_is_checked(loupe: Loupe, home: Path, imported: Path) -> None:
    assert loupe("store", "check", "--json").json["database"] == []
    with closing(sqlite3.connect(home / "loupe.db")) as database, database:
        captions = database.execute("SELECT id FROM entity WHERE kind = 'caption' LIMIT 2")
        (changed,), (linked,) = captions.fetchall()
        database.execute("UPDATE entity SET payload = payload || ' ' WHERE id = ?", (changed,))
        database.execute(
            "DELETE FROM derivation WHERE child_seq = (SELECT seq FROM entity WHERE id = ?)",
            (linked,),
        )
        database.execute("DELETE FROM agent")
    found = loupe("store", "check", "--json")
    assert found.exit_code == 1
    broken, *others = found.json["database"]
    assert "of the table association refer to rows of agent that are missing" in broken
    assert len(others) == 2
    assert all("is not what it was stored as" in one for one in others)
    assert {changed, linked} == {one.split()[2] for one in others}


def test_a_backup_brings_no_withdrawn_record_back(
    loupe: Loupe, home: Path, in_shards: Path, tmp_path: Path
) -> None:
    backup = shutil.copytree(home / "blobs", tmp_path / "backup")
    digest = sha256_of((in_shards / "0002_0.jpg").read_bytes())
    command = ("withdraw", digest, "--ground", "privacy", "--reason", "r", "--yes")
    assert loupe(*command).exit_code == 0
    (shard,) = shards_in(home)
    erased, left = shard.read_bytes(), {path.name for path in blobs_in(home)}
    for path in (shard, *blobs_in(home)):
        path.unlink()
    repaired = loupe("store", "check", "--repair", "--from", backup, "--json")
    assert (repaired.exit_code, repaired.json["repaired"]) == (0, 1 + len(left)), repaired
    assert shard.read_bytes() == erased
    assert {path.name for path in blobs_in(home)} == left
