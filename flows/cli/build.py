"""`loupe run`: runs a flow, on the Prefect server where one is up, else in this process."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from flows.cli.output import JsonOption, err, out, print_json
from flows.cli.withdrawals import warn_of_unfinished

if TYPE_CHECKING:
    from flows.engine.context import RunContext
    from flows.engine.report import BuildReport
    from profiles.settings import Settings


class Builder(Protocol):
    """Builds what a file says, as far as it can be done now."""

    def __call__(
        self, context: "RunContext", config: str | None, profile: str | None, *, wait: bool
    ) -> "BuildReport":
        """What the run came to."""
        ...


class FlowName(StrEnum):
    """The flows that can be run."""

    BUILD_UFINE3C = "build-ufine3c"
    BUILD_UFINE6926 = "build-ufine6926"
    BUILD_RECOS = "build-recos"
    BUILD_CCD = "build-ccd"


def run(
    flow: Annotated[FlowName, typer.Argument(help="The flow.")],
    config: Annotated[
        Path | None, typer.Option(help="The build file (TOML) (default: the demonstration world).")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Profile name or file.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="Stop cleanly at this cost.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Stop cleanly at so many tokens.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait for people instead of ending.")] = False,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Run here even where a server is up.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a flow as far as it can go now. Run it again to go on: finished work is not repeated."""
    from profiles.settings import load_settings

    settings = load_settings()
    parameters: dict[str, Any] = {
        "config": str(config.absolute()) if config else None,
        "profile": profile,
        "max_cost": max_cost,
        "max_tokens": max_tokens,
        "wait": wait,
    }
    if not in_process and (server := _server(settings)):
        from flows.engine.prefect import run_deployment

        err.print(f"running on the Prefect server at {server.removesuffix('/api')}")
        run_deployment(f"{flow.value}/default", parameters, settings.home, server)
        return
    from flows.engine.context import open_context
    from flows.engine.ledger import Budget
    from flows.engine.progress import ConsoleProgress

    context = open_context(
        settings, budget=Budget(max_cost, max_tokens), progress=ConsoleProgress(err)
    )
    warn_of_unfinished(context.store)
    report = _builder(flow)(context, parameters["config"], profile, wait=wait)
    show_report(report, as_json=as_json)


def _builder(flow: FlowName) -> "Builder":
    """What the flow does, loaded when it is known which."""
    match flow:
        case FlowName.BUILD_UFINE3C:
            from flows.ufine3c.pipeline import run_build as build_ufine3c

            return build_ufine3c
        case FlowName.BUILD_UFINE6926:
            from flows.ufine6926.pipeline import run_build as build_ufine6926

            return build_ufine6926
        case FlowName.BUILD_RECOS:
            from flows.recos.pipeline import run_build as build_recos

            return build_recos
        case FlowName.BUILD_CCD:
            from flows.ccd.pipeline import run_build as build_ccd

            return build_ccd


def show_report(report: "BuildReport", *, as_json: bool) -> None:
    """Prints what a run came to."""
    if as_json:
        print_json(report.as_json())
    else:
        out.print(report.sentence, markup=False, soft_wrap=True)


def _server(settings: "Settings") -> str | None:
    """The API of the Prefect server of this installation, if it answers.

    What else may listen on its port is not asked: it would be told the password.
    """
    from services.prefect_server import prefect_api_url
    from services.process import answers

    url = prefect_api_url(settings.home)
    return url if url and answers(f"{url}/health") else None
