"""H.264 files from drawn frames."""

from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from av.video.stream import VideoStream

Pixels = NDArray[np.uint8]
"""A picture of shape (height, width, 3), RGB."""

_WITHOUT_H264 = "mpeg4"


class VideoFile:
    """An MP4 that is written frame by frame, the same bytes for the same frames.

    Args:
        target: overwritten if it exists.
        size_px: width and height; both must be even.
        frame_rate: frames per second.
        quality: constant rate factor of x264; lower is better, and larger.

    Raises:
        ValueError: a side is odd.
    """

    def __init__(
        self, target: Path, size_px: tuple[int, int], frame_rate: int, quality: int = 22
    ) -> None:
        import av

        if size_px[0] % 2 or size_px[1] % 2:
            raise ValueError(f"the sides of a video must be even; got {size_px[0]}x{size_px[1]}")
        self._make_frame = av.VideoFrame.from_ndarray
        self._container = av.open(str(target), "w", format="mp4")
        codec = "libx264" if "libx264" in av.codecs_available else _WITHOUT_H264
        stream = cast("VideoStream", self._container.add_stream(codec, rate=Fraction(frame_rate)))
        stream.width, stream.height = size_px
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        stream.gop_size = 2 * frame_rate
        if codec == _WITHOUT_H264:
            stream.bit_rate = 8 * size_px[0] * size_px[1]
        else:
            stream.options = {"preset": "ultrafast", "crf": str(quality)}
        self._stream = stream

    def write(self, pixels: Pixels) -> None:
        """Adds one frame."""
        for packet in self._stream.encode(self._make_frame(pixels, format="rgb24")):
            self._container.mux(packet)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            for packet in self._stream.encode(None):
                self._container.mux(packet)
        self._container.close()
