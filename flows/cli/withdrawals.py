"""`loupe withdrawals`: list withdrawals, or show one."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.output import JsonOption, out, print_json, print_table, warn
from flows.cli.release_opening import opened_store

if TYPE_CHECKING:
    from db.store import Store
    from db.withdrawals import StoredWithdrawal
    from flows.withdrawal.residual import ResidualCopies


def withdrawals(
    name: Annotated[
        str | None, typer.Argument(help="One of them: its number, or the first digits of its key.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the withdrawals, or show one.

    Who, when, why, what was withdrawn, and the steps done.
    """
    from db.withdrawals import find_withdrawal, list_withdrawals
    from flows.cli.withdrawal_display import UNFINISHED, files_of

    with opened_store() as store:
        if name is not None:
            _show(store, find_withdrawal(store, name), as_json)
            return
        found = list_withdrawals(store)
    if as_json:
        print_json([_summary(one) for one in found])
    elif found:
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
        print_table("withdrawals", columns, rows)
    else:
        out.print("nothing was withdrawn")


def _show(store: "Store", withdrawal: "StoredWithdrawal", as_json: bool) -> None:
    from db.withdrawals import counts_of, notices_of, steps_of
    from flows.cli.withdrawal_display import residual_display, withdrawal_display
    from flows.withdrawal.residual import residual_copies
    from profiles.settings import load_settings

    left = residual_copies(store, load_settings().home, withdrawal)
    if as_json:
        print_json(document(store, withdrawal, left))
        return
    id_ = withdrawal.id
    counts, notices = counts_of(store, id_), notices_of(store, id_)
    out.print(withdrawal_display(withdrawal, counts, notices, steps_of(store, id_)))
    out.print()
    out.print(residual_display(left), soft_wrap=True)


def document(
    store: "Store", withdrawal: "StoredWithdrawal", left: "ResidualCopies"
) -> dict[str, Any]:
    """All that is stored of a withdrawal, for programs."""
    from db.withdrawals import counts_of, notices_of, steps_of, withdrawn_entities

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


def warn_of_unfinished(store: "Store") -> None:
    """Warns of withdrawals that were confirmed and are not finished."""
    from db.withdrawals import list_withdrawals

    if open_ := [one.key[:12] for one in list_withdrawals(store) if not one.is_finished]:
        warn(f"not finished: withdrawal {', '.join(open_)}; finish with: loupe withdraw --resume")


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
