"""Output of commands: results on standard output (text or JSON), messages on standard error."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

PageOption = Annotated[Path | None, typer.Option(dir_okay=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

_NO_WIDTH = 100_000  # columns if the output is not a terminal
_PLAIN_WIDTH = 160  # do not truncate to 80 columns if the output is not a terminal

_CONTROLS: Final = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (
        *(*range(0x20), *range(0x7F, 0xA0)),
        *(0x61C, *range(0x200E, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A)),
    )
    if chr(code) not in "\n\t"
}
"""Characters that move the cursor, overwrite text or change the writing direction."""


class _Defused:
    """Something to print, with control characters removed from its texts."""

    def __init__(self, shown: ConsoleRenderable) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._shown, options):
            if segment.control:  # control codes of the console itself
                yield segment
            else:
                yield Segment(segment.text.translate(_CONTROLS), segment.style)


class _Defusing(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Defused(one) for one in renderables]


def _console(*, stderr: bool) -> Console:
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    console = Console(stderr=stderr, highlight=False, width=None if is_terminal else _PLAIN_WIDTH)
    console.push_render_hook(_Defusing())
    return console


out = _console(stderr=False)
err = _console(stderr=True)


def warn(message: str) -> None:
    """Print a warning on standard error; nothing in it is interpreted as markup."""
    err.print(f"[yellow]warning:[/yellow] {escape(message)}", soft_wrap=True)


def say(line: str) -> None:
    """Print a line on standard output; nothing in it is interpreted as markup."""
    out.print(line, markup=False, soft_wrap=True)


def note(line: str) -> None:
    """Print a line on standard error; nothing in it is interpreted as markup."""
    err.print(line, markup=False, soft_wrap=True)


def answer(as_json: bool, document: Mapping[str, Any] | Sequence[Any], *lines: str) -> None:
    """Print a result: `document` as JSON, or `lines` for people."""
    if as_json:
        print_json(document)
        return
    for line in lines:
        say(line)


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print `value` as one JSON document on standard output."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def write_page(path: Path, page: str) -> None:
    """Write an HTML page that a command was asked for.

    Raises:
        UsageError: it cannot be written.
    """
    from schemas.errors import UsageError

    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the page cannot be written to {path}: {error.strerror}") from error
    note(f"wrote {path}")


class Figure(str):
    """A number that is already formatted."""

    __slots__ = ()


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with right-aligned numbers.

    A table that is too wide for the terminal is printed as a block of lines per row.
    """
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    values = [list(row) for row in rows]
    for place, column in enumerate(columns):
        numeric = all(isinstance(row[place], int | float | Figure | None) for row in values)
        table.add_column(column, justify="right" if numeric and values else "left")
    for row in values:
        table.add_row(*(_shown(value) for value in row))
    if Measurement.get(out, out.options.update(max_width=_NO_WIDTH), table).maximum <= out.width:
        out.print(table)
        return
    out.print(f"[bold]{escape(title)}[/]")
    widest = max(map(len, columns))
    for row in values:
        out.print()
        for column, value in zip(columns, row, strict=True):
            out.print(Text.assemble(f"{column:<{widest}}  ", _shown(value)), soft_wrap=True)


def print_rows(
    as_json: bool,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    if_empty: str | None = None,
) -> None:
    """Print records as JSON, or some of their fields as a table (`if_empty` if there are none)."""
    if as_json:
        print_json(rows)
    elif rows or if_empty is None:
        print_table(title, columns, [[row[column] for column in columns] for row in rows])
    else:
        say(if_empty)


def _shown(value: object) -> str | Text:
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
            return Text(str(value))  # nothing in it is interpreted as markup
