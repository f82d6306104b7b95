"""`loupe reproduce`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.options import opened_run
from flows.cli.output import Figure, JsonOption, print_json, print_table, say
from schemas.taxonomy import DifferenceType

if TYPE_CHECKING:
    from flows.evaluation.reproduction import Comparison, Plan


def reproduce(
    table: Annotated[
        str | None, typer.Argument(metavar="PAPER/TABLE", autocompletion=lambda: _tables())
    ] = None,
    *,
    row: list[str] | None = None,
    list_: bool = False,
    config: Path | None = None,
    check: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Reproduce a table of the papers on the data you have.

    Trains and scores what is not done yet, and prints the results beside the published numbers. Run
    it again to continue.

    Args:
        table: Such as ufinebench/2.
        row: Only rows with these words, such as CFAM or 'no. 4'; repeatable.
        list_: List all tables.
        config: TOML file with releases, models and training settings.
        check: Only show what is missing and its cost.
    """
    from flows.evaluation.reproduction import (
        ASSUMED,
        Reproduction,
        load_reproduction,
        plan_table,
        run_plan,
    )

    if list_ == (table is not None):
        raise typer.BadParameter("give PAPER/TABLE or --list")
    own = load_reproduction(config) if config else Reproduction()
    context = opened_run()
    home = context.settings.home
    if table is None:
        listed = [plan_table(context.store, home, name, (), own).summary for name in _tables()]
        if as_json:
            print_json(listed)
        else:
            _print_list(listed)
        return
    plan = plan_table(context.store, home, table, tuple(row or ()), own)
    if not as_json:
        _print_needs(plan)
        say(f"left to do: {plan.gpu_hours:.1f} GPU hours. {ASSUMED}.")
    if not check:
        plan = run_plan(context, plan)
    if as_json:
        print_json(plan.as_json())
    else:
        _print_rows(plan)
    if any(one.state != "done" for one in plan.rows if one.is_available):
        raise typer.Exit(1)


def _tables() -> list[str]:
    from retrieval.reproduction import table_names

    return table_names()


def _print_list(tables: list[dict[str, Any]]) -> None:
    from flows.evaluation.reproduction import ASSUMED

    print_table(
        "tables of the papers",
        ["table", "rows", "Loupe can make", "GPU hours", "missing data"],
        [
            [*values, Figure(hours), ", ".join(missing) or None]
            for *values, hours, missing in map(dict.values, tables)
        ],
    )
    say(f"Work that tables share is done once. {ASSUMED}.")


def _print_needs(plan: "Plan") -> None:
    rows = []
    for need in plan.needs:
        found, size = "missing", None
        if need.release is not None:
            manifest, size = need.release.manifest, need.size
            drawn = " (demonstration)" if manifest.demonstration else ""
            found = f"{manifest.dataset} {manifest.version}{drawn}"
        rows.append([need.dataset, need.split, need.published_size, size, found])
    print_table(
        f"{plan.table} needs",
        ["dataset", "split", "published size", "your size", "release"],
        rows,
    )
    for dataset, how in {need.dataset: need.missing for need in plan.needs if need.missing}.items():
        say(f"{dataset}: {how}")


def _print_rows(plan: "Plan") -> None:
    metrics = list(
        dict.fromkeys(
            name for row in plan.rows for one in row.experiment.published for name in one.scores
        )
    )
    what = "FG-CDE by type of difference, " if set(metrics) & set(DifferenceType) else ""
    print_table(
        f"{plan.table}: {what}ours / published (difference), in percent",
        ["row", "direction", *metrics, "state"],
        _cells(plan, metrics),
    )
    for note, models in _notes(plan).items():
        say(f"{', '.join(models)}: {note}")


def _notes(plan: "Plan") -> dict[str, list[str]]:
    """Return notes on rows, each once with the models that it concerns."""
    notes: dict[str, dict[str, None]] = {}
    for row in plan.rows:
        disputed = (f"disputed: {one.disputed}" for one in row.experiment.published if one.disputed)
        reason = "" if row.state == "no data" else row.reason  # the first table has it
        for note in filter(None, (reason, row.experiment.recipe.note, *disputed)):
            notes.setdefault(note, {})[row.experiment.model] = None
    return {note: list(models) for note, models in notes.items()}


def _cells(plan: "Plan", metrics: list[str]) -> Iterator[list[object]]:
    from flows.evaluation.reproduction import compared

    for row in plan.rows:
        for one in row.experiment.published:
            found = compared(row, one.direction)
            cells = [_cell(found[name]) if name in found else "" for name in metrics]
            disputed = ", disputed" if one.disputed else ""
            yield [row.experiment.label, one.direction, *map(Figure, cells), row.state + disputed]


def _cell(one: "Comparison") -> str:
    if one.ours is None or one.difference is None:
        return f"– / {one.published:.1f}"
    return f"{one.ours:.1f} / {one.published:.1f} ({one.difference:+.1f})"
