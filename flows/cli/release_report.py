"""`loupe release report`: a release as pages that open from the disk."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, out, print_json, warn
from flows.cli.release_opening import FolderArgument, VerifyOption, progress_bar


def report(
    folder: FolderArgument,
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
        typer.Option(help="The folder of an earlier release to compare with."),
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
    """Write an HTML report on a release.

    It shows a gallery, statistics, lineage and the differences from an earlier release. Open its
    index.html.
    """
    from flows.withdrawal.withdrawn import known_notices
    from profiles.settings import load_settings
    from release.report.writing import write_report

    known = known_notices(load_settings())
    with progress_bar("writing pictures") as on_progress:
        written = write_report(
            folder,
            target,
            previous=previous,
            previews=previews,
            verify=verify,
            notices=known,
            on_progress=on_progress,
        )
    if written.record.withdrawn:
        warn(
            f"of {written.record.withdrawn:,} rows nothing, or not all, is shown, because it was "
            f"withdrawn"
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
        warn(f"no picture could be made of: {', '.join(written.unreadable)}")
