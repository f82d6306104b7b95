"""`loupe filter`: explain why the noise filter kept or dropped frames."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid

from loupe.flows.cli.commands import command, group
from loupe.flows.cli.options import opened_store, require_dataset, settings
from loupe.flows.cli.output import Answer, Line, PageOption, Table, out, write_page

if TYPE_CHECKING:
    from loupe.flows.ufine6926.filter_explanation import Explanation
    from loupe.schemas.video import Observation


app = group("Explain the decisions of the noise filter.")

_MARKS = {"dropped": "✗", "suspected": "?", "passed": " "}
_LABELS_WIDTH, _FRAME_WIDTH = 44, 11


@command(app)
def explain(
    name: Annotated[str, typer.Argument(metavar="ID")],
    *,
    html: PageOption = None,
    profile: str | None = None,
) -> Answer:
    """Show the measurements of each frame of a track.

    Each measurement is shown with the threshold of its rule.

    Args:
        name: Id of a track, filter report or tracklet, or digest of a crop; at least its first 6
            digits.
        html: Also write an HTML page with the crops to this file.
        profile: Apply the thresholds of this profile (default: those of the filter report).
    """
    from loupe.db.blobs import BlobStore
    from loupe.flows.ufine6926.filter_explanation import as_document, render_explanation
    from loupe.flows.ufine6926.filter_explanation import explain as find_and_explain

    own = settings()
    with opened_store() as store:
        wanted = profile or own.profile
        explanation = find_and_explain(store, name, wanted, what_if=profile is not None)
    if html is not None:
        write_page(html, render_explanation(explanation, BlobStore(own.blobs_url)))
    return Answer(as_document(explanation), _lines(explanation))


@command(app)
def sheet(
    dataset: str,
    *,
    rule: str | None = None,
    out_: Annotated[Path, typer.Option(dir_okay=False)] = Path("sheet.html"),
    profile: str | None = None,
) -> Answer:
    """Write an HTML contact sheet of the crops, grouped by rule.

    Within each rule, crops are sorted by its measurement.

    Args:
        dataset: The dataset whose tracks were filtered.
        rule: Only this rule, e.g. blurred.
        out_: The HTML page to write.
        profile: Apply the thresholds of this profile (default: those of the filter report).
    """
    from loupe.db.blobs import BlobStore
    from loupe.flows.ufine6926.filter_explanation import collect, render_sheet, sheet_document
    from loupe.flows.ufine6926.noise_filter import current_report, thresholds_of

    own = settings()
    with opened_store() as store:
        require_dataset(store, dataset)
        report = None if profile else current_report(store, dataset)
        thresholds = thresholds_of(store, report, profile or own.profile)
        collected = collect(store, dataset, thresholds, rule)
    write_page(out_, render_sheet(collected, BlobStore(own.blobs_url)))
    document = sheet_document(collected)
    rows = [
        {**row, "threshold": f"{row['sign']} {row['threshold']:g}"} for row in document["rules"]
    ]
    columns = ("rule", "setting", "threshold", "measured", "dropped", "suspected")
    return Answer(document, [Table.of(f"{dataset}, by {thresholds.origin}", columns, rows)])


def _lines(explanation: "Explanation") -> Iterator[Line]:
    track = explanation.found.track
    yield f"track {track.number} of {track.video}  {explanation.found.entity.id[:12]}"
    yield (
        f"frames {track.first_frame} to {track.last_frame}, seen in {track.seen_frames:,}, "
        f"{len(track.observations)} kept by the tracker {track.author}"
    )
    yield f"thresholds of {explanation.thresholds.origin}{explanation.agreement}"
    columns = max(1, (out.width - _LABELS_WIDTH) // _FRAME_WIDTH)
    shown = explanation.observations
    for start in range(0, len(shown), columns):
        yield _block(explanation, shown[start : start + columns])
    yield "✗ dropped   ? suspected   – not measured"
    yield from _outcome(explanation)


def _block(explanation: "Explanation", observations: "Sequence[Observation]") -> Grid:
    """Format some frames side by side, with their measurements below each other."""
    from loupe.flows.engine.pages import figure

    table = Grid(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("rule and setting", no_wrap=True)
    table.add_column("good", justify="right", no_wrap=True)
    for one in observations:
        part = explanation.part_of(one.frame)
        result = "dropped" if part is None else f"part {part}"
        heading = f"{one.frame}\n{one.time_seconds:.2f} s\n{result}"
        table.add_column(heading, justify="right", no_wrap=True)
    for rule in explanation.rules:
        found = [explanation.measured(rule, one.frame) for one in observations]
        cells = [
            f"{figure(one.value, is_count=rule.is_count)}{_MARKS[one.outcome]}" if one else "– "
            for one in found
        ]
        good = f"{rule.sign} {rule.threshold(explanation.thresholds.settings):g}"
        table.add_row(f"{rule.name} {rule.setting}", good, *cells)
    return table


def _outcome(explanation: "Explanation") -> Iterator[str]:
    """Yield the findings against each frame in a comparison, and the remaining frames."""
    from loupe.flows.engine.pages import figure
    from loupe.flows.ufine6926.noise_rules import SWITCH

    for observation in explanation.observations:
        for one in explanation.against(observation.frame):
            if one.frame in explanation.judgement.switches and one.rule == SWITCH.name:
                yield f"another person may start at frame {one.frame}"
            elif one.beside is not None:
                compared = f"{figure(one.value)} from frame {one.beside}"
                yield f"frame {one.frame} {one.outcome} by {one.rule}: {compared}"
    for one in explanation.all_measured(None):
        yield f"the track is {one.outcome} by {one.rule}: {one.value:g}"
    for number, part in enumerate(explanation.judgement.parts, start=1):
        yield f"part {number} keeps {len(part)}: {', '.join(map(str, part))}"
