"""`loupe up`, `down`, `status` and `doctor`."""

import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.cli.options import ProfileOption
from flows.cli.output import JsonOption, err, out, print_json
from services.components import Component

if TYPE_CHECKING:
    from services.diagnosis import Finding
    from services.installation import ServiceReport


def up(
    *,
    without: list[Component] | None = None,
    prefect_port: int | None = None,
    label_studio_port: int | None = None,
    blobs_port: int | None = None,
    as_json: JsonOption = False,
) -> None:
    """Start Prefect, Label Studio, the image server and the queue watcher.

    The watcher pulls answers and pushes tasks. Also registers the deployments of the flows in
    Prefect.

    Args:
        without: Do not start this component; can be given several times.
        prefect_port: Port of Prefect (default: 4200).
        label_studio_port: Port of Label Studio (default: 8080).
        blobs_port: Port of the image server (default: 8090).
    """
    from models.profiles.settings import load_settings
    from services.installation import bring_up, survey

    ports = {
        "prefect_port": prefect_port,
        "label_studio_port": label_studio_port,
        "blobs_port": blobs_port,
    }
    settings = load_settings(**{name: port for name, port in ports.items() if port is not None})
    components = [component for component in Component if component not in (without or [])]
    progress = err if as_json else out
    with progress.status("starting …") as spinner:

        def report(step: str) -> None:
            spinner.update(escape(step))
            progress.print(f"  {escape(step)}")

        bring_up(settings, components, Path.cwd(), report)
    reports = survey(settings.home)
    if as_json:
        print_json(_reports_as_json(settings.home, reports))
    else:
        _print_welcome(progress, settings.home, reports)


def down(*, as_json: JsonOption = False) -> None:
    """Stop all servers. Data and credentials are kept."""
    from models.profiles.settings import load_settings
    from services.installation import take_down

    stopped = take_down(load_settings().home)
    if as_json:
        print_json({"stopped": stopped})
    else:
        out.print("\n".join(f"  {name}: stopped" for name in stopped) or "nothing was running")


def status(*, show_credentials: bool = False, as_json: JsonOption = False) -> None:
    """Show which servers run. Exit code 1 if one crashed or does not answer.

    Args:
        show_credentials: Also print passwords and tokens.
    """
    from models.profiles.settings import load_settings
    from services.installation import survey

    home = load_settings().home
    reports = survey(home)
    secrets = _secrets_of(home) if show_credentials else {}
    if as_json:
        print_json(_reports_as_json(home, reports) | ({"credentials": secrets} if secrets else {}))
    else:
        _print_reports(out, reports)
        for name, value in secrets.items():
            out.print(f"{name}: {value}", markup=False, soft_wrap=True)
    if not all(report.is_healthy for report in reports):
        raise typer.Exit(1)


_STATE_STYLES = {"running": "green", "crashed": "red", "stopped": "dim"}
_TITLES = {"prefect-server": "Prefect", "label-studio": "Label Studio", "blob-server": "Images"}


def _print_welcome(console: Console, home: Path, reports: "Sequence[ServiceReport]") -> None:
    """Print the addresses of the servers, how to log in, and what to do next."""
    from services.credentials import credentials_path, load_credentials

    urls = {report.name: report.url for report in reports if report.state == "running"}
    console.print("\n[bold green]Loupe is up.[/]\n")
    for name, title in _TITLES.items():
        if url := urls.get(name):
            console.print(f"  {title:<14}{url}")
    if "label-studio" in urls:
        console.print(
            f"\n  Log in to Label Studio as {load_credentials(home).label_studio_email}.",
            soft_wrap=True,
        )
    if {"label-studio", "prefect-server"} & set(urls):
        console.print(
            "\n  The passwords are in a file that only you can read:\n"
            f"  {escape(str(credentials_path(home)))} "
            "(loupe status --show-credentials prints them).",
            soft_wrap=True,
        )
    console.print("\n  Next:")
    steps = _next_steps(home, with_prefect="prefect-server" in urls)
    width = max(len(command) for command in steps)
    for command, what in steps.items():
        console.print(f"    [bold]{command:<{width}}[/]  {what}", soft_wrap=True)


