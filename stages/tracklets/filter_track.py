"""The noise filter: what is left of a track, and every reason why the rest is not.

In this order: all image rules on all crops; where one person passes to another (`identity_switch`)
among the crops that are left; then, in each piece between switches, outliers, near-duplicates,
whether enough is left, and which images are kept. Every frame of a track is either in one part of
its report or has a finding that drops it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from schemas.records import Rejection
from schemas.tracking import FilterSettings
from schemas.video import FilterReport, Observation, Track
from stages.tracklets.identity_switches import Piece, cut_at_switches
from stages.tracklets.image_rules import judge_crops
from stages.tracklets.measurements import Measurement, outcome_of
from stages.tracklets.tracklet_rules import (
    SWITCH,
    TOO_FEW,
    embeddings_of,
    judge_duplicates,
    judge_number,
    judge_outliers,
    judge_surplus,
)

VERSION = "1"
STAGE = "filter_tracks"

Observations = Sequence[Observation]


class Judgement(NamedTuple):
    """All that the filter measured of a track, what passed included.

    `parts` and `switches` are those of `FilterReport`.
    """

    measurements: tuple[Measurement, ...]
    parts: tuple[tuple[int, ...], ...]
    switches: tuple[int, ...]


def filter_track(track: Track, settings: FilterSettings) -> tuple[FilterReport, Rejection | None]:
    """The report on a track, and a rejection where nothing is left of it."""
    judgement = judge_track(track, settings)
    findings = (measurement.finding for measurement in judgement.measurements)
    report = FilterReport(
        source=track.source,
        track=track.number,
        findings=tuple(finding for finding in findings if finding is not None),
        parts=judgement.parts,
        switches=judgement.switches,
        keypoints={
            one.frame: one.measures.keypoints
            for one in track.observations
            if one.measures.keypoints is not None
        },
    )
    return report, None if report.parts else _rejection(track, report)


def judge_track(track: Track, settings: FilterSettings) -> Judgement:
    """Holds a track against all rules."""
    trial = _Trial(settings)
    usable = trial.hear(track.observations, judge_crops(track, settings))
    parts = []
    best = 0
    for piece in trial.pieces(usable):
        left, part = trial.try_piece(piece)
        best = max(best, left)
        if part:
            parts.append(part)
    if not parts:
        trial.add(
            Measurement(
                TOO_FEW.name, TOO_FEW.setting, None, best, float(settings.least_images), "dropped"
            )
        )
    return Judgement(tuple(trial.measurements), tuple(parts), tuple(trial.switches))


class _Trial:
    """One track before the rules: what was measured so far."""

    def __init__(self, settings: FilterSettings) -> None:
        self.measurements: list[Measurement] = []
        self.switches: list[int] = []
        self._settings = settings
        self._suspicions: Counter[int] = Counter()

    def add(self, *measurements: Measurement) -> None:
        """Takes measurements to the record."""
        self.measurements += measurements

    def hear(
        self, observations: Observations, measured: Iterable[Measurement]
    ) -> list[Observation]:
        """Takes what rules say of observations; gives those that none of them drops."""
        dropped = set()
        for measurement in measured:
            self.add(measurement)
            if measurement.frame is None:
                continue
            if measurement.outcome == "dropped":
                dropped.add(measurement.frame)
            self._suspicions[measurement.frame] += measurement.outcome == "suspected"
        return [one for one in observations if one.frame not in dropped]

    def pieces(self, observations: Observations) -> list[Observations]:
        """The observations between identity switches; suspected switches are noted."""
        vectors = embeddings_of(observations)
        if vectors is None:
            return [observations] if observations else []
        cuts = cut_at_switches(vectors, self._settings.switch_distance)
        for piece in cuts:
            self.add(*self._switches_of(piece, observations))
        return [observations[piece.begin : piece.end] for piece in cuts]

    def try_piece(self, observations: Observations) -> tuple[int, tuple[int, ...]]:
        """Holds a piece against the rules: how many images were left, and those that are kept."""
        settings = self._settings
        alike = self.hear(observations, judge_outliers(observations, settings))
        distinct = self.hear(alike, judge_duplicates(alike, settings))
        enough = self.hear(distinct, judge_number(distinct, settings))
        kept = self.hear(enough, judge_surplus(enough, self._suspicions, settings))
        return len(distinct), tuple(one.frame for one in kept)

    def _switches_of(self, piece: Piece, observations: Observations) -> Iterator[Measurement]:
        """What is measured of a piece: the switch that it begins with, and the likeliest in it."""
        if piece.cut_distance is not None:
            yield self._switch(observations, piece.begin, piece.cut_distance, is_sure=True)
        if piece.odd is None:
            return
        borders = {piece.odd.begin, piece.odd.end} - {piece.begin, piece.end}
        for border in sorted(borders):
            yield self._switch(observations, border, piece.odd.distance)

    def _switch(
        self, observations: Observations, place: int, distance: float, *, is_sure: bool = False
    ) -> Measurement:
        limit = self._settings.switch_distance
        before, frame = observations[place - 1].frame, observations[place].frame
        outcome = "suspected" if is_sure else outcome_of(distance, limit, "at most")
        if outcome == "suspected":
            self.switches.append(frame)
        return Measurement(SWITCH.name, SWITCH.setting, frame, distance, limit, outcome, before)


def _rejection(track: Track, report: FilterReport) -> Rejection:
    """Why nothing is left: the rules, each with the number of frames that it dropped."""
    dropped = Counter(
        rule
        for rule, _ in {
            (finding.rule, finding.frame)
            for finding in report.findings
            if finding.outcome == "dropped" and finding.frame is not None
        }
    )
    counts = dict(sorted(dropped.items(), key=lambda item: (-item[1], item[0])))
    why = ", ".join(f"{rule} {count}" for rule, count in counts.items())
    return Rejection(
        stage=STAGE,
        reason=TOO_FEW.name,
        detail=(
            f"Track {track.number} of {track.video!r} has too few usable images among its "
            f"{len(track.observations)}; frames dropped by rule: {why}."
        ),
        context={"file": track.video, "index": track.number, "dropped": counts},
    )
