"""`loupe filter`: explain why the noise filter kept or dropped frames."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from flows.cli.commands import command, group
from flows.cli.options import opened_store, require_dataset
from flows.cli.output import JsonOption, PageOption, out, print_json, print_rows, write_page

if TYPE_CHECKING:
    from flows.ufine6926.filter_explanation import Explanation
    from schemas.video import Observation


app = group("Explain the decisions of the noise filter.")

_MARKS = {"dropped": ("red bold", "✗"), "suspected": ("yellow", "?"), "passed": ("none", " ")}
_WIDE = 96
_LABELS_WIDTH, _NARROW_LABELS_WIDTH, _FRAME_WIDTH = 56, 36, 11


@command(app)
def explain(
    name: Annotated[str, typer.Argument(metavar="ID")],
    *,
    html: PageOption = None,
    profile: str | None = None,
    as_json: JsonOption = False,
) -> None:
    """Show the measurements of each frame of a track.

    Each measurement is shown with the threshold of its rule.

    Args:
        name: Id of a track, filter report or tracklet, or digest of a crop; at least its first 6
            digits.
        html: Also write an HTML page with the crops to this file.
        profile: Apply the thresholds of this profile (default: those of the filter report).
    """
    from db.blobs import BlobStore
    from flows.ufine6926.filter_explanation import as_document, render_explanation
    from flows.ufine6926.filter_explanation import explain as find_and_explain
    from models.profiles.settings import load_settings

    settings = load_settings()
    with opened_store() as store:
        wanted = profile or settings.profile
        explanation = find_and_explain(store, name, wanted, what_if=profile is not None)
    if html is not None:
        write_page(html, render_explanation(explanation, BlobStore(settings.blobs_url)))
    if as_json:
        print_json(as_document(explanation))
    else:
        _show(explanation)


@command(app)
def sheet(
    dataset: str,
    *,
    rule: str | None = None,
    out_: Annotated[Path, typer.Option(dir_okay=False)] = Path("sheet.html"),
    profile: str | None = None,
    as_json: JsonOption = False,
) -> None:
    """Write a contact sheet with the crops of each rule.

    Crops are sorted by the measurement of the rule.

    Args:
        dataset: The dataset whose tracks were filtered.
        rule: Only this rule, e.g. blurred.
        out_: The HTML page to write.
        profile: Apply the thresholds of this profile (default: those of the filter report).
    """
    from db.blobs import BlobStore
    from flows.ufine6926.filter_explanation import collect, render_sheet, sheet_document
    from flows.ufine6926.noise_filter import newest_report, thresholds_of
    from models.profiles.settings import load_settings

    settings = load_settings()
    with opened_store() as store:
        require_dataset(store, dataset)
        report = None if profile else newest_report(store, dataset)
        thresholds = thresholds_of(store, report, profile or settings.profile)
        collected = collect(store, dataset, thresholds, rule)
    write_page(out_, render_sheet(collected, BlobStore(settings.blobs_url)))
    document = sheet_document(collected)
    if as_json:
        print_json(document)
        return
    rows = [
        {**row, "threshold": f"{row['sign']} {row['threshold']:g}"} for row in document["rules"]
    ]
    columns = ("rule", "setting", "threshold", "measured", "dropped", "suspected")
    print_rows(False, f"{dataset}, by {thresholds.origin}", columns, rows)


def _show(explanation: "Explanation") -> None:
    track = explanation.found.track
    out.print(
        f"[bold]track {track.number}[/bold] of {escape(track.video)}  "
        f"[dim]{explanation.found.entity.id[:12]}[/dim]",
        soft_wrap=True,
    )
    out.print(
        f"frames {track.first_frame} to {track.last_frame}, seen in {track.seen_frames:,}, "
        f"{len(track.observations)} kept by the tracker {escape(track.author)}",
        soft_wrap=True,
    )
    agreement = {
        None: "; the store has no report on this track yet",
        False: "; [yellow]the report in the store differs[/yellow]",
        True: "",
    }[explanation.agrees]
    out.print(f"thresholds of {escape(explanation.thresholds.origin)}{agreement}\n")
    is_wide = out.width >= _WIDE
    room = out.width - (_LABELS_WIDTH if is_wide else _NARROW_LABELS_WIDTH)
    columns = max(1, room // _FRAME_WIDTH)
    shown = explanation.observations
    for start in range(0, len(shown), columns):
        out.print(_block(explanation, shown[start : start + columns], is_wide=is_wide))
    out.print("[red bold]✗[/red bold] dropped   [yellow]?[/yellow] suspected   – not measured\n")
    _show_outcome(explanation)


def _block(
    explanation: "Explanation", observations: "Sequence[Observation]", *, is_wide: bool
) -> Table:
    """Format some frames side by side, with their measurements below each other."""
    from flows.engine.pages import figure

    table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("rule", no_wrap=True)
    if is_wide:
        table.add_column("setting", no_wrap=True, style="dim")
    table.add_column("good", justify="right", no_wrap=True)
    for one in observations:
        part = explanation.part_of(one.frame)
        result = "[red]dropped[/red]" if part is None else f"[green]part {part}[/green]"
        heading = f"{one.frame}\n{one.time_seconds:.2f} s\n{result}"
        table.add_column(heading, justify="right", no_wrap=True)
    for rule in explanation.rules:
        cells = []
        for one in observations:
            if (measured := explanation.measured(rule, one.frame)) is None:
                cells.append("[dim]–[/dim] ")
                continue
            style, mark = _MARKS[measured.outcome]
            value = figure(measured.value, is_count=rule.is_count)
            cells.append(f"[{style}]{value}{mark}[/{style}]")
        names = [rule.name, rule.setting] if is_wide else [rule.label]
        threshold = f"{rule.sign} {rule.threshold(explanation.thresholds.settings):g}"
        table.add_row(*names, threshold, *cells)
    return table


def _show_outcome(explanation: "Explanation") -> None:
    """Show the findings against each frame in a comparison, and the remaining frames."""
    from flows.engine.pages import figure
    from flows.ufine6926.noise_rules import SWITCH

    for observation in explanation.observations:
        for one in explanation.against(observation.frame):
            style, _ = _MARKS[one.outcome]
            if one.frame in explanation.judgement.switches and one.rule == SWITCH.name:
                out.print(f"[{style}]another person[/{style}] may start at frame {one.frame}")
            elif one.beside is not None:
                out.print(
                    f"frame {one.frame} [{style}]{one.outcome}[/{style}] by {one.rule}: "
                    f"{figure(one.value)} from frame {one.beside}"
                )
    for one in explanation.all_measured(None):
        out.print(f"the track is [red bold]{one.outcome}[/red bold] by {one.rule}: {one.value:g}")
    for number, part in enumerate(explanation.judgement.parts, start=1):
        frames = ", ".join(map(str, part))
        out.print(f"[green]part {number}[/green] keeps {len(part)}: {frames}", soft_wrap=True)
