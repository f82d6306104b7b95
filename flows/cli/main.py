"""The command line: `loupe`."""

import errno
import logging
import sys
from collections.abc import Callable
from contextlib import suppress

import typer
from rich.markup import escape

from flows.cli import (
    annotator,
    build,
    cost,
    demo,
    doctor,
    duplicates,
    evaluate,
    leaderboard,
    lineage,
    quality,
    quarantine,
    queue,
    release,
    services,
    sources,
    track,
    train,
    withdraw,
    withdrawals,
)
from flows.cli.filter import app as noise_filter
from flows.cli.metrics import app as metrics
from flows.cli.output import err
from flows.cli.recos import app as recos
from flows.cli.release_opening import within_memory
from flows.cli.store import app as store
from flows.engine.stopping import stopped_by_signals
from schemas.errors import ConfigurationError, LoupeError

_STOPPED = (130, 143)  # by Ctrl-C (Typer makes the same of it), and by SIGTERM
_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNWRITABLE = (*_FULL, errno.EROFS, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM)
_MISNAMED = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)

app = typer.Typer(
    name="loupe",
    help="Builds fine-grained image-text retrieval datasets that can be trusted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def begin(context: typer.Context) -> None:
    """Closes to other users, as a command ends, what it wrote below the home."""
    context.call_on_close(_close_home)


app.command()(demo.demo)
app.command("run")(build.run)
app.command("import")(sources.import_)
app.command()(track.track)
app.command()(train.train)
app.command()(duplicates.duplicates)
app.command()(quarantine.quarantine)
app.command()(cost.cost)
app.command()(within_memory(lineage.lineage))
app.add_typer(queue.app, name="queue")
app.add_typer(annotator.app, name="annotator")
app.add_typer(quality.app, name="quality")
app.add_typer(release.app, name="release")
app.add_typer(noise_filter, name="filter")
app.add_typer(metrics, name="metrics")
app.add_typer(recos, name="recos")
app.command()(withdraw.withdraw)
app.command()(withdrawals.withdrawals)
app.command()(evaluate.evaluate)
app.command()(leaderboard.leaderboard)
app.add_typer(store, name="store")
app.command()(services.up)
app.command()(services.down)
app.command()(services.status)
app.command()(doctor.doctor)


def _close_home() -> None:
    from profiles.settings import load_settings

    with suppress(ConfigurationError):  # said already, by whatever wanted the settings
        load_settings()


def main(command: Callable[[], object] = app) -> None:
    """Runs the command line; what Loupe raises on purpose becomes one sentence and an exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        with stopped_by_signals():
            command()
    except LoupeError as error:
        err.print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in _UNWRITABLE + _FORBIDDEN + _MISNAMED:
            raise
        done = "written" if error.errno in _UNWRITABLE else "read or written"
        told = f"{error.filename or 'a file'} cannot be {done} ({error.strerror})"
        if error.errno in _FULL:
            told += "; make room there and run again"
        err.print(f"[bold red]error:[/bold red] {escape(told)}", soft_wrap=True)
        sys.exit(LoupeError.exit_code)
    except SystemExit as end:
        if end.code in _STOPPED:
            told = "nothing half-finished is left, and what was stored is kept: run again to go on"
            err.print(f"stopped; {told}", soft_wrap=True)
        raise
    except Exception as error:
        fault = _database_fault(error)
        if fault is None:
            raise
        err.print(f"[bold red]error:[/bold red] {escape(fault)}", soft_wrap=True)
        sys.exit(LoupeError.exit_code)


def _database_fault(error: Exception) -> str | None:
    """What is wrong with the database in one sentence, if that is what `error` is about."""
    if "db.engine" not in sys.modules:  # nothing has asked a database; importing it takes a second
        return None
    from db.engine import DATABASE_FAULTS, fault_sentence

    return fault_sentence(error) if isinstance(error, DATABASE_FAULTS) else None
