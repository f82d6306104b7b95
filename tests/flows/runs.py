"""Run contexts for tests."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loupe.db.blobs import BlobStore
from loupe.db.store import Store
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.report import Progress
from loupe.flows.engine.stopping import Budget
from loupe.models.profiles.settings import load_settings
from loupe.schemas.build import Build, SourceSpec


class Released(Build):
    """A build file with nothing but the keys of a release."""

    dataset: str = "released"
    sources: tuple[SourceSpec, ...] = ()


@contextmanager
def new_run(migrated: Path, home: Path) -> Iterator[RunContext]:
    """Create an installation in `home` with an empty store, a copy of `migrated`."""
    shutil.copy(migrated, home / "loupe.db")
    store = Store.open(f"sqlite:///{home / 'loupe.db'}")
    yield context_of(store, home)
    store.close()


@contextmanager
def copied_run(run: RunContext, home: Path) -> Iterator[RunContext]:
    """Copy the installation of `run`, whose store lies in its home, to `home`."""
    shutil.copytree(run.settings.home, home)
    store = Store.open(f"sqlite:///{home / 'loupe.db'}")
    yield context_of(store, home)
    store.close()


def context_of(store: Store, folder: Path, budget: Budget | None = None) -> RunContext:
    """Return a run in this process over `store`, with blobs and releases in `folder`."""
    return RunContext(
        settings=load_settings(home=folder),
        store=store,
        blobs=BlobStore(str(folder / "blobs")),
        budget=budget or Budget(),
        progress=Progress(),
        flow_run="a test",
    )
