"""Explain why the noise filter kept or dropped frames; contact sheets for choosing thresholds."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.db.blobs import BlobStore
from loupe.db.entities import LIVE, find, pages
from loupe.db.store import Store
from loupe.db.withdrawals import withdrawn_digests
from loupe.flows.engine.pages import Histogram, flow_pages, histogram, thumbnail_uri
from loupe.flows.ufine6926.noise_filter import (
    FilteredTrack,
    Judgement,
    Thresholds,
    as_filtered,
    current_reports,
    find_track,
    judge_track,
    report_rank,
    thresholds_of,
)
from loupe.flows.ufine6926.noise_rules import RULE_NAMES, RULES, Measurement, Outcome, Rule
from loupe.schemas.errors import UsageError
from loupe.schemas.records import Picture
from loupe.schemas.video import FilterReport, Observation, Track

# Why the noise filter kept or dropped each frame of a track, as data and as an HTML page.

_SIDE_PX = 280
_SEVERITY = ("passed", "suspected", "dropped")


class Explanation(NamedTuple):
    """A track before the filter.

    `agrees` says whether the report in the store has the same result; None if there is no report.
    `withdrawn` crops are left out if the report has the same result without them.
    """

    found: FilteredTrack
    thresholds: Thresholds
    judgement: Judgement
    agrees: bool | None
    withdrawn: int = 0

    @property
    def agreement(self) -> str:
        """Return how the report in the store compares, as the end of a sentence."""
        if self.agrees is None:
            return "; the store has no report on this track yet"
        if self.withdrawn:
            return f"; withdrawn crops left out: {self.withdrawn:,}"
        return "" if self.agrees else "; the report in the store differs"

    @property
    def observations(self) -> tuple[Observation, ...]:
        """Return the frames to explain, in order: the requested ones, or all."""
        asked, every = self.found.frames, self.found.track.observations
        return tuple(one for one in every if not asked or one.frame in asked)

    def part_of(self, frame: int) -> int | None:
        """Return the number of the part, from 1, that keeps a frame; None if it is dropped."""
        places = enumerate(self.judgement.parts, start=1)
        return next((place for place, part in places if frame in part), None)

    def measured(self, rule: Rule, frame: int | None) -> Measurement | None:
        """Return the measurement of a frame (or the whole track) for a threshold, if any."""
        return next(iter(self.all_measured(frame, rule)), None)

    def all_measured(self, frame: int | None, rule: Rule | None = None) -> list[Measurement]:
        """Return the measurements of a frame, the most severe first."""
        found = [
            one
            for one in self.judgement.measurements
            if one.frame == frame and (rule is None or one.setting == rule.setting)
        ]
        return sorted(found, key=lambda one: -_SEVERITY.index(one.outcome))

    def against(self, frame: int) -> list[Measurement]:
        """Return the findings against a frame, the most severe first."""
        return [one for one in self.all_measured(frame) if one.outcome != "passed"]

    @property
    def rules(self) -> list[Rule]:
        """Return the thresholds that any value was compared with."""
        settings = {one.setting for one in self.judgement.measurements}
        return [rule for rule in RULES if rule.setting in settings]


def explain(store: Store, name: str, profile: str, *, what_if: bool = False) -> Explanation:
    """Explain the track that `name` belongs to (see `find_track`).

    The thresholds are those of its report. Those of the profile are used if `what_if` is set, or if
    the thresholds of the report are unknown.
    """
    found = find_track(store, name)
    thresholds = thresholds_of(store, None if what_if else found.report, profile)
    explanation, every = _explained(found, thresholds), found.track.observations
    if explanation.agrees is False:
        withdrawn = withdrawn_digests(store, found.entity.dataset)
        seen = tuple(one for one in every if one.crop.sha256 not in withdrawn)
        track = found.track.model_copy(update={"observations": seen})
        without = _explained(found._replace(track=track), thresholds)
        if without.agrees:
            return without._replace(withdrawn=len(every) - len(seen))
    return explanation


def _explained(found: FilteredTrack, thresholds: Thresholds) -> Explanation:
    judgement = judge_track(as_filtered(found.track, found.report), thresholds.settings)
    agrees = None
    if found.report is not None:
        report = found.report.record(FilterReport)
        said = (report.findings, report.parts, report.switches)
        agrees = said == (judgement.findings, judgement.parts, judgement.switches)
    return Explanation(found, thresholds, judgement, agrees)


def as_document(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as a JSON document."""
    found, judgement = explanation.found, explanation.judgement
    track = found.track
    return {
        "track": found.entity.id,
        "report": found.report and found.report.id,
        "report_agrees": explanation.agrees,
        "withdrawn": explanation.withdrawn,
        "dataset": found.entity.dataset,
        **track.model_dump(exclude={"video_sha256", "observations"}),
        "thresholds_from": explanation.thresholds.origin,
        "thresholds": explanation.thresholds.settings.model_dump(mode="json"),
        "parts": judgement.parts,
        "switches": judgement.switches,
        "whole_track": [one._asdict() for one in explanation.all_measured(None)],
        "frames": [
            {
                "frame": one.frame,
                "time_seconds": one.time_seconds,
                "crop": one.crop.sha256,
                "box_xyxy": one.box_xyxy,
                "part": explanation.part_of(one.frame),
                "measurements": [found._asdict() for found in explanation.all_measured(one.frame)],
            }
            for one in explanation.observations
        ],
    }


