"""When the frames of a video are shown."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from av.video.frame import VideoFrame


class Clock:
    """Tells the times of frames given in order, in seconds since the first one; they always rise.

    Args:
        frame_rate: mean number of frames a second.
        has_times: whether the container stores presentation times. In AVI, which does not, what
            FFmpeg guesses for B-frames jumps back and forth.
    """

    def __init__(self, frame_rate: float, *, has_times: bool) -> None:
        self._interval = 1 / frame_rate
        self._has_times = has_times
        self._origin: float | None = None
        self._announced = 0
        self._last = 0.0
        self._duration = self._interval

    @property
    def end(self) -> float:
        """When the last announced frame ends."""
        return self._last + self._duration

    def tell(self, picture: "VideoFrame") -> float:
        """The time of the next frame; one interval after the last where `picture` knows none."""
        if not self._has_times:
            self._last = self._announced * self._interval
        else:
            self._last = self._stated(picture)
            self._duration = self._seconds(picture, picture.duration) or self._interval
        self._announced += 1
        return self._last

    def _stated(self, picture: "VideoFrame") -> float:
        earliest = self._last + self._interval if self._announced else 0.0
        if picture.pts is None:
            return earliest
        stated = self._seconds(picture, picture.pts)
        if self._origin is None:
            self._origin = stated - earliest
        elapsed = stated - self._origin
        return elapsed if elapsed > self._last else earliest

    @staticmethod
    def _seconds(picture: "VideoFrame", ticks: int | None) -> float:
        return float((ticks or 0) * (picture.time_base or 0))
