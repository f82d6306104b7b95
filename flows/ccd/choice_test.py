"""The forced-choice test of the papers: its items, and its report."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from annotate.agreement import EmbeddingSimilarity, Similarity, WordSimilarity
from annotate.audits import Caption, DrawnChoices, Sample, Similarities, draw_choices
from db.entities import AgentRef
from db.release_rows import snapshot
from db.store import Store
from db.work import ActivityRecord, register_plan, store_activity
from flows.engine.pages import BINS, HistogramBar, flow_pages
from release.contents import Contents, described_tier
from release.rows import ReleaseRow
from release.scratch import Scratch
from schemas.contrast import ChoiceCalibration, ObservedResult
from schemas.proposals import Picture

STAGE = "draw-choices"
VERSION = "1"


def released_samples(store: Store, dataset: str) -> list[Sample]:
    """The images of a dataset with their captions, as a release would have them, in its order.

    Raises:
        IntegrityError: the dataset cannot be released as it is.
    """
    samples: list[Sample] = []
    captions = 0
    scratch = Scratch()
    try:
        with snapshot(store) as connection:
            tier = described_tier(connection, dataset)
            contents = Contents(connection, dataset, scratch, tier)
            contents.arrange()
            for found in contents.rows():
                samples.append(_sample(found.row, len(samples), captions))
                captions += len(found.row.captions)
    finally:
        scratch.close()
    return samples


def _sample(row: ReleaseRow, number: int, first_caption: int) -> Sample:
    return Sample(
        row=number,
        identity=row.id,
        source=row.source,
        split=row.split,
        picture=Picture(
            sha256=row.sha256,
            media_type=row.media_type,
            width_px=row.width_px,
            height_px=row.height_px,
            image_id=row.image_entity_id,
        ),
        image_id=row.image_entity_id,
        captions=tuple(
            Caption(caption.entity_id, caption.text, place)
            for place, caption in enumerate(row.captions, first_caption)
        ),
    )


def similarities(
    samples: list[Sample], text_embeddings: Path | None, image_embeddings: Path | None
) -> Similarities:
    """What the most similar ones are found by: embeddings where given, else the captions' words.

    Raises:
        UsageError: embeddings do not fit the released rows.
    """
    texts = [caption.text for sample in samples for caption in sample.captions]
    captions: Similarity
    images: Similarity
    if text_embeddings is None:
        captions = WordSimilarity(texts)
    else:
        captions = EmbeddingSimilarity.load(text_embeddings, len(texts), "released captions")
    if image_embeddings is None:
        images = WordSimilarity([" ".join(one.text for one in s.captions) for s in samples])
    else:
        images = EmbeddingSimilarity.load(image_embeddings, len(samples), "released images")
    return Similarities(images, captions)


def draw_and_store(
    store: Store,
    dataset: str,
    size: int,
    seed: int,
    found_by: Similarities,
    samples: list[Sample],
    software: AgentRef,
    code_revision: str,
) -> DrawnChoices:
    """Draws the tests and stores them; tests that are there already stay as they are.

    Raises:
        UsageError: there are too few samples.
    """
    started_at = datetime.now(UTC)
    drawn = draw_choices(dataset, samples, size, seed, found_by)
    configuration = {
        "size": size,
        "seed": seed,
        "image_similarity": found_by.images.name,
        "caption_similarity": found_by.captions.name,
    }
    plan_id = register_plan(store, STAGE, VERSION, configuration)
    activity = ActivityRecord(
        plan_id, dataset, code_revision, "loupe quality choices draw", started_at, (software,)
    )
    with store.write() as connection:
        store_activity(connection, activity, drawn.tests)
    return drawn


# The page on the similarity of results to their anchors, and on the bounds of the choice.

_TEMPLATE = "choice_report.html.j2"
SERIES = ("accepted", "rejected", "not judged", "near-duplicate")
"""What is known of a result; the order of the bars' parts, from the bottom."""


