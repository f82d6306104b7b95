"""`loupe up`, `down`, `status` and `doctor`."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loupe.flows.cli.options import ProfileOption, chosen_profile, opened_store, settings
from loupe.flows.cli.output import Answer, Line, Table, finding_lines, note
from loupe.schemas.errors import ConfigurationError, LoupeError
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
    """Start the servers that builds with reviewers need.

    These are Prefect, Label Studio, the image server and the queue watcher, which pulls answers
    and pushes tasks. The flows are also registered as deployments in Prefect.

    Args:
        without: Do not start this component; can be given several times.
        prefect_port: Port of Prefect (default: 4200).
        label_studio_port: Port of Label Studio (default: 8080).
        blobs_port: Port of the image server (default: 8090).
        public: Public address from now on, such as https://desk.example.org. Caddy serves Label
            Studio there, and images and Prefect at names below it (docs/team.md). "none" removes
            the address.
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
    for name in registered.values():
        note(f"deployment: {name}")
    components = [component for component in Component if component not in (without or [])]
    bring_up(own, components, Path.cwd(), note)
    reports = survey(own.home)
    return Answer(_as_json(own.home, reports), _welcome(own, reports, registered))


def _registered(own: "Settings", named: list[str]) -> dict[str, str]:
    """Register pipelines of the user, and return the names of their deployments."""
    from loupe.services.prefect_server import deployments_in

    if not named and not deployments_in(own.home).exists():
        return {}
    from loupe.api.deployments import register_pipelines

    return register_pipelines(own, named, note)


def down() -> Answer:
    """Stop all servers. Data and credentials are kept."""
    from loupe.services.installation import take_down

    stopped = take_down(settings().home)
    lines = [f"  {name}: stopped" for name in stopped]
    return Answer({"stopped": stopped}, lines or ["nothing was running"])


def status(*, show_credentials: bool = False) -> Answer:
    """Show which servers are running. Exit code 1 if one crashed or does not answer.

    Also shows the builds that the queue watcher started again, with their output.

    Args:
        show_credentials: Also print passwords and tokens.
    """
    from loupe.services.installation import builds_started, survey

    own = settings()
    home, reports = own.home, survey(own.home)
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
    builds = [_build_as_json(home, name) for name in builds_started(home)]
    document["builds"] = builds
    lines: list[Line] = [
        Table("", ("service", "state", "address", "pid"), rows),
        *(f"{one['name']}, started again: {one['state']}, see {one['log']}" for one in builds),
        *(f"{one.name}: see {one.log}; start it again with: loupe up" for one in unhealthy),
    ]
    if lead := _lead_url(reports):
        lines.insert(1, f"the lead's page: {lead}")
    if own.label_studio_url:
        lines.insert(1, f"Label Studio, which Loupe does not run: {own.label_studio_url}")
    if show_credentials:
        document["credentials"] = _secrets_of(home)
        lines += [f"{name}: {value}" for name, value in document["credentials"].items()]
    return Answer(document, lines, failed=bool(unhealthy))


_RELEASED = re.compile(r"release ([0-9a-f]{12}) of ")
_TITLES = {"prefect-server": "Prefect", "label-studio": "Label Studio", "blob-server": "Images"}


def _welcome(
    own: "Settings", reports: "Sequence[ServiceReport]", pipelines: Mapping[str, str]
) -> Iterator[str]:
    """Yield the addresses of the servers, how to log in, and what to do next."""
    from loupe.services.credentials import credentials_path, load_credentials
    from loupe.services.label_studio import adding_people

    home = own.home
    urls = {report.name: report.url for report in reports if report.state == "running"}
    yield "\nLoupe is up.\n"
    for name, title in _TITLES.items():
        if url := urls.get(name):
            yield f"  {title:<14}{url}"
    if own.label_studio_url:
        yield f"  {'Label Studio':<14}{own.label_studio_url} (which Loupe does not run)"
    if lead := _lead_url(reports):
        yield f"  {'Lead':<14}{lead} (what waits, questions, people)"
    if "label-studio" in urls:
        yield f"\n  Log in to Label Studio as {load_credentials(home).label_studio_email}."
    if {"label-studio", "prefect-server"} & set(urls):
        yield (
            "\n  The passwords are in a file that only you can read:\n"
            f"  {credentials_path(home)} (loupe status --show-credentials prints them)."
        )
    yield "\n  Next:"
    steps = _next_steps(home, pipelines, with_prefect="prefect-server" in urls)
    if ("label-studio" in urls or own.label_studio_url) and not _anybody_reviews():
        steps = {adding_people(own): "add a person who reviews"} | steps
    width = max(len(command) for command in steps)
    for command, what in steps.items():
        yield f"    {command:<{width}}  {what}"


def _lead_url(reports: "Sequence[ServiceReport]") -> str | None:
    """Return the address of the lead's page; None if Label Studio does not run."""
    for report in reports:
        if report.name == "label-studio" and report.state == "running":
            return f"{report.url}/lead/"
    return None


def _anybody_reviews() -> bool:
    """Return whether somebody was added as an annotator."""
    from loupe.db.reviews import annotators

    with suppress(LoupeError), opened_store() as store:
        return bool(annotators(store))
    return False


def _as_json(home: Path, reports: "Sequence[ServiceReport]") -> dict[str, Any]:
    """Return the reports as JSON, with the path of the credentials file."""
    from loupe.services.credentials import credentials_path

    return {"services": reports, "credentials_file": credentials_path(home)}


def _build_as_json(home: Path, name: str) -> dict[str, Any]:
    """Return a build that the queue watcher started again."""
    from loupe.services.process import recorded, running

    record = recorded(home, name)
    state = "running" if running(home, name) else _outcome(record.log if record else None)
    return {"name": name, "state": state, "log": record.log if record else None}


def _outcome(log: Path | None) -> str:
    """Return how a build ended, as the last line of its log says it."""
    lines = log.read_text("utf-8", "replace").split("\n") if log and log.is_file() else []
    last = next((line for line in reversed(lines) if line.strip()), "")
    if "wait for people" in last:
        return "ended, and waits for people"
    found = _RELEASED.search(last)
    return f"succeeded with release {found[1]}" if found else "ended"


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


def notify(message: Annotated[str, typer.Argument()] = "A message of Loupe, to test it.") -> Answer:
    """Send a test message to the addresses of LOUPE_NOTIFY_URLS.

    The queue watcher sends to the same addresses. Exit code 1 if the message cannot be delivered to
    one of them.

    Args:
        message: The text that is sent.
    """
    from loupe.flows.notifying import deliver

    refused = deliver(settings(), [message])
    lines = [f"not taken by {name}" for name in refused]
    return Answer({"refused": refused}, lines or ["sent"], failed=bool(refused))


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
