"""The reference of all commands, `docs/commands.md`, written from the commands themselves.

Also the table of names in `docs/api.md`. `python -m benchmarks.reference` (`make reference`) writes
both.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from typer.main import get_command

import loupe
from loupe.flows.cli.main import app

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
API_PAGE = PAGE.with_name("api.md")
_NAMES = re.compile(r"(?<=<!-- names -->\n).*?(?=<!-- /names -->)", re.DOTALL)
_DIRECTIVE = re.compile(r"^::: (loupe\.[\w.]+)", re.MULTILINE)
_MODULES = {"loupe": loupe, "loupe.steps": loupe.steps, "loupe.testing": loupe.testing}
_HEAD = """# Commands

All commands with their arguments and options. `loupe --help` lists the commands, and `loupe COMMAND --help` prints the same as this page. Commands that print a result can also print it as JSON (`--json`).

This page is written by `make reference`; change the docstrings in `flows/cli/` instead.

The exit code says how a command ended:

| exit code | meaning |
|---|---|
| 0 | done; also a run that waits for people |
| 1 | a problem was found or the work could not be finished: something is damaged or missing, a check failed, a model or service does not answer, a limit was reached, the disk is full |
| 2 | the input cannot be used: an option, a file or a setting is wrong; or `loupe release diff` could not compare |
| 130, 143 | stopped by Ctrl+C or by SIGTERM; run it again to continue |

`loupe release diff` ends like `diff`: 0 if the releases are equal, 1 if they differ. A run in the Prefect worker ends as *Completed*, *Paused* (it waits for people), *Failed* or *Crashed*.
"""  # noqa: E501 - lines of Markdown


def reference() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_lines(get_command(app), "loupe", None)])


def _lines(command: Any, name: str, parent: Any) -> Iterator[str]:
    """Yield the section of a command, and those of its subcommands."""
    context = command.context_class(command, info_name=name.rpartition(" ")[2], parent=parent)
    if parent is not None:
        yield from (f"{'##' if name.count(' ') == 1 else '###'} {name}", "")
        yield from (_prose(command.help or ""), "")
    commands = getattr(command, "commands", None)
    if commands is None:
        usage = " ".join(command.collect_usage_pieces(context))
        yield from ("```", f"{name} {usage}", "```", "")
        shown = [_row(parameter, context) for parameter in command.params]
        if any(shown):
            yield from ("| argument or option | meaning |", "|---|---|", *filter(None, shown), "")
        return
    for one in commands.values():
        yield from _lines(one, f"{name} {one.name}", context)


def _row(parameter: Any, context: Any) -> str | None:
    """Return the row of an argument or option; None if it is hidden."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    written, meaning = (" ".join(part.split()).replace("|", "\\|") for part in record)
    return f"| `{written}` | {meaning} |"


def _prose(text: str) -> str:
    """Return a help text with one line for each paragraph."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def api_page() -> str:
    """Return `docs/api.md` with its table of names, which is also read where no site is built."""
    page = API_PAGE.read_text(encoding="utf-8")
    lines = ["| name | |", "|---|---|"]
    for place in _DIRECTIVE.findall(page):
        name = place.rpartition(".")[2]
        module = next((one for one, names in _MODULES.items() if name in dir(names)), "")
        shown = f"{module}.{name}" if module else name
        said = _prose((resolve_name(place).__doc__ or "").partition("\n\n")[0]).replace("|", "\\|")
        lines.append(f"| `{shown}` | {said} |")
    return _NAMES.sub(lambda _: "\n".join([*lines, ""]), page)


if __name__ == "__main__":
    API_PAGE.write_text(api_page(), encoding="utf-8")
    PAGE.write_text(reference(), encoding="utf-8")
