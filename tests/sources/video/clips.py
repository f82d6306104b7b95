"""Short generated videos whose frames show their own numbers."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.video.stream import VideoStream

from loupe.models.tracking.detector import Pixels

CELL = 16
TICKS = 1000


def pixels_of(number: int, width: int = 64, height: int = 48) -> Pixels:
    """An image with the bits of `number` as light and dark cells in its top row and noise below.

    The bottom left cell is red and the bottom right one blue, so that rotations can be detected.
    """
    tile = np.random.default_rng(number).integers(90, 160, (48, 64, 3), dtype=np.uint8)
    noise = np.tile(tile, (-(-height // 48), -(-width // 64), 1))[:height, :width]
    for bit in range(width // CELL):
        noise[:CELL, bit * CELL : (bit + 1) * CELL] = 250 if number >> bit & 1 else 5
    noise[-CELL:, :CELL] = (230, 20, 20)
    noise[-CELL:, -CELL:] = (20, 20, 230)
    return noise


def number_in(pixels: Pixels) -> int:
    """The number shown by an image of `pixels_of`, also after lossy encoding."""
    cells = pixels[:CELL].mean(axis=(0, 2)).reshape(-1, CELL).mean(axis=1)
    return sum(1 << bit for bit, light in enumerate(cells) if light > 128)


def is_upright(pixels: Pixels) -> bool:
    left, right = pixels[-CELL // 2, CELL // 2], pixels[-CELL // 2, -CELL // 2]
    return int(left[0]) > int(left[2]) + 80 and int(right[2]) > int(right[0]) + 80


def write_clip(
    path: Path,
    numbers: Iterable[int] = range(15),
    *,
    codec: str = "libx264",
    size: tuple[int, int] = (64, 48),
    rate: int = 10,
    times_ms: Iterable[int] | None = None,
    turned: int = 0,
    options: dict[str, str] | None = None,
) -> Path:
    """Write a video with one frame for each of `numbers`.

    `times_ms` are the presentation times, by default one frame interval apart. `turned` (a
    multiple of 90) is the clockwise rotation in degrees of the stored images; the display
    rotation of the container reverts it.
    """
    width, height = size
    with av.open(str(path), "w") as container:
        stream = cast("VideoStream", container.add_stream(codec, rate=rate, options=options))
        stream.width, stream.height = size[::-1] if turned % 180 else size
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = Fraction(1, rate)
        if times_ms is not None:
            stream.codec_context.time_base = Fraction(1, TICKS)
        if turned:
            stream.set_display_rotation(turned)
        times = iter(times_ms) if times_ms is not None else None
        for at, number in enumerate(numbers):
            pixels = np.rot90(pixels_of(number, width, height), -turned // 90)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            frame.time_base = stream.codec_context.time_base
            frame.pts = at if times is None else next(times)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def write_sound(path: Path) -> Path:
    """Write a container with sound and no video stream."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16_000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16_000), np.float32), "fltp", "mono")
        frame.sample_rate = 16_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def without_index_at_end(path: Path) -> bytes:
    """The MP4 at `path` with its index at the start, so that it can be opened when truncated."""
    target = path.with_suffix(".front.mp4")
    options = {"movflags": "faststart"}
    with av.open(str(path)) as source, av.open(str(target), "w", options=options) as container:
        stream = container.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                container.mux(packet)
    return target.read_bytes()
