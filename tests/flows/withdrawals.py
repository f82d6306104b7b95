"""A small installation with a release, and its state after withdrawals."""

import atexit
import shutil
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from sqlalchemy import select

from loupe.db.blobs import BlobStore
from loupe.db.entities import AgentRef
from loupe.db.store import Store
from loupe.db.tables import (
    Decision,
    Embedding,
    Entity,
    Release,
    ReviewTask,
    WithdrawalNotice,
    WithdrawalStep,
    WithdrawnDigest,
    WithdrawnEntity,
)
from loupe.db.withdrawal_graph import Sort, WithdrawalTarget
from loupe.db.withdrawals import StoredWithdrawal
from loupe.flows.engine.context import RunContext
from loupe.flows.withdrawal.execution import carry_out
from loupe.flows.withdrawal.plan import WithdrawalPlan, confirm, plan_withdrawal, request_of
from loupe.release.build import build_release
from loupe.schemas.taxonomy import Tier
from loupe.schemas.withdrawal import Ground
from tests.flows.runs import context_of
from tests.release.worlds import DATASET, Composer, World, small_world, store_world

OPERATOR = AgentRef("person", "operator")


class Home(NamedTuple):
    """An installation with a dataset released as 1.0.0."""

    run: RunContext
    world: World
    folder: Path

    @property
    def store(self) -> Store:
        return self.world.store

    def release(self, version: str, dataset: str = DATASET) -> Path:
        """Return the folder of a release."""
        return self.folder / "releases" / f"{dataset}-{version}"

    def plan(
        self, sort: Sort, name: str, ground: Ground = "privacy", **values: Any
    ) -> WithdrawalPlan:
        erases = values.pop("erases", None)
        target = WithdrawalTarget(sort=sort, name=name, **values)
        return plan_withdrawal(self.store, request_of(target, ground, erases))

    def confirmed(self, plan: WithdrawalPlan) -> StoredWithdrawal:
        return confirm(self.store, plan, "somebody asked for it", OPERATOR)

    def withdraw(
        self, sort: Sort, name: str, ground: Ground = "privacy", **values: Any
    ) -> WithdrawalPlan:
        """Plan, confirm and carry out a withdrawal."""
        plan = self.plan(sort, name, ground, **values)
        carry_out(self.run, self.confirmed(plan))
        return plan

    def with_blobs(self, blobs: BlobStore) -> RunContext:
        """Return the run with `blobs` as its blob store."""
        return replace(self.run, blobs=blobs)

    def states(self) -> dict[str, str]:
        with self.store.read() as connection:
            return {
                row.id: row.state for row in connection.execute(select(Entity.id, Entity.state))
            }


RELEASED: tuple[tuple[str, Tier | None], ...] = (("1.0.0", None),)


def home_of(
    folder: Path,
    composer: Composer | None = None,
    url: str | None = None,
    releases: tuple[tuple[str, Tier | None], ...] = RELEASED,
) -> Home:
    """Create an installation in `folder` with the composer's contents, stored and released.

    Without a composer, copy an installation of `small_world` that is built once a process.
    """
    if composer is None and not (url or "").startswith("postgresql"):
        return _copied(folder)
    composer = composer or small_world()
    folder.mkdir(parents=True, exist_ok=True)
    world = store_world(folder, composer.contents(), url=url)
    home = Home(context_of(world.store, folder), world, folder)
    for version, tier in releases:
        out = home.release(version, composer.dataset)
        build_release(world.store, world.blobs, composer.dataset, version, out, tier=tier)
    return home


@cache
def _small_home() -> Path:
    """Return the folder of the installation to copy, which is removed at exit."""
    folder = Path(mkdtemp(prefix="loupe-home-"))
    atexit.register(shutil.rmtree, folder)
    home_of(folder, small_world()).store.close()
    return folder


def _copied(folder: Path) -> Home:
    shutil.copytree(_small_home(), folder, dirs_exist_ok=True)
    store = Store.open(f"sqlite:///{folder / 'loupe.db'}")
    return Home(context_of(store, folder), World(store, BlobStore(str(folder / "blobs"))), folder)


def state_after_withdrawal(home: Home) -> dict[str, Any]:
    """Return the store's contents that a withdrawal changes, without times, and every file."""
    queries: dict[str, Any] = {
        "entities": select(Entity.id, Entity.state),
        "decisions": select(Decision.entity_id, Decision.verdict, Decision.reason),
        "withdrawn": select(WithdrawnEntity.withdrawal_id, WithdrawnEntity.entity_id),
        "digests": select(
            WithdrawnDigest.sha256, WithdrawnDigest.is_refused, WithdrawnDigest.is_erased
        ),
        "notices": select(WithdrawalNotice.release_id, WithdrawalNotice.withdrawal_id),
        "steps": select(WithdrawalStep.step),
        "releases": select(Release.id, Release.withdrawal_mark),
        "tasks": select(ReviewTask.key, ReviewTask.state),
        "vectors": select(Embedding.sha256, Embedding.space),
    }
    with home.store.read() as connection:
        found: dict[str, Any] = {
            name: Counter(tuple(row) for row in connection.execute(query))
            for name, query in queries.items()
        }
    found["files"] = {
        str(path.relative_to(home.folder)): path.read_bytes()
        for path in sorted(home.folder.rglob("*"))
        if path.is_file() and not path.name.startswith("loupe.db")
    }
    return found
