"""`loupe release diff` and `contamination`: differences between releases, and shared content."""

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loupe.flows.cli.options import folder_called, known_withdrawals, settings
from loupe.flows.cli.output import (
    Answer,
    JsonOption,
    Line,
    Note,
    Table,
    note,
    one_line,
    print_lines,
    warn,
)
from loupe.schemas.errors import LoupeError
from loupe.schemas.wording import many

if TYPE_CHECKING:
    from loupe.release.changes import Difference, FieldChange, RowDifference, TextChange
    from loupe.release.contamination import Other
    from loupe.schemas.similarity import Contamination, SharedMeasure


# Differences between two releases, row by row.


_EXAMPLES = 5
_VALUE_CHARACTERS = 160
_DIFFERENT, _TROUBLE = 1, 2
_HEADINGS = {
    "added": "added",
    "removed": "removed",
    "withdrawn": "withdrawn, in whole or in part",
    "changed": "changed",
    "moved": "moved to another split",
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

    Exit code 0 if they are the same, 1 if they differ, 2 if they cannot be compared. Comparing
    folders needs no database.

    Args:
        before: Release: its folder, DATASET (newest version), DATASET@VERSION, or the first digits
            of its id.
        after: Release to compare with A.
        examples: How many rows to show of each kind. Default: 5; all with --json.
    """
    from loupe.release.diff import compare_releases

    try:
        first, second = folder_called(before), folder_called(after)
        if as_json:
            found = _print_json(first, second, examples)
        else:
            shown = _EXAMPLES if examples is None else examples
            notices = known_withdrawals()
            found = compare_releases(first, second, examples=shown, notices=notices)
            print_lines(_lines(found, shown))
    except LoupeError as error:
        note(f"error: {error}")
        raise typer.Exit(_TROUBLE) from error
    if not found.is_empty:
        raise typer.Exit(_DIFFERENT)


def _print_json(before: Path, after: Path, examples: int | None) -> "Difference":
    """Print one JSON document; its rows are written as they are found, as there may be many."""
    from loupe.release.changes import RowDifference
    from loupe.release.diff import compare_releases

    separator = '{\n"rows": ['

    def write(row: RowDifference) -> None:
        nonlocal separator
        sys.stdout.write(f"{separator}\n{_line(row.model_dump(mode='json'))}")
        separator = ","

    notices = known_withdrawals()
    if examples is None:
        found = compare_releases(before, after, examples=0, on_row=write, notices=notices)
    else:
        found = compare_releases(before, after, examples=examples, notices=notices)
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
    from loupe.release.changes import check_version, is_earlier, is_successor, least_version
    from loupe.release.changes import required_bump as required

    before, after = found.before.version, found.after.version
    if not is_successor(found) or is_earlier(after, before):
        return None
    return {
        "required": required(found).name.lower(),
        "at_least": least_version(found),
        "fault": check_version(found, after),
    }


def _lines(found: "Difference", shown: int) -> Iterator[str]:
    """Describe a difference, with the first `shown` rows of each kind."""
    old, new = found.before, found.after
    yield f"{old.dataset} {old.version} → {new.dataset} {new.version}"
    if found.is_empty:
        yield f"the same: {found.rows.same:,} rows, with all their fields"
    else:
        yield from (f"  {line}" for line in _counts(found))
        for kind, heading in _HEADINGS.items():
            if rows := [one for one in found.examples if one.kind == kind]:
                total = getattr(found.rows, kind)
                rest = f", the first {shown:,} of {total:,}" if total > shown else ""
                yield f"\n{heading}{rest}"
                for row in rows:
                    yield from _row(row)
        if shown:
            yield from _metadata(found, 2 * shown)
    yield f"\n{_version_sentence(found)}"


def _counts(found: "Difference") -> Iterator[str]:
    counts = {kind: count for kind, count in found.rows.model_dump().items() if kind != "same"}
    details = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    yield f"rows: {details or 'none differs'}; {found.rows.same:,} the same"
    if found.fields:
        yield f"fields: {', '.join(f'{name} {count:,}' for name, count in found.fields.items())}"
    if found.texts:
        texts = ", ".join(f"{count:,} {field} {kind}" for field, kind, count in found.texts)
        yield f"texts: {texts.replace('_', ' ')}"
    if found.splits:
        splits = ", ".join(f"{count:,} from {old} to {new}" for old, new, count in found.splits)
        yield f"splits: {splits}"
    if found.metadata:
        yield f"outside the rows: {len(found.metadata):,} values"


def _row(row: "RowDifference") -> Iterator[str]:
    places = [one for one in (row.before, row.after) if one is not None]
    files = " → ".join(dict.fromkeys(one.file_path for one in places))
    splits = " → ".join(dict.fromkeys(one.split for one in places))
    yield f"  {row.source}: {row.source_file_path} ({splits}, {files})"
    if row.row is not None and row.kind != "withdrawn":
        sign = "+" if row.kind == "added" else "-"
        for caption in row.row["texts"].get("captions", []):
            yield f"      {sign} {_short(caption['text'])}"
    for field in row.fields:
        if field.field != "split":
            yield f"      {_change(field)}"
    for text in row.texts:
        yield from _text(text)


def _text(change: "TextChange") -> Iterator[str]:
    ids = [one.values["entity_id"][:12] for one in (change.before, change.after) if one]
    what = " → ".join(dict.fromkeys(ids))
    yield f"      {change.field.replace('_', ' ')}: {change.kind} ({what})"
    if change.kind == "reordered" and change.before and change.after:
        old, new = change.before.place + 1, change.after.place + 1
        yield f"        {_short(change.before.values['text'])} (place {old} → {new})"
        return
    for sign, one in (("-", change.before), ("+", change.after)):
        if one is not None:
            known = filter(None, (one.values.get(name) for name in ("author", "origin")))
            author = f" ({', '.join(map(str, known))})" if change.kind == "restated" else ""
            yield f"        {sign} {_short(one.values['text'])}{author}"


def _metadata(found: "Difference", limit: int) -> Iterator[str]:
    """Describe terms, sources and lineage; statistics follow from rows and come last."""
    details = sorted(found.metadata, key=lambda one: one.field.startswith("statistics."))
    if details:
        rest = f", the first {limit:,} of {len(details):,}" if len(details) > limit else ""
        yield f"\noutside the rows{rest}"
        yield from (f"  {_change(change)}" for change in details[:limit])


def _change(change: "FieldChange") -> str:
    if change.field.startswith("files."):
        what = "changed" if change.before and change.after else "new" if change.after else "gone"
        return f"{change.field.removeprefix('files.')}: {what}"
    return f"{change.field}: {_short(change.before)} → {_short(change.after)}"


def _short(value: Any) -> str:
    if value is None:
        return "–"
    return one_line(value if isinstance(value, str) else _line(value), _VALUE_CHARACTERS)


def _version_sentence(found: "Difference") -> str:
    details = _version(found)
    if details is None:
        return "no version is required of B: it is not a later release of the same dataset and tier"
    if found.is_empty:
        return "no other version is required"
    if details["fault"]:
        return f"✗ version {details['fault']}"
    wanted = f"must be at least {details['at_least']}, {details['required']}"
    return f"✓ version is {found.after.version}, {wanted}"


# Content that one release or folder shares with another.


_SHOWN_PAIRS = 5


def contamination(
    ours: Annotated[str, typer.Argument(metavar="A")],
    theirs: Annotated[str, typer.Argument(metavar="B")],
    *,
    split: str | None = None,
    other_split: str | None = None,
    hash_bits: Annotated[int, typer.Option(min=0, max=10)] = 6,
) -> Answer:
    """Find content that A and B share.

    Compares files, pictures, videos, identities and captions.

    Exit code 1 if they share anything, or if release A contains a different statement about B;
    otherwise 0. Comparing folders needs no database.

    Args:
        ours: Release (folder, DATASET, DATASET@VERSION, or the first digits of its id), dataset in
            the store, or folder of images.
        theirs: Release, dataset or folder of images to compare with A.
        split: Compare only this split of release A.
        other_split: Compare only this split of release B.
        hash_bits: Images are a leak if their perceptual hashes differ in at most this many bits.
    """
    from loupe.flows.engine.contamination import dataset_called
    from loupe.flows.engine.context import open_context
    from loupe.release.contamination import OwnImages, SeenImage, compare
    from loupe.schemas.similarity import ContaminationLimits

    run = cache(lambda: open_context(settings()))
    one, other = dataset_called(run, ours, split), dataset_called(run, theirs, other_split)
    _warn_of_withdrawals({ours: one, theirs: other})
    own = OwnImages(image for image in one.contents() if isinstance(image, SeenImage))
    found = compare(own, other, ContaminationLimits(hash_bits=hash_bits))
    stated = _stated_otherwise(one, found) if split is None else None
    if stated:
        note(stated)
    id_ = one.manifest and one.manifest.id
    details = {"ours": one.name, "ours_id": id_, "stated_otherwise": stated}
    document = details | found.model_dump(mode="json") | {"contaminated": bool(found.leaks)}
    return Answer(document, _shared(one.name, found), failed=bool(found.leaks or stated))


def _warn_of_withdrawals(compared: "dict[str, Other]") -> None:
    """Warn of each release, by the given name, from which something was withdrawn."""
    from loupe.flows.withdrawal.releases import withdrawal_of

    known = known_withdrawals()
    for name, one in compared.items():
        if one.manifest is not None:
            withdrawal = withdrawal_of(one.manifest, Path(name), known)
            if withdrawal is not None:
                warn(withdrawal.sentence)


def _stated_otherwise(ours: "Other", found: "Contamination") -> str | None:
    """Return how a release's own statement about the same dataset differs, or None."""
    if ours.manifest is None:
        return None
    same = {"name", "other", "release_id"}
    for one in ours.manifest.contamination:
        limits = {measure.threshold for measure in (*one.measures, *found.measures)}
        is_same = one.content_sha256 == found.content_sha256 and len(limits - {0}) <= 1
        if is_same and one.model_dump(exclude=same) != found.model_dump(exclude=same):
            return f"{ours.name} has another statement about the same {one.name}; verify it"
    return None


def _shared(ours: str, found: "Contamination") -> Iterator[Line]:
    from loupe.release.contamination import contaminated_sentence, leak_rule

    known = found.release_id or found.content_sha256
    yield (
        f"{ours} compared with {found.name}: {found.images:,} images, {found.captions:,} captions, "
        f"{found.other} {known[:12]}"
    )
    rows = [
        [
            measure.measure.replace("_", " "),
            leak_rule(measure),
            split.split or "all",
            split.compared,
            measure.theirs,
            split.leaks,
        ]
        for measure in found.measures
        for split in measure.splits
    ]
    yield Table("", ("compared by", "a leak", "split", "of ours", "with theirs", "leaks"), rows)
    for measure in found.measures:
        yield from _nearest(measure)
    if found.unreadable:
        names = ", ".join(found.unreadable_files)
        more = ", …" if found.unreadable > len(found.unreadable_files) else ""
        images = many(found.unreadable, "image")
        yield Note(f"{images} of {found.name} cannot be compared: {names}{more}")
    if found.leaks:
        yield f"✗ {contaminated_sentence(found)}"
    else:
        yield f"✓ nothing of it is in {found.name}"


def _nearest(measure: "SharedMeasure") -> Iterator[str]:
    from loupe.release.contamination import distance_in_words

    if measure.nearest:
        yield f"nearest by {measure.measure.replace('_', ' ')}:"
    for pair in measure.nearest[:_SHOWN_PAIRS]:
        away = distance_in_words(measure, pair.distance)
        leaks = "" if pair.distance <= measure.threshold else ", no leak"
        yield f"  {pair.first}  {pair.second}  ({away}{leaks})"
