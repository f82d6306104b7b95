"""`loupe duplicates`: images of a folder that have the same content."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.output import JsonOption, err, out, print_json

if TYPE_CHECKING:
    from flows.engine.fingerprints import FolderDuplicates


def duplicates(
    folder: Annotated[Path, typer.Argument(help="The folder; those in it are looked at, too.")],
    radius: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=64,
            help="Bits in which perceptual hashes may differ for images to be compared "
            "(default: 10).",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List images that are copies, near-duplicates or mirror images of each other.

    Of each cluster the largest image is kept, of equally large ones the first by its name. Nothing
    is changed in the folder. Exit code 1 where a file could not be read; it is named and left out.
    """
    from flows.engine.fingerprints import find_in_folder
    from flows.engine.progress import ConsoleProgress
    from schemas.near_duplicates import NearDuplicateSettings

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
    from flows.engine.fingerprints import way_of

    found, report = duplicates.found, duplicates.found.report
    for cluster in found.clusters:
        out.print(cluster.kept, markup=False, soft_wrap=True)
        for name, pair in zip(cluster.members[1:], cluster.dropped, strict=True):
            out.print(f"  {way_of(pair):<9} {name}", markup=False, soft_wrap=True)
    for pair in found.doubtful:
        line = f"in doubt: {pair.first} and {pair.second} ({way_of(pair)})"
        out.print(line, markup=False, soft_wrap=True)
    out.print(
        f"{report.images:,} images, {report.kept:,} of them different; duplicates: "
        f"{report.exact:,} exact, {report.near:,} near, {report.mirrored:,} mirrored; "
        f"pairs in doubt: {report.doubtful:,}",
        markup=False,
        soft_wrap=True,
    )
