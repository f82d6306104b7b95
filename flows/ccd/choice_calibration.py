"""Report how similar results are to their anchors, and suggest the bounds of the choice.

If people judged candidates, all but `LOST_SHARE` of the accepted ones are above the *floor*.

The *ceiling* separates near-duplicates, found by fingerprints and by people, from other results. It
is the value with the fewest results on the wrong side, and at least as high as all but `LOST_SHARE`
of the accepted candidates.

A bound is only suggested from at least `LEAST_KNOWN` values.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loupe.db.decisions import last_agents
from loupe.db.entities import parents_of
from loupe.flows.ccd.run import CcdRun
from loupe.flows.engine.runner import get_or_create_entity
from loupe.schemas.contrast import (
    ChoiceCalibration,
    ObservedResult,
    ResultsConsidered,
    SuggestedBound,
)
from loupe.schemas.profile import ChoiceSettings, ContrastSettings
from loupe.schemas.proposals import Candidate
from loupe.schemas.provenance import Role

LOST_SHARE = 0.05
LEAST_KNOWN = 20
_SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Quantiles to report."""
_DECIMALS = 3


def calibrate_choice(
    observed: Sequence[ObservedResult], anchors: int, settings: ChoiceSettings, embedder: str
) -> ChoiceCalibration:
    """Return statistics of the results and the bounds they suggest.

    Args:
        observed: results of searches, including candidates that people judged.
        anchors: number of anchors that were searched for.
        settings: the current bounds.
        embedder: the embedder of the similarities, as `name@revision`.
    """
    others = np.array([one.similarity for one in observed if not one.near_duplicate])
    duplicates = np.array([one.similarity for one in observed if one.near_duplicate])
    accepted = np.array([one.similarity for one in observed if one.accepted])
    floor, ceiling = _floor(accepted), _ceiling(duplicates, others, accepted)
    low = settings.floor if floor.value is None else floor.value
    high = settings.ceiling if ceiling.value is None else ceiling.value
    quantiles = ((share, _rounded(np.quantile(others, share))) for share in _SHARES)
    return ChoiceCalibration(
        embedder=embedder,
        settings=settings,
        anchors=anchors,
        results=len(observed),
        near_duplicates=len(duplicates),
        judged=sum(one.accepted is not None for one in observed),
        accepted=len(accepted),
        quantiles=tuple(quantiles) if len(others) else (),
        floor=floor,
        ceiling=ceiling,
        within=_within(others, settings.floor, settings.ceiling),
        within_suggested=_within(others, low, high),
    )


def _floor(accepted: NDArray[np.float64]) -> SuggestedBound:
    if len(accepted) < LEAST_KNOWN:
        return SuggestedBound(value=None, known=len(accepted), reason="too little is known")
    return SuggestedBound(
        value=_rounded(np.quantile(accepted, LOST_SHARE)),
        known=len(accepted),
        reason=f"{1 - LOST_SHARE:.0%} of the candidates that people accepted are above it",
    )


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
    errors = f"{wrong:,} of {known + len(others):,} wrong"
    reason = f"separates near-duplicates from other results best, with {errors}"
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


def _within(values: NDArray[np.float64], floor: float, ceiling: float) -> int:
    return int(((values >= floor) & (values <= ceiling)).sum())


def _rounded(value: float | np.floating) -> float:
    return round(float(value), _DECIMALS)


# Collect the similarities of the results of a dataset.


def calibrate_choices(run: CcdRun) -> None:
    """Store and report the similarities of results and the suggested bounds.

    Of each request, the newest results of the current embedder count.
    """
    embedder = str(run.embedder.ref)
    considered = run.find(ResultsConsidered)
    requests = parents_of(run.store, [one.id for one in considered], Role.CONSIDERED_FOR)
    newest = {
        requests[one.id][0]: record
        for one in considered
        if (record := one.record(ResultsConsidered)).embedder == embedder
    }
    if not newest:
        return
    people = _people_said(run)
    observed = [
        ObservedResult(
            similarity=result.similarity,
            near_duplicate=result.verdict == "near_duplicate",
            accepted=people.get(picture),
        )
        for record in newest.values()
        for picture, result in zip(record.picture_ids, record.results, strict=True)
    ]
    anchors = len({record.anchor_id for record in newest.values()})
    calibration = calibrate_choice(observed, anchors, run.settings.choice, embedder)
    get_or_create_entity(run.context, calibration, run.dataset)
    run.say(similarity_summary(calibration))
    run.say(uncalibrated_threshold_warning(run.settings, calibration))


def _people_said(run: CcdRun) -> dict[str, bool]:
    """Return for each found image that people judged as a candidate, whether they accepted it."""
    decided = run.find(Candidate, "accepted", "rejected")
    ids = [one.id for one in decided]
    found, judges = parents_of(run.store, ids, Role.FOUND_AS), last_agents(run.store, ids)
    return {
        found[one.id][0]: one.state == "accepted"
        for one in decided
        if one.id in found and judges[one.id].kind == "person"
    }


def similarity_summary(found: ChoiceCalibration) -> str:
    """Return how similar results are to their anchors, and the suggested bounds, as a sentence."""
    bounds = found.settings
    seen = f"{found.results:,} results, {found.near_duplicates:,} of them near-duplicates"
    if found.quantiles:
        similar = ", ".join(f"{share:.0%} below {value:g}" for share, value in found.quantiles)
        seen = f"{seen}; similarity of the others to their anchor: {similar}"
    return (
        f"{seen}\n{found.within:,} results are within the bounds of the profile ({bounds.floor:g} "
        f"to {bounds.ceiling:g}), {found.within_suggested:,} within those that results suggest: "
        f"{_suggested('a floor', found.floor)} and {_suggested('a ceiling', found.ceiling)}"
    )


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
        noun = what.split()[-1]
        return f"no {noun} yet ({bound.known} of the {LEAST_KNOWN} judged results that it needs)"
    return f"{what} of {bound.value:g}"
