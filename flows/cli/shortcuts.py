"""`loupe release shortcuts`: what can be scored on a release without its content."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loupe.flows.cli.options import ReleaseArgument, SplitOption, opened_store
from loupe.flows.cli.output import Answer, Figure, Line, Table

if TYPE_CHECKING:
    from loupe.schemas.shortcuts import BlindResult

_COLUMNS = ("question", "opponent", "asked", "score %", "95 %", "chance %", "p")


def shortcuts(
    release: ReleaseArgument,
    *,
    split: SplitOption = None,
    margin: Annotated[float, typer.Option(min=0, max=100)] = 10.0,
) -> Answer:
    """Test whether a release can be scored without its content.

    Trains classifiers on statistics of pixels, files, names, position and wording. Exit code 1 if
    one of them is better than chance by more than the margin (p < 0.01) and the build did not
    accept that.

    Args:
        margin: Percentage points above chance that do not count as a shortcut.
    """
    from loupe.release.shortcuts import certify, shortcut_sentence
    from loupe.schemas.shortcuts import FEWEST_GROUPS

    certificate = certify(_folder_of(release), split, margin=margin)
    lines: list[Line] = []
    if certificate.results:
        lines.append(Table("shortcuts", _COLUMNS, map(_cells, certificate.results)))
    elif not certificate.too_few:
        lines.append("nothing to ask: no contrastive groups, no candidates, one source only")
    lines += [
        f"{one.question}: too few to tell ({one.groups}; at least {FEWEST_GROUPS} are needed)"
        for one in certificate.too_few
    ]
    for one in certificate.shortcuts:
        accepted = "" if one in certificate.unaccepted else " (accepted)"
        lines.append(f"shortcut{accepted}: {shortcut_sentence(one)}")
    return Answer(certificate, lines, bool(certificate.unaccepted))


def _folder_of(release: str) -> Path:
    """Return the folder of a release; one that is given as a folder needs no store."""
    from loupe.flows.evaluation.leaderboard import locate_release
    from loupe.release.format.manifest import release_folder
    from loupe.schemas.errors import UsageError

    if (folder := release_folder(release)) is not None:
        return folder
    with opened_store() as store:
        found = locate_release(store, release)
    if found.folder is None:
        raise UsageError(f"the folder of release {release} is gone; give the folder of a copy")
    return found.folder


def _cells(one: "BlindResult") -> tuple[object, ...]:
    return (
        one.question,
        one.opponent,
        Figure(f"{one.questions:,}"),
        Figure(f"{one.right:.1f}"),
        Figure(f"{one.low:.1f}–{one.high:.1f}"),
        Figure(f"{one.chance:.1f}"),
        Figure(f"{one.p_value:.4f}"),
    )
