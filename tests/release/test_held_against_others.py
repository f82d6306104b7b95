"""Contamination of releases by other collections: stated, verified and refused."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update
from typer.testing import CliRunner, Result

from loupe.db.entities import find
from loupe.db.releases import find_release
from loupe.db.tables import Entity
from loupe.flows.cli.release import app
from loupe.release.card.leaks import certificate_text
from loupe.release.contamination import SHOWN
from loupe.release.format.files import CARD, LEAKS
from loupe.release.format.manifest import read_manifest
from loupe.release.rebuild import rebuild_release
from loupe.release.verify import verify_release
from loupe.schemas.base import Split, sha256_of
from loupe.schemas.release import Manifest
from loupe.schemas.similarity import Contamination, ImageFingerprint, SharedMeasure
from tests.release.others import VARIANTS, jpeg, scene
from tests.release.test_street import reseal_listed
from tests.release.worlds import SOURCES, Composer, World, store_world

TRAINED_ON = "trained-on"
OURS, THEIRS = "ufine3c", "their-benchmark"


def compose(dataset: str, scenes: range, kind: str, caption: str) -> Composer:
    """A dataset of one source and two splits, with one identity and one caption per image."""
    composer = Composer(dataset)
    for place, number in enumerate(scenes):
        data = VARIANTS[kind](scene(number))
        split: Split = "train" if place % 3 == 0 else "test"
        name = f"{dataset}/{number}.jpg"
        image = composer.image(SOURCES[0], f"{dataset}-{number}", name, split=split, data=data)
        composer.caption(image, SOURCES[0], caption.format(number))
    return composer


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Two datasets; the second contains three images of the first at half size."""
    ours = compose(OURS, range(12), "copy", "A man in coat number {}.")
    theirs = compose(THEIRS, range(9, 20), "half size", "a MAN  in coat number {}.")
    first, second = ours.contents(), theirs.contents()
    both = first._replace(
        entities=(*first.entities, *(one for one in second.entities if one not in first.entities)),
        decisions=(*first.decisions, *second.decisions),
        pictures=(*first.pictures, *second.pictures),
        calls=(*first.calls, *second.calls),
    )
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "world"))
    world = store_world(tmp_path / "world", both)
    yield world
    world.store.close()


