"""`open_video`: the frames of a video, one by one, upright and with their times."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from pydantic import Field

from models.tracking.frame import Frame, Pixels
from schemas.base import Record
from schemas.video import VideoFacts
from sources.video.clock import Clock
from sources.video.facts import facts_of, pictures_seconds
from sources.video.opening import decoded, opened_container, video_stream
from sources.video.problem import VideoProblem, VideoRefusedError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

_MOST_MISSING_SECONDS = 1.0
_MOST_MISSING_SHARE = 0.01


class VideoLimits(Record):
    """How large the frames of a video may be; 8K has 33 million pixels."""

    max_pixels: int = Field(default=50_000_000, gt=0)


@contextlib.contextmanager
def open_video(
    url: str | Path, limits: VideoLimits | None = None, file_path: str | None = None
) -> Iterator["VideoReader"]:
    """The video at `url` (a local path or an fsspec URL), its first frame decoded.

    `file_path` is what it is called where something is wrong with it; else that is `url`.

    Raises:
        VideoRefusedError: it is missing, empty, damaged, without pictures, or has too many pixels
            by its header.
    """
    name = file_path or str(url)
    limits = limits or VideoLimits()
    with opened_container(str(url), name) as container:
        stream = video_stream(container, name, limits.max_pixels)
        reader = VideoReader(name, container, stream)
        # An unfinished generator would hold the decoder past the life of its container.
        with contextlib.closing(reader):
            yield reader


class VideoReader:
    """A video that is open: what it says of itself, and its frames, once, in order.

    Memory holds the frames that the decoder works on and the one given out, however long the video
    is. Made by `open_video`.

    Attributes:
        facts: what the container says; width and height are those of every frame.
        problem: why the frames ended before they should have; None as long as nothing is known to
            be wrong. What was given before the damage is good.
    """

    def __init__(self, file_path: str, container: "InputContainer", stream: "VideoStream") -> None:
        from av.video.reformatter import VideoReformatter

        self.problem: VideoProblem | None = None
        self._file_path = file_path
        self._decoded = decoded(container, stream)
        # One for all frames: each frame's own would make its tables anew, twice the whole cost.
        self._converter = VideoReformatter()
        self._first: VideoFrame | None = self._first_frame()
        self.facts: VideoFacts = facts_of(container, stream, self._first)
        self._pictures_seconds = pictures_seconds(container, stream)
        has_times = "avi" not in container.format.name.split(",")
        self._clock = Clock(self.facts.frame_rate, has_times=has_times)

    def close(self) -> None:
        """Ends decoding; frames that were given out stay good."""
        self._decoded.close()

    def frames(self, start: int = 0, every: int = 1) -> Iterator[Frame]:
        """The frames with a number from `start` on that `every` divides, upright.

        Numbers count decoded frames from 0, whatever `start` and `every` are: a run that stopped
        goes on with `start` one past its last frame and sees what it would have seen. There is no
        seeking, which is exact in few formats: frames before `start` are decoded and thrown away,
        and only those given out are converted to RGB. A frame of another size than the first is
        scaled to the first's.

        `time_seconds` counts from the first frame and follows the presentation times of the
        container, so a variable frame rate is kept. A frame without a time, or with one that is not
        after its predecessor's, stands one mean frame interval after it; AVI holds no presentation
        times at all.

        Raises:
            ValueError: `start` is negative, `every` is not positive, or the frames were asked for
                before.
        """
        if start < 0 or every < 1:
            raise ValueError(f"start must be >= 0 and every >= 1; got {start!r} and {every!r}")
        if self._first is None:
            raise ValueError(
                f"the frames of {self._file_path!r} were asked for before; open it again"
            )
        first, self._first = self._first, None
        return self._chosen(first, start, every)

    def _chosen(self, first: "VideoFrame", start: int, every: int) -> Iterator[Frame]:
        for number, picture in enumerate(self._pictures(first)):
            time_seconds = self._clock.tell(picture)
            if number >= start and number % every == 0:
                yield Frame(number, time_seconds, self._upright(picture))

    def _pictures(self, first: "VideoFrame") -> Iterator["VideoFrame"]:
        """All frames in the order of showing, until the end or the first damage."""
        import av

        count = 0
        try:
            for picture in itertools.chain([first], self._decoded):
                yield picture
                count += 1
        except av.FFmpegError as fault:
            what = f"is damaged after {count:,} frames, and read no further: {fault.strerror}"
            self._note("damaged_video", what)
        else:
            self._note_missing_end(count)

    def _first_frame(self) -> "VideoFrame":
        import av

        try:
            first = next(self._decoded, None)
        except av.FFmpegError as fault:
            what = f"cannot be decoded: {fault.strerror}"
            raise VideoRefusedError(self._file_path, "undecodable_video", what) from fault
        if first is None:
            raise VideoRefusedError(
                self._file_path, "no_frames", "has no frames that can be decoded"
            )
        return first

    def _note_missing_end(self, count: int) -> None:
        """Some formats say nothing of an end that is missing, but state how long it should be."""
        rate = self.facts.frame_rate
        stated_frames = self.facts.frame_count or 0
        stated_seconds = self._pictures_seconds or 0.0
        missing_seconds = max((stated_frames - count) / rate, stated_seconds - self._clock.end)
        tolerated = max(_MOST_MISSING_SECONDS, _MOST_MISSING_SHARE * count / rate)
        if missing_seconds > tolerated:
            what = f"ends after {count:,} frames, {missing_seconds:.1f} seconds before it should"
            self._note("truncated_video", what)

    def _note(self, reason: str, what: str) -> None:
        self.problem = VideoRefusedError(self._file_path, reason, what).as_problem()

    def _upright(self, picture: "VideoFrame") -> Pixels:
        width, height = self.facts.width_px, self.facts.height_px
        turns = self.facts.rotation_degrees // 90
        if turns % 2:
            width, height = height, width
        converted = self._converter.reformat(picture, width=width, height=height, format="rgb24")
        pixels = cast("Pixels", converted.to_ndarray())
        return np.ascontiguousarray(np.rot90(pixels, -turns)) if turns else pixels
