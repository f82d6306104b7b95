"""`loupe run` and `loupe demo`."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir, nullcontext
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loupe.flows.cli.options import (
    ProfileOption,
    chosen_profile,
    opened_run,
    settings,
    warn_of_unfinished,
)
from loupe.flows.cli.output import (
    Answer,
    Line,
    PageOption,
    err,
    finding_lines,
    note,
    silence,
    write_page,
)

if TYPE_CHECKING:
    from loupe.flows.engine.context import BuildReport, RunContext
    from loupe.flows.engine.pipeline import PipelineSpec
    from loupe.flows.evaluation.run import EvaluationReport


def _known_flow(given: str) -> str:
    """Check that a flow exists, or that it may be a pipeline; suggest the nearest otherwise."""
    from loupe.schemas.validation import nearest_hint

    known = _installed()
    if given not in known and ":" not in given and not given.endswith((".py", ".toml")):
        raise typer.BadParameter(
            f"no flow is called {given!r}; {nearest_hint(given, known)}; a pipeline of your own is "
            f"named by its file (shop.py, shop.toml) or by module:name"
        )
    return given


def _installed() -> list[str]:
    """Return the names of the pipelines of Loupe and other packages."""
    from loupe.schemas.plugins import plugins

    return sorted(plugins("pipelines"))


def run(
    flow_name: Annotated[
        str,
        typer.Argument(
            metavar="FLOW",
            help="Flow: build-ufine3c, build-ufine6926, build-recos, build-ccd or one of a plugin; "
            "or a pipeline: FILE.py, FILE.toml, MODULE:NAME.",
            callback=_known_flow,
            autocompletion=_installed,
        ),
    ],
    *,
    config: Path | None = None,
    profile: ProfileOption = None,
    max_cost: Annotated[float | None, typer.Option(min=0)] = None,
    max_tokens: Annotated[int | None, typer.Option(min=0)] = None,
    wait: bool = False,
    check: bool = False,
    limit: int | None = None,
    html: PageOption = None,
    in_process: bool = False,
) -> Answer:
    """Run a flow that builds a dataset, or your own pipeline.

    The run ends when everything is done or waits for review. Run it again to continue: finished
    work is not repeated. docs/python.md shows pipelines of your own.

    Args:
        config: Build file (TOML), or the build of a paper: ufine3c, ufine6926, recos, ccd-coco or
            ccd-flickr (default: build the demonstration data).
        max_cost: Stop when model calls have cost this much.
        max_tokens: Stop when model calls have used this many tokens.
        wait: Wait for reviews instead of ending.
        check: Only run the checks that start every run: files, terms, people, keys, servers and
            models. Exit code 1 if the build cannot succeed as it is.
        limit: Preview a pipeline of your own: run this many records through all steps, in a
            temporary store.
        html: Also write the preview as a page with the images to this file.
        in_process: Run in this process, even if a Prefect server is running.
    """
    if html is not None and (limit is None or check):
        raise typer.BadParameter("--html is for previews, such as --limit 10 --html preview.html")
    pipeline = _pipeline(flow_name)
    if pipeline is None:
        if config is not None:
            raise typer.BadParameter(
                f"--config is for the builds of papers; {flow_name} states its own sources"
            )
        if limit is not None and not check:
            return _preview(flow_name, profile, limit, html)
        return _run_own(flow_name, profile, max_cost, max_tokens, wait=wait, check=check)
    if limit is not None:
        raise typer.BadParameter("--limit is for pipelines of your own (FILE.py, FILE.toml)")
    if check:
        return _check(pipeline, config, profile)
    parameters: dict[str, Any] = {
        "config": str(config.absolute()) if config else None,
        "profile": profile,
        "max_cost": max_cost,
        "max_tokens": max_tokens,
        "wait": wait,
    }
    from loupe.flows.engine.pipeline import load_build, run_build

    home = settings().home
    if config:
        load_build(config, pipeline.form)  # its errors appear before a home is made
    if not in_process and (server := _server(home)):
        note(f"running on the Prefect server at {server.removesuffix('/api')}")
        with chdir(home / "prefect"):  # Prefect takes settings from the files of its folder
            from loupe.flows.cli.deployments import run_deployment

            done = run_deployment(f"{flow_name}/default", parameters, home, server)
        return Answer({"message": done}, [done])
    from loupe.flows.engine.stopping import Budget
    from loupe.flows.withdrawal.execution import resume_reopened

    note(f"home: {home}")
    context = opened_run(Budget(max_cost, max_tokens))
    warn_of_unfinished(context.store)
    report = run_build(context, pipeline, parameters["config"], profile, resume_reopened, wait=wait)
    return _answer(report)


def _run_own(
    named: str,
    profile: str | None,
    max_cost: float | None,
    max_tokens: int | None,
    *,
    wait: bool,
    check: bool,
) -> Answer:
    """Run a pipeline that is written with the public API, or check it."""
    note(f"reading {named}")
    from loupe.api.loading import load_pipeline
    from loupe.flows.engine.stopping import Budget
    from loupe.services.diagnosis import Verdict

    pipeline = load_pipeline(named, note)
    if check:
        note("checking files, terms, keys and models")
        findings = pipeline.check(profile)
        failed = any(one.verdict is not Verdict.OK for one in findings)
        return Answer(findings, [repr(pipeline), *finding_lines(findings)], failed)
    note(f"home: {settings().home}")
    context = opened_run(Budget(max_cost, max_tokens))
    note("checking files, terms, keys and models")
    warn_of_unfinished(context.store)
    return _answer(pipeline.run_in(context, profile, wait=wait).report)


def _preview(named: str, profile: str | None, limit: int, html: Path | None) -> Answer:
    """Run the first records through all steps, in a temporary store."""
    note(f"reading {named}")
    from loupe.api.loading import load_pipeline
    from loupe.flows.engine.report import console_progress
    from loupe.schemas.wording import many

    pipeline = load_pipeline(named, note)
    note(f"preview of {many(limit, 'record')} of each source")
    preview = pipeline.preview(limit, profile, progress=console_progress(err))
    if html is not None:
        write_page(html, preview.as_html())
    return Answer(preview.as_json(), [str(preview)], failed=bool(preview.stopped))


def _answer(report: "BuildReport") -> Answer:
    if any(stage.rejected for stage in report.stages):
        note(f"what was rejected, and why: loupe quarantine {report.dataset}")
    return Answer(report.as_json(), [report.sentence])


def _check(pipeline: "PipelineSpec[Any, Any]", config: Path | None, profile: str | None) -> Answer:
    from loupe.flows.engine.pipeline import check_build, load_build
    from loupe.services.diagnosis import Verdict, keys_sent

    own, chosen = settings(), chosen_profile(profile)
    build = load_build(config, pipeline.form) if config else pipeline.demonstrate(own.home)
    for sentence in keys_sent(pipeline.models(build, chosen)):
        note(sentence)
    findings = check_build(own, pipeline, build, chosen)
    failed = any(one.verdict is not Verdict.OK for one in findings)
    return Answer(findings, finding_lines(findings), failed)


def _pipeline(name: str) -> "PipelineSpec[Any, Any] | None":
    """Return the pipeline that a build file describes; None if it states its sources itself.

    Raises:
        ConfigurationError: the package that adds it cannot be imported.
    """
    from loupe.flows.engine.pipeline import PipelineSpec
    from loupe.schemas.plugins import load_plugin

    if name not in _installed():
        return None
    found = load_plugin("pipelines", name)
    made = found() if isfunction(found) else found
    return made if isinstance(made, PipelineSpec) else None


def _server(home: Path) -> str | None:
    """Return the API of the Prefect server of this installation if it answers.

    Another program on its port is never contacted, because the request contains the password.
    """
    from loupe.services.prefect_server import SERVER
    from loupe.services.process import running

    service = running(home, SERVER)
    return f"{service.url}/api" if service and service.answers else None


_NEXT = """{activation}
Look at it:
  all of it              loupe explore {dataset}
  dataset card           {release}/README.md
  images                 {release}/images
  leaderboard            {page}
  HTML report            loupe release report {release} --out {release}-report
  verify the files       loupe release verify {release}
  trace a caption        loupe lineage {caption}

