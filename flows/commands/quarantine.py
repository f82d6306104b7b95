"""`loupe quarantine`: what could not be used, and why."""

from typing import Annotated

import typer

from db.quarantine import quarantine_counts, quarantined
from db.store import Store
from flows.commands.output import JsonOption, out, print_json, print_table
from profiles.settings import load_settings


def quarantine(
    dataset: Annotated[str | None, typer.Argument(help="A source or dataset [all].")] = None,
    reason: Annotated[str | None, typer.Option(help="Only this reason.")] = None,
    limit: Annotated[int, typer.Option(help="Show at most so many records.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show what was quarantined: counts by reason, and for one dataset the records themselves."""
    store = Store.open(load_settings().database_url)
    counts = quarantine_counts(store, dataset)
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
        where = ", ".join(
            f"{key} {record.context[key]}"
            for key in ("file", "index", "field")
            if record.context.get(key) not in (None, "")
        )
        out.print(f"[bold]{record.reason}[/bold] {where}")
        out.print(f"  {record.detail}", markup=False)
