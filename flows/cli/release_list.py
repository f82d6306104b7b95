"""`loupe release list` and `show`: the releases that were built here, and what each holds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, out, print_json, print_table, warn
from flows.cli.release_opening import ReleaseArgument, opened_store
from flows.cli.withdrawals import warn_of_unfinished

if TYPE_CHECKING:
    from db.releases import StoredRelease
    from schemas.release import Manifest
    from schemas.withdrawal import WithdrawalNotice


def list_(
    dataset: Annotated[str | None, typer.Argument(help="Only releases of this dataset.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the releases built here."""
    from db.releases import list_releases
    from flows.withdrawal.withdrawn import notices_known
    from profiles.settings import load_settings

    with opened_store() as store:
        known = notices_known(load_settings().home, store)
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


def show(
    name: ReleaseArgument,
    as_json: JsonOption = False,
) -> None:
    """Show the card of a release.

    With --json: its manifest, without the list of files.
    """
    from flows.withdrawal.withdrawn import known_notices, withdrawal_of
    from profiles.settings import load_settings

    is_folder = "/" in name or Path(name).is_dir()
    manifest, place = _in_folder(Path(name)) if is_folder else _in_store(name)
    withdrawal = withdrawal_of(manifest, Path(place["folder"]), known_notices(load_settings()))
    if as_json:
        details = withdrawal and withdrawal.model_dump(mode="json")
        print_json({**manifest.model_dump(mode="json"), **place, "withdrawal": details})
        return
    if withdrawal:
        warn(withdrawal.sentence)
    from rich.markdown import Markdown

    from release.card import card_body

    out.print(Markdown(card_body(manifest)))
    out.print(f"\nid {manifest.id}")
    built = f"built {place['built_at'][:19].replace('T', ' ')} UTC " if place["built_at"] else ""
    out.print(f"{built}in {escape(_folder_or_gone(place))}", soft_wrap=True)


def _in_store(name: str) -> "tuple[Manifest, dict[str, Any]]":
    from db.releases import find_release

    with opened_store() as store:
        found = find_release(store, name)
    return found.manifest, _place(found)


def _in_folder(folder: Path) -> "tuple[Manifest, dict[str, Any]]":
    """The release that lies in a folder, wherever it came from."""
    from release.reading import read_listed

    manifest, _ = read_listed(folder)
    return manifest, {"folder": str(folder), "is_there": True, "built_at": None}


def _summary(release: "StoredRelease", known: "tuple[WithdrawalNotice, ...]") -> dict[str, Any]:
    from flows.withdrawal.withdrawn import withdrawal_of

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
