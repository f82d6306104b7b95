"""`loupe release shortcuts`: what can be scored on a release without its content."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loupe.flows.cli.options import ReleaseArgument, SplitOption, opened_store
from loupe.flows.cli.output import Answer, Figure, Line, Table

if TYPE_CHECKING:
    from loupe.schemas.shortcuts import BlindResult

_COLUMNS = ("question", "opponent", "right %", "95 %", "chance %", "p")


def shortcuts(
    release: ReleaseArgument,
    *,
    split: SplitOption = None,
    margin: Annotated[float, typer.Option(min=0, max=100)] = 10.0,
) -> Answer:
    """Train opponents that do not see the content, and show what they reach.

    They use statistics of pixels, files, names, order and wording. Exit code 1 if one of them is
    better than chance by more than the margin (p < 0.01).

    Args:
        margin: Percentage points above chance that are no shortcut.
    """
    from loupe.flows.evaluation.shortcuts import certify

    certificate = certify(_folder_of(release), split)
    found = [one for one in certificate.results if one.is_shortcut(margin)]
    lines: list[Line] = []
    if not certificate.results:
        lines.append("nothing to ask: no contrastive groups, and one source only (or too few)")
    else:
        lines.append(Table("shortcuts", _COLUMNS, map(_cells, certificate.results)))
    lines += [f"shortcut: {sentence(one)}" for one in found]
    return Answer(certificate, lines, bool(found))


def _folder_of(release: str) -> Path:
    """Return the folder of a release; one that is given as a folder needs no store."""
    from loupe.flows.evaluation.leaderboard import locate_release
    from loupe.schemas.errors import UsageError

    folder = Path(release)
    if folder.is_dir():
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
        Figure(f"{one.right:.1f}"),
        Figure(f"{one.low:.1f}–{one.high:.1f}"),
        Figure(f"{one.chance:.1f}"),
        Figure(f"{one.p_value:.4f}"),
    )


def sentence(one: "BlindResult") -> str:
    """Return a result as a sentence."""
    used = f" (mostly by {', '.join(one.used)})" if one.used else ""
    return (
        f"{one.question}: {one.right:.1f} % are right by {one.opponent} alone{used}; "
        f"by chance {one.chance:.1f} %"
    )
