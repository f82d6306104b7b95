"""`loupe track`: follow people from frame to frame."""

import math
from pathlib import Path
from typing import Literal

from loupe.flows.cli.options import ProfileOption, chosen_profile
from loupe.flows.cli.output import Answer, err, first, note
from loupe.schemas.errors import UsageError
from loupe.schemas.wording import many

_SHOWN_LINES = 20
_USUAL_FRAME_RATE = 30.0


def track(
    video: str | None = None,
    *,
    out_: Path,
    detections: Path | None = None,
    frame_rate: float | None = None,
    score_threshold: float | None = None,
    faces: Literal["keep", "blur", "replace"] = "keep",
    profile: ProfileOption = None,
) -> Answer:
    """Track people in a video or in given detections.

    Writes result.txt in MOTChallenge format; for a video also crops and tracklets.json, after
    noise filtering. Given detections are associated by motion only. Exit code 1 if part of the
    input could not be used and was skipped.

    Args:
        video: A video file, the folder or pattern (img1/%06d.jpg) of an image sequence, or a URL.
        out_: Output folder.
        detections: MOTChallenge file: frame, id (ignored), left, top, width, height, conf.
        frame_rate: Frames per second (default: the video's; with --detections 30).
        score_threshold: Use only --detections with a higher conf.
        faces: What is done to faces before crops are written.
    """
    from loupe.flows.engine.report import console_progress
    from loupe.flows.ufine6926.video_tracks import track_detections, track_video

    if frame_rate is not None and not 0 < frame_rate < math.inf:
        raise UsageError(f"a frame rate must be a number above 0; got {frame_rate!r}")
    if faces != "keep" and video is None:
        raise UsageError("--faces is only for a video: detections have no crops")
    if detections is not None and video is None:
        association = chosen_profile(profile).tracking.association
        rate = _USUAL_FRAME_RATE if frame_rate is None else frame_rate
        tracked = track_detections(detections, out_, association, rate, score_threshold)
        bad = tracked.bad_lines
        for line in first([one.detail for one in bad], _SHOWN_LINES, "and {:,} more lines"):
            note(line)
        if bad:
            note(f"lines that could not be used: {len(bad):,}")
        if tracked.score_range and score_threshold is None:
            least, most = tracked.score_range
            note(
                f"the scores of {detections.name} run from {least:g} to {most:g}, beyond 0 to 1: "
                f"all boxes count as certain; --score-threshold X uses only those above X"
            )
        if score_threshold is not None and tracked.greatest_score <= score_threshold:
            note(
                f"no box of {detections.name} has a score above {score_threshold:g} "
                f"(--score-threshold); the greatest is {tracked.greatest_score:g}"
            )
        sentence = (
            f"{many(tracked.people, 'person')} in {many(tracked.boxes, 'box')}, "
            f"of {many(tracked.detections, 'detection')} in {many(tracked.frames, 'frame')}: "
            f"{tracked.result}"
        )
        return Answer(tracked.as_json(), [sentence], failed=bool(bad))
    if video is None or detections is not None:
        raise UsageError("give either a video or --detections")
    if score_threshold is not None:
        raise UsageError("--score-threshold is only for --detections; a profile has the detector's")
    chosen = chosen_profile(profile)
    if frame_rate is not None:
        tracking = chosen.tracking.model_copy(update={"frame_rate": frame_rate})
        chosen = chosen.model_copy(update={"tracking": tracking})
    tracks = track_video(video, out_, chosen, console_progress(err), faces=faces)
    counts = f"{many(tracks.tracklets, 'tracklet')}, of {many(tracks.tracks, 'track')}"
    lines = [f"{counts} in {many(tracks.frames, 'frame')}: {tracks.folder}"]
    if tracks.rejected:
        lines.append(f"  rejected: {many(len(tracks.rejected), 'track')}:")
    rest = "and {:,} more, in tracklets.json"
    lines += [f"  {line}" for line in first(tracks.rejected, _SHOWN_LINES, rest)]
    if tracks.unseen:
        lines.append(f"  {many(tracks.unseen, 'track')} never had a box inside the frame")
    for line in filter(None, (tracks.notice, tracks.problem)):
        note(line)
    return Answer(tracks.as_json(), lines, failed=bool(tracks.problem))
