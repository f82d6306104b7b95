"""Of the first results the one most similar to the anchor, but not the anchor again.

CCD takes the most similar of five. That one is often the anchor itself, cropped or saved anew: it
differs in nothing, and a caption of the anchor is true of it. So near-duplicates are left out
first, then what is above a ceiling (which near-duplicates that no fingerprint finds are, too); and
a result below a floor has nothing in common with the anchor but words.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.contrast import ChoiceSettings, ConsideredResult, ResultVerdict
from schemas.records import Rejection

STAGE = "choose_candidates"
VERSION = "1"

Vector = NDArray[Any]
"""An embedding, of shape (d,)."""
Vectors = NDArray[Any]
"""Embeddings, of shape (n, d)."""

_DECIMALS = 6


class Choice(NamedTuple):
    """The result that was chosen.

    Attributes:
        place: which of the results it is, from 0.
        similarity: its cosine to the anchor.
        considered: what became of each result that was looked at, in their order.
    """

    place: int
    similarity: float
    considered: tuple[ConsideredResult, ...]


def choose_candidate(
    anchor: Vector,
    results: Vectors,
    near_duplicates: Sequence[bool],
    settings: ChoiceSettings,
    already_used: Sequence[bool] = (),
) -> Choice | Rejection:
    """The candidate among the first results; of equally similar ones the first.

    Reasons of a rejection: `no_results`; `too_similar`, where all of them are near-duplicates of
    the anchor or above the ceiling; `already_used`, where there are others, and each is an image of
    the dataset already; `too_different` otherwise. Its context holds the bounds and
    what became of each result.

    Args:
        anchor: the embedding of the anchor; of any length but 0.
        results: those of the results, in the order of the search, of shape (n, d).
        near_duplicates: for each of them whether it has the anchor's content.
        settings: how many are looked at, and the bounds.
        already_used: for each of them whether it is an image of the dataset already; none are,
            where nothing is said.
    """
    used = already_used or [False] * len(near_duplicates)
    similarities = similarities_to(anchor, results)[: settings.first]
    outcomes = [
        _outcome(similarity, near_duplicate, is_used, settings)
        for similarity, near_duplicate, is_used in zip(
            similarities, near_duplicates, used, strict=False
        )
    ]
    fitting = [place for place, outcome in enumerate(outcomes) if outcome == "less_similar"]
    if not fitting:
        return _rejection(_considered(similarities, outcomes), settings)
    best = max(fitting, key=lambda place: (similarities[place], -place))
    outcomes[best] = "chosen"
    return Choice(best, similarities[best], _considered(similarities, outcomes))


def fit_doubts(fit: float, settings: ChoiceSettings) -> tuple[str, ...]:
    """What speaks against a chosen result, a sentence each.

    Args:
        fit: its cosine to the contrastive caption less that of the anchor to its own caption.
        settings: how much less a result may fit.
    """
    if fit >= -settings.doubtful_misfit:
        return ()
    doubt = (
        f"It fits the wanted caption less than the anchor fits its own (by {-fit:.3f}), so that "
        "more may differ than the one detail."
    )
    return (doubt,)


def similarities_to(anchor: Vector, results: Vectors) -> list[float]:
    """The cosine of each result to the anchor, six decimals; no results give none.

    Raises:
        ValueError: the shapes do not fit each other.
    """
    if len(results) == 0:
        return []
    one, rows = np.asarray(anchor, np.float64), np.asarray(results, np.float64)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(one)
    cosines = np.clip(rows @ one / np.where(lengths > 0, lengths, 1.0), -1, 1)
    found: list[float] = np.round(cosines, _DECIMALS).tolist()
    return found


def _outcome(
    similarity: float, near_duplicate: bool, is_used: bool, settings: ChoiceSettings
) -> ResultVerdict:
    if near_duplicate:
        return "near_duplicate"
    if is_used:
        return "already_used"
    if similarity > settings.ceiling:
        return "too_similar"
    return "too_different" if similarity < settings.floor else "less_similar"


def _considered(
    similarities: Sequence[float], outcomes: Sequence[ResultVerdict]
) -> tuple[ConsideredResult, ...]:
    return tuple(
        ConsideredResult(rank=rank, similarity=similarity, verdict=outcome)
        for rank, (similarity, outcome) in enumerate(
            zip(similarities, outcomes, strict=True), start=1
        )
    )


def _rejection(considered: Sequence[ConsideredResult], settings: ChoiceSettings) -> Rejection:
    figures = {
        "first": settings.first,
        "floor": settings.floor,
        "ceiling": settings.ceiling,
        "results": [one.model_dump() for one in considered],
    }
    if not considered:
        return Rejection(
            stage=STAGE,
            reason="no_results",
            detail="the search gave no image to choose from",
            context=figures,
        )
    different = [one.similarity for one in considered if one.verdict == "too_different"]
    duplicates = sum(one.verdict == "near_duplicate" for one in considered)
    used = sum(one.verdict == "already_used" for one in considered)
    similar = len(considered) - duplicates - used - len(different)
    counts = [
        (duplicates, "the anchor again (a near-duplicate)"),
        (used, "an image of the dataset already"),
        (similar, f"more similar to it than {settings.ceiling:g}"),
        (len(different), f"less similar than {settings.floor:g}"),
    ]
    found = ", ".join(f"{count} {what}" for count, what in counts if count)
    nearest = f"; the most similar of these has {max(different):.3f}" if different else ""
    reason = "too_different" if different else "already_used" if used else "too_similar"
    return Rejection(
        stage=STAGE,
        reason=reason,
        detail=f"none of {len(considered)} results can be the candidate: {found}{nearest}",
        context=figures,
    )
