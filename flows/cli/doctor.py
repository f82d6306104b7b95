"""`loupe doctor`."""

from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, out, print_json

if TYPE_CHECKING:
    from services.diagnosis import Finding


_MARKS = {"ok": "[green]✓[/]", "absent": "[dim]–[/]", "lacking": "[red]✗[/]"}


def doctor(as_json: JsonOption = False) -> None:
    """Say what is installed, which servers answer, and what the profile in force lacks.

    Exit status 1 if the profile lacks something; each line that can be mended names the command.
    """
    from profiles.settings import load_settings
    from services.diagnosis import Verdict, diagnose

    findings = diagnose(load_settings())
    lacking = [finding for finding in findings if finding.verdict is Verdict.LACKING]
    if as_json:
        print_json([finding.model_dump(mode="json") for finding in findings])
    else:
        for finding in findings:
            _print(finding)
        out.print(_summary(len(lacking)))
    if lacking:
        raise typer.Exit(1)


def _print(finding: "Finding") -> None:
    mark, subject = _MARKS[finding.verdict], escape(finding.subject)
    out.print(f"{mark} [bold]{subject}[/]  {escape(finding.detail)}", soft_wrap=True)
    if finding.remedy:
        out.print(f"    [dim]mend:[/] {escape(finding.remedy)}", soft_wrap=True)


def _summary(lacking: int) -> str:
    if lacking:
        return f"\n[red]The profile in force cannot run: {lacking} of its needs are not met.[/]"
    return "\n[green]The profile in force can run.[/] What is marked – is only needed elsewhere."
