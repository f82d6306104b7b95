"""`VideoFacts` of an opened container and its first frame."""

from typing import TYPE_CHECKING, Final

from schemas.video import VideoFacts

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

_MICROSECONDS: Final = 1_000_000
_ASSUMED_FRAME_RATE: Final = 25.0
_SLOWEST_RATE: Final = 1 / 3600
_FASTEST_RATE: Final = 1000.0


def facts_of(container: "InputContainer", stream: "VideoStream", first: "VideoFrame") -> VideoFacts:
    """What the container says, with the size and the rotation of the first frame.

    Where it tells no frame rate that can be (0, or a clock's 90,000), 25 is assumed.
    """
    rotation = -round(first.rotation / 90) * 90 % 360
    width, height = first.width, first.height
    if rotation in (90, 270):
        width, height = height, width
    seconds = pictures_seconds(container, stream) or _container_seconds(container)
    return VideoFacts(
        width_px=width,
        height_px=height,
        frame_rate=_frame_rate(stream, seconds),
        frame_count=stream.frames or None,
        duration_seconds=seconds,
        codec=stream.codec_context.name,
        rotation_degrees=rotation,
    )


def pictures_seconds(container: "InputContainer", stream: "VideoStream") -> float | None:
    """How long the pictures last, as stated; None where only all streams' length is known."""
    if stream.duration and stream.time_base:
        return max(0.0, float(stream.duration * stream.time_base))
    return _container_seconds(container) if len(container.streams) == 1 else None


def _container_seconds(container: "InputContainer") -> float | None:
    return max(0.0, container.duration / _MICROSECONDS) if container.duration else None


def _frame_rate(stream: "VideoStream", seconds: float | None) -> float:
    counted = stream.frames / seconds if seconds else None
    for rate in (stream.average_rate, stream.guessed_rate, counted):
        if rate and _SLOWEST_RATE <= rate <= _FASTEST_RATE:
            return float(rate)
    return _ASSUMED_FRAME_RATE
