"""`loupe release diff` and `contamination`: differences between releases, and shared content."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loupe.flows.cli.options import folder_called, known_withdrawals, settings
from loupe.flows.cli.output import (
    Answer,
    JsonOption,
    Line,
    Note,
    Table,
    first,
    note,
    one_line,
    print_json,
    print_lines,
    warn,
)
from loupe.schemas.errors import LoupeError
from loupe.schemas.wording import many

if TYPE_CHECKING:
    from loupe.release.contamination import Other
    from loupe.release.diff import Difference, RowDifference
    from loupe.schemas.similarity import Contamination, SharedMeasure


# Differences between two releases, row by row.


_DIFFERENT, _TROUBLE = 1, 2
_SHOWN_ROWS, _SHOWN_TEXTS = 20, 5
_TEXT_CHARACTERS = 160
_KINDS = ("added", "removed", "withdrawn", "changed")
_IMAGE = "sha256"
_OF_IMAGE = (_IMAGE, "image_entity_id", "caption_entity_ids")
"""Columns that differ where an image was replaced by another one under its path."""


def diff(
    before: Annotated[str, typer.Argument(metavar="A")],
    after: Annotated[str, typer.Argument(metavar="B")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Compare two releases.

    Lists the rows, images and captions that were added, removed or changed. Exit code 0 if they are
    the same, 1 if they differ, 2 if they cannot be compared. Comparing folders needs no database.
    With --json, all rows are listed.

    Args:
        before: Release: its folder, DATASET (newest version), DATASET@VERSION, or the first digits
            of its id.
        after: Release to compare with A.
    """
    from loupe.release.diff import compare_releases

    try:
        found = compare_releases(folder_called(before), folder_called(after), known_withdrawals())
    except LoupeError as error:
        note(f"error: {error}")
        raise typer.Exit(_TROUBLE) from error
    if as_json:
        print_json(found.model_dump(mode="json") | {"same": found.is_empty})
    else:
        print_lines(_lines(found))
    if not found.is_empty:
        raise typer.Exit(_DIFFERENT)


def _lines(found: "Difference") -> Iterator[str]:
    old, new, counts = found.before, found.after, found.counts
    yield f"{old.dataset} {old.version} → {new.dataset} {new.version}"
    if found.is_empty:
        yield f"the same: {counts.same:,} rows, with all their fields"
        return
    rows = [f"{getattr(counts, kind):,} {kind}" for kind in _KINDS if getattr(counts, kind)]
    if counts.images_replaced:
        rows.append(f"{counts.images_replaced:,} of these with another image")
    yield f"  rows: {', '.join(rows) or 'none differs'}; {counts.same:,} the same"
    yield (
        f"  texts: {counts.texts_added:,} added, {counts.texts_removed:,} removed, "
        f"{counts.texts_withdrawn:,} withdrawn"
    )
    if found.manifest:
        yield f"  other parts that differ: {', '.join(found.manifest)}"
    for table in found.lineage:
        yield f"  lineage/{table.name}: {table.added:,} rows added, {table.removed:,} removed"
    if not found.rows and any(table.name == "decisions" for table in found.lineage):
        yield "    the same was decided by others, or for other reasons"
    for kind in _KINDS:
        lines = [_row(row) for row in found.rows if row.kind == kind]
        if lines:
            yield f"\n{kind}"
            yield from first(lines, _SHOWN_ROWS, "  … and {:,} more; --json lists them")


def _row(row: "RowDifference") -> str:
    """Describe the difference of a row, one line for each text."""
    files = " → ".join(dict.fromkeys(filter(None, (row.before, row.after))))
    columns = row.columns
    if _IMAGE in columns:
        columns = ("another image", *(one for one in columns if one not in _OF_IMAGE))
    changed = f": {', '.join(columns)}" if columns else ""
    lines = [f"  {row.source}: {row.source_file_path} ({files}){changed}"]
    for sign, texts in (("-", row.removed), ("+", row.added)):
        shown = [f"      {sign} {one_line(text, _TEXT_CHARACTERS)}" for text in texts]
        lines += first(shown, _SHOWN_TEXTS, "      … and {:,} more")
    return "\n".join(lines)


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
