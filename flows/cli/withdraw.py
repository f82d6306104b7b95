"""`loupe withdraw` removes items that must not be used; `loupe withdrawals` lists withdrawals."""

import getpass
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from loupe.flows.cli.options import opened_store, settings
from loupe.flows.cli.output import Answer, Line, Table, asked, err, note, print_lines
from loupe.schemas.errors import LoupeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from loupe.db.store import Store
    from loupe.db.withdrawal_graph import WithdrawalTarget
    from loupe.db.withdrawals import StoredWithdrawal
    from loupe.flows.engine.context import RunContext
    from loupe.flows.withdrawal.plan import ResidualCopies
    from loupe.schemas.withdrawal import Ground


_DIGEST_DIGITS = 64


def withdraw(
    entity: str | None = None,
    *,
    identity: Annotated[str | None, typer.Option(show_default=False)] = None,
    source: str | None = None,
    video: str | None = None,
    annotator: str | None = None,
    dataset: str | None = None,
    release: str | None = None,
    ground: str | None = None,
    reason: str | None = None,
    erase: Annotated[bool | None, typer.Option("--erase/--keep-bytes")] = None,
    dry_run: bool = False,
    yes: bool = False,
    resume: bool = False,
) -> Answer:
    """Withdraw an item and everything derived from it.

    They are removed from all datasets and later releases.

    Shows the plan first and changes nothing until it is confirmed. If it is interrupted, run the
    same command again, or use --resume, to finish the withdrawal.

    Args:
        entity: Entity id or its first digits, or SHA-256 of an image (also in shards); with
            --release the image file or number of a row, such as images/12.jpg.
        identity: Withdraw a person: by the name in the source, with --dataset; or by the published
            id, with --release.
        source: Withdraw a source; with --identity, the source in which the person has this name.
        video: Withdraw a video, by its file name.
        annotator: Withdraw the work of an annotator, by pseudonym.
        dataset: With --identity, --source or --video: only in this dataset.
        release: The release that contains the row or person: its folder, DATASET (newest version),
            DATASET@VERSION, or the first digits of its id.
        ground: Ground: privacy, copyright, law, consent, quality or other.
        reason: Reason in your own words; not published in releases.
        erase: Whether to erase the files. Default: erase them if the ground is privacy, copyright
            or law.
        dry_run: Show the plan and change nothing.
        yes: Do not ask for confirmation.
        resume: Finish all unfinished withdrawals.
    """
    from loupe.db.entities import AgentRef
    from loupe.flows.cli.withdrawal_display import plan_lines
    from loupe.flows.engine.context import open_context
    from loupe.flows.withdrawal.plan import confirm, plan_withdrawal, request_of

    given = {
        "entity": entity,
        "identity": identity,
        "source": source if identity is None else None,  # otherwise says in which source
        "video": video,
        "annotator": annotator,
    }
    others = (*given.values(), dataset, release, ground, reason, dry_run, yes)
    if resume and (any(others) or erase is not None):
        raise UsageError(
            "--resume finishes all unfinished withdrawals: leave the other options out"
        )
    context = open_context(settings(), flow_run="loupe withdraw")
    with closing(context.store):
        if resume:
            return _resume(context)

        def confirm_records(names: "Sequence[str]") -> None:
            nonlocal yes
            where = f"that image is in {', '.join(names)}, not in the store"
            if dry_run:
                raise UsageError(f"{where}; there is no plan before it is withdrawn")
            _require_reason(reason)
            if not yes:
                note(f"{where}; an entity is created from it first")
                _ask(len(names))
            yes = True

        known_ground = _ground(ground)
        in_source = source if identity is not None else None
        target = _target(context, given, dataset, release, in_source, confirm_records)
        request = request_of(target, known_ground, erase)
        plan = plan_withdrawal(context.store, request)
        if (open_ := plan.unfinished) is not None:
            note(f"withdrawal {open_.key[:12]} was confirmed earlier and is not finished")
            if not dry_run:
                return _carried_out(context, open_)
        planned = {**plan.as_json(), "done": plan.is_done}
        lines = [*plan_lines(plan, _blobs_outside(context))]
        if plan.is_done:
            return Answer(planned, lines)
        if dry_run:
            missing = "" if open_ or (reason or "").strip() else ", with a --reason"
            hint = f"\nNothing was changed: leave out --dry-run to withdraw it{missing}."
            return Answer(planned, [*lines, hint])
        _require_reason(reason)
        print_lines(lines, err)
        if not yes:
            _ask(len(plan.reached))
        from loupe.flows.withdrawal.execution import carry_out  # noqa: F401 - fails before anything is done

        agent = AgentRef("person", getpass.getuser())
        return _carried_out(context, confirm(context.store, plan, str(reason), agent))


