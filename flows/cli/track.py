"""`loupe track`: follow people from frame to frame."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import ProfileOption
from flows.cli.output import JsonOption, err, out, print_json

if TYPE_CHECKING:
    from flows.ufine6926.video_tracks import TrackedDetections, VideoTracks
    from schemas.profile import Profile


_SHOWN_LINES = 20
_USUAL_FRAME_RATE = 30.0


def track(
    folder: Annotated[Path, typer.Option("--out", help="Output folder.")],
    video: Annotated[
        Path | None, typer.Argument(help="A video, unless --detections is given.")
    ] = None,
    detections: Annotated[
        Path | None,
        typer.Option(
            help="MOTChallenge file: frame, id (ignored), left, top, width, height, conf."
        ),
    ] = None,
    frame_rate: Annotated[
        float | None,
        typer.Option(help="Frames per second of --detections (default: 30)."),
    ] = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Track people in a video or in given detections.

    Writes result.txt in MOTChallenge format; for a video also crops and tracklets.json, after the
    noise filter. Given detections are associated by motion only. Exit code 1 if part of the input
    could not be used and was skipped.
    """
    from schemas.errors import UsageError

    if (video is None) == (detections is None):
        raise UsageError("give either a video or --detections")
    if detections is not None:
        rate = _USUAL_FRAME_RATE if frame_rate is None else frame_rate
        _track_detections(detections, folder, _profile(profile), rate, as_json=as_json)
    elif video is not None:
        if frame_rate is not None:
            raise UsageError("--frame-rate is only for --detections; a video has its own")
        _track_video(video, folder, _profile(profile), as_json=as_json)


def _profile(name: str | None) -> "Profile":
    from models.profiles.loader import load_profile
    from models.profiles.settings import load_settings

    return load_profile(name or load_settings().profile)


def _track_detections(
    path: Path, folder: Path, profile: "Profile", frame_rate: float, *, as_json: bool
) -> None:
    from flows.ufine6926.video_tracks import track_detections

    tracked = track_detections(path, folder, profile.tracking.association, frame_rate)
    if as_json:
        print_json(tracked.as_json())
    else:
        out.print(
            f"{tracked.people:,} people in {tracked.boxes:,} boxes, of {tracked.detections:,} "
            f"detections in {tracked.frames:,} frames: {tracked.result}",
            markup=False,
            soft_wrap=True,
        )
    if tracked.bad_lines:
        _say_bad_lines(tracked)
        raise typer.Exit(1)


def _say_bad_lines(tracked: "TrackedDetections") -> None:
    for line in tracked.bad_lines[:_SHOWN_LINES]:
        err.print(line.detail, markup=False, soft_wrap=True)
    more = len(tracked.bad_lines) - _SHOWN_LINES
    if more > 0:
        err.print(f"and {more:,} lines more")
    err.print(f"lines that could not be used: {len(tracked.bad_lines):,}")


def _track_video(path: Path, folder: Path, profile: "Profile", *, as_json: bool) -> None:
    from flows.engine.report import ConsoleProgress
    from flows.ufine6926.video_tracks import track_video

    tracks = track_video(path, folder, profile, ConsoleProgress(err))
    if as_json:
        print_json(tracks.as_json())
    else:
        _say_tracks(tracks)
    if tracks.problem:
        err.print(tracks.problem, markup=False, soft_wrap=True)
        raise typer.Exit(1)


def _say_tracks(tracks: "VideoTracks") -> None:
    out.print(
        f"{tracks.tracklets:,} tracklets, of {tracks.tracks:,} tracks in {tracks.frames:,} frames: "
        f"{tracks.folder}",
        markup=False,
        soft_wrap=True,
    )
    for reason, count in tracks.rejected.most_common():
        out.print(f"  {count:,} tracks were rejected: {reason}", markup=False)
    if tracks.unseen:
        out.print(f"  {tracks.unseen:,} tracks never had a box inside the frame", markup=False)
