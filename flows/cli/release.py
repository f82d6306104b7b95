"""`loupe release`: build, list and show releases; the other commands are in `release_*.py`."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loupe.flows.cli.commands import command, group
from loupe.flows.cli.options import (
    NameArgument,
    ReleaseArgument,
    known_withdrawals,
    opened_store,
    progress_bar,
    settings,
    warn_of_unfinished,
    within_memory,
)
from loupe.flows.cli.output import Answer, Table, warn
from loupe.flows.cli.release_compare import contamination, diff
from loupe.flows.cli.release_copies import export, report, sign, upload, verify
from loupe.schemas.wording import many

if TYPE_CHECKING:
    from loupe.db.releases import StoredRelease
    from loupe.flows.withdrawal.releases import ReleaseWithdrawal
    from loupe.release.build import BuiltRelease
    from loupe.schemas.withdrawal import WithdrawalNotice


# `loupe release build` and `rebuild`: an immutable folder from the decisions in the store.


def build(
    dataset: str,
    *,
    version: str,
    out_folder: Annotated[Path, typer.Option("--out")],
    tier: str | None = None,
    measure: bool = True,
    date: str | None = None,
    permitted_by: Annotated[list[str] | None, typer.Option(metavar="SOURCE=REASON")] = None,
    against: Annotated[list[str] | None, typer.Option(metavar="NAME_OR_DIR")] = None,
    refuse_contaminated: bool = False,
) -> Answer:
    """Build a version of a dataset from the decisions so far.

    Args:
        dataset: The dataset to release.
        version: Version of the release: three numbers, such as 1.0.0.
        out_folder: The folder to write; must not exist.
        tier: For a benchmark with tiers: v0, v1 or v2; the version must start with the same number.
        measure: For contrastive benchmarks: measure the similarity of the nearest other samples,
            with the embedder of the profile.
        date: Date of publication, such as 2026-11-22. Default: none.
        permitted_by: Reason why the terms of a source without a known licence permit the release.
            May be given several times.
        against: Check for content shared with this release, dataset in the store, or folder of
            images (NAME=DIR to name it). May be given several times.
        refuse_contaminated: Refuse a release that shares content with the data given by --against.
            Default: only report it.
    """
    from loupe.db.blobs import BlobStore
    from loupe.flows.engine.contamination import (
        comparison_with,
        contamination_inspection,
        dataset_called,
    )
    from loupe.flows.engine.context import open_context
    from loupe.flows.engine.release_facts import release_facts, unknown_names
    from loupe.flows.engine.releasing import (
        release_checks,
        release_signer,
    )
    from loupe.release.build import build_release
    from loupe.schemas.retrieval_task import tier_called

    own = settings()
    signer = release_signer(own)
    permissions = tuple(permitted_by or ())
    facts = release_facts(own.releases_file, dataset, date_released=date, permitted_by=permissions)
    blobs, chosen = BlobStore(own.blobs_url), tier_called(tier)
    run = cache(lambda: open_context(own))
    with opened_store() as store, progress_bar() as on_progress:
        for warning in unknown_names(own.releases_file, facts, store):
            warn(warning)
        warn_of_unfinished(store)
        checks = release_checks(store, own, dataset, facts=facts)
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
            inspect=contamination_inspection(warn, refuse=refuse_contaminated),
        )
    if built.unsigned:
        warn(built.unsigned)
    manifest, counts = built.manifest, built.manifest.statistics
    content = f"{counts.images:,} images, {counts.captions:,} captions, id {manifest.id}"
    return Answer(
        {**manifest.model_dump(mode="json"), **_where(built)}, _lines("built", built, content)
    )


def rebuild(name: NameArgument, *, out_folder: Annotated[Path, typer.Option("--out")]) -> Answer:
    """Build a past release again, byte for byte.

    Later data and decisions have no effect. Nothing is written if the result differs or if anything
    in the release was withdrawn.

    Args:
        out_folder: The folder to write; must not exist.
    """
    from loupe.db.blobs import BlobStore
    from loupe.db.releases import find_release
    from loupe.release.rebuild import rebuild_release

    with opened_store() as store, progress_bar() as on_progress:
        stored, blobs = find_release(store, name), BlobStore(settings().blobs_url)
        built = rebuild_release(store, blobs, stored, out_folder, on_progress=on_progress)
    manifest, images = built.manifest, built.manifest.statistics.images
    known = {"id": manifest.id, "dataset": manifest.dataset, "version": manifest.version}
    content = (
        f"byte for byte the same: {images:,} images, {manifest.files_count:,} files, "
        f"id {manifest.id}"
    )
    document = {**known, "images": images, **_where(built), "identical": True}
    return Answer(document, _lines("rebuilt", built, content))


def _where(built: "BuiltRelease") -> dict[str, Any]:
    return {"folder": built.folder, "known_in": built.known_in, "is_new": built.is_new}


def _lines(how: str, built: "BuiltRelease", content: str) -> list[str]:
    done = f"{how} in" if built.is_new else "already exists, unchanged:"
    more = (f"  {one}" for one in (content, built.elsewhere) if one)
    return [f"{built.manifest.name} {done} {built.folder}", *more]


# `loupe release list` and `show`: the releases that were built here, and their content.


def list_(dataset: str | None = None) -> Answer:
    """List the releases built here.

    Args:
        dataset: Only releases of this dataset.
    """
    from loupe.db.releases import list_releases
    from loupe.flows.withdrawal.releases import known_notices

    with opened_store() as store:
        known = known_notices(settings(), store)
        rows = [_summary(one, known) for one in list_releases(store, dataset)]
        warn_of_unfinished(store)
    if not rows:
        hint = "no releases yet; build one with: loupe release build DATASET --version 1.0.0 …"
        return Answer(rows, [hint])
    columns = ["dataset", "version", "images", "captions", "id", "folder", "withdrawn"]
    if not any(row["withdrawal"] for row in rows):
        columns.pop()
    shown = (
        row
        | {"id": row["id"][:12], "folder": _folder_or_gone(row)}
        | {"withdrawn": _withdrawn_in_short(row["withdrawal"])}
        for row in rows
    )
    return Answer(rows, [Table.of("releases", columns, shown)])


def show(name: ReleaseArgument) -> Answer:
    """Show the dataset card of a release.

    With --json, prints its manifest without the list of files.
    """
    from rich.markdown import Markdown

    from loupe.db.releases import find_release
    from loupe.flows.withdrawal.releases import withdrawal_of
    from loupe.release.card.documents import card_body
    from loupe.release.format.manifest import release_folder
    from loupe.release.format.row_files import ListedRelease

    if (folder := release_folder(name)) is not None:
        manifest = ListedRelease(folder).manifest
        place: dict[str, Any] = {"folder": name, "is_there": True, "built_at": None}
    else:
        with opened_store() as store:
            found = find_release(store, name)
        manifest, place = found.manifest, _place(found)
    withdrawal = withdrawal_of(manifest, Path(place["folder"]), known_withdrawals())
    if withdrawal:
        warn(withdrawal.sentence)
    built = f"built {place['built_at'][:19].replace('T', ' ')} UTC " if place["built_at"] else ""
    return Answer(
        {**manifest.model_dump(mode="json"), **place, "withdrawal": withdrawal},
        [
            Markdown(card_body(manifest)),
            f"\nid {manifest.id}",
            f"{built}in {_folder_or_gone(place)}",
        ],
    )


def _summary(release: "StoredRelease", known: "tuple[WithdrawalNotice, ...]") -> dict[str, Any]:
    from loupe.flows.withdrawal.releases import withdrawal_of

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
        "withdrawal": withdrawal_of(manifest, release.folder, known),
    }


def _withdrawn_in_short(withdrawal: "ReleaseWithdrawal | None") -> str | None:
    if withdrawal is None:
        return None
    newer = withdrawal.superseded_by
    return many(withdrawal.rows, "row") + (f"; use {newer}" if newer else "")


def _place(release: "StoredRelease") -> dict[str, Any]:
    from loupe.release.format.manifest import MANIFEST

    return {
        "folder": str(release.folder),
        "is_there": (release.folder / MANIFEST).is_file(),
        "built_at": release.built_at.isoformat(),
    }


def _folder_or_gone(place: dict[str, Any]) -> str:
    folder: str = place["folder"]
    return folder if place["is_there"] else f"{folder} (no longer exists)"


# The command group.

app = group("Build, verify, compare, sign, export and upload releases.")
for one in (build, rebuild, list_):
    command(app)(one)
for reading in (show, verify, report, diff, export, upload, contamination, sign):
    command(app)(within_memory(reading))
