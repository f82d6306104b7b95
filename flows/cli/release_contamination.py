"""`loupe release contamination`: what one release or folder shares with another."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli.output import JsonOption, err, out, print_json, print_table, warn

if TYPE_CHECKING:
    from flows.engine.context import RunContext
    from release.contamination import Other
    from schemas.contamination import Contamination, SharedMeasure


_CONTAMINATED = 1
_SHOWN_PAIRS = 5
_VALUE_CHARACTERS = 60


def contamination(
    ours: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="A release (folder, DATASET, DATASET@VERSION, or an id's beginning), a dataset of "
            "the store, or a folder of images.",
        ),
    ],
    theirs: Annotated[
        str, typer.Argument(metavar="B", help="Release or image folder to compare with A.")
    ],
    split: Annotated[str | None, typer.Option(help="Compare only this split of release A.")] = None,
    other_split: Annotated[
        str | None, typer.Option(help="Compare only this split of release B.")
    ] = None,
    hash_bits: Annotated[
        int,
        typer.Option(
            min=0, max=10, help="Most bits in which perceptual hashes of a leak may differ."
        ),
    ] = 6,
    as_json: JsonOption = False,
) -> None:
    """Find what A and B share.

    Compares files, pictures, videos, identities and captions.

    Ends with exit code 1 where anything is, or where A states otherwise of B, with 0 where nothing
    is. Folders need no database.
    """
    from flows.engine.contamination import NamedDatasets, own_images
    from release.contamination import compare
    from schemas.contamination import ContaminationLimits

    with NamedDatasets(_open_store) as named:
        one, other = named.called(ours, split), named.called(theirs, other_split)
        _warn_of_withdrawals({ours: one, theirs: other})
        found = compare(own_images(one), other, ContaminationLimits(hash_bits=hash_bits))
    stated = _stated_otherwise(one, found) if split is None else None
    if as_json:
        details = {"ours": one.name, "ours_id": one.release_id, "stated_otherwise": stated}
        print_json({**details, **found.model_dump(mode="json"), "contaminated": bool(found.leaks)})
    else:
        _show(one.name, found)
    if stated:
        err.print(escape(stated), soft_wrap=True)
    if found.leaks or stated:
        raise typer.Exit(_CONTAMINATED)


def _warn_of_withdrawals(compared: "dict[str, Other]") -> None:
    """Says of each release, by the name that was given, what was withdrawn from it."""
    from pathlib import Path

    from flows.withdrawal.withdrawn import known_notices, withdrawal_of
    from profiles.settings import load_settings
    from release.other_datasets import ReleasedImages

    known = known_notices(load_settings())
    for name, one in compared.items():
        if isinstance(one, ReleasedImages):
            withdrawal = withdrawal_of(one.manifest, Path(name), known)
            if withdrawal is not None:
                warn(withdrawal.sentence)


def _open_store() -> "RunContext":
    from flows.engine.context import open_context
    from profiles.settings import load_settings

    return open_context(load_settings())


def _stated_otherwise(ours: "Other", found: "Contamination") -> str | None:
    """How a release's own statement of the same other dataset differs, if it does."""
    from release.other_datasets import ReleasedImages

    if not isinstance(ours, ReleasedImages):
        return None
    same = {"name", "other", "release_id"}
    for one in ours.manifest.contamination:
        limits = {measure.threshold for measure in (*one.measures, *found.measures)}
        is_same = one.content_sha256 == found.content_sha256 and len(limits - {0}) <= 1
        if is_same and one.model_dump(exclude=same) != found.model_dump(exclude=same):
            return f"{ours.name} states otherwise of the same {one.name}; verify it"
    return None


def _show(ours: str, found: "Contamination") -> None:
    from release.contamination_words import contaminated_sentence, leak_rule

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
            f"{found.unreadable:,} {what} of {found.name} cannot be looked at: {names}{more}",
            markup=False,
            soft_wrap=True,
        )
    if found.leaks:
        sentence = escape(contaminated_sentence(found))
        out.print(f"[red]✗[/red] {sentence}", soft_wrap=True)
    else:
        out.print(f"[green]✓[/green] nothing of it is in {escape(found.name)}", soft_wrap=True)


def _show_nearest(measure: "SharedMeasure") -> None:
    from release.contamination_words import distance_in_words

    if not measure.nearest:
        return
    out.print(f"nearest by {measure.measure.replace('_', ' ')}:")
    for pair in measure.nearest[:_SHOWN_PAIRS]:
        said = f": {pair.value[:_VALUE_CHARACTERS]}" if measure.measure == "caption" else ""
        away = distance_in_words(measure, pair.distance)
        leaks = "" if pair.distance <= measure.threshold else ", no leak"
        out.print(
            f"  {pair.first}  {pair.second}  ({away}{leaks}){said}", markup=False, soft_wrap=True
        )
