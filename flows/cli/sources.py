"""`loupe import`: reads a public annotation format, or videos, into the store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.output import JsonOption, err, print_json
from schemas.errors import UsageError

if TYPE_CHECKING:
    from flows.engine.context import RunContext
    from flows.engine.report import StageReport


_VIDEOS = "videos"


def import_(
    format_name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="cuhk-pedes, icfg-pedes, rstpreid, ufine6926, ufine3c, coco-captions, "
            "karpathy-coco, karpathy-flickr30k, json-lines, image-list, ccd, total-text, "
            "coco-instances, licensed-images or videos.",
        ),
    ],
    path: Annotated[
        str,
        typer.Argument(
            help="The annotation file; of videos a folder, a file, a pattern, a list or a URL."
        ),
    ],
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
    from flows.engine.context import open_context
    from flows.engine.progress import ConsoleProgress
    from profiles.settings import load_settings

    context = open_context(load_settings(), progress=ConsoleProgress(err))
    if format_name == _VIDEOS:
        dataset = name or _VIDEOS
        report = _import_videos(context, dataset, path, licence, citation)
    else:
        dataset, report = _import_annotations(
            context, format_name, Path(path), images, name, licence, citation
        )
    if as_json:
        print_json(report.as_json())
    if report.rejected:
        err.print(f"look at what was quarantined with: loupe quarantine {dataset}")
        raise typer.Exit(1)


def _import_annotations(
    context: "RunContext",
    format_name: str,
    path: Path,
    images: Path | None,
    name: str | None,
    licence: str | None,
    citation: str | None,
) -> "tuple[str, StageReport]":
    from flows.engine.build_files import load_source
    from flows.engine.importing import import_source
    from sources.importer import importer_for

    spec = load_source(
        name=name or importer_for(format_name).format,
        format=format_name,
        annotations=path,
        images=images or path.parent,
        licence=licence,
        citation=citation,
    )
    return spec.name, import_source(context, spec)[1]


def _import_videos(
    context: "RunContext", name: str, address: str, licence: str | None, citation: str | None
) -> "StageReport":
    from flows.engine.build_files import load_video_source
    from flows.ufine6926.video_import import import_videos

    if licence is None:
        raise UsageError("videos state no licence of their own; give their terms with --licence")
    spec = load_video_source(name=name, videos=(address,), licence=licence, citation=citation or "")
    return import_videos(context, spec)[1]
