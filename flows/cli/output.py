"""Output of commands: results on standard output (text or JSON), messages on standard error."""

import codecs
import inspect
import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple

import typer
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.highlighter import RegexHighlighter
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from loupe.schemas.errors import LoupeError, UsageError
from loupe.schemas.wording import shortened

if TYPE_CHECKING:
    from loupe.services.diagnosis import Finding

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


class _Marks(RegexHighlighter):
    """Colours the mark or word at the beginning of a line; the groups are names of colours."""

    highlights: ClassVar = [
        r"(?m)^ *(?P<green>✓)",
        r"(?m)^ *(?P<red>✗|error:|DEGENERATE:)",
        r"(?m)^(?P<yellow>warning:)",
    ]


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
        _silence.since = time.monotonic()
        return [_Defused(one) for one in renderables]


class _Silence:
    """Since when nothing has been printed, and whether that is as it should be."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        self.is_wanted = False


_silence = _Silence()


def _open_streams() -> None:
    """Make the streams of the process usable: closed ones, and those of a narrow encoding."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            nothing = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - until the end
            setattr(sys, name, nothing)
        elif isinstance(stream, io.TextIOWrapper) and mode == "w":
            stream.reconfigure(errors="replace")


def _console(*, stderr: bool) -> Console:
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if is_terminal else _PLAIN_WIDTH
    console = Console(stderr=stderr, width=width, highlighter=_Marks())
    console.push_render_hook(_Defusing())
    return console


_open_streams()
out = _console(stderr=False)
err = _console(stderr=True)


def say(line: str) -> None:
    """Print a line on standard output; nothing in it is interpreted as markup."""
    out.print(line, markup=False, soft_wrap=True)


def note(line: str) -> None:
    """Print a line on standard error; nothing in it is interpreted as markup."""
    err.print(line, markup=False, soft_wrap=True)


def warn(message: str) -> None:
    """Print a warning on standard error."""
    note(f"warning: {message}")


_LONGEST_SILENCE_SECONDS = 9.0
_LONGEST_SILENCE_LATER_SECONDS = 60.0  # of a command that runs for half an hour


@contextmanager
def heartbeat() -> Iterator[None]:
    """Print on standard error that a command is at work when nothing else was printed for 9 s.

    After minutes the lines become rarer, down to one a minute.
    """
    started, ended = _silence.since, threading.Event()

    def look() -> None:
        while not ended.wait(1.0):
            now = time.monotonic()
            longest = max(_LONGEST_SILENCE_SECONDS, (now - started) / 30)
            silent = now - _silence.since
            if silent >= min(longest, _LONGEST_SILENCE_LATER_SECONDS) and not _silence.is_wanted:
                with suppress(OSError, ValueError):  # nobody reads it any more
                    note(f"still at work, {now - started:,.0f} s so far")

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def silence() -> Iterator[None]:
    """Print no heartbeat in this context, in which a command waits for people."""
    before, _silence.is_wanted = _silence.is_wanted, True
    try:
        yield
    finally:
        _silence.is_wanted = before
        _silence.since = time.monotonic()


def asked(question: str, default: str | None = None, *, err: bool = False) -> str:
    """Return what a person types in the terminal."""
    with silence():
        return str(typer.prompt(question, default=default, err=err))


class Figure(str):
    """A number that is already formatted."""

    __slots__ = ()


class Note(str):
    """A line for standard error."""

    __slots__ = ()


class Table(NamedTuple):
    """A table, with numbers aligned to the right."""

    title: str
    columns: Sequence[str]
    rows: Iterable[Sequence[object]]

    @classmethod
    def of(cls, title: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> "Table":
        """Return a table of these values of each row."""
        titles = [column.replace("_", " ") for column in columns]
        return cls(title, titles, [[row[column] for column in columns] for row in rows])


Line = str | Note | Table | ConsoleRenderable


class Answer(NamedTuple):
    """The result of a command: `document` for programs (`--json`), `lines` for people.

    A command that `failed` ends with exit code 1, or with the error that it gives.
    """

    document: Any
    lines: Iterable[Line] = ()
    failed: bool | LoupeError = False


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer.

    Raises:
        typer.Exit: the command failed.
        LoupeError: its error.
    """
    if as_json:
        print_json(answer.document)
    else:
        print_lines(answer.lines)
    if answer.failed:
        raise answer.failed if isinstance(answer.failed, LoupeError) else typer.Exit(1)


def with_answer(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that prints the answer of `function`, for people or as JSON."""
    signature = inspect.signature(function)
    if signature.return_annotation is not Answer:
        return function

    @wraps(function)
    def run(*args: Any, as_json: bool, **kwargs: Any) -> None:
        show(function(*args, **kwargs), as_json=as_json)

    option = inspect.Parameter(
        "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption
    )
    parameters = [*signature.parameters.values(), option]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def one_line(text: str, most: int) -> str:
    """Return a text in one line of at most `most` characters."""
    return shortened(" ".join(text.split()), most)


def first(lines: Sequence[str], limit: int, rest: str) -> list[str]:
    """Return the first lines, and `rest` with the number of the others."""
    left = len(lines) - limit
    return [*lines[:limit], rest.format(left)] if left > 0 else list(lines)


def print_lines(lines: Iterable[Line], console: Console = out) -> None:
    """Print lines and tables for people."""
    for line in lines:
        if isinstance(line, Note):
            note(line)
        elif isinstance(line, str):
            console.print(line, markup=False, soft_wrap=True)
        elif isinstance(line, Table):
            print_table(line, console)
        else:
            console.print(line)


def print_json(value: Any) -> None:
    """Print `value` as one JSON document on standard output; it may contain records."""
    encoding = sys.stdout.encoding or "utf-8"
    is_narrow = codecs.lookup(encoding).name != "utf-8"
    json.dump(value, sys.stdout, indent=2, ensure_ascii=is_narrow, default=_plain)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


_VERDICTS = {"ok": "✓", "absent": "–", "lacking": "✗"}


def finding_lines(findings: "Sequence[Finding]") -> Iterator[str]:
    """Yield the findings, each with its remedy."""
    for finding in findings:
        yield f"{_VERDICTS[finding.verdict]} {finding.subject}  {finding.detail}"
        if finding.remedy:
            yield f"    fix: {finding.remedy}"


def write_page(path: Path, page: str) -> None:
    """Write an HTML page that a command was asked for.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the page cannot be written to {path}: {error.strerror}") from error
    note(f"wrote {path}")


def print_table(table: Table, console: Console = out) -> None:
    """Print a table; one that is too wide for the terminal as a block of lines per row."""
    title, columns, rows = table
    grid = Grid(title=title, title_justify="left", title_style="bold", header_style="bold")
    values = [list(row) for row in rows]
    for place, column in enumerate(columns):
        numeric = all(isinstance(row[place], int | float | Figure | None) for row in values)
        grid.add_column(column, justify="right" if numeric and values else "left")
    for row in values:
        grid.add_row(*(_shown(value) for value in row))
    unlimited = console.options.update(max_width=_NO_WIDTH)
    if Measurement.get(console, unlimited, grid).maximum <= console.width:
        console.print(grid)
        return
    console.print(title, markup=False)
    widest = max(map(len, columns))
    for row in values:
        console.print()
        for column, value in zip(columns, row, strict=True):
            console.print(Text.assemble(f"{column:<{widest}}  ", _shown(value)), soft_wrap=True)


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