def _print_reports(console: Console, reports: "Sequence[ServiceReport]") -> None:
    """Print a table of the servers, and the log of each unhealthy one."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("service", "state", "address", "pid"):
        table.add_column(title, no_wrap=True)
    for report in reports:
        state = "does not answer" if report.answers is False else report.state.value
        style = _STATE_STYLES[report.state] if report.is_healthy else "red"
        pid = str(report.pid or "")
        table.add_row(report.name, f"[{style}]{state}[/]", report.url or "", pid)
    console.print(table)
    for report in reports:
        if not report.is_healthy:
            message = f"{report.name}: see {report.log}; start it again with: loupe up"
            console.print(message, markup=False, soft_wrap=True)


def _reports_as_json(home: Path, reports: "Sequence[ServiceReport]") -> dict[str, Any]:
    """Return the reports as JSON, with the path of the credentials file."""
    from services.credentials import credentials_path

    return {
        "services": [report.model_dump(mode="json") for report in reports],
        "credentials_file": str(credentials_path(home)),
    }


def _secrets_of(home: Path) -> dict[str, str]:
    """Return the credentials that `--show-credentials` prints."""
    from services.credentials import load_credentials
    from services.prefect_server import prefect_auth_string

    credentials = load_credentials(home)
    token = credentials.label_studio_token
    return {
        "label_studio_email": credentials.label_studio_email,
        "label_studio_password": credentials.label_studio_password.get_secret_value(),
        "label_studio_token": token.get_secret_value() if token else "(made by loupe up)",
        "prefect_auth_string": prefect_auth_string(home),
    }


def _next_steps(home: Path, *, with_prefect: bool) -> dict[str, str]:
    from services.prefect_server import prefect_profiles

    steps = {"loupe run build-ufine3c": "build a release, or continue a stopped build"}
    if with_prefect:
        steps["prefect deployment run build-ufine3c/default --watch"] = "the same, through Prefect"
        if not _finds_profiles(home):
            export = f"export PREFECT_PROFILES_PATH={shlex.quote(str(prefect_profiles(home)))}"
            steps = {export: "for prefect commands in this shell", **steps}
    return steps | {"loupe status": "show the servers", "loupe down": "stop them; data is kept"}


def _finds_profiles(home: Path) -> bool:
    """Tell whether `prefect` commands started here find our server through `prefect.toml`."""
    from services.prefect_server import prefect_profiles

    try:
        settings = tomllib.loads(Path("prefect.toml").read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return False
    return Path(str(settings.get("profiles_path"))).absolute() == prefect_profiles(home)


_MARKS = {"ok": "[green]✓[/]", "absent": "[dim]–[/]", "lacking": "[red]✗[/]"}


def doctor(*, profile: ProfileOption = None, as_json: JsonOption = False) -> None:
    """Check the installation, the servers and the profile.

    Prints how to fix each problem. Exit code 1 if a requirement of the profile is not met.
    """
    from models.profiles.settings import load_settings
    from services.diagnosis import Verdict, diagnose

    findings = diagnose(load_settings(**({"profile": profile} if profile else {})))
    lacking = [finding for finding in findings if finding.verdict is Verdict.LACKING]
    print_findings(findings, as_json=as_json)
    if not as_json and lacking:
        unmet = f"{len(lacking)} of its requirements are not met"
        out.print(f"\n[red]The profile cannot run: {unmet}.[/]")
    elif not as_json:
        out.print("\n[green]The profile can run.[/] It does not need the items marked –.")
    if lacking:
        raise typer.Exit(1)


def print_findings(findings: "Sequence[Finding]", *, as_json: bool) -> None:
    """Print the findings, each with its remedy."""
    if as_json:
        print_json([finding.model_dump(mode="json") for finding in findings])
        return
    for finding in findings:
        mark, subject = _MARKS[finding.verdict], escape(finding.subject)
        out.print(f"{mark} [bold]{subject}[/]  {escape(finding.detail)}", soft_wrap=True)
        if finding.remedy:
            out.print(f"    [dim]fix:[/] {escape(finding.remedy)}", soft_wrap=True)
