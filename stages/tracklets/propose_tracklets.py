"""The tracklets that people are asked about: what the filter left of the tracks of one video.

Tracklets that may show one person are proposed to be merged: they look alike, and never show at one
time. Each names only those that begin earlier in the video, so that a pair is asked about once.
People decide.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.proposals import OtherTracklet, Tracklet, TrackletFrame
from schemas.tracking import FilterSettings
from schemas.video import FilterReport, Observation, Track
from stages.tracklets.measurements import rounded
from stages.tracklets.tracklet_rules import SWITCH, embeddings_of

VERSION = "1"
STAGE = "propose_tracklets"
FRAMES_OF_OTHERS = 4
"""How many frames of another tracklet are shown beside one, spread over its time."""


class _Part(NamedTuple):
    """A part of a report: its images, the frames it may show in, and its mean embedding."""

    track: Track
    report: FilterReport
    observations: tuple[Observation, ...]
    first_frame: int
    last_frame: int
    direction: NDArray[np.float64] | None


class _Known(NamedTuple):
    """A part that is a tracklet already."""

    id: str
    tracklet: Tracklet
    part: _Part


def propose_tracklets(
    filtered: Sequence[tuple[Track, FilterReport]],
    settings: FilterSettings,
    id_of: Callable[[Tracklet], str],
) -> list[Tracklet]:
    """The tracklets of one video, in the order in which they begin (then by track).

    Args:
        filtered: the tracks of the video with their reports, in any order.
        settings: the thresholds of the filter.
        id_of: the id of a tracklet; asked once for each, in the order of the result, before any
            later tracklet names it. `video_sha256` and `track` tell which track it is from.
    """
    parts = [part for track, report in filtered for part in _parts(track, report)]
    parts.sort(key=lambda part: (part.observations[0].frame, part.track.number))
    known: list[_Known] = []
    for part in parts:
        tracklet = _tracklet(part, tuple(_others(part, known, settings)))
        known.append(_Known(id_of(tracklet), tracklet, part))
    return [one.tracklet for one in known]


def _parts(track: Track, report: FilterReport) -> Iterator[_Part]:
    by_frame = {observation.frame: observation for observation in track.observations}
    for frames in report.parts:
        observations = tuple(by_frame[frame] for frame in frames)
        first, last = _extent(track, report, frames)
        yield _Part(track, report, observations, first, last, _direction(observations))


def _extent(track: Track, report: FilterReport, frames: Sequence[int]) -> tuple[int, int]:
    """The first and last frame in which a part may show.

    That is the whole track where it was not split: the person was followed in frames that were not
    kept, too. At a switch a part ends with what was kept of it.
    """
    is_head = not any(switch <= frames[0] for switch in report.switches)
    is_tail = not any(switch > frames[-1] for switch in report.switches)
    first = track.first_frame if is_head else frames[0]
    return first, track.last_frame if is_tail else frames[-1]


def _direction(observations: Sequence[Observation]) -> NDArray[np.float64] | None:
    vectors = embeddings_of(observations)
    if vectors is None:
        return None
    mean = vectors.mean(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(mean))
    direction: NDArray[np.float64] = mean / length if length else mean
    return direction


def _others(part: _Part, known: Sequence[_Known], settings: FilterSettings) -> list[OtherTracklet]:
    """The earlier tracklets that may show the same person, the likeliest first."""
    alike = [
        (similarity, one)
        for one in known
        if not _show_together(part, one.part)
        and (similarity := _similarity(part, one.part)) >= settings.merge_similarity
    ]
    alike.sort(key=lambda pair: -pair[0])  # stable: of equals the earlier tracklet
    return [
        OtherTracklet(
            tracklet_id=one.id, similarity=similarity, frames=_spread(one.tracklet.frames)
        )
        for similarity, one in alike[: settings.most_merge_proposals]
    ]


def _show_together(one: _Part, other: _Part) -> bool:
    return one.first_frame <= other.last_frame and other.first_frame <= one.last_frame


def _similarity(one: _Part, other: _Part) -> float:
    """The cosine of two parts' mean embeddings; -1 where one has none."""
    if one.direction is None or other.direction is None:
        return -1.0
    return max(-1.0, min(1.0, rounded(float(one.direction @ other.direction))))


def _spread(frames: Sequence[TrackletFrame]) -> tuple[TrackletFrame, ...]:
    places = np.linspace(0, len(frames) - 1, min(len(frames), FRAMES_OF_OTHERS)).round().astype(int)
    return tuple(frames[place] for place in places)


def _tracklet(part: _Part, others: tuple[OtherTracklet, ...]) -> Tracklet:
    track = part.track
    suspicions = _suspicions(part.report)
    frames = tuple(_frame(one, suspicions.get(one.frame, ())) for one in part.observations)
    return Tracklet(
        source=track.source,
        video=track.video,
        video_sha256=track.video_sha256,
        track=track.number,
        frames=frames,
        switches=_switches(part),
        others=others,
        author=track.author,
    )


def _suspicions(report: FilterReport) -> Mapping[int, tuple[str, ...]]:
    """The rules that suspect a frame. A switch is no fault of its frame: it is told elsewhere."""
    rules: dict[int, dict[str, None]] = defaultdict(dict)
    for finding in report.findings:
        if finding.frame is None or finding.rule == SWITCH.name:
            continue
        if finding.outcome == "suspected":
            rules[finding.frame][finding.rule] = None
    return {frame: tuple(names) for frame, names in rules.items()}


def _switches(part: _Part) -> tuple[int, ...]:
    """The first kept frame from each switch on that is suspected inside a part."""
    frames = [one.frame for one in part.observations]
    inside = {
        next(frame for frame in frames if frame >= switch)
        for switch in part.report.switches
        if frames[0] < switch <= frames[-1]
    }
    return tuple(sorted(inside))


def _frame(observation: Observation, suspicions: tuple[str, ...]) -> TrackletFrame:
    return TrackletFrame(
        frame=observation.frame,
        time_seconds=observation.time_seconds,
        crop=observation.crop,
        box_xyxy=observation.box_xyxy,
        score=observation.score,
        suspicions=suspicions,
    )
