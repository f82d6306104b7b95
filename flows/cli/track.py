"""`loupe track`: follow people from frame to frame."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flows.cli.options import ProfileOption, chosen_profile
from flows.cli.output import JsonOption, answer, err, note

if TYPE_CHECKING:
    from schemas.profile import Profile


_SHOWN_LINES = 20
_USUAL_FRAME_RATE = 30.0


def track(
    video: Path | None = None,
    *,
    out_: Path,
    detections: Path | None = None,
    frame_rate: float | None = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Track people in a video or in given detections.

    Writes result.txt in MOTChallenge format; for a video also crops and tracklets.json, after the
    noise filter. Given detections are associated by motion only. Exit code 1 if part of the input
    could not be used and was skipped.

    Args:
        video: A video, unless --detections is given.
        out_: Output folder.
        detections: MOTChallenge file: frame, id (ignored), left, top, width, height, conf.
        frame_rate: Frames per second of --detections (default: 30).
    """
    from schemas.errors import UsageError

    if (video is None) == (detections is None):
        raise UsageError("give either a video or --detections")
    if detections is not None:
        rate = _USUAL_FRAME_RATE if frame_rate is None else frame_rate
        _track_detections(detections, out_, chosen_profile(profile), rate, as_json=as_json)
    elif video is not None:
        if frame_rate is not None:
            raise UsageError("--frame-rate is only for --detections; a video has its own")
        _track_video(video, out_, chosen_profile(profile), as_json=as_json)


def _track_detections(
    path: Path, folder: Path, profile: "Profile", frame_rate: float, *, as_json: bool
) -> None:
    from flows.ufine6926.video_tracks import track_detections

    tracked = track_detections(path, folder, profile.tracking.association, frame_rate)
    answer(
        as_json,
        tracked.as_json(),
        f"{tracked.people:,} people in {tracked.boxes:,} boxes, of {tracked.detections:,} "
        f"detections in {tracked.frames:,} frames: {tracked.result}",
    )
    if tracked.bad_lines:
        for line in tracked.bad_lines[:_SHOWN_LINES]:
            note(line.detail)
        if (more := len(tracked.bad_lines) - _SHOWN_LINES) > 0:
            note(f"and {more:,} lines more")
        note(f"lines that could not be used: {len(tracked.bad_lines):,}")
        raise typer.Exit(1)


def _track_video(path: Path, folder: Path, profile: "Profile", *, as_json: bool) -> None:
    from flows.engine.report import console_progress
    from flows.ufine6926.video_tracks import track_video

    tracks = track_video(path, folder, profile, console_progress(err))
    answer(
        as_json,
        tracks.as_json(),
        f"{tracks.tracklets:,} tracklets, of {tracks.tracks:,} tracks in {tracks.frames:,} frames: "
        f"{tracks.folder}",
        *(
            f"  {count:,} tracks were rejected: {one}"
            for one, count in tracks.rejected.most_common()
        ),
        *([f"  {tracks.unseen:,} tracks never had a box inside the frame"] * bool(tracks.unseen)),
    )
    if tracks.problem:
        note(tracks.problem)
        raise typer.Exit(1)