def _blobs_outside(context: "RunContext") -> str:
    """Return where the blob store is if that is outside the home."""
    url, home = context.blobs.url, context.settings.home
    return "" if context.blobs.is_local and Path(url).is_relative_to(home) else url


def _image_with(
    context: "RunContext", sha256: str, confirm: "Callable[[Sequence[str]], None]"
) -> str:
    """Return the id of the image with that digest; one in shards is promoted if confirmed."""
    from loupe.db.withdrawal_graph import image_with
    from loupe.flows.shards.promotion import promote_image

    with context.store.read() as connection:
        found = image_with(connection, sha256)
    return found or promote_image(context, sha256, confirm)


def _target(
    context: "RunContext",
    given: dict[str, str | None],
    dataset: str | None,
    release: str | None,
    source: str | None,
    confirm: "Callable[[Sequence[str]], None]",
) -> "WithdrawalTarget":
    """Return the target that the options name; `source` belongs to an identity.

    An image that is only in shards is promoted if `confirm` allows it.

    Raises:
        UsageError: the options name nothing or several things, or exclude each other.
    """
    from loupe.db.lineage import find_entity_id
    from loupe.db.withdrawal_graph import WithdrawalTarget
    from loupe.flows.withdrawal.releases import (
        image_in_release,
        is_file_of_row,
        person_in_release,
        refuse_two_meanings,
    )

    store = context.store
    named = [(sort, name) for sort, name in given.items() if name is not None]
    if len(named) != 1:
        raise UsageError(
            "name one item to withdraw: an entity's id, or one of --identity, --source, --video "
            "and --annotator"
        )
    ((sort, name),) = named
    if dataset is not None and sort not in ("identity", "source", "video"):
        raise UsageError(
            "--dataset goes with --identity, --source and --video; an id is unique, and an "
            "annotator's work is withdrawn everywhere: leave --dataset out"
        )
    if release is not None:
        if sort not in ("entity", "identity"):
            raise UsageError("--release goes with the file of a row, and with --identity")
        if dataset or source:
            raise UsageError("--release determines the dataset and source: leave these out")
        find = image_in_release if sort == "entity" else person_in_release
        return find(store, release, name)
    if sort == "entity":
        if is_file_of_row(name):
            raise UsageError(
                f"{name} is the file of a row: name its release with --release FOLDER or "
                f"--release DATASET@VERSION"
            )
        if len(name) == _DIGEST_DIGITS:
            name = _image_with(context, name.lower(), confirm)
        return WithdrawalTarget(sort="entity", name=find_entity_id(store, name))
    if sort == "identity" and dataset is not None and source is None:
        refuse_two_meanings(store, dataset, name)
    return WithdrawalTarget.model_validate(
        {"sort": sort, "name": name, "dataset": dataset, "source": source}
    )


def _ground(name: str | None) -> "Ground":
    """Return the ground of that name.

    Raises:
        UsageError: there is none.
    """
    from loupe.schemas.withdrawal import Ground

    grounds = get_args(Ground)
    if name not in grounds:
        got = f"; got {name!r}" if name else ""
        raise UsageError(f"a withdrawal needs a --ground: one of {', '.join(grounds)}{got}")
    return cast("Ground", name)


def _require_reason(reason: str | None) -> None:
    """Raise a `UsageError` if no reason was given."""
    if not (reason or "").strip():
        raise UsageError("a withdrawal needs a reason, in your words: --reason '…'")