def render_explanation(explanation: Explanation, blobs: BlobStore) -> str:
    """Render the explanation as one self-contained HTML page with the crops."""
    crops = {
        one.frame: thumbnail_uri(blobs, one.crop, _SIDE_PX) for one in explanation.observations
    }
    template = flow_pages().get_template("filter_explanation.html.j2")
    return template.render(explanation=explanation, track=explanation.found.track, crops=crops)


# The contact sheet: per threshold of the noise filter, crops in the order of their values.
#
# It helps to choose thresholds by looking: a histogram of all values with the threshold in it, the
# crops on both sides that are nearest to the threshold, and some that are farther away. The tracks
# of a dataset are compared with the thresholds again, which needs no pixels; only the crops that
# are shown are read.

SHOWN_NEAR = 20
"""Number of crops shown on each side of a threshold, nearest to it."""
SHOWN_FAR = 10
"""Number of further crops on each side, spread evenly over everything farther away."""
_CONTACT_SHEET_SIDE_PX = 150
_OUTCOMES: tuple[Outcome, ...] = ("dropped", "suspected", "passed")
_NONE = -1


class Seen(NamedTuple):
    """A crop and where it comes from."""

    picture: Picture
    video: str
    track: int
    frame: int


class Tile(NamedTuple):
    """A crop on the sheet; `beside` is the crop that it was compared with, if any.

    `alone` says that no other rule dropped it.
    """

    seen: Seen
    beside: Seen | None
    value: float
    outcome: Outcome
    alone: bool


class RuleSheet(NamedTuple):
    """The crops shown for one threshold.

    `dropped` are the tiles beyond it, the farthest first, and `left` the others, the nearest first;
    `only_here` counts the crops that no other rule drops.
    """

    rule: Rule
    threshold: float
    counts: dict[Outcome, int]
    only_here: int
    histogram: Histogram
    dropped: tuple[Tile, ...]
    left: tuple[Tile, ...]


class Sheet(NamedTuple):
    """The contact sheet of a dataset; it has only thresholds that any value was compared with."""

    dataset: str
    thresholds: Thresholds
    tracks: int
    tracks_left: int
    parts: int
    crops: int
    crops_left: int
    rules: tuple[RuleSheet, ...]


_COUNTS = ("tracks", "tracks_left", "parts", "crops", "crops_left")


class _Column:
    """All values that were measured for one threshold, as arrays: a few bytes a crop."""

    def __init__(self) -> None:
        self.values, self.outcomes = array("d"), array("b")
        self.crops, self.besides = array("q"), array("q")


