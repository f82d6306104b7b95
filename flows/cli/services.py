"""`loupe up`, `loupe down` and `loupe status`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, err, out, print_json
from services.components import Component


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
    from flows.cli.services_display import print_welcome, reports_as_json
    from profiles.settings import load_settings
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
        print_json(reports_as_json(settings.home, reports))
    else:
        print_welcome(progress, settings.home, reports)


def down(as_json: JsonOption = False) -> None:
    """Stop every server of this installation; data and credentials stay."""
    from profiles.settings import load_settings
    from services.installation import take_down

    stopped = take_down(load_settings().home)
    if as_json:
        print_json({"stopped": stopped})
    else:
        out.print("\n".join(f"  {name}: stopped" for name in stopped) or "nothing was running")


def status(
    show_credentials: Annotated[
        bool, typer.Option("--show-credentials", help="Print the passwords and tokens, too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say which servers run; exit status 1 if one crashed or does not answer."""
    from flows.cli.services_display import print_reports, reports_as_json, secrets_of
    from profiles.settings import load_settings
    from services.installation import survey

    home = load_settings().home
    reports = survey(home)
    secrets = secrets_of(home) if show_credentials else {}
    if as_json:
        print_json(reports_as_json(home, reports) | ({"credentials": secrets} if secrets else {}))
    else:
        print_reports(out, reports)
        for name, value in secrets.items():
            out.print(f"{name}: {value}", markup=False, soft_wrap=True)
    if not all(report.is_healthy for report in reports):
        raise typer.Exit(1)
