"""`loupe release`: all that is done with releases; building, listing and showing them here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.commands.output import JsonOption, err, out, print_json, print_table
from flows.commands.release_contamination import contamination
from flows.commands.release_diff import diff
from flows.commands.release_export import export
from flows.commands.release_opening import opened_store, progress_bar
from flows.commands.release_proofs import check_proof, prove
from flows.commands.release_rebuild import rebuild
from flows.commands.release_report import report
from flows.commands.release_sign import sign
from flows.commands.release_upload import upload
from flows.commands.release_verify import verify

if TYPE_CHECKING:
    from db.releases import StoredRelease

app = typer.Typer(
    help="Build, verify, compare, rebuild, sign, export and upload releases.", no_args_is_help=True
)


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
    measure: Annotated[
        bool,
        typer.Option(
            "--measure/--no-measure",
            help="Of a contrastive benchmark, measure how near other samples are, by the profile's "
            "model.",
        ),
    ] = True,
    strict_version: Annotated[
        bool,
        typer.Option(
            "--strict-version",
            help="Refuse a version that is too small for what differs from the one before (rebuilt "
            "for that where it is gone); otherwise it is only told.",
        ),
    ] = False,
    date: Annotated[
        str | None,
        typer.Option(help="The day it is published on (2026-11-22); else none is told."),
    ] = None,
    permitted_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE=REASON",
            help="Why the terms of a source that are no licence we know permit the release. May be "
            "given several times.",
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME_OR_DIR",
            help="Hold it against this release, dataset of the store, or folder of images "
            "(NAME=DIR to call it so). May be given several times.",
        ),
    ] = None,
    refuse_contaminated: Annotated[
        bool,
        typer.Option(
            "--refuse-contaminated",
            help="Refuse a release of which anything is in what it is held against; otherwise it "
            "is only stated.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Build a version of a dataset from what was decided so far."""
    from db.blobs import BlobStore
    from flows.contamination import NamedDatasets, contamination_inspection, held_against
    from flows.context import open_context
    from flows.release_checks import release_checks
    from flows.release_facts import release_facts
    from flows.release_signing import release_signer
    from flows.release_versions import all_of, version_inspection
    from profiles.settings import load_settings
    from release.build import build_release
    from release.tiers import tier_called

    settings = load_settings()
    signer = release_signer(settings)
    facts = release_facts(
        settings.releases_file,
        dataset,
        date_released=date,
        permitted_by=tuple(permitted_by or ()),
    )
    blobs, chosen = BlobStore(settings.blobs_url), tier_called(tier)
    with (
        opened_store() as store,
        NamedDatasets(lambda: open_context(settings)) as named,
        progress_bar() as on_progress,
    ):
        checks = release_checks(store, settings, dataset, facts=facts)
        checks = checks._replace(against=held_against(map(named.called, against or ())))
        if not measure:
            checks = checks._replace(nearest=None)
        built = build_release(
            store,
            blobs,
            dataset,
            version,
            out_folder,
            tier=chosen,
            checks=checks,
            signer=signer,
            on_progress=on_progress,
            inspect=all_of(
                version_inspection(store, blobs, _warn, strict=strict_version),
                contamination_inspection(_warn, refuse=refuse_contaminated),
            ),
        )
    manifest = built.manifest
    if built.unsigned:
        _warn(built.unsigned)
    if as_json:
        print_json(
            {
                **manifest.model_dump(mode="json"),
                "folder": str(built.folder),
                "known_in": str(built.known_in),
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
    if built.elsewhere:
        out.print(f"  {escape(built.elsewhere)}", soft_wrap=True)


@app.command("list")
def list_(
    dataset: Annotated[str | None, typer.Argument(help="Only this dataset's.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the releases that were built here."""
    from db.releases import list_releases
    from profiles.settings import load_settings

    home = load_settings().home
    with opened_store() as store:
        rows = [_summary(one, home) for one in list_releases(store, dataset)]
    if as_json:
        print_json(rows)
    elif rows:
        columns = ["dataset", "version", "images", "captions", "id", "folder"]
        shown = [{**row, "id": row["id"][:12], "folder": _folder_or_gone(row)} for row in rows]
        if any(row["withdrawal"] for row in rows):
            columns.append("withdrawn")
            for row in shown:
                row["withdrawn"] = _withdrawn_in_short(row["withdrawal"])
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
    from flows.withdrawn_releases import withdrawal_of
    from profiles.settings import load_settings

    with opened_store() as store:
        found = find_release(store, name)
    withdrawal = withdrawal_of(load_settings().home, found.manifest, found.folder)
    if as_json:
        told = withdrawal and withdrawal.model_dump(mode="json")
        print_json({**found.manifest.model_dump(mode="json"), **_place(found), "withdrawal": told})
        return
    if withdrawal:
        _warn(withdrawal.sentence)
    from rich.markdown import Markdown

    from release.card import card_body

    out.print(Markdown(card_body(found.manifest)))
    out.print(f"\nid {found.manifest.id}\nbuilt {found.built_at:%Y-%m-%d %H:%M:%S} UTC", end="")
    out.print(f" in {escape(_folder_or_gone(_place(found)))}", soft_wrap=True)


app.command()(verify)
app.command()(report)
app.command()(diff)
app.command()(rebuild)
app.command()(export)
app.command()(upload)
app.command()(contamination)
app.command()(sign)
app.command()(prove)
app.command()(check_proof)


def _summary(release: "StoredRelease", home: Path) -> dict[str, Any]:
    from flows.withdrawn_releases import withdrawal_of

    manifest = release.manifest
    withdrawal = withdrawal_of(home, manifest, release.folder)
    return {
        "id": manifest.id,
        "dataset": manifest.dataset,
        "version": manifest.version,
        "images": manifest.statistics.images,
        "captions": manifest.statistics.captions,
        "demonstration": manifest.demonstration,
        "unreviewed": manifest.unreviewed,
        **_place(release),
        "withdrawal": withdrawal and withdrawal.model_dump(mode="json"),
    }


def _withdrawn_in_short(withdrawal: dict[str, Any] | None) -> str | None:
    if withdrawal is None:
        return None
    rows = "1 row" if withdrawal["rows"] == 1 else f"{withdrawal['rows']:,} rows"
    newer = withdrawal["superseded_by"]
    return f"{rows}; use {newer}" if newer else f"{rows}"


def _place(release: "StoredRelease") -> dict[str, Any]:
    from release.manifest import MANIFEST

    return {
        "folder": str(release.folder),
        "is_there": (release.folder / MANIFEST).is_file(),
        "built_at": release.built_at.isoformat(),
    }


def _folder_or_gone(place: dict[str, Any]) -> str:
    folder: str = place["folder"]
    return folder if place["is_there"] else f"{folder} (not there any more)"


def _warn(message: str) -> None:
    err.print(f"[yellow]warning:[/yellow] {escape(message)}", soft_wrap=True)
