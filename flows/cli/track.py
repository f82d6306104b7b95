"""`loupe track`: follow people from frame to frame."""

from pathlib import Path

from flows.cli.options import ProfileOption, chosen_profile
from flows.cli.output import Answer, err, first, note
from schemas.errors import UsageError

_SHOWN_LINES = 20
_USUAL_FRAME_RATE = 30.0


def track(
    video: Path | None = None,
    *,
    out_: Path,
    detections: Path | None = None,
    frame_rate: float | None = None,
    profile: ProfileOption = None,
) -> Answer:
    """Track people in a video or in given detections.

    Writes result.txt in MOTChallenge format; for a video also crops and tracklets.json, after
    noise filtering. Given detections are associated by motion only. Exit code 1 if part of the
    input could not be used and was skipped.

    Args:
        video: A video, unless --detections is given.
        out_: Output folder.
        detections: MOTChallenge file: frame, id (ignored), left, top, width, height, conf.
        frame_rate: Frames per second of --detections (default: 30).
    """
    from flows.engine.report import console_progress
    from flows.ufine6926.video_tracks import track_detections, track_video

    if detections is not None and video is None:
        association = chosen_profile(profile).tracking.association
        rate = _USUAL_FRAME_RATE if frame_rate is None else frame_rate
        tracked = track_detections(detections, out_, association, rate)
        bad = tracked.bad_lines
        for line in first([one.detail for one in bad], _SHOWN_LINES, "and {:,} more lines"):
            note(line)
        if bad:
            note(f"lines that could not be used: {len(bad):,}")
        sentence = (
            f"{tracked.people:,} people in {tracked.boxes:,} boxes, of {tracked.detections:,} "
            f"detections in {tracked.frames:,} frames: {tracked.result}"
        )
        return Answer(tracked.as_json(), [sentence], failed=bool(bad))
    if video is None or detections is not None:
        raise UsageError("give either a video or --detections")
    if frame_rate is not None:
        raise UsageError("--frame-rate is only for --detections; a video has its own")
    tracks = track_video(video, out_, chosen_profile(profile), console_progress(err))
    counts = f"{tracks.tracklets:,} tracklets, of {tracks.tracks:,} tracks"
    lines = [f"{counts} in {tracks.frames:,} frames: {tracks.folder}"]
    rejected = tracks.rejected.most_common()
    lines += [f"  {count:,} tracks were rejected: {reason}" for reason, count in rejected]
    if tracks.unseen:
        lines.append(f"  {tracks.unseen:,} tracks never had a box inside the frame")
    if tracks.problem:
        note(tracks.problem)
    return Answer(tracks.as_json(), lines, failed=bool(tracks.problem))
