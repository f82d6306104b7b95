"""Worlds of the lineage tests, one for each kind of release, and the checks of their lineage."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from loupe.db.blobs import BlobStore
from loupe.db.entities import ActivityRecord, WorkResult
from loupe.db.store import Store
from loupe.db.work import commit_chunk, register_plan
from loupe.release.build import BuiltRelease, build_release
from loupe.release.format.findings import Findings, Problem
from loupe.release.format.row_files import read_parquet_rows
from loupe.release.format.rows import BESIDE_IMAGES
from loupe.release.verify.lineage import LineageChecks
from loupe.schemas.release import Manifest
from loupe.schemas.taxonomy import Tier
from tests.release import ccd_world, recos_world, street_world
from tests.release.worlds import DATASET, Composer, Contents, World, small_world, store_calls


class Kind(NamedTuple):
    """A kind of release: dataset, contents, version and tier."""

    dataset: str
    composed: Callable[[], Composer]
    version: str = "1.0.0"
    tier: Tier | None = None

    def build(self, world: World, out: Path) -> BuiltRelease:
        """Build the release of a world of this kind."""
        stored = world.store, world.blobs
        return build_release(*stored, self.dataset, self.version, out, tier=self.tier)


def _contrasts() -> Composer:
    """Groups of a contrastive benchmark with one image edited by a strategy."""
    world, (group, *_) = ccd_world.benchmark(groups=3)
    call = "c" * 32
    strategy = ccd_world.proposed_strategy(world, group.anchor, world.prompt, call, "a green bus")
    editor = "loupe-stills-editor@1"
    image = ccd_world.contrast(
        world, group.anchor, 77, 0, method="edit", editor=editor, strategy=strategy, identity="100"
    )
    ccd_world.refine(world, image, ccd_world.COCO, "a green bus")
    return world


def _tiers() -> Composer:
    """All tiers of a benchmark, with one revised caption."""
    world, images = recos_world.benchmark()
    image = images["v0"][0]
    first = recos_world.captions_of(world, image)[0]
    recos_world.revise(world, first, image, recos_world.PHOTOS, "Said again, in detail.", 0)
    return world


KINDS = {
    "plain": Kind(DATASET, small_world),
    "tiers": Kind(recos_world.RECOS, _tiers, "2.0.0", "v2"),
    "contrasts": Kind(ccd_world.CCD, _contrasts),
    "street": Kind(street_world.DATASET, street_world.street_world),
}


def store_one_by_one(folder: Path, contents: Contents) -> World:
    """Store `contents` as killed and resumed runs do: each entity in a separate activity."""
    store = Store.open(f"sqlite:///{folder / 'loupe.db'}")
    blobs = BlobStore(str(folder / "blobs"))
    for data in contents.pictures:
        blobs.put(data, "image/jpeg")
    now = datetime.now(UTC)
    store_calls(store, contents.calls, now)
    register_plan(store, "another stage", "1", {})
    plan = register_plan(store, "test", "1", {})
    for number, entity in enumerate(contents.entities):
        run = ActivityRecord(plan, "ds", f"revision {number}", f"run {number}", now)
        commit_chunk(store, run, [WorkResult(number, (entity,))])
    for number, decision in enumerate(contents.decisions, len(contents.entities)):
        run = ActivityRecord(plan, "ds", f"revision {number}", f"run {number}", now)
        commit_chunk(store, run, [WorkResult(number, decisions=(decision,))])
    return World(store, blobs)


def lineage_problems(folder: Path, manifest: Manifest, shards: Sequence[str]) -> list[Problem]:
    """The problems of the lineage alone; `shards` are the files of the rows."""
    checks = LineageChecks(folder, manifest, findings := Findings())
    checks.check_tables()
    for shard in shards:
        checks.check_rows(shard, list(read_parquet_rows(folder / shard, BESIDE_IMAGES)))
    return findings.problems
