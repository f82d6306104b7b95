"""Past releases are rebuilt byte for byte despite later changes, or refused with a reason."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import delete, select, update

from loupe.annotate.audits import draw_audit_sample, wanted
from loupe.annotate.queues import shipped
from loupe.db.releases import StoredRelease, find_release
from loupe.db.tables import Decision, Release, ReleaseItem, Withdrawal
from loupe.release.build import BuiltRelease, build_release
from loupe.release.contamination import Checks
from loupe.release.format.manifest import manifest_text, named, read_files
from loupe.release.rebuild import rebuild_inputs, rebuild_release
from loupe.release.verify import verify_release
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.release import ChoiceStatistics, NearestStatistics
from loupe.schemas.similarity import LeakLimits
from loupe.schemas.taxonomy import Tier
from tests.db.review_samples import Desk
from tests.release import ccd_world, recos_world, street_world
from tests.release.later import Later, bytes_of
from tests.release.test_commands import loupe_release
from tests.release.worlds import DATASET, Composer, World, small_world, store_world

Stored = Callable[[Composer], World]


@pytest.fixture
def stored(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stored]:
    """Function that stores a world in SQLite, or in each database of the fixture `database_url`."""
    worlds: list[World] = []
    names = request.fixturenames
    url = request.getfixturevalue("database_url") if "database_url" in names else None

    def store(composer: Composer) -> World:
        worlds.append(store_world(tmp_path / "world", composer.contents(), url=url))
        return worlds[-1]

    yield store
    for world in worlds:
        world.store.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[World]:
    """A small world in SQLite."""
    world = store_world(tmp_path / "world", small_world(2).contents())
    yield world
    world.store.close()


def rebuild(world: World, name: str, out: Path) -> BuiltRelease:
    return rebuild_release(world.store, world.blobs, find_release(world.store, name), out)


def assert_rebuilt(world: World, built: BuiltRelease, out: Path) -> None:
    """Check that a rebuild writes identical files and does not change the store."""
    manifest = built.manifest
    found = rebuild(world, f"{manifest.dataset}@{manifest.version}", out)
    assert found.is_new
    assert bytes_of(out) == bytes_of(built.folder)
    stored = find_release(world.store, manifest.id)
    assert (stored.manifest, stored.folder) == (manifest, built.folder)
    assert [path for path in out.parent.iterdir() if ".building-" in path.name] == []


def plain(out: Path, world: World, version: str, **options: Any) -> BuiltRelease:
    return build_release(
        world.store, world.blobs, DATASET, version, out / f"built-{version}", **options
    )


def audit_rewrites(world: World, seed: int) -> None:
    queue = shipped().queue(DATASET, "rewrites")
    draw_audit_sample(world.store, queue, 4 + seed, seed=seed)
    desk = Desk(world.store, queue.name)
    for item in wanted(world.store, queue):
        desk.answer(item.entity_id, f"reviewer-{seed}", "reject", "audit")


def test_rebuild_after_decisions_edits_imports_and_audits(stored: Stored, tmp_path: Path) -> None:
    world = stored(small_world())
    later = Later(world, DATASET)
    audit_rewrites(world, 1)
    first = plain(tmp_path, world, "1.0.0")
    later.work_on(20)
    audit_rewrites(world, 2)
    second = plain(tmp_path, world, "1.1.0")
    assert second.manifest.entities_sha256 != first.manifest.entities_sha256
    assert second.manifest.statistics.audits != first.manifest.statistics.audits
    later.work_on(20)
    audit_rewrites(world, 3)
    assert_rebuilt(world, first, tmp_path / "first")
    assert_rebuilt(world, second, tmp_path / "second")
    assert verify_release(tmp_path / "first").problems == []


def test_rebuild_of_tiers_with_their_contained_releases(stored: Stored, tmp_path: Path) -> None:
    made = recos_world.benchmark()
    world = stored(made.world)

    def build(tier: Tier, version: str) -> BuiltRelease:
        folder = tmp_path / f"built-{version}"
        return build_release(
            world.store, world.blobs, recos_world.RECOS, version, folder, tier=tier
        )

    alone = build("v1", "1.0.0")  # before the tier it contains was released
    lower = build("v0", "0.1.0")
    upper = build("v1", "1.1.0")
    top = build("v2", "2.1.0")
    assert [len(one.manifest.contains) for one in (alone, lower, upper, top)] == [0, 0, 1, 2]
    build("v0", "0.0.0")
    later = Later(world, recos_world.RECOS)
    for _ in range(6):
        later.decide()
        later.edit()
        later.add_caption()
    for number, one in enumerate((alone, lower, upper, top)):
        assert_rebuilt(world, one, tmp_path / f"again-{number}")


def test_rebuild_of_contrasts_with_their_measurements(stored: Stored, tmp_path: Path) -> None:
    made = ccd_world.benchmark()
    world = stored(made.world)
    measured = NearestStatistics(embedder="m@1", images=0.5, captions=0.25)
    picks = ChoiceStatistics(
        direction="caption-to-image",
        tester="t",
        correct=1,
        total=2,
        several=1,
        size=3,
        similar_by=("embedder m@1",),
    )
    checks = Checks(lambda _: measured, (picks,))
    built = build_release(
        world.store, world.blobs, ccd_world.CCD, "1.0.0", tmp_path / "built", checks=checks
    )
    card = (built.folder / "README.md").read_text("utf-8")
    assert "the five most similar other samples (by embedder m@1), and picked" in card
    later = Later(world, ccd_world.CCD, seed=3)
    for _ in range(8):
        later.decide()
        later.decide_image()
        later.edit()
    assert_rebuilt(world, built, tmp_path / "again")


def test_rebuild_of_streets_with_their_leak_limits(stored: Stored, tmp_path: Path) -> None:
    composer = street_world.street_world()
    world = stored(composer)
    limits = LeakLimits(hash_bits=2, embedding_distance=0.001)
    built = build_release(
        world.store,
        world.blobs,
        street_world.DATASET,
        "1.0.0",
        tmp_path / "built",
        leak_limits=limits,
    )
    assert built.manifest.leaks is not None
    assert built.manifest.leaks.limits == limits
    later = Later(world, street_world.DATASET, seed=2)
    for _ in range(8):
        later.decide()
        later.edit()
        later.decide_image()
    assert_rebuilt(world, built, tmp_path / "again")


def test_the_store_adopts_the_new_folder_if_the_old_one_is_gone(
    small: World, tmp_path: Path
) -> None:
    world, built = small, plain(tmp_path, small, "1.0.0")
    assert (built.known_in, built.elsewhere) == (built.folder, None)
    second = rebuild(world, DATASET, tmp_path / "second")
    assert second.known_in == built.folder
    assert f"is already in {built.folder};" in str(second.elsewhere)
    built.folder.rename(tmp_path / "moved")
    for_a_while = rebuild_release(
        world.store,
        world.blobs,
        find_release(world.store, DATASET),
        tmp_path / "third",
        adopt=False,
    )
    assert for_a_while.is_new
    assert find_release(world.store, DATASET).folder == built.folder
    again = rebuild(world, DATASET, tmp_path / "second")
    assert (again.is_new, again.known_in, again.elsewhere) == (False, again.folder, None)
    assert find_release(world.store, DATASET).folder == again.folder
    # another release in the recorded folder does not count
    shutil.rmtree(again.folder)
    plain(tmp_path, world, "1.0.1").folder.rename(again.folder)
    moved = rebuild(world, "ufine3c@1.0.0", tmp_path / "moved")
    assert (moved.is_new, moved.known_in) == (False, moved.folder)
    (moved.folder / "manifest.json").write_text("{")
    last = plain(tmp_path, world, "1.0.0")
    assert (last.is_new, last.known_in) == (True, last.folder)


def test_a_release_with_withdrawn_entities_is_not_rebuilt(stored: Stored, tmp_path: Path) -> None:
    world = stored(small_world())
    built = plain(tmp_path, world, "1.0.0")
    later = Later(world, DATASET)
    image = later.ids("image")[0]
    later.withdraw([image])
    with world.store.read() as connection:
        key = connection.execute(select(Withdrawal.key)).scalar_one()
    with pytest.raises(IntegrityError, match="there is no newer release without it yet"):
        rebuild(world, DATASET, tmp_path / "again")
    patch_of(world, find_release(world.store, DATASET), "1.0.1", tmp_path / "patch")
    with pytest.raises(IntegrityError) as refused:
        rebuild(world, "ufine3c@1.0.0", tmp_path / "again")
    assert str(refused.value) == (
        f"ufine3c 1.0.0 is not rebuilt: 1 of its entities was withdrawn by withdrawal "
        f"{key[:12]} (privacy), first image {image}; use ufine3c 1.0.1"
    )
    assert not (tmp_path / "again").exists()
    assert built.folder.exists()


def patch_of(world: World, stored: StoredRelease, version: str, out: Path) -> BuiltRelease:
    inputs = rebuild_inputs(stored)
    return build_release(
        world.store,
        world.blobs,
        stored.manifest.dataset,
        version,
        out,
        tier=inputs.tier,
        leak_limits=inputs.leak_limits,
        checks=inputs.checks,
        as_of=inputs.as_of,
    )


@pytest.mark.usefixtures("database_url")
def test_a_patch_removes_withdrawn_items_and_adds_nothing(stored: Stored, tmp_path: Path) -> None:
    """Decisions after the release are not part of its patch."""
    world = stored(small_world())
    built = plain(tmp_path, world, "1.0.0")
    later = Later(world, DATASET)
    later.work_on(15)
    image = json_rows(built)[0]["image_entity_id"]
    later.withdraw([image])
    patch = patch_of(world, find_release(world.store, built.manifest.id), "1.0.1", tmp_path / "p")
    before, after = (json_rows(one) for one in (built, patch))
    columns = ("image_entity_id", "caption_entity_ids", "caption_reviewed")
    kept = [[row[name] for name in columns] for row in before if row["image_entity_id"] != image]
    assert [[row[name] for name in columns] for row in after] == kept
    later.work_on(15)
    assert_rebuilt(world, patch, tmp_path / "again")


def json_rows(built: BuiltRelease) -> list[dict[str, Any]]:
    (shard,) = sorted((built.folder / "data").glob("*.parquet"))
    rows: list[dict[str, Any]] = pq.read_table(shard).to_pylist()
    return rows


def test_withdrawals_of_unreleased_entities_do_not_matter(stored: Stored, tmp_path: Path) -> None:
    """A rejected rewrite is still counted on the card after its withdrawal."""
    world = stored(small_world())
    built = plain(tmp_path, world, "1.0.0")
    assert built.manifest.statistics.rewrites.rejected
    with world.store.read() as connection:
        query = select(Decision.entity_id).where(Decision.verdict == "reject")
        rejected = connection.execute(query).scalars().all()
    later = Later(world, DATASET)
    later.withdraw(rejected)
    later.work_on(6)
    assert_rebuilt(world, built, tmp_path / "again")


def test_the_error_names_missing_images(small: World, tmp_path: Path) -> None:
    world, built = small, plain(tmp_path, small, "1.0.0")
    sha256 = json_rows(built)[0]["sha256"]
    Path(world.blobs.path_of(sha256, "image/jpeg")).unlink()
    with pytest.raises(IntegrityError, match=f"1.0.0 cannot be rebuilt, .* is gone: .*{sha256}"):
        rebuild(world, DATASET, tmp_path / "again")
    assert not any("again" in path.name for path in tmp_path.iterdir())


def test_differences_only_in_parquet_point_to_pyarrow(small: World, tmp_path: Path) -> None:
    """Simulate a release whose Parquet files were written by another version of pyarrow."""
    world, built = small, plain(tmp_path, small, "1.0.0")
    change_files(world, built, lambda path: path.endswith(".parquet"))
    with pytest.raises(IntegrityError, match=r"only data/test-.*parquet.* differ; .*pyarrow"):
        rebuild(world, DATASET, tmp_path / "again")
    shutil.rmtree(built.folder)
    with pytest.raises(IntegrityError, match=r"its manifest would be equal.*pyarrow"):
        rebuild(world, DATASET, tmp_path / "again")


def test_the_error_names_differing_files(small: World, tmp_path: Path) -> None:
    world, built = small, plain(tmp_path, small, "1.0.0")
    change_files(world, built, lambda path: path == "README.md")
    with pytest.raises(IntegrityError, match=r"README\.md differ; this version of Loupe writes"):
        rebuild(world, DATASET, tmp_path / "again")


def change_files(world: World, built: BuiltRelease, chosen: Callable[[str], bool]) -> None:
    """Change digests of files and store the release under its new id."""
    path = built.folder / "manifest.json"
    files = [one._replace(sha256="0" * 64) if chosen(one.path) else one for one in read_files(path)]
    manifest = named(built.manifest, files)
    path.write_bytes(b"".join(manifest_text(manifest, files)))
    with world.store.write() as connection:
        connection.execute(delete(ReleaseItem))
        values = {"id": manifest.id, "manifest": manifest.model_dump(mode="json")}
        connection.execute(update(Release).values(values))


def test_the_error_names_differing_fields_of_the_manifest(small: World, tmp_path: Path) -> None:
    world, built = small, plain(tmp_path, small, "1.0.0")
    changed = built.manifest.model_copy(update={"demonstration": True})
    with world.store.write() as connection:
        connection.execute(update(Release).values(manifest=changed.model_dump(mode="json")))
    assert rebuild(world, DATASET, tmp_path / "sound").is_new  # its id is unchanged
    with world.store.write() as connection:
        connection.execute(delete(ReleaseItem))
        values = changed.model_copy(update={"id": "f" * 64}).model_dump(mode="json")
        connection.execute(update(Release).values(id="f" * 64, manifest=values))
    with pytest.raises(IntegrityError, match="its manifest would differ in demonstration"):
        rebuild(world, DATASET, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_the_rebuild_command_reports_identical_bytes(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "world"))
    built = plain(tmp_path, world, "1.0.0")
    Later(world, DATASET).work_on(8)
    command = ("rebuild", "ufine3c@1.0.0", "--out", tmp_path / "again")
    details = loupe_release(*command)
    assert details.exit_code == 0, details.output
    assert "ufine3c 1.0.0 rebuilt in" in details.stdout
    assert f"byte for byte the same: 12 images, {built.manifest.files_count}" in details.stdout
    again = json.loads(loupe_release(*command, "--json").stdout)
    assert (again["id"], again["is_new"], again["identical"]) == (built.manifest.id, False, True)
    assert again["known_in"] == str(built.folder)
    assert f"is already in {built.folder};" in details.stdout
    shutil.rmtree(built.folder)
    assert f"{built.folder} (no longer exists)" in loupe_release("show", DATASET).stdout
    (listed,) = json.loads(loupe_release("list", "--json").stdout)
    assert (listed["folder"], listed["is_there"]) == (str(built.folder), False)
    assert "it is the release that lies" not in loupe_release(*command).stdout
    shown = loupe_release("show", DATASET).stdout
    assert f" in {tmp_path / 'again'}\n" in shown
    missing = loupe_release("rebuild", "ufine3c@9.0.0", "--out", tmp_path / "none")
    assert isinstance(missing.exception, UsageError)
