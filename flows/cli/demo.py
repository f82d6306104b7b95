"""`loupe demo`: the main job, from nothing to a release and its leaderboard, offline."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.output import JsonOption, err, out, print_json
from flows.cli.withdrawals import warn_of_unfinished

if TYPE_CHECKING:
    from flows.engine.context import RunContext
    from flows.engine.report import BuildReport
    from flows.evaluation.run import EvaluationReport


_NEXT = """{activation}
Look at it:
  the dataset card       {release}/README.md
  the pictures           {release}/images
  who finds whom in it   {page}
  a page of all this     loupe release report {release} --out {release}-report
  is it unchanged?       loupe release verify {release}
  whence a caption came  loupe lineage {caption}

Try next:
  your own data          write a build file (docs/build-files.md), then
                         loupe run build-ufine3c --config my-build.toml
  from video             loupe run build-ufine6926: people followed, filtered, described
  people in the loop     loupe up, and gate = "required" in the build file
  real models            --profile small | paper | current (docs/profiles.md)
  other formats          loupe release export DIR --format webdataset | hf | coco | lmdb …
  take something back    loupe withdraw images/12.jpg --release {release}
                         --ground privacy --reason "…" --dry-run
  score a model          loupe evaluate {release} --embedder open_clip:ViT-B-16-quickgelu@openai
  what is missing here   loupe doctor
"""


def demo(
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option(help="Print the result alone.")] = False,
) -> None:
    """Build a small evaluation set of drawn people, offline, and score a model on it."""
    from flows.engine.context import open_context
    from flows.engine.progress import ConsoleProgress, SilentProgress
    from flows.evaluation.run import EvaluationRequest, run_evaluation
    from flows.ufine3c.pipeline import run_build
    from profiles.settings import load_settings

    progress = SilentProgress() if quiet else ConsoleProgress(err)
    context = open_context(load_settings(), progress=progress)
    warn_of_unfinished(context.store)
    report = run_build(context, None, "builtin")
    scores = run_evaluation(context, EvaluationRequest(str(report.release), embedder="builtin"))
    if as_json:
        print_json({**report.as_json(), "evaluation": scores.as_json()})
        return
    out.print(report.sentence, markup=False, soft_wrap=True)
    if not quiet:
        _print_next(context, report, scores)


def _print_next(context: "RunContext", report: "BuildReport", scores: "EvaluationReport") -> None:
    from db.entities import find
    from flows.cli.leaderboard import print_boards
    from schemas.records import Rewrite

    rewrite = next(find(context.store, report.dataset, Rewrite.kind, states=("accepted",)), None)
    caption = rewrite.id[:12] if rewrite else "ID"
    page, release = _short(scores.written.page), _short(report.release)
    text = _NEXT.format(release=release, caption=caption, page=page, activation=_activation())
    print_boards(scores.board)
    out.print(text, markup=False, soft_wrap=True)


def _activation() -> str:
    """How to have `loupe` as a command, where the shell does not know it yet."""
    script = Path(sys.executable).parent / "activate"
    if shutil.which("loupe") is not None or not script.is_file():
        return ""
    return f"\nFirst:  source {_short(script)}\n"


def _short(path: Path | None) -> str:
    """The path as seen from here, where that is shorter."""
    if path is None:
        return ""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
