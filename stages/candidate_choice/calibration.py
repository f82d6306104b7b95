"""Where the bounds of the choice should lie, from results whose similarity to the anchor is known.

The *floor*. Where people judged candidates, it is what all but `LOST_SHARE` of those that they
accepted are above. Where they have not yet, a result should be nearer to its anchor than unrelated
pictures are: the floor is what only `LOST_SHARE` of pairs of an anchor and a result of *another*
anchor's search are above.

The *ceiling* tells near-duplicates, which fingerprints and people find, from other results: of all
values the one that puts the fewest on the wrong side, and no lower than all but `LOST_SHARE` of the
candidates that people accepted.

A bound is suggested only where there are `LEAST_KNOWN` of what it is found on.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.contrast import (
    ChoiceCalibration,
    ChoiceSettings,
    ObservedResult,
    SuggestedBound,
)

LOST_SHARE = 0.05
LEAST_KNOWN = 20
SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""The quantiles that are told."""
_DECIMALS = 3


def calibrate_choice(
    observed: Sequence[ObservedResult],
    anchors: int,
    unrelated: NDArray[np.float64],
    settings: ChoiceSettings,
    embedder: str,
) -> ChoiceCalibration:
    """What results are like, and the bounds that follow.

    Args:
        observed: results of searches, candidates that people judged among them.
        anchors: how many anchors they are of.
        unrelated: similarities of anchors to results of other anchors, of shape (m,); see
            `unrelated_similarities`.
        settings: the bounds in force.
        embedder: what the similarities are of, as `name@revision`.
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
    """The cosine of each anchor to each result of another one's search, of shape (m,).

    Args:
        anchors: embeddings of unit length, of shape (a, d).
        results: likewise, of shape (n, d).
        owners: for each result the row of its anchor, of shape (n,).
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
    """The value with the fewest of `lower` above it and of `upper` at or below it, and how many.

    Of equally good values the middle of the lowest room between two of them.
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
    return tuple((share, _rounded(np.quantile(values, share))) for share in SHARES)


def _within(values: NDArray[np.float64], floor: float, ceiling: float) -> int:
    return int(((values >= floor) & (values <= ceiling)).sum())


def _rounded(value: float | np.floating) -> float:
    return round(float(value), _DECIMALS)
