"""`loupe release diff` and `contamination`: differences between releases, and shared content."""

import json
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.options import folder_called, known_withdrawals
from flows.cli.output import JsonOption, err, out, print_json, print_table, warn

if TYPE_CHECKING:
    from release.changes import Difference, FieldChange, RowDifference, TextChange
    from release.contamination import Other
    from schemas.similarity import Contamination, SharedMeasure


# Differences between two releases, row by row.


_EXAMPLES = 5
_VALUE_CHARACTERS = 160
_SAME, _DIFFERENT, _TROUBLE = 0, 1, 2
_NAME = "The folder of a release, or DATASET (its newest), DATASET@VERSION, or an id's beginning."
_HEADINGS = {
    "added": "[green]added[/green]",
    "removed": "[red]removed[/red]",
    "withdrawn": "[red]withdrawn[/red], in whole or in part",
    "changed": "[yellow]changed[/yellow]",
    "moved": "[yellow]moved to another split[/yellow]",
    "restated": "restated (the same image and words, with another source)",
}


def diff(
    before: Annotated[str, typer.Argument(metavar="A")],
    after: Annotated[str, typer.Argument(metavar="B")],
    *,
    examples: Annotated[int | None, typer.Option(min=0)] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two releases: rows, captions, terms, lineage.

    Ends with exit code 0 if they are the same, 1 if they differ, 2 if they cannot be compared.
    Folders need no database.

    Args:
        before: The folder of a release, or DATASET (its newest), DATASET@VERSION, or an id's
            beginning.
        after: Release to compare with A.
        examples: How many rows to show of each kind. Default: 5; all with --json.
    """
    from schemas.errors import LoupeError

    try:
        first, second = folder_called(before), folder_called(after)
        found = (
            _print_json(first, second, examples)
            if as_json
            else _show_difference(first, second, examples)
        )
    except LoupeError as error:
        err.print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(_TROUBLE) from error
    if not found.is_empty:
        raise typer.Exit(_DIFFERENT)


def _print_json(before: Path, after: Path, examples: int | None) -> "Difference":
    """Print one JSON document; its rows are written as they are found, as there may be many."""
    from release.changes import RowDifference
    from release.diff import compare_releases

    separator = '{\n"rows": ['

    def write(row: RowDifference) -> None:
        nonlocal separator
        sys.stdout.write(f"{separator}\n{_line(row.model_dump(mode='json'))}")
        separator = ","

    if examples is None:
        found = compare_releases(
            before, after, examples=0, on_row=write, notices=known_withdrawals()
        )
    else:
        found = compare_releases(before, after, examples=examples, notices=known_withdrawals())
        for row in found.examples:
            write(row)
    if separator != ",":
        sys.stdout.write(separator)
    summary = found.model_dump(mode="json", exclude={"examples", "rows"})
    summary["counts"] = found.rows.model_dump()
    summary["same"] = found.is_empty
    summary["version"] = _version(found)
    for name, value in summary.items():
        sys.stdout.write(f"{']' if name == 'before' else ''},\n{_line(name)}: {_line(value)}")
    sys.stdout.write("\n}\n")
    return found


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _version(found: "Difference") -> dict[str, Any] | None:
    """Return the minimum version of B; None if A is not an earlier release of its dataset."""
    from release.changes import check_version, is_earlier, is_successor, least_version
    from release.changes import required_bump as required

    before, after = found.before.version, found.after.version
    if not is_successor(found) or is_earlier(after, before):
        return None
    return {
        "required": required(found).name.lower(),
        "at_least": least_version(found),
        "fault": check_version(before, after, found),
    }


def _show_difference(before: Path, after: Path, examples: int | None) -> "Difference":
    from release.diff import compare_releases

    shown = _EXAMPLES if examples is None else examples
    found = compare_releases(before, after, examples=shown, notices=known_withdrawals())
    old, new = found.before, found.after
    _print(f"{old.dataset} {old.version} → {new.dataset} {new.version}")
    if found.is_empty:
        _print(f"the same: {found.rows.same:,} rows, with all their fields")
    else:
        _show_counts(found)
        _show_examples(found, shown)
        _show_metadata(found, shown)
    _show_version(found)
    return found


def _print(text: str, *, indent: int = 0) -> None:
    out.print(" " * indent + escape(text), soft_wrap=True)


def _show_counts(found: "Difference") -> None:
    counts = {kind: count for kind, count in found.rows.model_dump().items() if kind != "same"}
    details = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    _print(f"rows: {details or 'none differs'}; {found.rows.same:,} the same", indent=2)
    if found.fields:
        fields = ", ".join(f"{field} {count:,}" for field, count in found.fields.items())
        _print(f"fields: {fields}", indent=2)
    if found.texts:
        texts = ", ".join(f"{count:,} {field} {kind}" for field, kind, count in found.texts)
        _print(f"texts: {texts.replace('_', ' ')}", indent=2)
    if found.splits:
        splits = ", ".join(f"{count:,} from {old} to {new}" for old, new, count in found.splits)
        _print(f"splits: {splits}", indent=2)
    if found.metadata:
        values = "1 value" if len(found.metadata) == 1 else f"{len(found.metadata):,} values"
        _print(f"beside rows: {values}", indent=2)


def _show_examples(found: "Difference", shown: int) -> None:
    for kind, heading in _HEADINGS.items():
        rows = [one for one in found.examples if one.kind == kind]
        if not rows:
            continue
        total = getattr(found.rows, kind)
        out.print(f"\n{heading}" + (f", the first {shown:,} of {total:,}" if total > shown else ""))
        for row in rows:
            _show_row(row)


def _show_row(row: "RowDifference") -> None:
    places = [one for one in (row.before, row.after) if one is not None]
    files = " → ".join(dict.fromkeys(one.file_path for one in places))
    splits = " → ".join(dict.fromkeys(one.split for one in places))
    _print(f"{row.source}: {row.source_file_path} ({splits}, {files})", indent=2)
    if row.row is not None and row.kind != "withdrawn":
        sign = "+" if row.kind == "added" else "-"
        for caption in row.row["texts"].get("captions", []):
            _print(f"{sign} {_short(caption['text'])}", indent=6)
    for field in row.fields:
        if field.field != "split":
            _print(_change(field), indent=6)
    for text in row.texts:
        _show_text(text)


def _show_text(change: "TextChange") -> None:
    ids = [one.values["entity_id"][:12] for one in (change.before, change.after) if one]
    what = " → ".join(dict.fromkeys(ids))
    _print(f"{change.field.replace('_', ' ')}: {change.kind} ({what})", indent=6)
    if change.kind == "reordered" and change.before and change.after:
        old, new = change.before.place + 1, change.after.place + 1
        _print(f"{_short(change.before.values['text'])} (place {old} → {new})", indent=8)
        return
    for sign, one in (("-", change.before), ("+", change.after)):
        if one is not None:
            details = [
                str(value) for name in ("author", "origin") if (value := one.values.get(name))
            ]
            author = f" ({', '.join(details)})" if change.kind == "restated" and details else ""
            _print(f"{sign} {_short(one.values['text'])}{author}", indent=8)


def _show_metadata(found: "Difference", shown: int) -> None:
    """Print terms, sources and lineage; statistics follow from rows and are printed last."""
    if not found.metadata or not shown:
        return
    details = sorted(found.metadata, key=lambda one: one.field.startswith("statistics."))
    limit = 2 * shown
    rest = f", the first {limit:,} of {len(details):,}" if len(details) > limit else ""
    out.print(f"\nbeside rows{rest}")
    for change in details[:limit]:
        _print(_change(change), indent=2)


def _change(change: "FieldChange") -> str:
    if change.field.startswith("files."):
        what = "changed" if change.before and change.after else "new" if change.after else "gone"
        return f"{change.field.removeprefix('files.')}: {what}"
    return f"{change.field}: {_short(change.before)} → {_short(change.after)}"


def _short(value: Any) -> str:
    if value is None:
        return "–"
    text = value if isinstance(value, str) else _line(value)
    text = " ".join(text.split())
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[: _VALUE_CHARACTERS - 1]}…"


def _show_version(found: "Difference") -> None:
    details = _version(found)
    out.print()
    if details is None:
        _print(
            "no version is required of B: it is not a later release of the same dataset and tier"
        )
    elif found.is_empty:
        _print("no other version is required")
    elif details["fault"]:
        out.print(f"[red]✗[/red] version {escape(details['fault'])}", soft_wrap=True)
    else:
        wanted = f"must be at least {details['at_least']}, {details['required']}"
        out.print(f"[green]✓[/green] version is {found.after.version}, {wanted}", soft_wrap=True)


# Content that one release or folder shares with another.


_CONTAMINATED = 1
_SHOWN_PAIRS = 5
_NEAREST_CHARACTERS = 60


def contamination(
    ours: Annotated[str, typer.Argument(metavar="A")],
    theirs: Annotated[str, typer.Argument(metavar="B")],
    *,
    split: str | None = None,
    other_split: str | None = None,
    hash_bits: Annotated[int, typer.Option(min=0, max=10)] = 6,
    as_json: JsonOption = False,
) -> None:
    """Find what A and B share.

    Compares files, pictures, videos, identities and captions.

    Ends with exit code 1 if they share anything, or if A states something else about B, otherwise
    with 0. Folders need no database.

    Args:
        ours: A release (folder, DATASET, DATASET@VERSION, or an id's beginning), a dataset of the
            store, or a folder of images.
        theirs: Release or image folder to compare with A.
        split: Compare only this split of release A.
        other_split: Compare only this split of release B.
        hash_bits: Maximum number of bits in which perceptual hashes of a leak differ.
    """
    from flows.engine.contamination import dataset_called
    from flows.engine.context import open_context
    from models.profiles.settings import load_settings
    from release.contamination import OwnImages, SeenImage, compare
    from schemas.similarity import ContaminationLimits

    run = cache(lambda: open_context(load_settings()))
    one, other = dataset_called(run, ours, split), dataset_called(run, theirs, other_split)
    _warn_of_withdrawals({ours: one, theirs: other})
    own = OwnImages(image for image in one.contents() if isinstance(image, SeenImage))
    found = compare(own, other, ContaminationLimits(hash_bits=hash_bits))
    stated = _stated_otherwise(one, found) if split is None else None
    if as_json:
        details = {"ours": one.name, "ours_id": one.release_id, "stated_otherwise": stated}
        print_json({**details, **found.model_dump(mode="json"), "contaminated": bool(found.leaks)})
    else:
        _show_shared(one.name, found)
    if stated:
        err.print(escape(stated), soft_wrap=True)
    if found.leaks or stated:
        raise typer.Exit(_CONTAMINATED)


def _warn_of_withdrawals(compared: "dict[str, Other]") -> None:
    """Warn of each release, by the given name, from which something was withdrawn."""
    from flows.withdrawal.releases import withdrawal_of
    from release.other_datasets import ReleasedImages

    known = known_withdrawals()
    for name, one in compared.items():
        if isinstance(one, ReleasedImages):
            withdrawal = withdrawal_of(one.manifest, Path(name), known)
            if withdrawal is not None:
                warn(withdrawal.sentence)


def _stated_otherwise(ours: "Other", found: "Contamination") -> str | None:
    """Return how a release's own statement about the same dataset differs, or None."""
    from release.other_datasets import ReleasedImages

    if not isinstance(ours, ReleasedImages):
        return None
    same = {"name", "other", "release_id"}
    for one in ours.manifest.contamination:
        limits = {measure.threshold for measure in (*one.measures, *found.measures)}
        is_same = one.content_sha256 == found.content_sha256 and len(limits - {0}) <= 1
        if is_same and one.model_dump(exclude=same) != found.model_dump(exclude=same):
            return f"{ours.name} has another statement about the same {one.name}; verify it"
    return None


def _show_shared(ours: str, found: "Contamination") -> None:
    from release.contamination import contaminated_sentence, leak_rule

    known = found.release_id or found.content_sha256
    out.print(
        f"{escape(ours)} compared with {escape(found.name)}: {found.images:,} images, "
        f"{found.captions:,} captions, {found.other} {known[:12]}",
        soft_wrap=True,
    )
    rows = [
        [
            measure.measure.replace("_", " "),
            leak_rule(measure),
            split.split or "all",
            f"{split.compared:,}",
            f"{measure.theirs:,}",
            f"{split.leaks:,}",
        ]
        for measure in found.measures
        for split in measure.splits
    ]
    print_table("", ("compared by", "a leak", "split", "of ours", "with theirs", "leaks"), rows)
    for measure in found.measures:
        _show_nearest(measure)
    if found.unreadable:
        names = ", ".join(found.unreadable_files)
        more = ", …" if found.unreadable > len(found.unreadable_files) else ""
        what = "image" if found.unreadable == 1 else "images"
        err.print(
            f"{found.unreadable:,} {what} of {found.name} cannot be compared: {names}{more}",
            markup=False,
            soft_wrap=True,
        )
    if found.leaks:
        sentence = escape(contaminated_sentence(found))
        out.print(f"[red]✗[/red] {sentence}", soft_wrap=True)
    else:
        out.print(f"[green]✓[/green] nothing of it is in {escape(found.name)}", soft_wrap=True)


def _show_nearest(measure: "SharedMeasure") -> None:
    from release.contamination import distance_in_words

    if not measure.nearest:
        return
    out.print(f"nearest by {measure.measure.replace('_', ' ')}:")
    for pair in measure.nearest[:_SHOWN_PAIRS]:
        said = f": {pair.value[:_NEAREST_CHARACTERS]}" if measure.measure == "caption" else ""
        away = distance_in_words(measure, pair.distance)
        leaks = "" if pair.distance <= measure.threshold else ", no leak"
        out.print(
            f"  {pair.first}  {pair.second}  ({away}{leaks}){said}", markup=False, soft_wrap=True
        )
