"""Printed text cannot control the terminal."""

import io
import time

import pytest
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from loupe.flows.cli import output

_HOSTILE = "\x1b[1A\x1b[2K\x9b2J\u202e\rall is well\x07"


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    file = io.StringIO()
    monkeypatch.setattr(output.out, "_file", file)  # `file` would be the current stdout
    return file


def test_control_characters_in_text_are_not_printed(printed: io.StringIO) -> None:
    table, tree = Table(), Tree(escape(_HOSTILE))
    table.add_column("name")
    table.add_row(escape(_HOSTILE))
    for shown in (escape(_HOSTILE), table, tree):
        output.out.print(shown)
    assert printed.getvalue().count("all is well") == 3
    assert not set("\x1b\x9b\u202e\r\x07") & set(printed.getvalue())


def test_markup_of_the_program_is_rendered(
    printed: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.out, "_color_system", 1)
    output.out.print("[green]✓[/green] done\nand more")
    assert printed.getvalue() == "\x1b[32m✓\x1b[0m done\nand more\n"


def test_markup_in_table_cells_is_not_interpreted(printed: io.StringIO) -> None:
    output.print_table(output.Table("names", ("name",), [["[/b][red]x"]]))
    assert "[/b][red]x" in printed.getvalue()


def test_a_command_is_silent_for_long_only_while_it_waits_for_people(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(output.err, "_file", file)
    monkeypatch.setattr(output, "_LONGEST_SILENCE_SECONDS", 0.5)
    with output.heartbeat():
        with output.silence():
            time.sleep(1.5)
        assert file.getvalue() == ""
        time.sleep(2.5)
    shown = file.getvalue()
    assert shown.startswith("still at work, ")
    time.sleep(1.5)
    assert file.getvalue() == shown
