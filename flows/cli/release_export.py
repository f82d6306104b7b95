"""`loupe release export`: a release in the formats that others load."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, out, print_json, warn
from flows.cli.release_opening import VerifyOption, folder_called, progress_bar


def export(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RELEASE",
            help="The folder of a release, or DATASET (its newest), DATASET@VERSION, or an id's "
            "beginning.",
        ),
    ],
    format_name: Annotated[
        str,
        typer.Option("--format", help="webdataset, hf, coco, lmdb, parquet or published."),
    ],
    target: Annotated[Path, typer.Option("--out", help="The folder to write; must not exist.")],
    shard_megabytes: Annotated[
        int | None,
        typer.Option(
            "--shard-mb", min=1, help="webdataset only: megabytes per shard. Default: 500."
        ),
    ] = None,
    verify: VerifyOption = True,
    as_json: JsonOption = False,
) -> None:
    """Write a release in the format of another library.

    The same release always gives the same bytes.
    """
    from flows.withdrawal.withdrawn import known_notices, withdrawal_in
    from profiles.settings import load_settings
    from release.export.exporting import export_release
    from release.export.formats import format_called

    shard_bytes = None if shard_megabytes is None else shard_megabytes * 1_000_000
    chosen, folder = format_called(format_name, shard_bytes), folder_called(name)
    if withdrawal := withdrawal_in(folder, known_notices(load_settings())):
        warn(withdrawal.sentence)
    with progress_bar("exporting") as on_progress:
        exported = export_release(
            folder,
            chosen,
            target,
            verify=verify,
            on_progress=on_progress,
        )
    record = exported.record
    if as_json:
        print_json(
            {
                **record.model_dump(mode="json"),
                "folder": str(exported.folder),
                "is_new": exported.is_new,
            }
        )
        return
    done = "exported as" if exported.is_new else "is there already, unchanged, as"
    out.print(
        f"{escape(record.dataset)} {record.version} {done} {record.format}: "
        f"{escape(str(exported.folder))}\n"
        f"  {record.images:,} images, {record.captions:,} captions",
        soft_wrap=True,
    )
