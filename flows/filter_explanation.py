"""Why the noise filter kept or dropped each frame of a track, as data and as an HTML page."""

from typing import Any, NamedTuple

from db.blobs import BlobStore
from db.store import Store
from flows.filtered_tracks import (
    FilteredTrack,
    Thresholds,
    as_filtered,
    find_track,
    thresholds_of,
)
from flows.pages import flow_pages, thumbnail_uri
from schemas.video import FilterReport, Observation
from stages.tracklets.filter_track import Judgement, judge_track
from stages.tracklets.measurements import Measurement
from stages.tracklets.rules import RULES, RuleText

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
        """The thresholds that anything was held against."""
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
