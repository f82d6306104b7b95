"""`loupe demo`: the main job, from nothing to a release, on a generated world."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.output import JsonOption, err, out, print_json

if TYPE_CHECKING:
    from flows.context import RunContext
    from flows.report import BuildReport

_NEXT = """
Look at it:
  {release}/README.md            the dataset card
  {release}/images               the pictures
  loupe release verify {release}
  loupe lineage {caption}                     where one of its captions came from

Try next:
  your own data          write a build file (docs/build-files.md), then
                         loupe run build-ufine3c --config my-build.toml
  from video             loupe run build-ufine6926: people followed, filtered, described
  people in the loop     loupe up, and gate = "required" in the build file
  real models            --profile small | paper | current (docs/profiles.md)
  what is missing here   loupe doctor
"""


def demo(
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option(help="Print the result alone.")] = False,
) -> None:
    """Build a small evaluation set from a generated world of drawn people, offline."""
    from flows.context import open_context
    from flows.progress import ConsoleProgress, SilentProgress
    from flows.ufine3c_build import run_build
    from profiles.settings import load_settings

    progress = SilentProgress() if quiet else ConsoleProgress(err)
    context = open_context(load_settings(), progress=progress)
    report = run_build(context, None, "builtin")
    if as_json:
        print_json(report.as_json())
        return
    out.print(report.sentence, markup=False, soft_wrap=True)
    if not quiet:
        _print_next(context, report)


def _print_next(context: "RunContext", report: "BuildReport") -> None:
    from db.entities import find
    from schemas.records import Rewrite

    rewrite = next(find(context.store, report.dataset, Rewrite.kind, states=("accepted",)), None)
    caption = rewrite.id[:12] if rewrite else "ID"
    text = _NEXT.format(release=_short(report.release), caption=caption)
    out.print(text, markup=False, soft_wrap=True)


def _short(path: Path | None) -> str:
    """The path as seen from here, where that is shorter."""
    if path is None:
        return ""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