def collect(
    store: Store, dataset: str, thresholds: Thresholds, rule_name: str | None = None
) -> Sheet:
    """Build the contact sheet of a dataset, for one rule or for all.

    Raises:
        UsageError: there is no such rule, or the dataset has no tracks.
    """
    if rule_name is not None and rule_name not in RULE_NAMES:
        raise UsageError(f"there is no rule {rule_name!r}; there is {', '.join(RULE_NAMES)}")
    crops: list[Seen] = []
    drops: Counter[int] = Counter()
    columns: dict[str, _Column] = defaultdict(_Column)
    tracks = tracks_left = parts = crops_left = 0
    rank = report_rank(store, dataset)
    for page in pages(find(store, dataset, Track.kind, states=LIVE)):
        reports = current_reports(store, rank, [entity.id for entity in page])
        for entity in page:
            track = as_filtered(entity.record(Track), reports.get(entity.id))
            judgement = judge_track(track, thresholds.settings)
            numbers: dict[int | None, int] = {None: _NONE}
            for one in track.observations:
                numbers[one.frame] = len(crops)
                crops.append(Seen(one.crop, track.video, track.number, one.frame))
            for measured in judgement.measurements:
                if measured.frame is not None:
                    column, crop = columns[measured.setting], numbers[measured.frame]
                    column.values.append(measured.value)
                    column.outcomes.append(_OUTCOMES.index(measured.outcome))
                    column.crops.append(crop)
                    column.besides.append(numbers[measured.beside])
                    drops[crop] += measured.outcome == "dropped"
            tracks += 1
            tracks_left += bool(judgement.parts)
            parts += len(judgement.parts)
            crops_left += sum(map(len, judgement.parts))
    if not tracks:
        raise UsageError(f"dataset {dataset!r} has no tracks; are its videos tracked?")
    rules = tuple(
        _rule_sheet(rule, thresholds, columns[rule.setting], crops, drops)
        for rule in RULES
        if rule.setting in columns and rule_name in (None, rule.name)
    )
    return Sheet(dataset, thresholds, tracks, tracks_left, parts, len(crops), crops_left, rules)


def _rule_sheet(
    rule: Rule,
    thresholds: Thresholds,
    column: _Column,
    crops: Sequence[Seen],
    drops: Mapping[int, int],
) -> RuleSheet:
    values, outcomes = np.array(column.values), np.array(column.outcomes)
    threshold = rule.threshold(thresholds.settings)
    badness = values if rule.sign == "≤" else -values
    dropped, left = (_shown(badness, outcomes == 0), _shown(-badness, outcomes != 0))
    drops_of_each = np.array([drops[crop] for crop in column.crops])
    # For whole numbers the line between good and bad is drawn halfway to the next number.
    border = (-0.5 if rule.sign == "≥" else 0.5) if rule.is_count else 0.0

    def tile(place: int) -> Tile:
        crop, beside = column.crops[place], column.besides[place]
        return Tile(
            crops[crop],
            None if beside == _NONE else crops[beside],
            column.values[place],
            _OUTCOMES[column.outcomes[place]],
            drops[crop] <= 1,
        )

    return RuleSheet(
        rule,
        threshold,
        {outcome: int((outcomes == code).sum()) for code, outcome in enumerate(_OUTCOMES)},
        int(((outcomes == 0) & (drops_of_each == 1)).sum()),
        histogram(values, outcomes, len(_OUTCOMES), threshold + border),
        tuple(map(tile, dropped[::-1])),
        tuple(map(tile, left)),
    )


def _shown(distance: NDArray[np.float64], wanted: NDArray[np.bool_]) -> list[int]:
    """Return the indices of the crops shown for one side of a threshold, the nearest first.

    Ties are broken in a fixed pseudo-random order, so that the crops are not all of one track.
    """
    places = np.flatnonzero(wanted)
    mixture = places * 2654435761 % 2**32
    places = places[np.lexsort((mixture, distance[places]))]
    near, far = places[:SHOWN_NEAR], places[SHOWN_NEAR:]
    spread = np.linspace(0, len(far) - 1, min(len(far), SHOWN_FAR)).round().astype(int)
    return [*near.tolist(), *far[spread].tolist()]


def sheet_document(sheet: Sheet) -> dict[str, Any]:
    """Return the figures of a contact sheet as a JSON document."""
    return {
        "dataset": sheet.dataset,
        "thresholds_from": sheet.thresholds.origin,
        **{name: getattr(sheet, name) for name in _COUNTS},
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
    """Render the contact sheet as one self-contained HTML page."""

    @cache
    def thumbnail(picture: Picture) -> str | None:
        return thumbnail_uri(blobs, picture, _CONTACT_SHEET_SIDE_PX)

    template = flow_pages().get_template("contact_sheet.html.j2")
    return template.render(sheet=sheet, outcomes=_OUTCOMES, thumbnail=thumbnail)
