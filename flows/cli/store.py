"""`loupe store`: whether all files of the blob store are there, and right."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from flows.cli.output import JsonOption, err, out, print_json
from flows.cli.release_opening import progress_bar

if TYPE_CHECKING:
    from db.blob_check import FaultyBlob


T = TypeVar("T")

app = typer.Typer(help="The blob store: check its files, make them again.", no_args_is_help=True)

_LISTED = 10_000
"""So many of each kind are told one by one, so that memory has a bound; all are counted."""
_SHOWN = 20


@app.command()
def check(
    repair: Annotated[
        bool, typer.Option("--repair", help="Make again what is missing or damaged.")
    ] = False,
    folders: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            help="A folder with the files of a source, videos, or a backup of the blob store; may "
            "be given more than once.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="List files that nothing names; none is removed.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare every file with its digest; exit code 1 if one is missing or damaged at the end.

    With --repair it is made again: copied from a release or a backup, read from its source, cut
    out of its video, drawn or edited again; only bytes with the right digest are put in place.
    """
    from db.blob_check import BlobCheck
    from flows.engine.blob_repair import mend
    from flows.engine.context import open_context
    from profiles.settings import load_settings
    from schemas.errors import UsageError

    if folders and not repair:
        raise UsageError("--from names where files are repaired from: say --repair, too")
    context = open_context(load_settings(), flow_run="loupe store check")
    with BlobCheck(context.store, context.blobs) as found:
        with progress_bar("reading files") as advance:
            checked = found.run(advance)
        repaired, mended = _counted(mend(context, found, folders or ()) if repair else ())
        count, faulty = _counted(found.faulty())
        unnamed, paths = _counted(found.orphans() if orphans else ())
    context.store.close()
    if as_json:
        document: dict[str, Any] = {
            "checked": checked,
            "faulty": count,
            "faults": [_as_json(one) for one in faulty],
            "mended": repaired,
            "repairs": [{"sha256": one.blob.sha256, "from": one.origin} for one in mended],
        }
        print_json(document | ({"orphans": unnamed, "orphan_paths": paths} if orphans else {}))
    else:
        for one in mended[:_SHOWN]:
            err.print(f"{one.blob.sha256[:12]} is right again: {one.origin}", markup=False)
        for fault in faulty[:_SHOWN]:
            out.print(f"{fault.fault}: {_named(fault)}", markup=False, soft_wrap=True)
        for path in paths[:_SHOWN]:
            out.print(f"nobody names: {path}", markup=False, soft_wrap=True)
        out.print(_summary(checked, repaired, count, repair), soft_wrap=True)
        if orphans:
            out.print(f"{unnamed:,} files are named by nothing; none was removed", soft_wrap=True)
    if count:
        raise typer.Exit(1)


def _counted(found: Iterable[T]) -> tuple[int, list[T]]:
    """How many there are, and the first of them."""
    first: list[T] = []
    count = 0
    for count, one in enumerate(found, start=1):
        if count <= _LISTED:
            first.append(one)
    return count, first


def _as_json(one: "FaultyBlob") -> dict[str, Any]:
    return {
        "sha256": one.blob.sha256,
        "media_type": one.blob.media_type,
        "fault": one.fault,
        "entity_id": one.entity_id,
    }


def _named(one: "FaultyBlob") -> str:
    return f"{one.blob.sha256} ({one.blob.media_type}), of loupe lineage {one.entity_id[:12]}"


def _summary(checked: int, repaired: int, left: int, repair: bool) -> str:
    mended = f", {repaired:,} made again" if repair else ""
    told = f"{checked:,} files looked at{mended}, {left:,} missing or damaged"
    if not left:
        return f"[green]{told}[/]"
    if not repair:
        return f"[red]{told}[/]: loupe store check --repair"
    return (
        f"[red]{told}[/]: name the folder of their source, videos or a backup with --from, or run "
        "the build again, which draws and downloads what it lacks, and then check again"
    )
