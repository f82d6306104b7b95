"""`loupe import`: reads a public annotation format into the store."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.output import JsonOption, err, print_json


def import_(
    format_name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="cuhk-pedes, icfg-pedes, rstpreid, ufine6926, ufine3c, coco-captions, "
            "karpathy-coco, karpathy-flickr30k or json-lines.",
        ),
    ],
    path: Annotated[Path, typer.Argument(help="The annotation file.")],
    images: Annotated[
        Path | None,
        typer.Option(help="The folder that image paths are relative to (default: the file's)."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The source's name (default: the format's).")
    ] = None,
    licence: Annotated[str | None, typer.Option(help="Terms that differ from the known.")] = None,
    citation: Annotated[str | None, typer.Option(help="Citation, if not the known.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Import annotations and images; what cannot be used goes to quarantine with its reason.

    A second time does only what is missing. Exit code 1 where something was quarantined.
    """
    from flows.configuration import load_source
    from flows.context import open_context
    from flows.importing import import_source
    from flows.progress import ConsoleProgress
    from profiles.settings import load_settings
    from sources.importer import importer_for

    spec = load_source(
        name=name or importer_for(format_name).format,
        format=format_name,
        annotations=path,
        images=images or path.parent,
        licence=licence,
        citation=citation,
    )
    context = open_context(load_settings(), progress=ConsoleProgress(err))
    _, report = import_source(context, spec)
    if as_json:
        print_json(report.as_json())
    if report.rejected:
        err.print(f"look at what was quarantined with: loupe quarantine {spec.name}")
        raise typer.Exit(1)
