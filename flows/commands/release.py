"""`loupe release`: build, list, show and verify releases."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.commands.output import JsonOption, err, out, print_json, print_table

if TYPE_CHECKING:
    from db.releases import StoredRelease
    from db.store import Store
    from release.build import Progress

app = typer.Typer(help="Build, list, show and verify releases.", no_args_is_help=True)

_SHOWN_PROBLEMS = 50


@app.command()
def build(
    dataset: Annotated[str, typer.Argument(help="The dataset to release.")],
    version: Annotated[str, typer.Option(help="Three numbers, such as 1.0.0.")],
    out_folder: Annotated[
        Path, typer.Option("--out", help="The folder that the release becomes; must not exist.")
    ],
    tier: Annotated[
        str | None,
        typer.Option(help="For a benchmark in versions: v0, v1 or v2, whose number is 0, 1 or 2."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Build a version of a dataset from what was decided so far."""
    from db.blobs import BlobStore
    from profiles.settings import load_settings
    from release.build import build_release
    from release.tiers import tier_called

    blobs, chosen = BlobStore(load_settings().blobs_url), tier_called(tier)
    with _opened_store() as store, _progress_bar() as on_progress:
        built = build_release(
            store, blobs, dataset, version, out_folder, tier=chosen, on_progress=on_progress
        )
    manifest = built.manifest
    if as_json:
        print_json(
            {
                **manifest.model_dump(mode="json"),
                "folder": str(built.folder),
                "is_new": built.is_new,
            }
        )
        return
    done = "built" if built.is_new else "is there already, unchanged:"
    out.print(
        f"{escape(dataset)} {version} {done} {escape(str(built.folder))}\n"
        f"  {manifest.statistics.images:,} images, {manifest.statistics.captions:,} captions, "
        f"id {manifest.id}",
        soft_wrap=True,
    )


@app.command("list")
def list_(
    dataset: Annotated[str | None, typer.Argument(help="Only this dataset's.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the releases that were built here."""
    from db.releases import list_releases

    with _opened_store() as store:
        rows = [_summary(one) for one in list_releases(store, dataset)]
    if as_json:
        print_json(rows)
    elif rows:
        columns = ("dataset", "version", "images", "captions", "id", "folder")
        shown = [{**row, "id": row["id"][:12]} for row in rows]
        print_table("releases", columns, [[row[name] for name in columns] for row in shown])
    else:
        out.print("no releases yet; build one with: loupe release build DATASET --version 1.0.0 …")


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="DATASET (its newest), DATASET@VERSION, or an id's beginning.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Show what a release holds: its card, or with --json its manifest without the files."""
    from db.releases import find_release

    with _opened_store() as store:
        found = find_release(store, name)
    if as_json:
        print_json({**found.manifest.model_dump(mode="json"), **_place(found)})
        return
    from rich.markdown import Markdown

    from release.card import card_body

    out.print(Markdown(card_body(found.manifest)))
    out.print(f"\nid {found.manifest.id}\nbuilt {found.built_at:%Y-%m-%d %H:%M:%S} UTC", end="")
    out.print(f" in {escape(str(found.folder))}", soft_wrap=True)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="The folder of a release, wherever it came from.")],
    expected_id: Annotated[
        str | None, typer.Option("--id", help="The release's id as it was cited.")
    ] = None,
    decode: Annotated[
        bool, typer.Option("--decode/--no-decode", help="Decode every image in full.")
    ] = True,
    contains: Annotated[
        Path | None,
        typer.Option(help="The folder of another release, all rows of which must stand in it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check every file, row and reference of a release, offline, from its folder alone.

    Ends with exit code 1 and the list of problems where something is wrong.
    """
    from release.verify import verify_release

    problems = verify_release(folder, expected_id=expected_id, decode=decode, contains=contains)
    if as_json:
        found = [problem.model_dump(mode="json") for problem in problems]
        print_json({"folder": str(folder), "ok": not problems, "problems": found})
    elif problems:
        for problem in problems[:_SHOWN_PROBLEMS]:
            out.print(f"[red]✗[/red] {escape(problem.message)}", soft_wrap=True)
        if (more := len(problems) - _SHOWN_PROBLEMS) > 0:
            out.print(f"… and {more:,} more; --json lists them")
    else:
        held = f", and holds all of {contains}" if contains else ""
        told = f"{folder} is complete and unchanged{held}"
        out.print(f"[green]✓[/green] {escape(told)}", soft_wrap=True)
    if problems:
        raise typer.Exit(1)


def _summary(release: "StoredRelease") -> dict[str, Any]:
    manifest = release.manifest
    return {
        "id": manifest.id,
        "dataset": manifest.dataset,
        "version": manifest.version,
        "images": manifest.statistics.images,
        "captions": manifest.statistics.captions,
        "demonstration": manifest.demonstration,
        "unreviewed": manifest.unreviewed,
        **_place(release),
    }


def _place(release: "StoredRelease") -> dict[str, str]:
    return {"folder": str(release.folder), "built_at": release.built_at.isoformat()}


@contextmanager
def _opened_store() -> Iterator["Store"]:
    from db.store import Store
    from profiles.settings import load_settings

    store = Store.open(load_settings().database_url)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def _progress_bar() -> Iterator["Progress"]:
    """A bar on a terminal, nothing elsewhere."""
    from rich.progress import Progress

    with Progress(console=err, transient=True, disable=not err.is_terminal) as bars:
        task = bars.add_task("writing images")
        yield lambda done, total: bars.update(task, completed=done, total=total)