def loupe_release(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def build(out: Path, *options: str | Path, dataset: str = OURS) -> Manifest:
    command = ("build", dataset, "--version", "1.0.0", "--out", out, *options)
    result = loupe_release(*command)
    assert result.exit_code == 0, result.output
    return read_manifest(out)


def measure(statement: Contamination, name: str) -> SharedMeasure:
    return next(one for one in statement.measures if one.measure == name)


def folder_of(folder: Path, scenes: range, kind: str) -> Path:
    folder.mkdir()
    for number in scenes:
        (folder / f"img_{number}.jpg").write_bytes(VARIANTS[kind](scene(number)))
    return folder


@pytest.mark.usefixtures("worlds")
def test_a_release_states_what_it_shares_with_other_collections(
    tmp_path: Path,
) -> None:
    theirs = build(tmp_path / "theirs", dataset=THEIRS)
    folder = folder_of(tmp_path / "images", range(2), "1.6 % crop")
    (folder / "cut.jpg").write_bytes(jpeg(scene(3))[:900])
    options = ("--against", f"{TRAINED_ON}={folder}", "--against", f"{THEIRS}@1.0.0")
    manifest = build(tmp_path / "ours", *options, "--against", "cuhk-pedes")
    plain, release, dataset = manifest.contamination
    assert (plain.name, plain.other, plain.release_id) == (TRAINED_ON, "folder", None)
    assert (plain.images, plain.unreadable, plain.unreadable_files) == (3, 1, ("cut.jpg",))
    assert measure(plain, "perceptual_hash").leaks == 2
    assert measure(plain, "file").leaks == 0
    assert {one.measure for one in plain.measures} == {"file", "perceptual_hash"}
    assert (release.name, release.release_id) == (f"{THEIRS} 1.0.0", theirs.id)
    assert {one.measure: one.leaks for one in release.measures} == {
        "file": 0,
        "perceptual_hash": 3,
        "identity": 0,
        "caption": 3,
    }
    by_hash = measure(release, "perceptual_hash")
    assert {(one.split, one.compared, one.leaks) for one in by_hash.splits} == {
        ("train", 4, 1),
        ("test", 8, 2),
    }
    assert len(by_hash.nearest) == SHOWN
    assert [one.distance <= by_hash.threshold for one in by_hash.nearest] == [True] * 3 + [
        False
    ] * 7
    # our dataset was sampled from this one
    assert dataset.other == "dataset"
    assert (measure(dataset, "file").leaks, measure(dataset, "identity").leaks) == (12, 12)
    assert not verify_release(tmp_path / "ours", decode=True).problems
    text = (tmp_path / "ours" / LEAKS).read_text()
    assert len(json.loads(text)["contamination"]) == 3
    assert str(tmp_path) not in text
    card = (tmp_path / "ours" / CARD).read_text()
    assert "**Parts of this release are in other datasets**" in card
    assert f"content `{plain.content_sha256}`" in card
    assert "1 image could not be read (cut.jpg)" in card


@pytest.mark.soak
def test_fingerprints_of_an_imported_dataset_are_computed_once(
    worlds: World, tmp_path: Path
) -> None:
    build(tmp_path / "one", "--against", "cuhk-pedes")
    made = list(find(worlds.store, "cuhk-pedes", ImageFingerprint.kind))
    assert len(made) == 23
    # the stored fingerprint is used without decoding the image again
    ours = sha256_of(jpeg(scene(0)))
    first = next(one for one in made if one.record(ImageFingerprint).sha256 == ours)
    stored = first.record(ImageFingerprint)
    other = stored.model_copy(update={"perceptual_hash": f"{'0' * 15}1"})
    with worlds.store.write() as connection:
        changed = update(Entity).where(Entity.id == first.id).values(payload=other.payload())
        connection.execute(changed)
    found = loupe_release("contamination", tmp_path / "one", "cuhk-pedes", "--json")
    by_hash = next(
        one for one in json.loads(found.stdout)["measures"] if one["measure"] == "perceptual_hash"
    )
    assert sum(one["leaks"] for one in by_hash["splits"]) == 11


@pytest.mark.usefixtures("worlds")
@pytest.mark.soak
def test_equal_other_collections_give_identical_bytes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "images", range(5), "JPEG q60")
    first = build(tmp_path / "one", "--against", folder)
    elsewhere = tmp_path / "elsewhere" / "images"
    shutil.copytree(folder, elsewhere)
    again = loupe_release(
        *("build", OURS, "--version", "1.0.0", "--out", tmp_path / "two"), "--against", elsewhere
    )
    assert again.exit_code == 0, again.output
    assert read_manifest(tmp_path / "two").id == first.id
    assert first.contamination[0].name == "images"


@pytest.mark.soak
def test_a_rebuild_does_not_need_the_other_collections(worlds: World, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "images", range(5), "JPEG q60")
    first = build(tmp_path / "one", "--against", folder)
    shutil.rmtree(folder)
    stored = find_release(worlds.store, OURS)
    again = rebuild_release(worlds.store, worlds.blobs, stored, tmp_path / "again")
    assert again.manifest == first
    assert (tmp_path / "again" / LEAKS).read_bytes() == (tmp_path / "one" / LEAKS).read_bytes()


@pytest.mark.usefixtures("worlds")
def test_a_contaminated_release_is_reported_or_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "images", range(2), "copy")
    command = ("build", OURS, "--version", "1.0.0", "--out", tmp_path / "out", "--against", folder)
    refused = loupe_release(*command, "--refuse-contaminated")
    assert refused.exit_code == 1
    details = str(refused.exception)
    assert "is contaminated, so nothing is released: compared with images, images with" in details
    assert "similar images: 1 of 4 in train, 1 of 8 in test (such as images/" in details
    assert not (tmp_path / "out").exists()
    built = loupe_release(*command)
    assert built.exit_code == 0
    assert "images with the same file: 1 of 4 in train, 1 of 8 in test" in " ".join(
        built.stderr.split()
    )


