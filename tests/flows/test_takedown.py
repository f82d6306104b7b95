"""Takedown of one identity from releases of four kinds that contain it.

The expected rows come from the ground truth of the generated street, not from the provenance in
the store or in a release.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner, Result

from loupe.db.entities import find
from loupe.db.store import Store
from loupe.db.withdrawals import find_withdrawal
from loupe.flows.cli.main import app
from loupe.flows.engine.embedding import picture_of
from loupe.flows.engine.pages import thumbnail_uri
from loupe.flows.withdrawal.execution import carry_out
from loupe.release.diff import compare_releases
from loupe.release.export import export_release
from loupe.release.export.formats import format_called
from loupe.release.format.manifest import read_manifest
from loupe.release.verify import verify_release
from loupe.release.withdrawn.files import read_mark, read_notices
from loupe.schemas.base import sha256_of
from loupe.schemas.records import Image
from loupe.schemas.video import Track
from tests.flows.homes import bytes_of, contents_of
from tests.flows.runs import context_of
from tests.flows.takedown_world import (
    CONTRASTS,
    FINE,
    PERSON,
    TASKS,
    WALKERS,
    Row,
    TakedownWorld,
    released_rows,
    stored_digest,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("takedown"),  # the takedown is shared
]

PATCHES = {
    f"{WALKERS}-0.1.0": "0.1.1",
    f"{FINE}-0.1.0": "0.1.1",
    f"{TASKS}-0.1.0": "0.1.1",
    f"{TASKS}-1.1.0": "1.1.1",
    f"{TASKS}-2.1.0": "2.1.1",
    f"{CONTRASTS}-0.1.0": "0.1.1",
}
"""Every release that shows the person, and the version that replaces it."""
REASON = "I was filmed, and nobody asked me"


class Takedown(NamedTuple):
    """State before and after the withdrawal.

    Attributes:
        world: the installation, after the withdrawal.
        copies: a folder with copies of all releases before the withdrawal.
        shown: all images of the person by name, released or only stored.
        stored: the digests of these in the blob store.
        command: the command line of the withdrawal.
        output: the JSON output of the withdrawal.
    """

    world: TakedownWorld
    copies: Path
    shown: dict[str, bytes]
    stored: set[str]
    command: tuple[str, ...]
    output: dict[str, Any]

    @property
    def home(self) -> Path:
        return self.world.run.settings.home

    def old(self, name: str) -> Path:
        """Return a copy of an old release, as a holder has it."""
        return self.copies / name

    def rows(self, name: str) -> list[Row]:
        """Return the rows of an old release."""
        return list(released_rows(self.old(name)))

    def showing(self, name: str) -> list[Row]:
        """Return the rows of an old release that show the person."""
        return self.world.showing(PERSON, self.rows(name))

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of the rows that show the person."""
        files = {row["file_path"] for row in self.showing(name)}
        rows = self.rows(name)
        return [number for number, row in enumerate(rows, 1) if row["file_path"] in files]

    def patch(self, name: str) -> Path:
        """Return the patch release that replaces an old one."""
        return self.world.release(f"{name.partition('-')[0]}-{PATCHES[name]}")


