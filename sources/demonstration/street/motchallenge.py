"""Ground truth in MOTChallenge's format, for HOTA, IDF1 and MOTA."""

from collections.abc import Iterable
from pathlib import Path

from sources.demonstration.street.truth import TrueSighting

PEDESTRIAN = 1
LEAST_VISIBILITY = 0.1
"""Who can be seen less than this is listed, but not considered (confidence 0)."""


def write_mot_truth(target: Path, sightings: Iterable[TrueSighting]) -> None:
    """Writes one row a sighting: frame (from 1), visit, whole box, considered, class, visibility.

    Whoever leaves and comes back has another number then.
    """
    ordered = sorted(sightings, key=lambda sighting: (sighting.frame, sighting.visit))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(_row(sighting) for sighting in ordered), encoding="utf-8")


def _row(sighting: TrueSighting) -> str:
    left, top, right, bottom = sighting.box_xyxy
    considered = int(sighting.visible >= LEAST_VISIBILITY)
    box = f"{left},{top},{right - left},{bottom - top}"
    row = f"{sighting.frame + 1},{sighting.visit},{box}"
    return f"{row},{considered},{PEDESTRIAN},{sighting.visible:.4f}\n"
