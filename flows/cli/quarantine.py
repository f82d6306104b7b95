"""`loupe quarantine`: what could not be used, and why."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, out, print_json, print_table

if TYPE_CHECKING:
    from db.store import Store
    from schemas.records import Rejection


def quarantine(
    dataset: Annotated[
        str | None, typer.Argument(help="A source or dataset (default: all).")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Only this reason.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many records.")] = 20,
    retry: Annotated[
        bool,
        typer.Option(
            "--retry",
            help="Put the records of DATASET with --reason back: its next run tries them again.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what was quarantined: counts by reason, and for one dataset the records themselves."""
    from db.quarantine import quarantine_counts, quarantined
    from db.store import Store
    from profiles.settings import load_settings

    store = Store.open(load_settings().database_url)
    if retry:
        _retry(store, dataset, reason, as_json=as_json)
        return
    counts = quarantine_counts(store, dataset, reason)
    records = list(quarantined(store, dataset, reason, limit)) if dataset else []
    if as_json:
        rejections = [record.model_dump(mode="json") for record in records]
        print_json({"counts": [row._asdict() for row in counts], "records": rejections})
        return
    if not counts:
        out.print("nothing is in quarantine")
        return
    print_table("Quarantine", ["dataset", "stage", "reason", "inputs"], counts)
    for record in records:
        _print(record)


def _retry(store: "Store", dataset: str | None, reason: str | None, *, as_json: bool) -> None:
    from db.quarantine import put_back
    from schemas.errors import UsageError

    if dataset is None or reason is None:
        raise UsageError("--retry needs a dataset and a --reason: what was mended, and where")
    inputs = put_back(store, dataset, reason)
    if as_json:
        print_json({"dataset": dataset, "reason": reason, "put_back": inputs})
    elif inputs:
        records = "1 record is" if inputs == 1 else f"{inputs:,} records are"
        told = f"{records} out of quarantine: the next run of {dataset} tries again"
        out.print(escape(told), soft_wrap=True)
    else:
        told = f"nothing of {dataset} is in quarantine for the reason {reason}"
        out.print(escape(told), soft_wrap=True)


def _print(record: "Rejection") -> None:
    where = ", ".join(
        f"{key} {record.context[key]}"
        for key in ("file", "index", "field")
        if record.context.get(key) not in (None, "")
    )
    out.print(f"[bold]{escape(record.reason)}[/bold] {escape(where)}", soft_wrap=True)
    out.print(f"  {record.detail}", markup=False, soft_wrap=True)
