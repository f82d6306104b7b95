"""`loupe withdraw`: take something back, with all that is derived from it."""

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, err, out, print_json
from flows.cli.withdraw_options import (
    AlsoOption,
    AnnotatorOption,
    DatasetOption,
    DryRunOption,
    EntityArgument,
    EraseOption,
    FileOption,
    GroundOption,
    IdentityOption,
    NamedThing,
    NearOption,
    ReasonOption,
    ReleaseOption,
    ResumeOption,
    SourceOption,
    VideoOption,
    YesOption,
    ground_called,
)
from schemas.errors import LoupeError, UsageError

if TYPE_CHECKING:
    from db.withdrawal_graph import WithdrawalTarget
    from db.withdrawals import StoredWithdrawal, WithdrawalRequest
    from flows.engine.context import RunContext
    from flows.withdrawal.plan import WithdrawalPlan


def withdraw(
    entity: EntityArgument = None,
    identity: IdentityOption = None,
    source: SourceOption = None,
    video: VideoOption = None,
    annotator: AnnotatorOption = None,
    file: FileOption = None,
    also: AlsoOption = None,
    dataset: DatasetOption = None,
    release: ReleaseOption = None,
    ground: GroundOption = None,
    reason: ReasonOption = None,
    erase: EraseOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    resume: ResumeOption = False,
    near: NearOption = True,
    as_json: JsonOption = False,
) -> None:
    """Take something back, with all that is derived from it, in every dataset and release.

    What would go is shown first, and nothing is done before it is confirmed. A run that was killed
    is gone on with by the same command, or by --resume.
    """
    from flows.withdrawal.plan import request_of

    named = NamedThing(
        entity, identity, source, video, annotator, file, also or [], dataset, release
    )
    with _opened_context() as context:
        if resume:
            _resume(context, as_json)
            return
        target = named.target(context.store)
        request = request_of(target, ground_called(ground), erase)
        alike = _lookalikes(context, file, near, target)
        plan = _plan(context, request, alike, as_json)
        if (open_ := plan.unfinished) is not None and not dry_run:
            err.print(f"withdrawal {open_.key[:12]} was confirmed before and is not finished")
            _finish(context, open_, as_json)
            return
        if not as_json:
            _show(plan, alike)
        if plan.is_done or dry_run:
            _end_without(plan, alike, reason, as_json)
            return
        if not (reason or "").strip():
            raise UsageError("a withdrawal needs a reason, in your words: --reason '…'")
        if not yes:
            _ask(plan)
        _confirmed(context, plan, str(reason), as_json)


def _plan(
    context: "RunContext", request: "WithdrawalRequest", alike: list[dict[str, Any]], as_json: bool
) -> "WithdrawalPlan":
    """The plan; where a file is not stored and pictures look like it, these are shown first."""
    from flows.cli.withdrawal_plan_display import alike_display
    from flows.withdrawal.plan import plan_withdrawal

    try:
        return plan_withdrawal(context.store, request, context.settings.home)
    except UsageError:
        if alike and as_json:
            print_json({"lookalikes": alike})
        elif alike:
            out.print(alike_display(alike))
        raise


def _confirmed(context: "RunContext", plan: "WithdrawalPlan", reason: str, as_json: bool) -> None:
    from db.entities import AgentRef
    from flows.withdrawal.execution import carry_out  # noqa: F401 - all is there before anything is done
    from flows.withdrawal.plan import confirm

    agent = AgentRef("person", getpass.getuser())
    _finish(context, confirm(context.store, plan, reason, agent), as_json)


def _resume(context: "RunContext", as_json: bool) -> None:
    """Goes on with all withdrawals; of those that are finished, with what has come since.

    Raises:
        LoupeError: one cannot be finished; the first such error, once all others were gone on with.
    """
    from db.withdrawals import list_withdrawals
    from flows.withdrawal.plan import sweep

    failures: list[LoupeError] = []
    for one in list_withdrawals(context.store):
        if one.is_finished:
            with _kept(failures):
                sweep(context.store, one)
    open_ = [one for one in list_withdrawals(context.store) if not one.is_finished]
    if not open_ and not as_json:
        out.print("every withdrawal is finished")
    documents = []
    for one in open_:
        document, failure = _carry_out(context, one, quiet=as_json)
        documents.append(document)
        failures += [failure] if failure else []
    if as_json:
        print_json(documents)
    if failures:
        raise failures[0]


@contextmanager
def _kept(failures: list[LoupeError]) -> Iterator[None]:
    """Puts an error among `failures`, so that others can be gone on with."""
    try:
        yield
    except LoupeError as error:
        failures.append(error)


def _finish(context: "RunContext", withdrawal: "StoredWithdrawal", as_json: bool) -> None:
    document, failure = _carry_out(context, withdrawal, quiet=as_json)
    if as_json:
        print_json(document)
    if failure:
        raise failure


def _carry_out(
    context: "RunContext", withdrawal: "StoredWithdrawal", *, quiet: bool
) -> tuple[dict[str, Any], LoupeError | None]:
    """Does all of its steps, and tells what came of it; all that is known of it then.

    With it, why a step could not be done, if one could not: what is not reached is told all the
    same.
    """
    from db.withdrawals import find_withdrawal
    from flows.cli.withdrawals import document
    from flows.cli.withdrawals_display import told_step, unreached_display
    from flows.withdrawal.execution import carry_out
    from flows.withdrawal.plan import unreached

    def on_step(name: str, told: Any) -> None:
        err.print(f"[green]✓[/green] {escape(told_step(name, told))}", soft_wrap=True)

    failure: LoupeError | None = None
    try:
        carry_out(context, withdrawal, on_step)
    except LoupeError as error:
        failure = error
    done = find_withdrawal(context.store, withdrawal.key)
    left = unreached(context.store, context.settings.home, done)
    if not quiet:
        unfinished = "" if failure is None else ", though not all steps are done"
        told = f"{done.request.target} is withdrawn{unfinished}; look at it again with: "
        out.print(escape(f"{told}loupe withdrawals {done.key[:12]}"), soft_wrap=True)
        out.print()
        out.print(unreached_display(left), soft_wrap=True)
    return document(context.store, done, left), failure


def _show(plan: "WithdrawalPlan", alike: list[dict[str, Any]]) -> None:
    from flows.cli.withdrawal_plan_display import plan_display

    out.print(plan_display(plan, alike))


def _end_without(
    plan: "WithdrawalPlan", alike: list[dict[str, Any]], reason: str | None, as_json: bool
) -> None:
    """Tells that nothing was done."""
    if as_json:
        print_json({**plan.as_json(), "lookalikes": alike, "done": plan.is_done})
    elif not plan.is_done:
        given = "" if (reason or "").strip() else ", with a --reason"
        out.print(f"\nNothing was done: leave out --dry-run to do it{given}.")


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


def _lookalikes(
    context: "RunContext", file: Path | None, near: bool, target: "WithdrawalTarget"
) -> list[dict[str, Any]]:
    from flows.withdrawal.plan import lookalikes

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
    from flows.engine.context import open_context
    from profiles.settings import load_settings

    context = open_context(load_settings(), flow_run="loupe withdraw")
    try:
        yield context
    finally:
        context.store.close()
