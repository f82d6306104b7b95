"""Shared by commands: arguments, options, the store, a progress bar, a memory limit."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, ParamSpec, TypeVar

import typer

from loupe.flows.cli.output import err, warn
from loupe.schemas.errors import (
    ConfigurationError,
    IntegrityError,
    LoupeError,
    ServiceError,
    UsageError,
)

if TYPE_CHECKING:
    from loupe.annotate.queues import Queue
    from loupe.db.store import Store
    from loupe.flows.engine.context import RunContext
    from loupe.flows.engine.stopping import Budget
    from loupe.flows.withdrawal.releases import ReleaseWithdrawal
    from loupe.models.profiles.settings import Settings
    from loupe.release.format.files import Progress
    from loupe.schemas.profile import Profile
    from loupe.schemas.release import Manifest
    from loupe.schemas.withdrawal import WithdrawalNotice


P = ParamSpec("P")
T = TypeVar("T")
_SQLITE = "sqlite:///"
MEMORY_BYTES: Final = 4 << 30
"""Memory available to a command that reads a release, in addition to that of the program."""
FolderArgument = Annotated[Path, typer.Argument(help="Folder of the release.")]
_NAMES = "DATASET (newest version), DATASET@VERSION, or the first digits of its id."
NameArgument = Annotated[
    str, typer.Argument(help=f"Release: {_NAMES}", autocompletion=lambda: _releases())
]
ReleaseArgument = Annotated[
    str,
    typer.Argument(help=f"Release: its folder, {_NAMES}", autocompletion=lambda: _releases()),
]
ProfileOption = Annotated[
    str | None, typer.Option(help="Profile name or file (default: the configured profile).")
]
VerifyOption = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify", help="Check every file of the release against its digest first."
    ),
]


def settings(**changes: object) -> "Settings":
    """Return the settings of this installation, with some changed on the command line."""
    from loupe.models.profiles.settings import load_settings

    return load_settings(**changes)


def opened() -> "tuple[Settings, Store]":
    """Return the settings, and the open store of this installation."""
    from loupe.db.store import Store
    from loupe.release.format.files import remove_abandoned

    own = settings()
    store = Store.open_existing(own.database_url, own.home)
    if not store.is_read_only:
        remove_abandoned(own.home / "releases")
    return own, store


@contextmanager
def opened_store() -> Iterator["Store"]:
    """Open the store of this installation, and close it at the end."""
    _, store = opened()
    try:
        yield store
    finally:
        store.close()


def opened_run(budget: "Budget | None" = None, *, quiet: bool = False) -> "RunContext":
    """Open a run of this installation, which shows its progress on standard error."""
    from loupe.flows.engine.context import IN_PROCESS, open_context
    from loupe.flows.engine.report import Progress, console_progress

    progress = Progress() if quiet else console_progress(err)
    return open_context(settings(), budget=budget, progress=progress, flow_run=IN_PROCESS)


def chosen_profile(name: str | None) -> "Profile":
    """Return the profile of that name, by default the one of the settings."""
    from loupe.models.profiles.loader import load_profile

    return load_profile(name or settings().profile)


def folder_called(name: str) -> Path:
    """Return the folder of that name: an existing one, or that of a release in the store.

    Raises:
        UsageError: there is none.
    """
    from loupe.db.releases import find_release
    from loupe.release.format.manifest import release_folder

    if name and (folder := release_folder(name)) is not None:
        return folder
    with opened_store() as store:
        return find_release(store, name).existing_folder()


def _releases() -> list[str]:
    """Return the releases of this installation for completion; none without a store."""
    from loupe.db.releases import list_releases

    try:
        with opened_store() as store:
            found = [one.manifest for one in list_releases(store)]
    except LoupeError:
        return []
    return [f"{one.dataset}@{one.version}" for one in found]


def require_dataset(store: "Store", name: str | None) -> None:
    """Refuse an unknown dataset; None means all datasets.

    Raises:
        UsageError: there is no such dataset.
    """
    from loupe.db.entities import datasets_of
    from loupe.schemas.validation import nearest_hint

    if name is not None and name not in (known := datasets_of(store)):
        raise UsageError(f"there is no dataset {name!r}; {nearest_hint(name, known)}")


@contextmanager
def progress_bar(label: str = "writing images") -> Iterator["Progress"]:
    """Show a bar on a terminal, otherwise nothing."""
    from rich.progress import Progress

    with Progress(console=err, transient=True, disable=not err.is_terminal) as bars:
        task = bars.add_task(label)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def notices_at_hand() -> "tuple[WithdrawalNotice, ...]":
    """Return the withdrawals known to this installation; warn if the store does not answer."""
    from loupe.db.peek import may_have_notices
    from loupe.release.withdrawn.files import followed
    from loupe.release.withdrawn.notices import notices_of_home

    own = settings()
    url = own.database_url
    if url.startswith(_SQLITE) and not may_have_notices(Path(url.removeprefix(_SQLITE))):
        return followed(notices_of_home(own.home))  # without loading database code
    try:
        return known_withdrawals()
    except (ConfigurationError, ServiceError) as error:
        warn(f"withdrawals that only the store of this installation has are left out: {error}")
        return notices_of_home(own.home)


def releases_at_hand(folder: Path, dataset: str) -> "Iterator[tuple[Manifest, Path]]":
    """Yield releases beside a folder, and those of a dataset that this installation built.

    A store that does not answer is left out with a warning.
    """
    from loupe.db.peek import may_have_releases
    from loupe.release.newer import releases_beside

    yield from releases_beside(folder)
    url = settings().database_url
    file = Path(url.removeprefix(_SQLITE))
    if url.startswith(_SQLITE) and not may_have_releases(file, dataset):
        return  # without loading database code
    try:
        yield from _built(url, dataset)
    except (ConfigurationError, ServiceError) as error:
        warn(f"releases that only the store of this installation has are left out: {error}")


def _built(url: str, dataset: str) -> "list[tuple[Manifest, Path]]":
    from loupe.db.releases import list_releases
    from loupe.db.store import Store, is_there

    if not is_there(url):
        return []
    with closing(Store.open(url)) as store:
        return [(one.manifest, one.folder) for one in list_releases(store, dataset)]


def known_withdrawals() -> "tuple[WithdrawalNotice, ...]":
    """Return the withdrawals known to this installation, including its store."""
    from loupe.flows.withdrawal.releases import known_notices

    return known_notices(settings())


def withdrawal_from(folder: Path) -> "ReleaseWithdrawal | None":
    """Return what is withdrawn from the release in a folder; None if nothing is."""
    from loupe.flows.withdrawal.releases import withdrawal_in

    return withdrawal_in(folder, known_withdrawals())


def within_memory(command: Callable[P, T]) -> Callable[P, T]:
    """Run a command that reads untrusted files with at most `MEMORY_BYTES` of memory.

    Linux enforces the limit, since the sizes stated in a file may be wrong.
    """

    @wraps(command)
    def bounded(*args: P.args, **kwargs: P.kwargs) -> T:
        from loupe.schemas.limited import memory_limit

        try:
            with memory_limit(MEMORY_BYTES):
                return command(*args, **kwargs)
        except MemoryError as error:
            raise IntegrityError(
                f"reading it needs more than {MEMORY_BYTES:,} bytes of memory, more than any valid "
                f"release needs; `loupe release verify` may show which file is wrong"
            ) from error

    return bounded


# Queues.


QueueArgument = Annotated[str, typer.Argument(help="The queue, e.g. ufine3c-rewrites.")]
QueuesArgument = Annotated[
    str | None,
    typer.Argument(help="The queue, e.g. ufine3c-rewrites (default: all queues in use)."),
]


def opened_queues(name: str | None, policy: str | None = None) -> "tuple[Store, list[Queue]]":
    """Open the store and return the queue of that name, or those in use, under a policy.

    Raises:
        UsageError: there is no such queue.
    """
    from loupe.annotate.queues import chosen_queues, load_queues, parse_policy

    own, store = opened()
    chosen = None if policy is None else parse_policy(policy)
    declared = load_queues(own.queues_file)
    found = chosen_queues(store, declared, name, chosen)
    for warning in declared.warnings:
        warn(warning)
    return store, found


def opened_queue(name: str) -> "tuple[Store, Queue]":
    """Open the store and return the queue of that name.

    Raises:
        UsageError: there is no such queue.
    """
    store, (queue,) = opened_queues(name)
    return store, queue


SplitOption = Annotated[
    str | None, typer.Option(help="The split (default: test, or the only split).")
]


def warn_of_unfinished(store: "Store") -> None:
    """Warn of withdrawals that were confirmed and are not finished."""
    from loupe.db.withdrawals import list_withdrawals

    if open_ := [one.key[:12] for one in list_withdrawals(store) if not one.is_finished]:
        warn(f"not finished: withdrawal {', '.join(open_)}; finish with: loupe withdraw --resume")