class PlacedValue(NamedTuple):
    """A value, its place in percent from the left, and its name."""

    place: float
    value: float
    name: str


class ChoicePlot(NamedTuple):
    """A histogram of similarities with the bounds on it.

    `bars` have their parts by `SERIES`; `highest` is the count of the highest; `bounds` are those
    in force, `suggested` those that the calibration suggests instead.
    """

    bars: tuple[HistogramBar, ...]
    marks: tuple[PlacedValue, ...]
    bounds: tuple[PlacedValue, ...]
    suggested: tuple[PlacedValue, ...]
    highest: int


def choice_plot(calibration: ChoiceCalibration, observed: Sequence[ObservedResult]) -> ChoicePlot:
    """The plot, on a scale that holds all results and bounds."""
    values = np.array([one.similarity for one in observed])
    series = np.array([_series(one) for one in observed], np.int64)
    settings = calibration.settings
    bounds = {"floor": settings.floor, "ceiling": settings.ceiling}
    suggested = {
        name: bound.value
        for name, bound in (("floor", calibration.floor), ("ceiling", calibration.ceiling))
        if bound.value is not None
    }
    ends = [*values.tolist(), *bounds.values(), *suggested.values()]
    low, high = np.floor(min(ends) * 10) / 10, min(1.0, np.ceil(max(ends) * 10) / 10)
    edges = np.linspace(low, max(high, low + 0.1), BINS + 1)

    def placed(named: dict[str, float]) -> tuple[PlacedValue, ...]:
        return tuple(PlacedValue(_place(edges, one), one, name) for name, one in named.items())

    marks = {f"{tenth / 10:.1f}": tenth / 10 for tenth in range(-10, 11)}
    counts = np.array([np.histogram(values[series == one], edges)[0] for one in range(len(SERIES))])
    highest = int(counts.sum(axis=0).max(initial=0))
    return ChoicePlot(
        tuple(_bar(edges, at, counts[:, at], highest) for at in range(BINS) if counts[:, at].any()),
        placed({name: one for name, one in marks.items() if edges[0] <= one <= edges[-1]}),
        placed(bounds),
        placed(suggested),
        highest,
    )


def render_choice_report(
    calibration: ChoiceCalibration, observed: Sequence[ObservedResult], dataset: str
) -> str:
    """The report as one HTML page that needs nothing else.

    Args:
        calibration: what `calibrate_choice` found in `observed`.
        observed: the results.
        dataset: what they are for.
    """
    return (
        flow_pages()
        .get_template(_TEMPLATE)
        .render(
            report=calibration,
            dataset=dataset,
            plot=choice_plot(calibration, observed),
            series=SERIES,
            classes=("passed", "suspected", "unjudged", "dropped"),
        )
    )


def write_choice_report(
    calibration: ChoiceCalibration, observed: Sequence[ObservedResult], dataset: str, path: Path
) -> None:
    """Writes the page; what is there is replaced.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_choice_report(calibration, observed, dataset), encoding="utf-8")


def _series(result: ObservedResult) -> int:
    if result.near_duplicate:
        return SERIES.index("near-duplicate")
    if result.accepted is None:
        return SERIES.index("not judged")
    return SERIES.index("accepted" if result.accepted else "rejected")


def _bar(
    edges: NDArray[np.float64], at: int, counts: NDArray[np.int64], highest: int
) -> HistogramBar:
    parts, below = [], 0.0
    for one, found in enumerate(counts.tolist()):
        if found:
            height = 100 * found / highest
            parts.append((one, round(100 - below - height, 2), round(height, 2)))
            below += height
    title = f"{int(counts.sum()):,} from {edges[at]:.3f} to {edges[at + 1]:.3f}"
    return HistogramBar(_place(edges, edges[at]), round(92 / BINS, 3), tuple(parts), title)


def _place(edges: NDArray[np.float64], value: float) -> float:
    return round(100 * float((value - edges[0]) / (edges[-1] - edges[0])), 3)
