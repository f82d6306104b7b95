"""`loupe up`, `down`, `status` and `doctor`."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loupe.flows.cli.options import ProfileOption, chosen_profile, settings
from loupe.flows.cli.output import Answer, Line, Table, finding_lines, note
from loupe.schemas.errors import ConfigurationError
from loupe.services.components import Component

if TYPE_CHECKING:
    from loupe.models.profiles.settings import Settings
    from loupe.services.installation import ServiceReport


def up(
    pipelines: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PIPELINE]...", help="Pipelines of your own to register as well."),
    ] = None,
    *,
    without: list[Component] | None = None,
    prefect_port: int | None = None,
    label_studio_port: int | None = None,
    blobs_port: int | None = None,
    public: str | None = None,
) -> Answer:
    """Start Prefect, Label Studio, the image server and the queue watcher.

    The watcher pulls answers and pushes tasks. The flows are also registered as deployments in
    Prefect.

    Args:
        without: Do not start this component; can be given several times.
        prefect_port: Port of Prefect (default: 4200).
        label_studio_port: Port of Label Studio (default: 8080).
        blobs_port: Port of the image server (default: 8090).
        public: Address on the Internet, such as https://desk.example.org, from now on: Caddy serves
            Label Studio there, images and Prefect at names below it (docs/team.md); none: end it.
    """
    from loupe.services.installation import bring_up, publish, survey
    from loupe.services.public import parse_public

    ports = {
        "prefect_port": prefect_port,
        "label_studio_port": label_studio_port,
        "blobs_port": blobs_port,
    }
    own = settings(**{name: port for name, port in ports.items() if port is not None})
    if public is not None:
        publish(own.home, None if public == "none" else parse_public(public))
    registered = _registered(own, pipelines or [])
    for name in registered:
        note(f"deployment: {name}")
    components = [component for component in Component if component not in (without or [])]
    bring_up(own, components, Path.cwd(), note)
    reports = survey(own.home)
    named = dict(zip(pipelines or [], registered, strict=True))
    return Answer(_as_json(own.home, reports), _welcome(own.home, reports, named))


def _registered(own: "Settings", named: list[str]) -> list[str]:
    """Register pipelines of the user, and return the names of their deployments."""
    if not named:
        return []
    from loupe.api.deployments import register_pipelines

    return register_pipelines(own, named)


def down() -> Answer:
    """Stop all servers. Data and credentials are kept."""
    from loupe.services.installation import take_down

    stopped = take_down(settings().home)
    lines = [f"  {name}: stopped" for name in stopped]
    return Answer({"stopped": stopped}, lines or ["nothing was running"])


def status(*, show_credentials: bool = False) -> Answer:
    """Show which servers are running. Exit code 1 if one crashed or does not answer.

    Args:
        show_credentials: Also print passwords and tokens.
    """
    from loupe.services.installation import survey

    home = settings().home
    reports = survey(home)
    document, unhealthy = _as_json(home, reports), [one for one in reports if not one.is_healthy]
    rows = [
        (
            one.name,
            "does not answer" if one.answers is False else one.state.value,
            one.url or "",
            str(one.pid or ""),
        )
        for one in reports
    ]
    lines: list[Line] = [
        Table("", ("service", "state", "address", "pid"), rows),
        *(f"{one.name}: see {one.log}; start it again with: loupe up" for one in unhealthy),
    ]
    if show_credentials:
        document["credentials"] = _secrets_of(home)
        lines += [f"{name}: {value}" for name, value in document["credentials"].items()]
    return Answer(document, lines, failed=bool(unhealthy))


_TITLES = {"prefect-server": "Prefect", "label-studio": "Label Studio", "blob-server": "Images"}


def _welcome(
    home: Path, reports: "Sequence[ServiceReport]", pipelines: Mapping[str, str]
) -> Iterator[str]:
    """Yield the addresses of the servers, how to log in, and what to do next."""
    from loupe.services.credentials import credentials_path, load_credentials

    urls = {report.name: report.url for report in reports if report.state == "running"}
    yield "\nLoupe is up.\n"
    for name, title in _TITLES.items():
        if url := urls.get(name):
            yield f"  {title:<14}{url}"
    if "label-studio" in urls:
        yield f"\n  Log in to Label Studio as {load_credentials(home).label_studio_email}."
    if {"label-studio", "prefect-server"} & set(urls):
        yield (
            "\n  The passwords are in a file that only you can read:\n"
            f"  {credentials_path(home)} (loupe status --show-credentials prints them)."
        )
    yield "\n  Next:"
    steps = _next_steps(home, pipelines, with_prefect="prefect-server" in urls)
    width = max(len(command) for command in steps)
    for command, what in steps.items():
        yield f"    {command:<{width}}  {what}"


def _as_json(home: Path, reports: "Sequence[ServiceReport]") -> dict[str, Any]:
    """Return the reports as JSON, with the path of the credentials file."""
    from loupe.services.credentials import credentials_path

    return {"services": reports, "credentials_file": credentials_path(home)}


def _secrets_of(home: Path) -> dict[str, str]:
    """Return the credentials that `--show-credentials` prints."""
    from loupe.services.credentials import desk_key, load_credentials
    from loupe.services.prefect_server import prefect_auth_string

    credentials = load_credentials(home)
    token = credentials.label_studio_token
    return {
        "label_studio_email": credentials.label_studio_email,
        "label_studio_password": credentials.label_studio_password.get_secret_value(),
        "label_studio_token": token.get_secret_value() if token else "(made by loupe up)",
        "desk_key": desk_key(home),
        "prefect_auth_string": prefect_auth_string(home),
    }


def _next_steps(home: Path, pipelines: Mapping[str, str], *, with_prefect: bool) -> dict[str, str]:
    """Return what to do next, with commands; `pipelines` are those named, with deployments."""
    from loupe.services.prefect_server import prefect_profiles

    steps = {f"loupe run {shlex.quote(one)}": "build its release, or continue" for one in pipelines}
    if not pipelines:
        steps["loupe run build-ufine3c"] = "build a release, or continue a stopped build"
        steps["loupe run FILE.py"] = "the same of a pipeline of your own (docs/python.md)"
    if with_prefect:
        export = f"export PREFECT_PROFILES_PATH={shlex.quote(str(prefect_profiles(home)))}"
        steps[export] = "for prefect commands in this shell"
        for deployment in pipelines.values() or ["build-ufine3c/default"]:
            steps[f"prefect deployment run {deployment} --watch"] = "the same, through Prefect"
    return steps | {"loupe status": "show the servers", "loupe down": "stop them; data is kept"}


def doctor(*, profile: ProfileOption = None) -> Answer:
    """Check the installation, the servers and the profile.

    Prints how to fix each problem. Exit code 1 if a requirement of the profile is not met.
    """
    from loupe.services.diagnosis import Verdict, diagnose, keys_sent, specs_of

    with suppress(ConfigurationError):  # a finding
        for sentence in keys_sent(specs_of(chosen_profile(profile))):
            note(sentence)
    findings = diagnose(settings(**({"profile": profile} if profile else {})))
    lacking = sum(finding.verdict is Verdict.LACKING for finding in findings)
    end = "The profile can run. It does not need the items marked –."
    if lacking:
        end = f"The profile cannot run: {lacking} of its requirements are not met."
    return Answer(findings, [*finding_lines(findings), f"\n{end}"], failed=bool(lacking))