def _ask(number: int) -> None:
    """Ask for confirmation: the user must type the number of entities or records.

    Raises:
        UsageError: there is no terminal, or something else was typed.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to confirm it, so nothing was withdrawn; look at the plan with "
            "--dry-run, then confirm with --yes"
        )
    words = f"withdraw {number}"
    if asked(f"Type {words!r} to confirm, anything else to cancel") != words:
        raise UsageError("it was not confirmed; nothing was withdrawn")


def _resume(context: "RunContext") -> Answer:
    """Finish all withdrawals; finished ones are extended by entities derived since.

    The first error of those that cannot be finished is raised after trying all.
    """
    from loupe.db.withdrawals import list_withdrawals
    from loupe.flows.withdrawal.plan import sweep

    failures: list[bool | LoupeError] = []
    for one in list_withdrawals(context.store):
        if one.is_finished:
            try:
                sweep(context.store, one)
            except LoupeError as error:
                failures.append(error)
    open_ = [one for one in list_withdrawals(context.store) if not one.is_finished]
    answers = [_carried_out(context, one) for one in open_]
    failures += [one.failed for one in answers if one.failed]
    lines = [line for one in answers for line in one.lines] or ["every withdrawal is finished"]
    return Answer([one.document for one in answers], lines, failures[0] if failures else False)


def _carried_out(context: "RunContext", withdrawal: "StoredWithdrawal") -> Answer:
    """Execute all steps of a withdrawal; the answer has its residual copies."""
    from loupe.db.withdrawals import find_withdrawal
    from loupe.flows.cli.withdrawal_display import residual_lines, step_text
    from loupe.flows.withdrawal.execution import carry_out
    from loupe.flows.withdrawal.plan import residual_copies

    def on_step(name: str, details: Any) -> None:
        note(f"✓ {step_text(name, details)}")

    failed: bool | LoupeError = False
    try:
        carry_out(context, withdrawal, on_step)
    except LoupeError as error:
        failed = error
    done = find_withdrawal(context.store, withdrawal.key)
    left = residual_copies(context.store, context.settings.home, done)
    unfinished = ", but not all steps are done" if failed else ""
    shown = f"{done.request.target} is withdrawn{unfinished}; to see it again"
    lines = [f"{shown}: loupe withdrawals {done.key[:12]}", *residual_lines(left)]
    return Answer(document(context.store, done, left), lines, failed)


# List of withdrawals.


def withdrawals(name: str | None = None) -> Answer:
    """List the withdrawals, or show one.

    Shows who withdrew what, when and why, and the completed steps.

    Args:
        name: Number of a withdrawal, or the first 6 or more digits of its key.
    """
    from loupe.db.withdrawals import find_withdrawal, list_withdrawals
    from loupe.flows.cli.withdrawal_display import (
        UNFINISHED,
        files_of,
        residual_lines,
        withdrawal_lines,
    )
    from loupe.flows.withdrawal.plan import residual_copies

    with opened_store() as store:
        if name is not None:
            one = find_withdrawal(store, name)
            left = residual_copies(store, settings().home, one)
            lines = [*withdrawal_lines(store, one), *residual_lines(left)]
            return Answer(document(store, one, left), lines)
        found = list_withdrawals(store)
    columns = ("number", "key", "of", "ground", "files", "confirmed", "state")
    rows = [
        (
            str(one.id),
            one.key[:12],
            str(one.request.target),
            one.request.ground,
            files_of(one),
            f"{one.confirmed_at:%Y-%m-%d %H:%M}",
            one.state if one.is_finished else UNFINISHED,
        )
        for one in found
    ]
    table: Line = Table("withdrawals", columns, rows) if rows else "nothing was withdrawn"
    return Answer([_summary(one) for one in found], [table])


def document(
    store: "Store", withdrawal: "StoredWithdrawal", left: "ResidualCopies"
) -> dict[str, Any]:
    """Return everything stored about a withdrawal, for programs."""
    from loupe.db.withdrawals import counts_of, notices_of, steps_of, withdrawn_entities

    id_ = withdrawal.id
    return {
        **_summary(withdrawal),
        "entities": withdrawn_entities(store, id_),
        "counts": [one.model_dump(mode="json") for one in counts_of(store, id_)],
        "notices": [one.model_dump(mode="json") for one in notices_of(store, id_)],
        "steps": [
            {"step": one.step, "details": one.details, "done_at": one.done_at}
            for one in steps_of(store, id_)
        ],
        "not_reached": left.as_json(),
    }


def _summary(withdrawal: "StoredWithdrawal") -> dict[str, Any]:
    return {
        "number": withdrawal.id,
        "key": withdrawal.key,
        "target": withdrawal.request.target.model_dump(mode="json"),
        "ground": withdrawal.request.ground,
        "reason": withdrawal.reason,
        "erases": withdrawal.request.erases,
        "by": withdrawal.agent.name,
        "state": withdrawal.state,
        "confirmed_at": withdrawal.confirmed_at,
        "finished_at": withdrawal.finished_at,
    }
