"""`loupe release report`: a release as pages that open from the disk."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.commands.output import JsonOption, err, out, print_json
from flows.commands.release_opening import VerifyOption


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a release.")],
    target: Annotated[
        Path,
        typer.Option(
            "--out",
            help="The folder that the report becomes; must not exist. Beside the release, the "
            "pages show its images at full size.",
        ),
    ],
    previous: Annotated[
        Path | None,
        typer.Option(help="The folder of the release before, to tell what differs."),
    ] = None,
    previews: Annotated[
        bool | None,
        typer.Option(
            "--previews/--no-previews",
            help="Put pictures of up to 800 pixels into the report; without either, where the "
            "release does not lie beside it.",
        ),
    ] = None,
    verify: VerifyOption = True,
    as_json: JsonOption = False,
) -> None:
    """Write a report on a release: gallery, numbers, lineage, difference. Open its index.html."""
    from rich.progress import Progress

    from release.report.writing import write_report

    with Progress(console=err, transient=True, disable=not err.is_terminal) as bars:
        task = bars.add_task("writing pictures")
        written = write_report(
            folder,
            target,
            previous=previous,
            previews=previews,
            verify=verify,
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
    if written.record.withdrawn:
        err.print(
            f"[yellow]warning:[/yellow] of {written.record.withdrawn:,} rows nothing, or not all, "
            f"is shown, because it was withdrawn",
            soft_wrap=True,
        )
    record, page = written.record, written.folder / "index.html"
    if as_json:
        print_json(
            {
                **record.model_dump(mode="json"),
                "page": str(page),
                "is_new": written.is_new,
                "unreadable": list(written.unreadable),
            }
        )
        return
    done = "is reported on in" if written.is_new else "is reported on already, unchanged, in"
    out.print(
        f"{escape(record.dataset)} {record.version} {done} {escape(str(page))}\n"
        f"  {record.rows:,} rows",
        soft_wrap=True,
    )
    if written.unreadable:
        shown = ", ".join(written.unreadable)
        err.print(
            f"[yellow]warning:[/yellow] no picture could be made of: {escape(shown)}",
            soft_wrap=True,
        )
