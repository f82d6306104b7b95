"""`loupe up`, `loupe down` and `loupe status`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.commands.output import JsonOption, err, out, print_json
from profiles.settings import Settings, load_settings
from services.credentials import credentials_path, load_credentials
from services.installation import Component, ServiceReport, bring_up, survey, take_down
from services.process import ServiceState

_STATE_STYLES = {
    ServiceState.RUNNING: "green",
    ServiceState.CRASHED: "red",
    ServiceState.STOPPED: "dim",
}
_TITLES = {
    "prefect-server": "Prefect",
    "label-studio": "Label Studio",
    "blob-server": "Images",
}
_DEFAULT_PREFECT_PORT = 4200


def up(
    without: Annotated[
        list[Component] | None,
        typer.Option(help="Leave a component out; may be given more than once."),
    ] = None,
    prefect_port: Annotated[int | None, typer.Option(help="Port of Prefect [4200].")] = None,
    label_studio_port: Annotated[
        int | None, typer.Option(help="Port of Label Studio [8080].")
    ] = None,
    blobs_port: Annotated[int | None, typer.Option(help="Port of the image server [8090].")] = None,
    as_json: JsonOption = False,
) -> None:
    """Start Prefect, Label Studio and the image server, and register the deployments."""
    ports = {
        "prefect_port": prefect_port,
        "label_studio_port": label_studio_port,
        "blobs_port": blobs_port,
    }
    settings = load_settings(**{name: port for name, port in ports.items() if port is not None})
    components = [component for component in Component if component not in (without or [])]
    progress = err if as_json else out
    with progress.status("starting …") as status:

        def report(step: str) -> None:
            status.update(escape(step))
            progress.print(f"  {escape(step)}")

        bring_up(settings, components, Path.cwd(), report)
    reports = survey(settings.home)
    if as_json:
        _print_reports(settings, reports)
    else:
        _print_welcome(progress, settings, reports)


def down(as_json: JsonOption = False) -> None:
    """Stop every server of this installation; data and credentials stay."""
    home = load_settings().home
    steps: list[str] = []
    take_down(home, steps.append)
    if as_json:
        print_json({"stopped": [step.partition(":")[0] for step in steps]})
    else:
        typer.echo("\n".join(f"  {step}" for step in steps) or "nothing was running")


def status(
    show_credentials: Annotated[
        bool, typer.Option("--show-credentials", help="Print the passwords and tokens, too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say which servers run; exit status 1 if one crashed or does not answer."""
    settings = load_settings()
    reports = survey(settings.home)
    if as_json:
        _print_reports(settings, reports, show_credentials)
    else:
        _print_table(out, reports)
        if show_credentials:
            for name, value in _secrets(settings.home).items():
                typer.echo(f"  {name}: {value}")
    if not all(report.is_healthy for report in reports):
        raise typer.Exit(1)


def _print_welcome(
    console: Console, settings: Settings, reports: tuple[ServiceReport, ...]
) -> None:
    urls = {report.name: report.url for report in reports if report.state is ServiceState.RUNNING}
    console.print("\n[bold green]Loupe is up.[/]\n")
    for name, title in _TITLES.items():
        if url := urls.get(name):
            console.print(f"  {title:<14}{url}")
    if "label-studio" in urls:
        email = load_credentials(settings.home).label_studio_email
        console.print(
            f"\n  Log in to Label Studio as {email}; the password, which only you can read, is in\n"
            f"  {escape(str(credentials_path(settings.home)))} "
            "(loupe status --show-credentials prints it).",
            soft_wrap=True,
        )
    _print_next_steps(console, urls.get("prefect-server"))


def _print_next_steps(console: Console, prefect_url: str | None) -> None:
    console.print("\n  Next:")
    steps = {"loupe run build-ufine3c": "build a release; resumes where it was stopped"}
    if prefect_url:
        steps["prefect deployment run build-ufine3c/default --watch"] = "the same, through Prefect"
    steps |= {"loupe status": "how the servers are", "loupe down": "stop them; data stays"}
    if prefect_url and not prefect_url.endswith(f":{_DEFAULT_PREFECT_PORT}"):
        steps = {f"export PREFECT_API_URL={prefect_url}/api": "for prefect commands", **steps}
    width = max(len(command) for command in steps)
    for command, what in steps.items():
        console.print(f"    [bold]{command:<{width}}[/]  {what}", soft_wrap=True)


def _print_table(console: Console, reports: tuple[ServiceReport, ...]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("service", "state", "address", "pid", "log"):
        table.add_column(title, overflow="fold")
    for report in reports:
        state = "does not answer" if report.answers is False else report.state.value
        style = "red" if report.answers is False else _STATE_STYLES[report.state]
        pid = str(report.pid or "")
        cells = (report.name, f"[{style}]{state}[/]", report.url or "", pid, str(report.log or ""))
        table.add_row(*cells)
    console.print(table)


def _print_reports(
    settings: Settings, reports: tuple[ServiceReport, ...], show_credentials: bool = False
) -> None:
    result: dict[str, Any] = {
        "services": [report.model_dump(mode="json") for report in reports],
        "credentials_file": str(credentials_path(settings.home)),
    }
    if show_credentials:
        result["credentials"] = _secrets(settings.home)
    print_json(result)


def _secrets(home: Path) -> dict[str, str]:
    credentials = load_credentials(home)
    token = credentials.label_studio_token
    return {
        "label_studio_email": credentials.label_studio_email,
        "label_studio_password": credentials.label_studio_password.get_secret_value(),
        "label_studio_token": token.get_secret_value() if token else "(made by loupe up)",
    }
