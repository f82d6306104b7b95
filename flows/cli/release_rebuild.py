"""`loupe release rebuild`: a past release, from the store alone."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, out, print_json
from flows.cli.release_opening import NameArgument, opened_store, progress_bar


def rebuild(
    name: NameArgument,
    out_folder: Annotated[Path, typer.Option("--out", help="The folder to write; must not exist.")],
    as_json: JsonOption = False,
) -> None:
    """Build a past release again, byte for byte.

    Later data and decisions have no effect. Nothing is written if the result differs or if anything
    in the release was withdrawn.
    """
    from db.blobs import BlobStore
    from db.releases import find_release
    from profiles.settings import load_settings
    from release.rebuild import rebuild_release

    settings = load_settings()
    with opened_store() as store, progress_bar() as on_progress:
        stored, blobs = find_release(store, name), BlobStore(settings.blobs_url)
        built = rebuild_release(store, blobs, stored, out_folder, on_progress=on_progress)
    manifest = built.manifest
    if as_json:
        place = {"folder": str(built.folder), "known_in": str(built.known_in)}
        done = {"is_new": built.is_new, "identical": True}
        known = {"id": manifest.id, "dataset": manifest.dataset, "version": manifest.version}
        print_json({**known, "images": manifest.statistics.images, **place, **done})
        return
    how = "rebuilt in" if built.is_new else "is there already, unchanged:"
    details = (
        f"{manifest.dataset} {manifest.version} {how} {built.folder}\n"
        f"  byte for byte the same: {manifest.statistics.images:,} images, "
        f"{manifest.files_count:,} files, id {manifest.id}"
    )
    if built.elsewhere:
        details += f"\n  {built.elsewhere}"
    out.print(escape(details), soft_wrap=True)
