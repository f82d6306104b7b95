"""What the dataset card says of leaks: between splits, and of what is in other datasets."""

from collections.abc import Iterator
from typing import NamedTuple

from release.contamination import distance_in_words, leak_rule
from release.markup import as_text
from schemas.contamination import Contamination, SharedMeasure
from schemas.leaks import Comparison, NearPair
from schemas.release import Manifest

_SHOWN = 3
"""So many of the nearest pairs of each comparison stand on the card; `leaks.json` has more."""
_SHOWN_FILES = 3
_KINDS = {"release": "a release", "dataset": "an imported dataset", "folder": "a folder of images"}
_CAPTION_CHARACTERS = 80


class PairRow(NamedTuple):
    """Two that are near: between what, by what, how far apart, and their files, as Markdown."""

    between: str
    compared_by: str
    distance: str
    first: str
    second: str


class SplitRow(NamedTuple):
    """What was compared of one split with another dataset, as Markdown."""

    other: str
    compared_by: str
    leak: str
    split: str
    compared: int
    theirs: int
    leaks: int


class LookRow(NamedTuple):
    """How many images of one split are how near to any of another dataset's by their looks."""

    other: str
    split: str
    counts: tuple[int, ...]


class KeptApart(NamedTuple):
    """How far apart splits are, and how far from others: what the tables of the card hold."""

    pairs: list[PairRow]
    others: list[str]
    is_contaminated: bool
    splits: list[SplitRow]
    thresholds: list[int]
    looks: list[LookRow]
    shared: list[PairRow]


def kept_apart(manifest: Manifest) -> KeptApart:
    """Everything that the card says of leaks beside the comparisons of splits themselves."""
    held = manifest.contamination
    return KeptApart(
        pairs=list(_pairs_of_splits(manifest)),
        others=list(map(_other_line, held)),
        is_contaminated=any(one.leaks for one in held),
        splits=[row for one in held for row in _split_rows(one)],
        thresholds=_thresholds(held),
        looks=[row for one in held for row in _look_rows(one, _thresholds(held))],
        shared=[row for one in held for row in _pairs_of_others(one)],
    )


def leak_in_words(comparison: Comparison) -> str:
    """Which pairs of images of two splits are leaks."""
    return {
        "perceptual_hash": f"up to {comparison.threshold:g} bits differ",
        "embedding": f"cosine distance up to {comparison.threshold:g}",
    }.get(comparison.measure, "equal")


def _pairs_of_splits(manifest: Manifest) -> Iterator[PairRow]:
    for comparison in manifest.leaks.comparisons if manifest.leaks else ():
        for pair in comparison.shown[:_SHOWN]:
            yield PairRow(
                " / ".join(comparison.splits),
                comparison.measure.replace("_", " "),
                _marked(_apart(comparison, pair), is_leak=pair.distance <= comparison.threshold),
                as_text(pair.first),
                as_text(pair.second),
            )


def _apart(comparison: Comparison, pair: NearPair) -> str:
    if comparison.measure == "perceptual_hash":
        return f"{pair.distance:g} bits"
    return f"{pair.distance:g}" if comparison.measure == "embedding" else "equal"


def _marked(distance: str, *, is_leak: bool) -> str:
    return f"**{distance}: a leak**" if is_leak else distance


def _other_line(held: Contamination) -> str:
    known = f"id `{held.release_id}`" if held.release_id else f"content `{held.content_sha256}`"
    line = (
        f"{as_text(held.name)}, {_KINDS[held.other]}, {known}: {held.images:,} images, "
        f"{held.captions:,} captions"
    )
    if not held.unreadable:
        return line
    files = ", ".join(map(as_text, held.unreadable_files[:_SHOWN_FILES]))
    more = ", …" if held.unreadable > _SHOWN_FILES else ""
    what = "image" if held.unreadable == 1 else "images"
    return f"{line}; {held.unreadable:,} {what} could not be read ({files}{more})"


def _split_rows(held: Contamination) -> Iterator[SplitRow]:
    for measure in held.measures:
        for split in measure.splits:
            yield SplitRow(
                as_text(held.name),
                _by(measure),
                leak_rule(measure),
                split.split or "all",
                split.compared,
                measure.theirs,
                split.leaks,
            )


def _by(measure: SharedMeasure) -> str:
    return f"{measure.measure.replace('_', ' ')} ({as_text(measure.computed_by)})"


def _thresholds(held: tuple[Contamination, ...]) -> list[int]:
    """All distances of looks that anything is counted by."""
    looks = (one for other in held for one in other.measures if one.measure == "perceptual_hash")
    return sorted({most for one in looks for split in one.splits for most, _ in split.within})


def _look_rows(held: Contamination, thresholds: list[int]) -> Iterator[LookRow]:
    for measure in held.measures:
        for split in measure.splits if measure.measure == "perceptual_hash" else ():
            counted = dict(split.within)
            counts = tuple(counted.get(most, 0) for most in thresholds)
            yield LookRow(as_text(held.name), split.split or "all", counts)


def _pairs_of_others(held: Contamination) -> Iterator[PairRow]:
    for measure in held.measures:
        for pair in measure.nearest[:_SHOWN]:
            distance = distance_in_words(measure, pair.distance)
            said = ""
            if measure.measure == "caption":
                words = pair.value[:_CAPTION_CHARACTERS]
                said = f": “{as_text(words)}{'…' if len(pair.value) > len(words) else ''}”"
            yield PairRow(
                as_text(held.name),
                measure.measure.replace("_", " "),
                _marked(distance, is_leak=pair.distance <= measure.threshold),
                as_text(pair.first),
                as_text(pair.second) + said,
            )
