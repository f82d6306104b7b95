"""`loupe import` and `loupe duplicates`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, err, out, print_json

if TYPE_CHECKING:
    from flows.engine.contamination import FolderDuplicates


_VIDEOS = "videos"


def _formats() -> list[str]:
    from sources.importer import IMPORTERS

    return [*IMPORTERS, _VIDEOS]


def import_(
    format_name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="Annotation format: cuhk-pedes, icfg-pedes, rstpreid, ufine6926, ufine3c, "
            "coco-captions, karpathy-coco, karpathy-flickr30k, mscoco-fg, flickr30k-fg, "
            "json-lines, image-list, ccd, total-text, coco-instances, licensed-images or videos.",
            autocompletion=_formats,
        ),
    ],
    path: Annotated[
        str,
        typer.Argument(
            help="Annotation file; for videos a folder, a file, a pattern, a list or a URL."
        ),
    ],
    images: Annotated[
        Path | None,
        typer.Option(help="Folder that image paths are relative to (default: that of the file)."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the source (default: the name of the format).")
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(help="Licence, if it differs from the known licence of the format."),
    ] = None,
    citation: Annotated[
        str | None,
        typer.Option(help="Citation, if it differs from the known citation of the format."),
    ] = None,
    shards: Annotated[
        bool,
        typer.Option(
            "--shards",
            help="Import into files of 10,000 records, for millions of them (`loupe shards`).",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Import annotations and images, or videos.

    Records that cannot be used are quarantined with a reason. A second import adds only what is
    missing. Exit code 1 if a record was quarantined.
    """
    from flows.engine.build_files import load_source
    from flows.engine.context import open_context
    from flows.engine.importing import import_source
    from flows.engine.report import ConsoleProgress
    from models.profiles.settings import load_settings
    from schemas.build import SourceSpec, VideoSourceSpec
    from schemas.errors import UsageError
    from sources.importer import importer_for

    settings = load_settings()
    err.print(f"home: {escape(str(settings.home))}", soft_wrap=True)
    context = open_context(settings, progress=ConsoleProgress(err))
    if format_name == _VIDEOS:
        from flows.ufine6926.video_import import import_videos

        if shards:
            raise UsageError("videos cannot be imported into shards; leave out --shards")
        if licence is None:
            raise UsageError("videos need a licence; give it with --licence")
        videos = load_source(
            VideoSourceSpec,
            name=name or _VIDEOS,
            videos=(path,),
            licence=licence,
            citation=citation or "",
        )
        dataset, (_, report) = videos.name, import_videos(context, videos)
    else:
        spec = load_source(
            SourceSpec,
            name=name or importer_for(format_name).format,
            format=format_name,
            annotations=Path(path),
            images=images or Path(path).parent,
            licence=licence,
            citation=citation,
        )
        dataset = spec.name
        if shards:
            from flows.shards.steps import import_shards

            report = import_shards(context, spec)
        else:
            _, report = import_source(context, spec)
    if as_json:
        print_json(report.as_json())
    if report.rejected:
        err.print(f"show the quarantined records with: loupe quarantine {dataset}")
        raise typer.Exit(1)


def duplicates(
    folder: Annotated[Path, typer.Argument(help="The folder, searched recursively.")],
    radius: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=64,
            help="Compare images whose perceptual hashes differ in at most this many bits "
            "(default: 10).",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List duplicate images in a folder.

    Finds exact, near and mirrored duplicates. Of each cluster, the largest image is marked as kept
    (of equally large ones, the first by name). The folder is not changed. Exit code 1 if a file
    could not be read; it is skipped.
    """
    from flows.engine.contamination import find_in_folder
    from flows.engine.report import ConsoleProgress
    from schemas.similarity import NearDuplicateSettings

    settings = NearDuplicateSettings()
    if radius is not None:
        settings = settings.model_copy(update={"hash_bits": radius})
    found = find_in_folder(folder, settings, ConsoleProgress(err))
    if as_json:
        print_json(found.as_json())
    else:
        _show(found)
    for rejection in found.unreadable:
        err.print(rejection.detail, markup=False, soft_wrap=True)
    if found.unreadable:
        raise typer.Exit(1)


def _show(duplicates: "FolderDuplicates") -> None:
    from flows.engine.contamination import similarity_name

    found, report = duplicates.found, duplicates.found.report
    for cluster in found.clusters:
        out.print(cluster.kept, markup=False, soft_wrap=True)
        for name, pair in zip(cluster.members[1:], cluster.dropped, strict=True):
            out.print(f"  {similarity_name(pair):<9} {name}", markup=False, soft_wrap=True)
    for pair in found.doubtful:
        line = f"in doubt: {pair.first} and {pair.second} ({similarity_name(pair)})"
        out.print(line, markup=False, soft_wrap=True)
    out.print(
        f"{report.images:,} images, {report.kept:,} of them different; duplicates: "
        f"{report.exact:,} exact, {report.near:,} near, {report.mirrored:,} mirrored; "
        f"pairs in doubt: {report.doubtful:,}",
        markup=False,
        soft_wrap=True,
    )
