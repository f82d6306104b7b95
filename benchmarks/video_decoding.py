"""Decoding with cropping compared with decoding only, and memory for a ten times longer video.

    python -m benchmarks.video_decoding [VIDEO] [--seconds 12]

Without a video, a generated video of noise is used. Frames per second of processor time are
measured for plain PyAV decoding and for `open_video` with eight crops per frame. Memory is the peak
resident size of a separate process that reads the video, and one that is ten times as long.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np

from benchmarks.measuring import peak_mib, run_apart

SIZE = (640, 480)
RATE = 25
CROPS = 8
TIMES_LONGER = 10


def write_video(path: Path, frames: int) -> None:
    """Write a video of drifting noise, which is as costly to decode as a street."""
    width, height = SIZE
    noise = np.random.default_rng(1).integers(0, 255, (height, width // 4, 3), dtype=np.uint8)
    picture = np.repeat(noise, 4, axis=1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(frames):
            moved = np.ascontiguousarray(np.roll(picture, 3 * number, axis=1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(moved, format="rgb24")))
        container.mux(stream.encode(None))


def write_repeated(source: Path, target: Path, times: int) -> None:
    """Concatenate `source` several times without encoding it again."""
    with av.open(str(target), "w") as container:
        stream = offset = None
        for _ in range(times):
            with av.open(str(source)) as part:
                video = part.streams.video[0]
                stream = stream or container.add_stream_from_template(video)
                start, end = offset or 0, 0
                for packet in part.demux(video):
                    if packet.dts is None or packet.pts is None:
                        continue
                    end = max(end, packet.pts + (packet.duration or 1))
                    packet.pts, packet.dts = packet.pts + start, packet.dts + start
                    packet.stream = stream
                    container.mux(packet)
                offset = start + end


def decode(path: Path) -> int:
    """Number of frames decoded with plain PyAV."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.thread_count = "AUTO", 2
        return sum(1 for _ in container.decode(stream))


def decode_and_crop(path: Path) -> int:
    """Number of frames read with `open_video`, with crops of each."""
    from loupe.sources.video.reader import open_video

    count = 0
    with open_video(path) as reader:
        wide, high = reader.facts.width_px // CROPS, reader.facts.height_px // 2
        for frame in reader.frames():
            count += 1
            for left in range(0, wide * CROPS, wide):
                frame.pixels[:high, left : left + wide].copy()
    return count


def rate(work: Callable[[Path], int], path: Path) -> float:
    """Frames per second of processor time, the best of three runs."""
    best = 0.0
    for _ in range(3):
        start = time.process_time()
        count = work(path)
        best = max(best, count / (time.process_time() - start))
    return best


def compare(path: Path, folder: Path) -> None:
    bare, cropped = rate(decode, path), rate(decode_and_crop, path)
    print(f"decoded {bare:,.0f}/s, decoded and cropped {cropped:,.0f}/s: {cropped / bare:.2f}")
    longer = folder / "longer.mkv"
    write_repeated(path, longer, TIMES_LONGER)
    once, often = (run_apart("video_decoding", "--read", one) for one in (path, longer))
    frames = decode(longer) / decode(path)
    print(f"peak {once:.0f} MiB; {frames:.1f} times as long {often:.0f} MiB: {often / once:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("video", type=Path, nargs="?")
    parser.add_argument("--seconds", type=int, default=12, help="length of the generated video")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        decode_and_crop(arguments.read)
        print(peak_mib())
        return
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.video or Path(folder) / "noise.mp4"
        if arguments.video is None:
            write_video(path, arguments.seconds * RATE)
        compare(path, Path(folder))


if __name__ == "__main__":
    main()
