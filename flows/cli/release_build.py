"""`loupe release build` and `rebuild`: an immutable folder from the decisions in the store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, out, print_json, warn
from flows.cli.release_opening import NameArgument, opened_store, progress_bar
from flows.cli.withdrawals import warn_of_unfinished

if TYPE_CHECKING:
    from release.build import BuiltRelease


_TierOption = Annotated[
    str | None,
    typer.Option(
        help="For a benchmark with tiers: v0, v1 or v2; the version starts with 0, 1 or 2."
    ),
]
_MeasureOption = Annotated[
    bool,
    typer.Option(
        "--measure/--no-measure",
        help="Of a contrastive benchmark, measure how near other samples are, by the profile's "
        "model.",
    ),
]
_StrictVersionOption = Annotated[
    bool,
    typer.Option(
        "--strict-version",
        help="Refuse a version that is too small for what differs from the one before (rebuilt "
        "for that where it is gone); otherwise it is only reported.",
    ),
]
_DateOption = Annotated[
    str | None,
    typer.Option(help="Date of publication, such as 2026-11-22. Default: none."),
]
_PermissionOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SOURCE=REASON",
        help="Why the terms of a source that are no licence we know permit the release. May be "
        "given several times.",
    ),
]
_AgainstOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME_OR_DIR",
        help="Hold it against this release, dataset of the store, or folder of images "
        "(NAME=DIR to call it so). May be given several times.",
    ),
]
_RefuseContaminatedOption = Annotated[
    bool,
    typer.Option(
        "--refuse-contaminated",
        help="Refuse a release that shares anything with what it is compared with; otherwise it "
        "is only stated.",
    ),
]


def build(
    dataset: Annotated[str, typer.Argument(help="The dataset to release.")],
    version: Annotated[str, typer.Option(help="Three numbers, such as 1.0.0.")],
    out_folder: Annotated[Path, typer.Option("--out", help="The folder to write; must not exist.")],
    tier: _TierOption = None,
    measure: _MeasureOption = True,
    strict_version: _StrictVersionOption = False,
    date: _DateOption = None,
    permitted_by: _PermissionOption = None,
    against: _AgainstOption = None,
    refuse_contaminated: _RefuseContaminatedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build a version of a dataset from the decisions so far."""
    from db.blobs import BlobStore
    from flows.engine.contamination import NamedDatasets, comparison_with, contamination_inspection
    from flows.engine.context import open_context
    from flows.engine.release_facts import release_facts, unknown_names
    from flows.engine.releasing import all_of, release_checks, release_signer, version_inspection
    from profiles.settings import load_settings
    from release.build import build_release
    from release.tiers import tier_called

    settings = load_settings()
    signer = release_signer(settings)
    permissions = tuple(permitted_by or ())
    facts = release_facts(
        settings.releases_file, dataset, date_released=date, permitted_by=permissions
    )
    blobs, chosen = BlobStore(settings.blobs_url), tier_called(tier)
    with (
        opened_store() as store,
        NamedDatasets(lambda: open_context(settings)) as named,
        progress_bar() as on_progress,
    ):
        for doubt in unknown_names(settings.releases_file, facts, store):
            warn(doubt)
        warn_of_unfinished(store)
        checks = release_checks(store, settings, dataset, facts=facts)
        checks = checks._replace(against=comparison_with(map(named.called, against or ())))
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
    if as_json:
        print_json(_document(built))
    else:
        _show(built)


def _document(built: "BuiltRelease") -> dict[str, Any]:
    return {
        **built.manifest.model_dump(mode="json"),
        "folder": str(built.folder),
        "known_in": str(built.known_in),
        "is_new": built.is_new,
    }


def _show(built: "BuiltRelease") -> None:
    manifest = built.manifest
    done = "built" if built.is_new else "is there already, unchanged:"
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
