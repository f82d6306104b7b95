"""`loupe track`: who is who, from frame to frame."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.output import JsonOption, err, out, print_json

if TYPE_CHECKING:
    from flows.detection_tracking import TrackedDetections
    from schemas.tracking import TrackingSettings

_SHOWN_LINES = 20
_USUAL_FRAME_RATE = 30.0


def track(
    folder: Annotated[Path, typer.Option("--out", help="The folder to write to.")],
    detections: Annotated[
        Path,
        typer.Option(
            help="A MOTChallenge file: frame, id (not read), left, top, width, height, conf.",
        ),
    ],
    frame_rate: Annotated[
        float,
        typer.Option(help="Frames a second: says how long a lost person is remembered."),
    ] = _USUAL_FRAME_RATE,
    profile: Annotated[
        str | None, typer.Option(help="Profile name or file, for its settings of the tracking.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Follow people through given detections, by their motion alone.

    Writes result.txt in MOTChallenge's format. Lines that cannot be used are named and left out;
    then the exit code is 1.
    """
    from flows.detection_tracking import track_detections

    association = _settings(profile).association
    tracked = track_detections(detections, folder, association, frame_rate)
    _say(tracked, as_json=as_json)


def _settings(profile: str | None) -> "TrackingSettings":
    from profiles.loader import load_profile
    from profiles.settings import load_settings

    return load_profile(profile or load_settings().profile).tracking


def _say(tracked: "TrackedDetections", *, as_json: bool) -> None:
    for line in tracked.bad_lines[:_SHOWN_LINES]:
        err.print(line.detail, markup=False, soft_wrap=True)
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
        more = len(tracked.bad_lines) - _SHOWN_LINES
        if more > 0:
            err.print(f"and {more:,} lines more")
        err.print(f"{len(tracked.bad_lines):,} lines could not be used")
        raise typer.Exit(1)