@pytest.mark.usefixtures("worlds")
@pytest.mark.soak
def test_a_comparison_without_leaks_is_stated(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "images", range(40, 46), "copy")
    manifest = build(tmp_path / "out", "--against", folder, "--refuse-contaminated")
    (statement,) = manifest.contamination
    assert not statement.leaks
    assert measure(statement, "perceptual_hash").nearest
    card = (tmp_path / "out" / CARD).read_text(encoding="utf-8")
    assert "No part of this release was found in other datasets." in card
    assert not verify_release(tmp_path / "out", decode=True).problems


def edited(statement: Contamination, name: str, **changes: object) -> Contamination:
    measures = [
        one.model_copy(update=changes) if one.measure == name else one for one in statement.measures
    ]
    return statement.model_copy(update={"measures": tuple(measures)})


def state(folder: Path, statement: Contamination) -> None:
    """Change the contamination statement of a release and reseal it."""
    leaks = read_manifest(folder).leaks
    (folder / LEAKS).write_bytes(certificate_text(leaks, (statement,)))
    reseal_listed(
        folder, lambda manifest: manifest.model_copy(update={"contamination": (statement,)})
    )


@pytest.mark.usefixtures("worlds")
@pytest.mark.soak
def test_the_contamination_command_compares_two_releases(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    build(theirs, dataset=THEIRS)
    build(ours, "--against", theirs)
    plain = loupe_release("contamination", ours, theirs)
    assert plain.exit_code == 1
    assert "nearest by perceptual hash" in plain.stdout
    assert "✗" in plain.stdout
    details = json.loads(loupe_release("contamination", OURS, theirs, "--json").stdout)
    assert (details["contaminated"], details["stated_otherwise"]) == (True, None)
    of_train = ("contamination", ours, theirs, "--split", "train", "--other-split", "test")
    details = json.loads(loupe_release(*of_train, "--json").stdout)
    by_measure = {one["measure"]: one for one in details["measures"]}
    assert [one["split"] for one in by_measure["file"]["splits"]] == ["train"]
    assert by_measure["file"]["theirs"] == 7
    assert details["name"] == f"{THEIRS} 1.0.0 (test)"


@pytest.mark.usefixtures("worlds")
@pytest.mark.soak
def test_a_differing_statement_of_the_release_is_reported(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    build(theirs, dataset=THEIRS)
    statement = build(ours, "--against", theirs).contamination[0]
    state(ours, edited(statement, "caption", theirs=1))
    details = loupe_release("contamination", ours, theirs)
    assert "has another statement about the same" in details.stderr


@pytest.mark.usefixtures("worlds")
def test_folders_that_share_nothing_end_with_exit_code_0(tmp_path: Path) -> None:
    one = folder_of(tmp_path / "one", range(3), "copy")
    other = folder_of(tmp_path / "other", range(5, 9), "copy")
    found = loupe_release("contamination", one, other)
    assert (found.exit_code, "nothing of it is in other" in found.stdout) == (0, True)


@pytest.mark.usefixtures("worlds")
def test_invalid_comparisons_are_refused_with_a_message(tmp_path: Path) -> None:
    build(tmp_path / "ours")
    folder = folder_of(tmp_path / "images", range(2), "copy")
    cases: list[tuple[str | Path, tuple[str, ...], str]] = [
        ("nobody", (), "neither a folder nor a dataset with images"),
        ("gone/away", (), "is not a folder"),
        ("cuhk-pedes", ("--other-split", "test"), "only releases have splits"),
        (folder, ("--split", "val"), "no split 'val'"),
    ]
    for theirs, options, message in cases:
        result = loupe_release("contamination", tmp_path / "ours", theirs, *options)
        assert message in str(result.exception), theirs