Try next:
  build your own data    write a build file (docs/build-files.md), then
                         loupe run build-ufine3c --config my-build.toml
  build from video       loupe run build-ufine6926
  add human review       loupe up, and gate = "required" in the build file
  use real models        --profile hosted | small | paper | current (docs/profiles.md)
  export                 loupe release export DIR --format webdataset | hf | coco | parquet …
  withdraw an item       loupe withdraw images/12.jpg --release {release}
                         --ground privacy --reason "…" --dry-run
  score a model          loupe evaluate {release} --embedder open_clip:ViT-B-16-quickgelu@openai
  check the setup        loupe doctor
"""


def demo(*, quiet: bool = False) -> Answer:
    """Build and score a small demonstration dataset.

    Needs no network or GPU: the images are drawings of people, described by built-in models.

    Args:
        quiet: Print only the result.
    """
    from loupe.flows.engine.pipeline import run_build
    from loupe.flows.evaluation.run import EvaluationRequest, run_evaluation
    from loupe.flows.ufine3c.pipeline import ufine3c_pipeline
    from loupe.flows.withdrawal.execution import resume_reopened

    context = opened_run(quiet=quiet)
    warn_of_unfinished(context.store)
    pipeline = ufine3c_pipeline()
    with silence() if quiet else nullcontext():
        report = run_build(context, pipeline, None, "builtin", resume_reopened)
        scores = run_evaluation(context, EvaluationRequest(str(report.release), embedder="builtin"))
    document = {**report.as_json(), "evaluation": scores.as_json()}
    more = [] if quiet else _next_lines(context, report, scores)
    return Answer(document, [report.sentence, *more])


def _next_lines(
    context: "RunContext", report: "BuildReport", scores: "EvaluationReport"
) -> Iterator[Line]:
    from loupe.db.entities import find
    from loupe.flows.cli.evaluation import board_lines
    from loupe.schemas.records import Rewrite

    rewrite = next(find(context.store, report.dataset, Rewrite.kind, states=("accepted",)), None)
    caption = rewrite.id[:12] if rewrite else "ID"
    page, release = _relative(scores.written.page), _relative(report.release)
    yield from board_lines(scores.board)
    yield _NEXT.format(
        dataset=report.dataset,
        release=release,
        caption=caption,
        page=page,
        activation=_activation(),
    )


def _activation() -> str:
    """Return how to activate the environment if `loupe` is not on the PATH."""
    script = Path(sys.executable).parent / "activate"
    if shutil.which("loupe") is not None or not script.is_file():
        return ""
    return f"\nFirst:  source {_relative(script)}\n"


def _relative(path: Path | None) -> str:
    """Return the path relative to the working directory if it is below it."""
    if path is None:
        return ""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
