"""`loupe withdraw`: take something back, with all that is derived from it."""

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.commands.output import JsonOption, err, out, print_json
from schemas.errors import LoupeError, UsageError

if TYPE_CHECKING:
    from db.store import Store
    from db.withdrawal_targets import WithdrawalTarget
    from db.withdrawals import StoredWithdrawal, WithdrawalRequest
    from flows.context import RunContext
    from flows.withdrawal_plan import WithdrawalPlan
    from schemas.withdrawal import Ground

_NARROWED = ("identity", "source", "video")
"""What may be taken back from one dataset only."""


def withdraw(
    entity: Annotated[
        str | None, typer.Argument(help="What to take back: an entity's id, or its first digits.")
    ] = None,
    identity: Annotated[
        str | None, typer.Option(help="A person, by the name in --dataset.", show_default=False)
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="A source, or with --identity the source that names the person so."),
    ] = None,
    video: Annotated[str | None, typer.Option(help="A video, by its file name.")] = None,
    annotator: Annotated[
        str | None, typer.Option(help="The work of an annotator, by pseudonym.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A picture or a video that somebody sent.")
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(help="With --file: an image that shows the same, by its id."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="With --identity, --source and --video: only there.")
    ] = None,
    ground: Annotated[
        str | None,
        typer.Option(help="privacy, copyright, law, consent, quality or other."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="In your words; they stay in the store.")
    ] = None,
    erase: Annotated[
        bool | None,
        typer.Option(
            "--erase/--keep-bytes",
            help="Erase the files, too; without it, privacy, copyright and law do.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would go, and do nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with all withdrawals that are not finished.")
    ] = False,
    near: Annotated[
        bool, typer.Option("--near/--no-near", help="With --file: look for pictures like it.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Take something back, with all that is derived from it, in every dataset and release.

    What would go is shown first, and nothing is done before it is confirmed. A run that was killed
    is gone on with by the same command, or by --resume.
    """
    from flows.withdrawal_plan import request_of

    with _opened_context() as context:
        if resume:
            _resume(context, as_json)
            return
        named = {"identity": identity, "video": video, "annotator": annotator}
        target = _target(context.store, entity, named, source, dataset, file, also or [])
        request = request_of(target, _ground(ground), erase)
        alike = _lookalikes(context, file, near, target)
        plan = _plan(context.store, request, alike, as_json)
        if (open_ := plan.unfinished) is not None and not dry_run:
            err.print(f"withdrawal {open_.key[:12]} was confirmed before and is not finished")
            _carry_out(context, open_, as_json)
            return
        if not as_json:
            _show(plan, alike)
        if plan.is_done or dry_run:
            if as_json:
                print_json({**plan.as_json(), "lookalikes": alike, "done": plan.is_done})
            elif not plan.is_done:
                out.print("\nNothing was done: leave out --dry-run to do it, with a --reason.")
            return
        if not (reason or "").strip():
            raise UsageError("a withdrawal needs a reason, in your words: --reason '…'")
        if not yes:
            _ask(plan)
        _confirmed(context, plan, str(reason), as_json)


def _plan(
    store: "Store", request: "WithdrawalRequest", alike: list[dict[str, Any]], as_json: bool
) -> "WithdrawalPlan":
    """The plan; where a file is not stored and pictures look like it, these are shown first."""
    from flows.commands.withdrawals_display import alike_display
    from flows.withdrawal_plan import plan_withdrawal

    try:
        return plan_withdrawal(store, request)
    except UsageError:
        if alike and as_json:
            print_json({"lookalikes": alike})
        elif alike:
            out.print(alike_display(alike))
        raise


def _confirmed(context: "RunContext", plan: "WithdrawalPlan", reason: str, as_json: bool) -> None:
    from db.agents import AgentRef
    from flows.withdrawal import carry_out  # noqa: F401 - all is there before anything is done
    from flows.withdrawal_plan import confirm

    agent = AgentRef("person", getpass.getuser())
    _carry_out(context, confirm(context.store, plan, reason, agent), as_json)


def _resume(context: "RunContext", as_json: bool) -> None:
    """Goes on with all withdrawals; of those that are finished, with what has come since.

    Raises:
        LoupeError: one cannot be finished; the first such error, once all others were gone on with.
    """
    from db.withdrawals import list_withdrawals
    from flows.withdrawal_plan import sweep

    failures: list[LoupeError] = []
    for one in list_withdrawals(context.store):
        if one.is_finished:
            with _kept(failures):
                sweep(context.store, one)
    open_ = [one for one in list_withdrawals(context.store) if not one.is_finished]
    if not open_ and not as_json:
        out.print("every withdrawal is finished")
    elif not open_:
        print_json([])
    for one in open_:
        with _kept(failures):
            _carry_out(context, one, as_json)
    if failures:
        raise failures[0]


@contextmanager
def _kept(failures: list[LoupeError]) -> Iterator[None]:
    """Puts an error among `failures`, so that others can be gone on with."""
    try:
        yield
    except LoupeError as error:
        failures.append(error)


def _carry_out(context: "RunContext", withdrawal: "StoredWithdrawal", as_json: bool) -> None:
    from db.withdrawals import find_withdrawal
    from flows.commands.withdrawals import document
    from flows.commands.withdrawals_display import told_step
    from flows.withdrawal import carry_out

    def on_step(name: str, told: Any) -> None:
        err.print(f"[green]✓[/green] {escape(told_step(name, told))}", soft_wrap=True)

    carry_out(context, withdrawal, on_step)
    done = find_withdrawal(context.store, withdrawal.key)
    if as_json:
        print_json(document(context.store, done))
    else:
        out.print(
            f"{escape(str(done.request.target))} is withdrawn; "
            f"look at it again with: loupe withdrawals {done.key[:12]}",
            soft_wrap=True,
        )


def _show(plan: "WithdrawalPlan", alike: list[dict[str, Any]]) -> None:
    from flows.commands.withdrawals_display import plan_display

    out.print(plan_display(plan, alike))


def _ask(plan: "WithdrawalPlan") -> None:
    """Has it confirmed by typing how much goes.

    Raises:
        UsageError: there is nobody to ask, or something else was typed.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            "nobody is here to confirm it, and nothing was withdrawn; look with --dry-run, "
            "then say --yes"
        )
    words = f"withdraw {len(plan.reached)}"
    if typer.prompt(f"Type {words!r} to do so, anything else to leave it") != words:
        raise UsageError("it was not confirmed; nothing was withdrawn")


def _target(
    store: "Store",
    entity: str | None,
    named: dict[str, str | None],
    source: str | None,
    dataset: str | None,
    file: Path | None,
    also: list[str],
) -> "WithdrawalTarget":
    """What the options name.

    Raises:
        UsageError: they name nothing, or several things.
    """
    from db.lineage import find_entity_id
    from db.withdrawal_targets import WithdrawalTarget
    from flows.withdrawal_files import target_of_file

    given = {sort: name for sort, name in named.items() if name is not None}
    if source is not None and "identity" not in given:
        given["source"] = source
    if len(given) + (entity is not None) + (file is not None) != 1:
        raise UsageError(
            "name one thing to take back: an entity's id, or one of --identity, --source, --video, "
            "--annotator and --file"
        )
    if dataset is not None and given.keys().isdisjoint(_NARROWED):
        raise UsageError(
            "--dataset goes with --identity, --source and --video; an id means one thing, and a "
            "file or an annotator's work is taken back wherever it is: leave --dataset out"
        )
    if also and file is None:
        raise UsageError("--also goes with --file")
    if entity is not None:
        return WithdrawalTarget(sort="entity", name=find_entity_id(store, entity))
    if file is not None:
        return target_of_file(file, tuple(find_entity_id(store, one) for one in also))
    ((sort, name),) = given.items()
    of = source if sort == "identity" else None
    return WithdrawalTarget.model_validate(
        {"sort": sort, "name": name, "dataset": dataset, "source": of}
    )


def _ground(name: str | None) -> "Ground":
    from typing import get_args

    from schemas.withdrawal import Ground

    grounds: tuple[Ground, ...] = get_args(Ground)
    for ground in grounds:
        if ground == name:
            return ground
    raise UsageError(
        f"say on which ground: --ground {', '.join(grounds)}; got {name!r}"
        if name
        else f"say on which ground: --ground with one of {', '.join(grounds)}"
    )


def _lookalikes(
    context: "RunContext", file: Path | None, near: bool, target: "WithdrawalTarget"
) -> list[dict[str, Any]]:
    from flows.withdrawal_files import lookalikes

    if file is None or not near:
        return []
    found = lookalikes(context, file)
    if found is None:
        told = f"{file} is no picture that can be looked at; it is found by its bytes alone"
        err.print(escape(told), soft_wrap=True)
        return []
    return [one._asdict() for one in found if one.entity_id not in target.also]


@contextmanager
def _opened_context() -> Iterator["RunContext"]:
    from flows.context import open_context
    from profiles.settings import load_settings

    context = open_context(load_settings(), flow_run="loupe withdraw")
    try:
        yield context
    finally:
        context.store.close()
