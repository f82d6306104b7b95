"""Suggest the bounds of the choice of candidates, and render the page on similarities.

The *floor*: if people judged candidates, all but `LOST_SHARE` of the accepted ones are above it.
Otherwise results should be nearer to their anchor than unrelated images are, so only `LOST_SHARE`
of the pairs of an anchor and a result of *another* anchor's search are above it.

The *ceiling* separates near-duplicates, found by fingerprints and by people, from other results. It
is the value with the fewest results on the wrong side, and at least as high as all but `LOST_SHARE`
of the accepted candidates.

A bound is only suggested from at least `LEAST_KNOWN` values.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from db.decisions import last_agents
from db.entities import StoredEntity, fetch, fetch_children, find, parents_of
from db.store import Store
from flows.ccd.run import CcdRun
from flows.engine.context import RunContext
from flows.engine.embedding import CachedEmbedder, picture_of, stored_picture
from flows.engine.pages import BINS, flow_pages, place_of, stacked_bars, write_report_page
from flows.engine.runner import get_or_create_entity
from schemas.contrast import (
    ChoiceCalibration,
    FoundPicture,
    ObservedResult,
    ResultsConsidered,
    SuggestedBound,
)
from schemas.profile import ChoiceSettings, ContrastSettings
from schemas.proposals import Candidate
from schemas.provenance import Role

LOST_SHARE = 0.05
LEAST_KNOWN = 20
_SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Quantiles to report."""
_DECIMALS = 3


def calibrate_choice(
    observed: Sequence[ObservedResult],
    anchors: int,
    unrelated: NDArray[np.float64],
    settings: ChoiceSettings,
    embedder: str,
) -> ChoiceCalibration:
    """Return statistics of the results and the bounds they suggest.

    Args:
        observed: results of searches, including candidates that people judged.
        anchors: number of anchors that were searched for.
        unrelated: similarities of anchors to results of other anchors, of shape (m,); see
            `unrelated_similarities`.
        settings: the current bounds.
        embedder: the embedder of the similarities, as `name@revision`.
    """
    others = np.array([one.similarity for one in observed if not one.near_duplicate])
    duplicates = np.array([one.similarity for one in observed if one.near_duplicate])
    accepted = np.array([one.similarity for one in observed if one.accepted])
    floor, ceiling = _floor(accepted, unrelated), _ceiling(duplicates, others, accepted)
    low = settings.floor if floor.value is None else floor.value
    high = settings.ceiling if ceiling.value is None else ceiling.value
    return ChoiceCalibration(
        embedder=embedder,
        settings=settings,
        anchors=anchors,
        results=len(observed),
        near_duplicates=len(duplicates),
        judged=sum(one.accepted is not None for one in observed),
        accepted=len(accepted),
        quantiles=_quantiles(others),
        unrelated=_quantiles(unrelated),
        floor=floor,
        ceiling=ceiling,
        within=_within(others, settings.floor, settings.ceiling),
        within_suggested=_within(others, low, high),
    )


