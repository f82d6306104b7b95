"""`loupe release`: build, list and show releases; the other commands are in `release_*.py`."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.commands import command, group
from flows.cli.options import (
    NameArgument,
    ReleaseArgument,
    known_withdrawals,
    opened_store,
    progress_bar,
    warn_of_unfinished,
    within_memory,
)
from flows.cli.output import JsonOption, out, print_json, print_table, warn
from flows.cli.release_compare import contamination, diff
from flows.cli.release_export import export, report, upload
from flows.cli.release_verify import sign, verify

if TYPE_CHECKING:
    from db.releases import StoredRelease
    from schemas.withdrawal import WithdrawalNotice


# `loupe release build` and `rebuild`: an immutable folder from the decisions in the store.


def build(
    dataset: str,
    *,
    version: str,
    out_folder: Annotated[Path, typer.Option("--out")],
    tier: str | None = None,
    measure: bool = True,
    strict_version: bool = False,
    date: str | None = None,
    permitted_by: Annotated[list[str] | None, typer.Option(metavar="SOURCE=REASON")] = None,
    against: Annotated[list[str] | None, typer.Option(metavar="NAME_OR_DIR")] = None,
    refuse_contaminated: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Build a version of a dataset from the decisions so far.

    Args:
        dataset: The dataset to release.
        version: Three numbers, such as 1.0.0.
        out_folder: The folder to write; must not exist.
        tier: For a benchmark with tiers: v0, v1 or v2; the version starts with 0, 1 or 2.
        measure: Measure how similar other samples are (contrastive benchmarks), with the model of
            the profile.
        strict_version: Refuse a version that is too small for the differences from the previous
            release, which is rebuilt if missing. Default: only report it.
        date: Date of publication, such as 2026-11-22. Default: none.
        permitted_by: Why the terms of a source without a known licence permit the release. May be
            given several times.
        against: Compare with this release, dataset of the store, or folder of images (NAME=DIR to
            name it). May be given several times.
        refuse_contaminated: Refuse a release that shares content with the data it is compared with.
            Default: only report it.
    """
    from db.blobs import BlobStore
    from flows.engine.contamination import comparison_with, contamination_inspection, dataset_called
    from flows.engine.context import open_context
    from flows.engine.release_facts import release_facts, unknown_names
    from flows.engine.releasing import all_of, release_checks, release_signer, version_inspection
    from models.profiles.settings import load_settings
    from release.build import build_release
    from schemas.retrieval_task import tier_called

    settings = load_settings()
    signer = release_signer(settings)
    permissions = tuple(permitted_by or ())
    facts = release_facts(
        settings.releases_file, dataset, date_released=date, permitted_by=permissions
    )
    blobs, chosen = BlobStore(settings.blobs_url), tier_called(tier)
    run = cache(lambda: open_context(settings))
    with opened_store() as store, progress_bar() as on_progress:
        for warning in unknown_names(settings.releases_file, facts, store):
            warn(warning)
        warn_of_unfinished(store)
        checks = release_checks(store, settings, dataset, facts=facts)
        others = [dataset_called(run, one) for one in against or ()]
        checks = checks._replace(against=comparison_with(others))
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
                version_inspection(store, blobs, warn, strict=strict_version),
                contamination_inspection(warn, refuse=refuse_contaminated),
            ),
        )
    if built.unsigned:
        warn(built.unsigned)
    manifest = built.manifest
    if as_json:
        place = {"folder": str(built.folder), "known_in": str(built.known_in)}
        print_json({**manifest.model_dump(mode="json"), **place, "is_new": built.is_new})
        return
    done = "built" if built.is_new else "already exists, unchanged:"
    out.print(
        f"{escape(manifest.dataset)} {manifest.version} {done} {escape(str(built.folder))}\n"
        f"  {manifest.statistics.images:,} images, {manifest.statistics.captions:,} captions, "
        f"id {manifest.id}",
        soft_wrap=True,
    )
    if built.elsewhere:
        out.print(f"  {escape(built.elsewhere)}", soft_wrap=True)


def rebuild(
    name: NameArgument,
    *,
    out_folder: Annotated[Path, typer.Option("--out")],
    as_json: JsonOption = False,
) -> None:
    """Build a past release again, byte for byte.

    Later data and decisions have no effect. Nothing is written if the result differs or if anything
    in the release was withdrawn.

    Args:
        out_folder: The folder to write; must not exist.
    """
    from db.blobs import BlobStore
    from db.releases import find_release
    from models.profiles.settings import load_settings
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
    how = "rebuilt in" if built.is_new else "already exists, unchanged:"
    details = (
        f"{manifest.dataset} {manifest.version} {how} {built.folder}\n"
        f"  byte for byte the same: {manifest.statistics.images:,} images, "
        f"{manifest.files_count:,} files, id {manifest.id}"
    )
    if built.elsewhere:
        details += f"\n  {built.elsewhere}"
    out.print(escape(details), soft_wrap=True)


# `loupe release list` and `show`: the releases that were built here, and their content.


def list_(dataset: str | None = None, *, as_json: JsonOption = False) -> None:
    """List the releases built here.

    Args:
        dataset: Only releases of this dataset.
    """
    from db.releases import list_releases
    from flows.withdrawal.releases import known_notices
    from models.profiles.settings import load_settings

    with opened_store() as store:
        known = known_notices(load_settings(), store)
        rows = [_summary(one, known) for one in list_releases(store, dataset)]
        warn_of_unfinished(store)
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


def show(name: ReleaseArgument, *, as_json: JsonOption = False) -> None:
    """Show the card of a release.

    With --json: its manifest, without the list of files.
    """
    from db.releases import find_release
    from flows.withdrawal.releases import withdrawal_of
    from release.row_files import ListedRelease

    if "/" in name or Path(name).is_dir():
        manifest = ListedRelease(Path(name)).manifest
        place: dict[str, Any] = {"folder": str(Path(name)), "is_there": True, "built_at": None}
    else:
        with opened_store() as store:
            found = find_release(store, name)
        manifest, place = found.manifest, _place(found)
    withdrawal = withdrawal_of(manifest, Path(place["folder"]), known_withdrawals())
    if as_json:
        details = withdrawal and withdrawal.model_dump(mode="json")
        print_json({**manifest.model_dump(mode="json"), **place, "withdrawal": details})
        return
    if withdrawal:
        warn(withdrawal.sentence)
    from rich.markdown import Markdown

    from release.documents import card_body

    out.print(Markdown(card_body(manifest)))
    out.print(f"\nid {manifest.id}")
    built = f"built {place['built_at'][:19].replace('T', ' ')} UTC " if place["built_at"] else ""
    out.print(f"{built}in {escape(_folder_or_gone(place))}", soft_wrap=True)


def _summary(release: "StoredRelease", known: "tuple[WithdrawalNotice, ...]") -> dict[str, Any]:
    from flows.withdrawal.releases import withdrawal_of

    manifest = release.manifest
    withdrawal = withdrawal_of(manifest, release.folder, known)
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


# The command group.

app = group("Build, verify, compare, sign, export and upload releases.")
command(app)(build)
command(app)(list_)
command(app)(within_memory(show))
command(app)(within_memory(verify))
command(app)(within_memory(report))
command(app)(within_memory(diff))
command(app)(rebuild)
command(app)(within_memory(export))
command(app)(within_memory(upload))
command(app)(within_memory(contamination))
command(app)(within_memory(sign))
