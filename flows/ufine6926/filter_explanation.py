"""Why the noise filter kept or dropped each frame, and contact sheets to set thresholds by."""

from array import array
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from db.blobs import BlobStore
from db.entities import LIVE, find, pages
from db.store import Store
from flows.engine.pages import Histogram, flow_pages, histogram, thumbnail_uri
from flows.ufine6926.noise_filter import (
    FilteredTrack,
    Judgement,
    Thresholds,
    as_filtered,
    find_track,
    judge_track,
    newest_reports,
    thresholds_of,
)
from flows.ufine6926.noise_rules import RULE_NAMES, RULES, Measurement, Outcome, RuleText
from schemas.errors import UsageError
from schemas.proposals import Picture
from schemas.video import FilterReport, Observation, Track

# Why the noise filter kept or dropped each frame of a track, as data and as an HTML page.

_TEMPLATE = "filter_explanation.html.j2"
_SIDE_PX = 280
_SEVERITY = ("passed", "suspected", "dropped")


class Explanation(NamedTuple):
    """A track before the filter.

    `agrees` says whether the report in the store says the same; None where there is none.
    """

    found: FilteredTrack
    thresholds: Thresholds
    judgement: Judgement
    agrees: bool | None

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The frames to explain, in order: those that were asked for, or all."""
        asked, every = self.found.frames, self.found.track.observations
        return tuple(one for one in every if not asked or one.frame in asked)

    def part_of(self, frame: int) -> int | None:
        """The part, from 1, that a frame is kept in; None where it is dropped."""
        places = enumerate(self.judgement.parts, start=1)
        return next((place for place, part in places if frame in part), None)

    def measured(self, rule: RuleText, frame: int | None) -> Measurement | None:
        """What was measured of a frame (or the whole track) for a threshold, if anything was."""
        return next(iter(self.all_measured(frame, rule)), None)

    def all_measured(self, frame: int | None, rule: RuleText | None = None) -> list[Measurement]:
        """The measurements of a frame, the gravest first."""
        found = [
            one
            for one in self.judgement.measurements
            if one.frame == frame and (rule is None or one.setting == rule.setting)
        ]
        return sorted(found, key=lambda one: -_SEVERITY.index(one.outcome))

    def against(self, frame: int) -> list[Measurement]:
        """What speaks against a frame, the gravest first."""
        return [one for one in self.all_measured(frame) if one.outcome != "passed"]

    @property
    def rules(self) -> list[RuleText]:
        """The thresholds that any value was compared with."""
        settings = {one.setting for one in self.judgement.measurements}
        return [rule for rule in RULES if rule.setting in settings]


def explain(store: Store, name: str, profile: str, *, what_if: bool = False) -> Explanation:
    """Explains the track that `name` belongs to (see `find_track`).

    Thresholds are those that its report was made with, or those of the profile: where `what_if`
    asks for it, or where nobody knows the others.
    """
    found = find_track(store, name)
    thresholds = thresholds_of(store, None if what_if else found.report, profile)
    judgement = judge_track(as_filtered(found.track, found.report), thresholds.settings)
    agrees = None
    if found.report is not None:
        report = found.report.record(FilterReport)
        findings = tuple(
            finding for one in judgement.measurements if (finding := one.finding) is not None
        )
        agrees = (report.findings, report.parts, report.switches) == (
            findings,
            judgement.parts,
            judgement.switches,
        )
    return Explanation(found, thresholds, judgement, agrees)


def as_document(explanation: Explanation) -> dict[str, Any]:
    """The explanation for machines."""
    found, judgement = explanation.found, explanation.judgement
    track = found.track
    return {
        "track": found.entity.id,
        "report": found.report and found.report.id,
        "report_agrees": explanation.agrees,
        "dataset": found.entity.dataset,
        "source": track.source,
        "video": track.video,
        "number": track.number,
        "first_frame": track.first_frame,
        "last_frame": track.last_frame,
        "seen_frames": track.seen_frames,
        "author": track.author,
        "thresholds_from": explanation.thresholds.origin,
        "thresholds": explanation.thresholds.settings.model_dump(mode="json"),
        "parts": judgement.parts,
        "switches": judgement.switches,
        "whole_track": [one._asdict() for one in explanation.all_measured(None)],
        "frames": [_frame_document(explanation, one) for one in explanation.observations],
    }


def _frame_document(explanation: Explanation, observation: Observation) -> dict[str, Any]:
    return {
        "frame": observation.frame,
        "time_seconds": observation.time_seconds,
        "crop": observation.crop.sha256,
        "box_xyxy": observation.box_xyxy,
        "part": explanation.part_of(observation.frame),
        "measurements": [one._asdict() for one in explanation.all_measured(observation.frame)],
    }


def render_explanation(explanation: Explanation, blobs: BlobStore) -> str:
    """The explanation as one HTML page that needs nothing else, with the crops."""
    crops = {
        one.frame: thumbnail_uri(blobs, one.crop, _SIDE_PX) for one in explanation.observations
    }
    return (
        flow_pages()
        .get_template(_TEMPLATE)
        .render(
            explanation=explanation,
            track=explanation.found.track,
            crops=crops,
        )
    )


# The contact sheet: per threshold of the noise filter, crops in the order of what was measured.
#
# So that thresholds can be set by looking: a histogram of all values with the threshold in it, the
# crops on both sides of the threshold, nearest to it, and some from farther off. The tracks of a
# dataset are compared with the thresholds again, which takes no pixels; only the crops that are
# shown are read.

SHOWN_NEAR = 20
"""How many crops are shown on each side of a threshold, nearest to it."""
SHOWN_FAR = 10
"""How many more are shown on each side, spread evenly over all that is farther off."""
_CONTACT_SHEET_SIDE_PX = 150
_CONTACT_SHEET_TEMPLATE = "contact_sheet.html.j2"
_OUTCOMES: tuple[Outcome, ...] = ("dropped", "suspected", "passed")
_NONE = -1
_PAGE = 200


class Seen(NamedTuple):
    """A crop and where it is from."""

    picture: Picture
    video: str
    track: int
    frame: int


class Tile(NamedTuple):
    """A crop on the sheet; `beside` is the crop that it was compared with, where it was.

    `alone` says that no other rule dropped it.
    """

    seen: Seen
    beside: Seen | None
    value: float
    outcome: Outcome
    alone: bool


class RuleSheet(NamedTuple):
    """What is shown of one threshold.

    `dropped` are the tiles that are beyond it, the farthest first, and `left` the others, the
    nearest first; `only_here` counts the crops that nothing else drops.
    """

    rule: RuleText
    threshold: float
    counts: dict[Outcome, int]
    only_here: int
    histogram: Histogram
    dropped: tuple[Tile, ...]
    left: tuple[Tile, ...]


class Sheet(NamedTuple):
    """The sheet of a dataset; only thresholds that any value was compared with are on it."""

    dataset: str
    thresholds: Thresholds
    tracks: int
    tracks_left: int
    parts: int
    crops: int
    crops_left: int
    rules: tuple[RuleSheet, ...]


class _Column:
    """All that was measured for one threshold, as arrays: a few bytes a crop."""

    def __init__(self) -> None:
        self.values, self.outcomes = array("d"), array("b")
        self.crops, self.besides = array("q"), array("q")

    def add(self, measured: Measurement, crop: int, beside: int) -> None:
        """Takes in a measurement, with the numbers of its crop and of the one beside it."""
        self.values.append(measured.value)
        self.outcomes.append(_OUTCOMES.index(measured.outcome))
        self.crops.append(crop)
        self.besides.append(beside)


class _Collection:
    """The crops of many tracks, and what was measured of them."""

    def __init__(self) -> None:
        self.crops: list[Seen] = []
        self.drops: Counter[int] = Counter()
        self.columns: dict[str, _Column] = defaultdict(_Column)
        self.tracks = self.tracks_left = self.parts = self.crops_left = 0

    def add(self, track: Track, thresholds: Thresholds) -> None:
        """Holds a track against the thresholds."""
        judgement = judge_track(track, thresholds.settings)
        numbers = {_NONE: _NONE}
        for observation in track.observations:
            numbers[observation.frame] = len(self.crops)
            self.crops.append(Seen(observation.crop, track.video, track.number, observation.frame))
        for measured in judgement.measurements:
            if measured.frame is None:
                continue
            crop = numbers[measured.frame]
            beside = numbers[_NONE if measured.beside is None else measured.beside]
            self.columns[measured.setting].add(measured, crop, beside)
            self.drops[crop] += measured.outcome == "dropped"
        self.tracks += 1
        self.tracks_left += bool(judgement.parts)
        self.parts += len(judgement.parts)
        self.crops_left += sum(map(len, judgement.parts))


def collect(
    store: Store, dataset: str, thresholds: Thresholds, rule_name: str | None = None
) -> Sheet:
    """The sheet of a dataset, of one rule or of all.

    Raises:
        UsageError: there is no such rule, or the dataset has no tracks.
    """
    if rule_name is not None and rule_name not in RULE_NAMES:
        raise UsageError(f"there is no rule {rule_name!r}; there is {', '.join(RULE_NAMES)}")
    collection = _Collection()
    for page in pages(find(store, dataset, Track.kind, states=LIVE), _PAGE):
        reports = newest_reports(store, [entity.id for entity in page])
        for entity in page:
            track = as_filtered(entity.record(Track), reports.get(entity.id))
            collection.add(track, thresholds)
    if not collection.tracks:
        raise UsageError(f"dataset {dataset!r} has no tracks; are its videos tracked?")
    rules = tuple(
        _rule_sheet(rule, thresholds, collection)
        for rule in RULES
        if rule.setting in collection.columns and rule_name in (None, rule.name)
    )
    return Sheet(
        dataset,
        thresholds,
        collection.tracks,
        collection.tracks_left,
        collection.parts,
        len(collection.crops),
        collection.crops_left,
        rules,
    )


def _rule_sheet(rule: RuleText, thresholds: Thresholds, collection: _Collection) -> RuleSheet:
    column = collection.columns[rule.setting]
    values, outcomes = np.array(column.values), np.array(column.outcomes)
    threshold = rule.threshold(thresholds.settings)
    badness = values if rule.direction == "at most" else -values
    dropped, left = (_shown(badness, outcomes == 0), _shown(-badness, outcomes != 0))
    drops = np.array([collection.drops[crop] for crop in column.crops])
    return RuleSheet(
        rule,
        threshold,
        {outcome: int((outcomes == code).sum()) for code, outcome in enumerate(_OUTCOMES)},
        int(((outcomes == 0) & (drops == 1)).sum()),
        histogram(values, outcomes, len(_OUTCOMES), threshold + _border(rule)),
        tuple(_tile(column, place, collection) for place in dropped[::-1]),
        tuple(_tile(column, place, collection) for place in left),
    )


def _border(rule: RuleText) -> float:
    """The place of a line drawn between good and bad values, from the threshold."""
    if not rule.is_count:
        return 0.0
    return -0.5 if rule.direction == "at least" else 0.5


def _shown(distance: NDArray[np.float64], wanted: NDArray[np.bool_]) -> list[int]:
    """The places of what is shown of one side of a threshold, the nearest first.

    Of equals a fixed mixture is taken, so that it is not all of one track.
    """
    places = np.flatnonzero(wanted)
    mixture = places * 2654435761 % 2**32
    places = places[np.lexsort((mixture, distance[places]))]
    near, far = places[:SHOWN_NEAR], places[SHOWN_NEAR:]
    spread = np.linspace(0, len(far) - 1, min(len(far), SHOWN_FAR)).round().astype(int)
    return [*near.tolist(), *far[spread].tolist()]


def _tile(column: _Column, place: int, collection: _Collection) -> Tile:
    crop, beside = column.crops[place], column.besides[place]
    return Tile(
        collection.crops[crop],
        None if beside == _NONE else collection.crops[beside],
        column.values[place],
        _OUTCOMES[column.outcomes[place]],
        collection.drops[crop] <= 1,
    )


def sheet_document(sheet: Sheet) -> dict[str, Any]:
    """The figures of a sheet for machines."""
    return {
        "dataset": sheet.dataset,
        "thresholds_from": sheet.thresholds.origin,
        "tracks": sheet.tracks,
        "tracks_left": sheet.tracks_left,
        "parts": sheet.parts,
        "crops": sheet.crops,
        "crops_left": sheet.crops_left,
        "rules": [
            {
                "rule": one.rule.name,
                "setting": one.rule.setting,
                "sign": one.rule.sign,
                "threshold": one.threshold,
                "measured": sum(one.counts.values()),
                **one.counts,
                "only_here": one.only_here,
            }
            for one in sheet.rules
        ],
    }


def render_sheet(sheet: Sheet, blobs: BlobStore) -> str:
    """The sheet as one HTML page that needs nothing else."""
    return (
        flow_pages()
        .get_template(_CONTACT_SHEET_TEMPLATE)
        .render(sheet=sheet, outcomes=_OUTCOMES, thumbnail=_Thumbnails(blobs))
    )


class _Thumbnails:
    """Thumbnails by digest, each made once."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._made: dict[str, str | None] = {}

    def __call__(self, picture: Picture) -> str | None:
        if picture.sha256 not in self._made:
            self._made[picture.sha256] = thumbnail_uri(self._blobs, picture, _CONTACT_SHEET_SIDE_PX)
        return self._made[picture.sha256]
