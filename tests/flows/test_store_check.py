"""`loupe store check`: damaged and missing files are found, and made again from what there is."""

from pathlib import Path

import pytest

from db.blob_check import BlobCheck
from db.blobs import BlobStore
from db.entities import find
from db.store import Store
from flows.blob_repair import repair_blobs
from models.profiles.settings import load_settings
from schemas.records import Granularity, Image
from services.diagnosis import Verdict, diagnose
from tests.flows.command_line import Loupe
from tests.flows.withdrawals import home_of
from tests.flows.worlds import write_people
from tests.release.worlds import DATASET, SOURCES


@pytest.fixture
def imported(loupe: Loupe, home_store: Store, tmp_path: Path) -> Path:
    """The folder of a source that was imported, six images."""
    people = write_people(tmp_path / "people", Granularity.FINE, identities=3, images=2, captions=1)
    done = loupe("import", "cuhk-pedes", people, "--name", "people")
    assert done.exit_code == 0, done.err
    return people.parent


def blobs_in(home: Path) -> list[Path]:
    return sorted((home / "blobs" / "sha256").rglob("*.*"))


def harm(home: Path) -> dict[Path, bytes]:
    """Deletes a blob, and changes a byte of another; what they held."""
    first, second, *_ = blobs_in(home)
    held = {one: one.read_bytes() for one in (first, second)}
    first.unlink()
    second.write_bytes(held[second][:-1] + b"\0")
    return held


def test_what_is_missing_or_damaged_is_named_and_made_again_from_its_source(
    loupe: Loupe, home: Path, imported: Path
) -> None:
    assert loupe("store", "check").exit_code == 0
    held = harm(home)
    found = loupe("store", "check", "--json")
    assert found.exit_code == 1
    assert found.json["checked"] == 6
    assert {one["sha256"]: one["fault"] for one in found.json["faults"]} == {
        path.stem: fault for path, fault in zip(held, ("missing", "damaged"), strict=True)
    }
    without = loupe("store", "check", "--repair")
    assert without.exit_code == 1
    assert "--from" in without.out
    repaired = loupe("store", "check", "--repair", "--from", imported, "--json")
    assert (repaired.exit_code, repaired.json["repaired"]) == (0, 2)
    assert {path: path.read_bytes() for path in held} == held
    assert loupe("store", "check").exit_code == 0


def test_a_source_that_changed_is_no_source(loupe: Loupe, home: Path, imported: Path) -> None:
    harm(home)
    before = {path: path.read_bytes() for path in blobs_in(home)}
    for path in imported.glob("*.jpg"):
        path.write_bytes((imported / "0001_0.jpg").read_bytes())
    done = loupe("store", "check", "--repair", "--from", imported, "--json")
    assert done.json["faulty"] + done.json["repaired"] == 2
    assert done.json["repaired"] <= 1  # that very picture was harmed, at most
    assert {path: path.read_bytes() for path in blobs_in(home) if path in before} | before == before


def test_a_backup_of_the_store_will_do(loupe: Loupe, home: Path, imported: Path) -> None:
    backup = (home / "blobs").rename(home.parent / "backup")
    assert loupe("store", "check", "--json").json["faulty"] == 6
    done = loupe("store", "check", "--repair", "--from", backup, "--json")
    assert (done.exit_code, done.json["repaired"]) == (0, 6)


def test_a_release_holds_what_was_lost_and_what_was_withdrawn_is_not_missed(
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


def test_orphans_are_listed_and_stay(loupe: Loupe, home: Path, imported: Path) -> None:
    sha256 = BlobStore(str(home / "blobs")).put(b"nobody's", "image/png")
    done = loupe("store", "check", "--orphans", "--json")
    assert done.exit_code == 0
    (path,) = done.json["orphan_paths"]
    assert sha256 in path
    assert Path(path).exists()


def test_a_run_that_meets_a_damaged_file_names_the_command(
    home: Path, home_store: Store, imported: Path
) -> None:
    harm(home)
    blobs = BlobStore(str(home / "blobs"))
    said = []
    for one in find(home_store, "people", Image.kind):
        image = one.record(Image)
        try:
            blobs.read(image.sha256, image.media_type)
        except Exception as error:  # noqa: BLE001 - whichever it is
            said.append(str(error))
    assert len(said) == 2
    assert all("loupe store check --repair" in one for one in said)


def test_doctor_looks_at_some_of_the_files(home: Path, imported: Path) -> None:
    def finding() -> tuple[Verdict, str]:
        found = diagnose(load_settings(home=home))
        return next((one.verdict, one.remedy) for one in found if one.subject == "blob store")

    assert finding() == (Verdict.OK, "")
    for path in blobs_in(home):
        path.unlink()
    assert finding() == (Verdict.LACKING, "loupe store check --repair")


def test_wrong_usage_is_exit_code_2(loupe: Loupe, imported: Path, tmp_path: Path) -> None:
    assert loupe("store", "check", "--from", tmp_path).exit_code == 2
    assert loupe("store", "check", "--repair", "--from", tmp_path / "nowhere").exit_code == 2
