"""The command line: `loupe`."""

import errno
import gc
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer
import typer.core

from loupe.flows.cli import (
    annotator,
    check,
    evaluation,
    explore,
    judge,
    lineage,
    metrics,
    noise_filter,
    plugins,
    quality,
    queue,
    queue_statistics,
    recos,
    release,
    run,
    services,
    shards,
    shortcuts,
    sources,
    starting,
    store,
    track,
    withdraw,
)
from loupe.flows.cli.commands import INTERRUPTED, command
from loupe.flows.cli.options import settings, within_memory
from loupe.flows.cli.output import heartbeat, note, say
from loupe.flows.engine.stopping import stopped_by_signals
from loupe.schemas.errors import ConfigurationError, LoupeError, UsageError

_STOPPED = (INTERRUPTED, 143)  # 143 by SIGTERM
_CONTINUES = "nothing is left half-written: run again to continue"
_READING = frozenset(
    (
        *("cost", "duplicates", "judge", "leaderboard", "lineage", "metrics", "quarantine"),
        *("similar", "withdrawals"),
    )
)
"""Commands that write nothing."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNWRITABLE = (*_FULL, errno.EROFS, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM)
_MISNAMED = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)


class _Commands(typer.core.TyperGroup):
    """The commands and their groups."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command; name the group of one that is stated without it.

        Raises:
            UsageError: only a group has such a command.
        """
        name = args[0] if args else ""
        groups = [
            f"loupe {group} {name}"
            for group, one in self.commands.items()
            if name in getattr(one, "commands", ())
        ]
        if name not in self.commands and groups:
            raise UsageError(f"there is no command {name!r}; did you mean {' or '.join(groups)}?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="loupe",
    cls=_Commands,
    help="Build reviewed, versioned and traceable image-text retrieval datasets.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: importing rich's takes 0.2 s
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # it takes a tenth of the start

        say(f"loupe {version('loupe-datasets')}")
        raise typer.Exit


@app.callback()
def begin(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Make files that a command writes below the home private when it ends."""
    context.call_on_close(_close_home)


for one in (
    *(run.demo, starting.init, run.run, sources.import_, check.check, track.track),
    *(evaluation.train, evaluation.evaluate, evaluation.leaderboard, evaluation.reproduce),
    *(within_memory(lineage.lineage), withdraw.withdraw, withdraw.withdrawals),
    *(store.quarantine, store.cost, sources.duplicates),
    *(explore.explore, explore.reject, explore.similar),
    plugins.plugins,
    *(services.up, services.down, services.status, services.doctor, services.notify),
):
    command(app)(one)
for name, group in {
    "queue": queue.app,
    "annotator": annotator.app,
    "quality": quality.app,
    "release": release.app,
    "shards": shards.app,
    "sources": sources.app,
    "store": store.app,
    "filter": noise_filter.app,
    "metrics": metrics.app,
    "recos": recos.app,
    "judge": judge.app,
}.items():
    app.add_typer(group, name=name)
command(queue.app)(queue_statistics.stats)
command(release.app)(shortcuts.shortcuts)


def _close_home() -> None:
    with suppress(ConfigurationError):  # already reported by the command
        settings()


def main(command: Callable[[], object] = app) -> None:
    """Run the command line; errors of Loupe are printed as one sentence with an exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # The imports of a command leave no garbage, and looking for it takes a quarter of their time.
    gc.set_threshold(100_000, 50, 100)
    # Nothing here is a plugin of pydantic, which would look for them in every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    # It logs every retry, twice; the error at the end says enough.
    logging.getLogger("huggingface_hub.utils._http").setLevel(logging.ERROR)
    try:
        with stopped_by_signals(), heartbeat():
            command()
    except LoupeError as error:
        note(f"error: {error}")
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in _UNWRITABLE + _FORBIDDEN + _MISNAMED:
            raise
        done = "written" if error.errno in _UNWRITABLE else "read or written"
        message = f"{error.filename or 'a file'} cannot be {done} ({error.strerror})"
        if error.errno in _FULL:
            message += "; make room there and run again"
        note(f"error: {message}")
        sys.exit(LoupeError.exit_code)
    except SystemExit as end:
        if end.code in _STOPPED:
            only_reads = not _READING.isdisjoint(sys.argv[1:2])
            note("stopped" if only_reads else f"stopped; {_CONTINUES}")
        raise
    except Exception as error:
        fault = _database_fault(error)
        if fault is None:
            raise
        note(f"error: {fault}")
        sys.exit(LoupeError.exit_code)


def _database_fault(error: Exception) -> str | None:
    """Describe the problem with the database in one sentence if `error` comes from it."""
    if (
        "loupe.db.store" not in sys.modules
    ):  # the database is not in use; importing it takes a second
        return None
    from loupe.db.store import comes_from_database, fault_sentence

    return fault_sentence(error) if comes_from_database(error) else None


if __name__ == "__main__":
    main()
