"""How the state of our servers is shown."""

import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.credentials import credentials_path, load_credentials
from services.installation import ServiceReport
from services.prefect_server import prefect_auth_string, prefect_profiles
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


def print_welcome(console: Console, home: Path, reports: Sequence[ServiceReport]) -> None:
    """What runs where, how to log in, and what to do next."""
    urls = {report.name: report.url for report in reports if report.state is ServiceState.RUNNING}
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
            "\n  The passwords, which only you can read, are in\n"
            f"  {escape(str(credentials_path(home)))} "
            "(loupe status --show-credentials prints them).",
            soft_wrap=True,
        )
    console.print("\n  Next:")
    steps = _next_steps(home, with_prefect="prefect-server" in urls)
    width = max(len(command) for command in steps)
    for command, what in steps.items():
        console.print(f"    [bold]{command:<{width}}[/]  {what}", soft_wrap=True)


def print_reports(console: Console, reports: Sequence[ServiceReport]) -> None:
    """A table of the servers, and where to look where something is wrong."""
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


def reports_as_json(home: Path, reports: Sequence[ServiceReport]) -> dict[str, Any]:
    """The same for programs; where the credentials are, but not what they are."""
    return {
        "services": [report.model_dump(mode="json") for report in reports],
        "credentials_file": str(credentials_path(home)),
    }


def secrets_of(home: Path) -> dict[str, str]:
    """What `--show-credentials` shows."""
    credentials = load_credentials(home)
    token = credentials.label_studio_token
    return {
        "label_studio_email": credentials.label_studio_email,
        "label_studio_password": credentials.label_studio_password.get_secret_value(),
        "label_studio_token": token.get_secret_value() if token else "(made by loupe up)",
        "prefect_auth_string": prefect_auth_string(home),
    }


def _next_steps(home: Path, *, with_prefect: bool) -> dict[str, str]:
    steps = {"loupe run build-ufine3c": "build a release; goes on where it was stopped"}
    if with_prefect:
        steps["prefect deployment run build-ufine3c/default --watch"] = "the same, through Prefect"
        if not _finds_profiles(home):
            export = f"export PREFECT_PROFILES_PATH={shlex.quote(str(prefect_profiles(home)))}"
            steps = {export: "for prefect commands in this shell", **steps}
    return steps | {"loupe status": "how the servers are", "loupe down": "stop them; data stays"}


def _finds_profiles(home: Path) -> bool:
    """Whether `prefect` commands called here know from `prefect.toml` how to enter our server."""
    try:
        settings = tomllib.loads(Path("prefect.toml").read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return False
    return Path(str(settings.get("profiles_path"))).absolute() == prefect_profiles(home)