@pytest.fixture(scope="module")
def home(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("takedown") / "home"
    home.mkdir()
    shutil.copy(migrated_sqlite, home / "loupe.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOUPE_HOME", str(home))
        yield home


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set LOUPE_HOME for every test."""
    monkeypatch.setenv("LOUPE_HOME", str(home))


@pytest.fixture(scope="module")
def taken(home: Path) -> Iterator[Takedown]:
    """Four datasets are released, then one person is withdrawn."""
    store = Store.open(f"sqlite:///{home / 'loupe.db'}")
    folder = home.parent / "elsewhere"
    folder.mkdir()
    world = TakedownWorld(context_of(store, home), folder)
    with pytest.MonkeyPatch.context() as patch:  # the captions page shows all people
        patch.setattr("loupe.flows.recos.validation_loop.EXAMPLES", 40)
        world.build_all()
    copies = Path(shutil.copytree(home / "releases", home.parent / "copies"))
    shown = pictures_of(world, copies)
    stored = stored_of(world, copies, shown)
    thumbnails = thumbnails_of(world)
    assert files_containing(home / "reports", thumbnails), "pages show the person"
    assert stored <= blobs_in(home), "all images of the person are in the blob store"
    (name,) = {row["identity"] for row in world.crops[PERSON]}
    command = (
        *("withdraw", "--identity", name, "--dataset", WALKERS),
        *("--ground", "privacy", "--reason", REASON, "--yes", "--json"),
    )
    done = loupe(*command)
    assert done.exit_code == 1, "the review server is unreachable"
    output = json.loads(done.stdout)
    assert output["not_reached"]["on_review_servers"] == {world.office.server.url: 2}
    carry_out(world.run, find_withdrawal(store, output["key"]), desks=world.office)
    final = json.loads(loupe("withdrawals", output["key"], "--json").stdout)
    assert final["not_reached"]["on_review_servers"] == {}
    yield Takedown(world, copies, shown | thumbnails, stored, command, final)
    store.close()


def loupe(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def pictures_of(world: TakedownWorld, copies: Path) -> dict[str, bytes]:
    """Return all images of the person: in releases, and crops of the tracker."""
    shown = {
        f"{folder.name}/{row['file_path']}": row["image"]["bytes"]
        for folder in sorted(copies.iterdir())
        for row in world.showing(PERSON, released_rows(folder))
    }
    run = world.run
    for stored in find(run.store, WALKERS, Track.kind):
        track = stored.record(Track)
        seen = [one.model_dump() for one in track.observations]
        if world.tracked(PERSON, seen, track.video):
            for one in track.observations:
                data = run.blobs.read(one.crop.sha256, one.crop.media_type)
                shown[f"{track.video}/{track.number}-{one.frame}"] = data
    return shown


def stored_of(world: TakedownWorld, copies: Path, shown: dict[str, bytes]) -> set[str]:
    """Return the digests of the person's images in the blob store, as they were before encoding."""
    found = {
        sha256_of(data) for name, data in shown.items() if name.partition("/")[0] not in PATCHES
    }
    for folder in copies.iterdir():
        found.update(map(stored_digest, world.showing(PERSON, released_rows(folder))))
    return found


def thumbnails_of(world: TakedownWorld) -> dict[str, bytes]:
    """Return the thumbnails of the person's images in the pages of tasks."""
    run = world.run
    digests = {sha256_of(row["image"]["bytes"]) for row in world.crops[PERSON]}
    shown = list(find(run.store, TASKS, Image.kind))
    uris = {
        one.id: thumbnail_uri(run.blobs, picture_of(one), 160)
        for one in shown
        if one.record(Image).sha256 in digests
    }
    return {id_: uri.encode() for id_, uri in uris.items() if uri is not None}


def blobs_in(home: Path) -> set[str]:
    """Return the digests of all blobs."""
    return {sha256_of(data) for data in bytes_of(home / "blobs").values()}


def files_containing(folder: Path, shown: dict[str, bytes]) -> list[tuple[str, str]]:
    """Return files in a folder whose bytes contain one of these images."""
    return [
        (path, name)
        for path, data in bytes_of(folder).items()
        for name, picture in shown.items()
        if picture in data
    ]


def test_every_release_shows_the_person_and_others(taken: Takedown) -> None:
    """Precondition of the other tests."""
    counts = {name: (len(taken.showing(name)), len(taken.rows(name))) for name in PATCHES}
    assert all(0 < shown < rows for shown, rows in counts.values()), counts
    contrastive = [row for row in taken.showing(f"{CONTRASTS}-0.1.0") if row["contrast"]]
    assert {row["contrast"]["method"] for row in contrastive} == {"edit"}
    assert {row["tier"] for row in taken.showing(f"{TASKS}-2.1.0")} == {"v0", "v2"}
    assert {path.name for path in taken.copies.iterdir()} == set(PATCHES)
    released = {stored_digest(row) for name in PATCHES for row in taken.showing(name)}
    assert released < taken.stored, "the tracker kept more than was released"


def test_a_patch_lacks_exactly_the_rows_of_the_person(taken: Takedown) -> None:
    for name in PATCHES:
        found = compare_releases(taken.old(name), taken.patch(name))
        withdrawn_rows = {(row["source"], row["source_file_path"]) for row in taken.showing(name)}
        counts = found.counts.model_dump()
        assert counts.pop("texts_withdrawn") >= counts["withdrawn"] > 0, name
        assert counts.pop("withdrawn") == len(withdrawn_rows), name
        assert counts.pop("same") == len(taken.rows(name)) - len(withdrawn_rows), name
        assert not any(counts.values()), (name, counts)
        assert {(one.source, one.source_file_path) for one in found.rows} == withdrawn_rows, name
        assert verify_release(taken.patch(name)).problems == [], name


def test_an_old_release_is_marked_with_exactly_the_rows_of_the_person(taken: Takedown) -> None:
    for name, version in PATCHES.items():
        mark = read_mark(taken.world.release(name))
        assert mark is not None, name
        (notice,) = mark.notices
        assert [row.number for row in notice.rows] == taken.numbers(name), name
        assert all(row.is_whole for row in notice.rows), name
        assert (notice.ground, notice.superseded_by) == ("privacy", version), name
        problems = {one.fault for one in verify_release(taken.world.release(name)).problems}
        assert problems == {"withdrawn", "erased"}, name


def test_images_of_other_people_stay_in_old_releases(taken: Takedown) -> None:
    for name in PATCHES:
        before, after = bytes_of(taken.old(name)), bytes_of(taken.world.release(name))
        kept = {path for path in before if path.startswith("images/")}
        kept -= {row["file_path"] for row in taken.showing(name)}
        assert {path for path in after if path.startswith("images/")} == kept, name
        assert {"manifest.json", "README.md"} <= set(after), name
        changed = [path for path in after if after[path] != before.get(path)]
        assert changed == ["WITHDRAWN.json"], name


def test_no_image_of_the_person_is_left(taken: Takedown) -> None:
    assert files_containing(taken.copies, taken.shown), "images in copies are found"
    assert blobs_in(taken.home).isdisjoint(taken.stored)
    assert files_containing(taken.home, taken.shown) == []


def test_no_released_file_contains_captions_of_the_person(taken: Takedown) -> None:
    """Search only captions that images of no other person have."""
    rows = [row for name in PATCHES for row in taken.rows(name)]
    files = {row["image_entity_id"] for name in PATCHES for row in taken.showing(name)}
    texts = {text for row in rows if row["image_entity_id"] in files for text in row["captions"]}
    texts -= {
        text for row in rows if row["image_entity_id"] not in files for text in row["captions"]
    }
    assert texts
    captions = {text: json.dumps(text, ensure_ascii=False)[1:-1].encode() for text in texts}
    assert files_containing(taken.copies, captions), "captions in copies are found"
    assert files_containing(taken.home / "releases", captions) == []


def test_exports_of_patches_contain_no_image_of_the_person(taken: Takedown, tmp_path: Path) -> None:
    for format_name in ("webdataset", "coco", "published"):
        for name in PATCHES:
            out = tmp_path / format_name / name
            export_release(taken.patch(name), format_called(format_name, None), out)
    assert files_containing(tmp_path, taken.shown) == []


def test_holders_of_copies_see_their_withdrawn_rows(
    taken: Takedown, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for by in ("home", "folder", "release"):
        if by != "home":
            monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "of somebody else"))
        for name, version in PATCHES.items():
            published = {"folder": taken.home / "notices", "release": taken.patch(name)}
            given = ("--notices", published[by]) if by in published else ()
            verified = loupe("release", "verify", taken.old(name), *given, "--json")
            assert verified.exit_code == 1, (by, name)
            found = json.loads(verified.stdout)
            numbers = [row["number"] for row in found["withdrawn"]]
            assert numbers == taken.numbers(name), (by, name)
            (problem,) = found["problems"]
            assert problem["fault"] == "withdrawn", (by, name)
            assert f"use {version} instead" in problem["message"]
    for name in PATCHES:
        assert loupe("release", "verify", taken.old(name)).exit_code == 0, "no notices are known"