def unrelated_similarities(
    anchors: NDArray[np.floating], results: NDArray[np.floating], owners: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the cosine of each anchor to each result of other anchors' searches, of shape (m,).

    Args:
        anchors: unit embeddings, of shape (a, d).
        results: unit embeddings, of shape (n, d).
        owners: the row of each result's anchor, of shape (n,).
    """
    cosines = np.asarray(anchors, np.float64) @ np.asarray(results, np.float64).T
    apart = np.arange(len(anchors))[:, None] != owners[None, :]
    found: NDArray[np.float64] = cosines[apart]
    return found


def _floor(accepted: NDArray[np.float64], unrelated: NDArray[np.float64]) -> SuggestedBound:
    if len(accepted) >= LEAST_KNOWN:
        return SuggestedBound(
            value=_rounded(np.quantile(accepted, LOST_SHARE)),
            known=len(accepted),
            reason=f"{1 - LOST_SHARE:.0%} of the candidates that people accepted are above it",
        )
    if len(unrelated) >= LEAST_KNOWN:
        return SuggestedBound(
            value=_rounded(np.quantile(unrelated, 1 - LOST_SHARE)),
            known=len(unrelated),
            reason=f"{1 - LOST_SHARE:.0%} of unrelated pairs of pictures are below it",
        )
    return SuggestedBound(value=None, known=len(accepted), reason="too little is known")


def _ceiling(
    duplicates: NDArray[np.float64], others: NDArray[np.float64], accepted: NDArray[np.float64]
) -> SuggestedBound:
    known = len(duplicates)
    if known < LEAST_KNOWN or len(others) < LEAST_KNOWN:
        reason = f"fewer than {LEAST_KNOWN} near-duplicates or other results are known"
        return SuggestedBound(value=None, known=known, reason=reason)
    split, wrong = _best_split(others, duplicates)
    least = np.quantile(accepted, 1 - LOST_SHARE) if len(accepted) >= LEAST_KNOWN else -1.0
    if least > split:
        reason = f"{1 - LOST_SHARE:.0%} of the candidates that people accepted are below it"
        return SuggestedBound(value=_rounded(least), known=len(accepted), reason=reason)
    reason = (
        f"tells near-duplicates from other results but for {wrong:,} of {known + len(others):,}"
    )
    return SuggestedBound(value=_rounded(split), known=known, reason=reason)


def _best_split(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> tuple[float, int]:
    """Return the value that separates `lower` from `upper` best, and the number of errors.

    Errors are values of `lower` above it and values of `upper` at or below it. Of equally good
    values, the middle of the lowest gap is returned.
    """
    values = np.unique(np.concatenate((lower, upper)))
    middles = np.append((values[:-1] + values[1:]) / 2, values[-1])
    wrong = len(lower) - np.searchsorted(np.sort(lower), middles, side="right")
    wrong = wrong + np.searchsorted(np.sort(upper), middles, side="right")
    best = int(np.argmin(wrong))
    return float(middles[best]), int(wrong[best])


def _quantiles(values: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    if not len(values):
        return ()
    return tuple((share, _rounded(np.quantile(values, share))) for share in _SHARES)


def _within(values: NDArray[np.float64], floor: float, ceiling: float) -> int:
    return int(((values >= floor) & (values <= ceiling)).sum())


def _rounded(value: float | np.floating) -> float:
    return round(float(value), _DECIMALS)


# Collect the similarities of the results of a dataset.

_MOST_SEARCHES = 200
"""The most searches whose results are compared with other anchors."""


def calibrate_choices(run: CcdRun) -> None:
    """Store the similarities of results, and write the page `reports/<dataset>-choices.html`."""
    context, dataset, settings = run.context, run.dataset, run.settings
    searches = [
        (one, record)
        for one in sorted(
            find(context.store, dataset, ResultsConsidered.kind), key=lambda one: one.id
        )
        if (record := one.record(ResultsConsidered)).results
    ]
    if not searches:
        return
    people = _people_said(context.store, [one for one, _ in searches])
    observed = [
        ObservedResult(
            similarity=result.similarity,
            near_duplicate=result.verdict == "near_duplicate",
            accepted=people.get(one.id) if result.verdict == "chosen" else None,
        )
        for one, record in searches
        for result in record.results
    ]
    records = [record for _, record in searches]
    calibration = calibrate_choice(
        observed,
        len({record.anchor_id for record in records}),
        _unrelated(context, records[:_MOST_SEARCHES], run.embedder),
        settings.choice,
        str(run.embedder.ref),
    )
    get_or_create_entity(context, calibration, dataset)
    rendered = render_choice_report(calibration, observed, dataset)
    page = write_report_page(context.settings.home, f"{dataset}-choices.html", rendered)
    run.say(f"the similarity of results to their anchors, and the suggested bounds, are in {page}")
    run.say(uncalibrated_threshold_warning(settings, calibration))


def _people_said(store: Store, considered: Sequence[StoredEntity]) -> dict[str, bool]:
    """Return for each search whose candidate people decided on, whether they accepted it."""
    orders = parents_of(store, [one.id for one in considered], Role.CONSIDERED_FOR)
    made = fetch_children(store, [found[0] for found in orders.values()], Role.ORDERED_BY)
    judges = last_agents(store, [one.id for many in made.values() for one in many])
    said = {
        order: one.state == "accepted"
        for order, many in made.items()
        for one in many
        if one.kind == Candidate.kind
        and one.state in ("accepted", "rejected")
        and judges[one.id].kind == "person"
    }
    return {one: said[found[0]] for one, found in orders.items() if found[0] in said}


def _unrelated(
    context: RunContext, records: Sequence[ResultsConsidered], embedder: CachedEmbedder
) -> NDArray[np.float64]:
    """Return the similarities of anchors to the results of other anchors."""
    anchors = list(dict.fromkeys(record.anchor_id for record in records))
    place = {anchor: at for at, anchor in enumerate(anchors)}
    pairs = [(place[record.anchor_id], id_) for record in records for id_ in record.picture_ids]
    stored = fetch(context.store, [*anchors, *(id_ for _, id_ in pairs)])
    pictures = [picture_of(stored[anchor]) for anchor in anchors]
    pictures += [stored[id_].record(FoundPicture).picture for _, id_ in pairs]
    rows = embedder.embed_images([stored_picture(context, picture) for picture in pictures])
    owners = np.array([owner for owner, _ in pairs], np.int64)
    return unrelated_similarities(rows[: len(anchors)], rows[len(anchors) :], owners)


def uncalibrated_threshold_warning(
    settings: ContrastSettings, found: ChoiceCalibration
) -> str | None:
    """Return a warning if the bounds of the choice were not measured with the embedder.

    Args:
        settings: the current bounds and their embedder.
        found: the bounds that the results of searches suggest.
    """
    if settings.has_measured_bounds:
        return None
    bounds = settings.choice
    return (
        f"the bounds of the choice (floor {bounds.floor:g}, ceiling {bounds.ceiling:g}) were not "
        f"measured with {settings.embedder.name}; results suggest "
        f"{_suggested('a floor', found.floor)} and {_suggested('a ceiling', found.ceiling)}; "
        "if you adopt them, set contrast.bounds_measured_with in the profile"
    )


def _suggested(what: str, bound: SuggestedBound) -> str:
    if bound.value is None:
        return f"no {what.split()[-1]} yet ({bound.known} of {LEAST_KNOWN} are known)"
    return f"{what} of {bound.value:g}"


# The page on the similarity of results to their anchors, and on the bounds of the choice.

_TEMPLATE = "choice_report.html.j2"
SERIES = ("accepted", "rejected", "not judged", "near-duplicate")
"""Kinds of results, in the order of the parts of a bar from the bottom."""


def render_choice_report(
    calibration: ChoiceCalibration, observed: Sequence[ObservedResult], dataset: str
) -> str:
    """Render the report as one self-contained HTML page.

    The scale of the plot includes all results and bounds.

    Args:
        calibration: result of `calibrate_choice` for `observed`.
        observed: the results.
        dataset: the dataset they were found for.
    """
    values = np.array([one.similarity for one in observed])
    series = np.array([_series(one) for one in observed], np.int64)
    settings = calibration.settings
    bounds = {"floor": settings.floor, "ceiling": settings.ceiling}
    suggested = [
        bound.value for bound in (calibration.floor, calibration.ceiling) if bound.value is not None
    ]
    ends = [*values.tolist(), *bounds.values(), *suggested]
    low, high = np.floor(min(ends) * 10) / 10, min(1.0, np.ceil(max(ends) * 10) / 10)
    edges = np.linspace(low, max(high, low + 0.1), BINS + 1)
    marks = [tenth / 10 for tenth in range(-10, 11) if edges[0] <= tenth / 10 <= edges[-1]]
    (bars,), highest = stacked_bars(
        edges, [[values[series == one] for one in range(len(SERIES))]], digits=".3f"
    )
    template = flow_pages().get_template(_TEMPLATE)
    return template.render(
        report=calibration,
        dataset=dataset,
        bars=bars,
        highest=highest,
        marks=[(place_of(edges, one), one) for one in marks],
        bounds=[(place_of(edges, one), one, name) for name, one in bounds.items()],
        suggested=[(place_of(edges, one), one) for one in suggested],
        series=SERIES,
        classes=("passed", "suspected", "unjudged", "dropped"),
    )


def _series(result: ObservedResult) -> int:
    if result.near_duplicate:
        return SERIES.index("near-duplicate")
    if result.accepted is None:
        return SERIES.index("not judged")
    return SERIES.index("accepted" if result.accepted else "rejected")
