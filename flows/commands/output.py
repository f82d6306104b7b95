"""How commands talk: results to standard output (JSON where asked), the rest to standard error."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

_PLAIN_WIDTH = 160  # where the output is no terminal, nothing should be cut to 80 columns

out = Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
err = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else _PLAIN_WIDTH)


def warn(message: str) -> None:
    """A warning on standard error; nothing in it is markup."""
    err.print(f"[yellow]warning:[/yellow] {escape(message)}", soft_wrap=True)


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """`value` as one JSON document on standard output."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


class Figure(str):
    """A number, written as it is to be shown."""

    __slots__ = ()


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; numbers stand at the right."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    values = [list(row) for row in rows]
    for place, column in enumerate(columns):
        numeric = all(isinstance(row[place], int | float | Figure | None) for row in values)
        table.add_column(column, justify="right" if numeric and values else "left")
    for row in values:
        table.add_row(*(_shown(value) for value in row))
    out.print(table)


def _shown(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.2f}"
        case _:
            return str(value)