def test_an_erased_release_can_no_longer_be_exported_or_scored(
    taken: Takedown, tmp_path: Path
) -> None:
    old = taken.world.release(f"{FINE}-0.1.0")
    for command in (
        ("release", "export", old, "--format", "hf", "--out", tmp_path / "hf"),
        ("evaluate", old, "--embedder", "builtin"),
    ):
        done = loupe(*command)
        assert done.exit_code != 0
        assert "was erased on purpose" in str(done.exception) + done.output


def test_the_reason_is_only_in_the_store(taken: Takedown) -> None:
    files = [path for path in bytes_of(taken.home) if not path.startswith("loupe.db")]
    assert not any(REASON.encode() in (taken.home / path).read_bytes() for path in files)
    kept = read_notices(taken.home / "notices" / f"{WALKERS}.json")
    assert [one.release for one in kept.notices] == [
        read_manifest(taken.old(f"{WALKERS}-0.1.0")).id
    ]


def test_withdrawing_again_changes_nothing(taken: Takedown) -> None:
    files = {
        path: data for path, data in bytes_of(taken.home).items() if not path.startswith("loupe.db")
    }
    contents = contents_of(taken.home)
    again = loupe(*taken.command)
    assert again.exit_code == 0, again.output
    after = bytes_of(taken.home)
    assert {path: data for path, data in after.items() if not path.startswith("loupe.db")} == files
    assert contents_of(taken.home) == contents


def test_rebuilding_everything_does_not_restore_the_person(taken: Takedown) -> None:
    taken.world.build_all("0.2.0")
    for version in ("0.2.0", "1.2.0", "2.2.0"):
        for dataset in (WALKERS, FINE, TASKS, CONTRASTS) if version == "0.2.0" else (TASKS,):
            later = taken.world.release(f"{dataset}-{version}")
            assert verify_release(later).problems == []
            assert taken.world.showing(PERSON, released_rows(later)) == []
    assert blobs_in(taken.home).isdisjoint(taken.stored)
    assert files_containing(taken.home / "releases", taken.shown) == []
