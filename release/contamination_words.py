"""What a release shares with others, in words."""

from schemas.contamination import Contamination, ContaminationMeasure, SharedMeasure

_OURS: dict[ContaminationMeasure, str] = {
    "file": "images that are files of it",
    "perceptual_hash": "images that look like its",
    "video": "images from its videos",
    "identity": "images of its identities",
    "caption": "captions that it says word for word",
}
_UNITS: dict[ContaminationMeasure, str] = {"perceptual_hash": " bits"}


def contaminated_sentence(held: Contamination) -> str:
    """How much of a release is in the other dataset, by each measure, and the nearest pair."""
    details = "; ".join(_counted(one) for one in held.leaks)
    nearest = held.leaks[0].nearest[0]
    return f"compared with {held.name}, {details} (such as {nearest.first}: {nearest.second})"


def _counted(measure: SharedMeasure) -> str:
    splits = ", ".join(
        f"{one.leaks:,} of {one.compared:,}" + (f" in {one.split}" if one.split else "")
        for one in measure.splits
        if one.leaks
    )
    return f"{_OURS[measure.measure]}: {splits}"


def leak_rule(measure: SharedMeasure) -> str:
    """What counts as a leak."""
    if measure.measure == "perceptual_hash":
        return f"up to {measure.threshold} bits differ"
    return "equal"


def distance_in_words(measure: SharedMeasure, distance: int) -> str:
    """A distance with its unit, or what none means."""
    unit = _UNITS.get(measure.measure)
    return "equal" if unit is None else f"{distance}{unit}"
