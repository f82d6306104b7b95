"""`open_video`: the frames of a video, one by one, upright and with their times.

Files of this machine are decoded in a worker process (`loupe.schemas.limited`), which runs
slightly ahead of the reader. A decoder that hangs, crashes or exhausts the memory therefore
affects one video only. Files of other machines are decoded in this process, where their file
systems are open.
"""

import contextlib
import itertools
import os
import posixpath
import stat
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import numpy as np
from pydantic import Field

from loupe.models.tracking.detector import Frame, Pixels
from loupe.schemas.base import Record
from loupe.schemas.decoders import as_rgb
from loupe.schemas.errors import FormatError
from loupe.schemas.extras import needs_extra
from loupe.schemas.limited import LimitExceededError, iterate_limited, run_limited
from loupe.schemas.records import Rejection
from loupe.schemas.video import VideoFacts
from loupe.schemas.wording import storable
from loupe.sources.decoding import ImageRefusedError, orientation_of, turned_upright
from loupe.sources.decoding import decoded as decoded_image
from loupe.sources.video.sequence import (
    ASSUMED_FRAME_RATE,
    SequenceDecoder,
    SequenceError,
    information_file,
    is_image,
    is_pattern,
    sequence_at,
    stated_rate,
)

if TYPE_CHECKING:
    from fractions import Fraction

    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream
    from fsspec import AbstractFileSystem
    from PIL.Image import Image


class VideoProblem(Record):
    """Why a file cannot be used as a video, or why its frames end early."""

    file_path: str
    reason: str
    detail: str

    def as_rejection(self, stage: str) -> Rejection:
        """Return the rejection of the video by a stage."""
        context = {"file": self.file_path}
        return Rejection(stage=stage, reason=self.reason, detail=self.detail, context=context)


class VideoRefusedError(FormatError):
    """A file cannot be used as a video; `reason` is a stable word for counting."""

    def __init__(self, file_path: str, reason: str, what: str) -> None:
        self.file_path = storable(file_path)
        self.reason = reason
        self.what = storable(what)
        super().__init__(f"video {self.file_path!r} {self.what}")

    def as_problem(self) -> VideoProblem:
        """Return the error as a record."""
        return VideoProblem(file_path=self.file_path, reason=self.reason, detail=str(self))


# Files on other machines.


def is_local(filesystem: "AbstractFileSystem") -> bool:
    """Whether the files are on this machine."""
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(filesystem, LocalFileSystem)


def located(url: str) -> tuple["AbstractFileSystem", str]:
    """Return the file system of `url` and the path on it.

    Raises:
        VideoRefusedError: the scheme is unknown, or what it needs is not installed.
    """
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as fault:
        what = f"is on an unknown or unavailable file system: {fault}"
        raise VideoRefusedError(url, "unreachable_video", what) from fault
    return filesystem, os.path.normpath(path) if is_local(filesystem) else str(path)


@contextlib.contextmanager
def reaching(filesystem: "AbstractFileSystem", name: str) -> Iterator[None]:
    """Turn exceptions of a file system's backend into a `VideoRefusedError` for `name`.

    Each backend raises the exceptions of its own libraries, which have no common base class.
    Exceptions about local files are not changed.

    Raises:
        VideoRefusedError: the file is missing or unreachable.
    """
    try:
        yield
    except (VideoRefusedError, SequenceError):
        raise
    except Exception as fault:
        if is_local(filesystem):
            raise
        if isinstance(fault, FileNotFoundError | NotADirectoryError):
            raise VideoRefusedError(name, "missing_video", "does not exist") from fault
        why = next(iter(str(fault).splitlines()), "").strip()
        what = f"cannot be reached: {': '.join(filter(None, [type(fault).__name__, why]))}"
        raise VideoRefusedError(name, "unreachable_video", what) from fault


class RemoteFile:
    """A file on another machine, open for reading; faults are reported as by `reaching`."""

    def __init__(self, file: BinaryIO, filesystem: "AbstractFileSystem", name: str) -> None:
        self._file = file
        self._filesystem = filesystem
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._file, attribute)

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes.

        Raises:
            VideoRefusedError: the file became unreachable.
        """
        with reaching(self._filesystem, self._name):
            return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Change the position and return it.

        Raises:
            VideoRefusedError: the file became unreachable, or its server only streams it.
        """
        with reaching(self._filesystem, self._name):
            return self._file.seek(offset, whence)


# FFmpeg also reads playlists, subtitles, scripts and images as formats. A playlist named `a.mp4`
# would make it open other files and addresses.
_FORMATS = (
    "asf,av1,avi,dv,flv,h264,hevc,ivf,m4v,matroska,mjpeg,mov,mp4,mpeg,mpegts,mpegvideo,mxf,nut,obu,"
    "ogg,rm,webm,yuv4mpegpipe"
)
_RAW_FORMATS = frozenset(["h264", "hevc", "m4v", "mjpeg", "mpegvideo", "obu"])
"""Streams without a container, whose frames have no times. Only some codecs state a rate."""
_OPTIONS = {"format_whitelist": _FORMATS, "protocol_whitelist": "file"}
_THREADS = 2
"""Number of decoder threads.

Each holds a frame of its own, 50 MB of an 8K video. The number is fixed, so that a damaged video
ends at the same frame on every machine.
"""


@contextlib.contextmanager
def opened_file(url: str, name: str) -> Iterator[BinaryIO]:
    """Open the bytes of the video at `url`, a local path or an fsspec URL; `name` is for messages.

    Raises:
        VideoRefusedError: it is missing, empty, not a file, or unreachable.
    """
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        local = Path(path) if is_local(filesystem) else None
        if local is not None and not stat.S_ISREG(local.stat().st_mode):
            raise VideoRefusedError(name, "not_a_file", "is a folder, a device or a pipe")
        with reaching(filesystem, name):
            file: Any = filesystem.open(path, "rb") if local is None else local.open("rb")
        if local is None:
            file = RemoteFile(file, filesystem, name)
    except (FileNotFoundError, NotADirectoryError) as fault:
        raise VideoRefusedError(name, "missing_video", "does not exist") from fault
    except (PermissionError, IsADirectoryError, ValueError, ImportError) as fault:
        raise VideoRefusedError(name, "unreadable_video", f"cannot be read: {fault}") from fault
    with contextlib.closing(file):
        if not file.read(1):
            raise VideoRefusedError(name, "empty_file", "is empty: has 0 bytes")
        file.seek(0)
        yield file


def _local_path(url: str) -> Path | None:
    """Return the path of a file on this machine; None if `url` refers to another one or to none."""
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError):  # opening says what is wrong
        return None
    return Path(path) if is_local(filesystem) else None


@contextlib.contextmanager
def opened_container(url: str, name: str) -> Iterator["InputContainer"]:
    """Open the container at `url`: its streams are known and nothing is decoded.

    Raises:
        VideoRefusedError: it is missing, empty, or of an unsupported format.
    """
    with needs_extra(f"reading the video {name!r}", "video"):
        import av

    with opened_file(url, name) as file:
        local = _local_path(url)
        # FFmpeg reads local files faster itself; `file:` keeps it from interpreting names as
        # protocols.
        source = file if local is None else f"file:{local}"
        try:
            container = av.open(
                source, mode="r", container_options=_OPTIONS, metadata_errors="replace"
            )
        except av.FFmpegError as fault:
            what = f"is no video that can be read: {fault.strerror}"
            if is_image(name):
                what = "is a single image; of a sequence give the folder or img1/%06d.jpg"
            raise VideoRefusedError(name, "not_a_video", what) from fault
        with container:
            yield container


def _video_stream(container: "InputContainer", name: str, max_pixels: int) -> "VideoStream":
    """Return the video stream, ready to be decoded in parallel.

    Raises:
        VideoRefusedError: there is none, it cannot be decoded, or it has too many pixels by its
            header, which is checked before anything is decoded.
    """
    from av.stream import Disposition

    streams = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if not streams:
        raise VideoRefusedError(name, "no_pictures", "has no moving pictures: audio only")
    stream = streams[0]
    if stream.codec_context is None:
        raise VideoRefusedError(name, "unknown_codec", "is encoded in a way that is not known")
    width, height = stream.codec_context.width, stream.codec_context.height
    if width * height > max_pixels:
        what = f"has frames of {width:,}×{height:,} pixels, wanted at most {max_pixels:,} in all"
        raise VideoRefusedError(name, "too_many_pixels", what)
    # Without `explode` the decoder conceals damage. Whether it then marks the frame as damaged
    # differs from run to run if frames are decoded in parallel. Frames that become larger inside
    # the stream are rejected by the decoder itself.
    stream.codec_context.options = {"err_detect": "explode", "max_pixels": str(max_pixels)}
    stream.codec_context.thread_type = "AUTO"
    stream.codec_context.thread_count = _THREADS
    return stream


def decoded(container: "InputContainer", stream: "VideoStream") -> Generator["VideoFrame"]:
    """Yield the frames of `stream`, from the first complete one if it begins between key frames.

    Raises:
        av.FFmpegError: the video is damaged here.
    """
    import av

    can_fail = None
    for packet in container.demux(stream):
        can_fail = not packet.is_keyframe if can_fail is None else can_fail
        try:
            pictures = packet.decode()
        except av.InvalidDataError:
            if not can_fail:
                raise
            continue
        can_fail = can_fail and not pictures
        yield from pictures


_MOST_MISSING_SECONDS = 1.0
_MOST_MISSING_SHARE = 0.01
_FRAME_SECONDS: Final = 60.0
"""Limit on the processor time for one frame and the reading before it, in seconds."""
_BYTES: Final = 1 << 30
_BYTES_PER_PIXEL: Final = 64  # decoders keep up to 16 frames, of up to three bytes a pixel


class VideoLimits(Record):
    """The maximum size and number of the frames of a video; 8K has 33 million pixels.

    Ten million frames are two days at 60 frames a second.
    """

    max_pixels: int = Field(default=50_000_000, gt=0)
    max_frames: int = Field(default=10_000_000, gt=0)

    @property
    def memory(self) -> int:
        """Return how many bytes decoding such a video may allocate."""
        return _BYTES + _BYTES_PER_PIXEL * self.max_pixels


@contextlib.contextmanager
def open_video(
    url: str | Path,
    limits: VideoLimits | None = None,
    file_path: str | None = None,
    frame_rate: float | None = None,
) -> Iterator["VideoReader"]:
    """Open the video at `url` (a local path or an fsspec URL) and decode its first frame.

    `url` may be the pattern of an image sequence. `file_path` is its name in messages, by default
    `url`. `frame_rate` replaces the rate and the times that the video states.

    Raises:
        VideoRefusedError: it is missing, empty, damaged or without a video stream, has too many
            pixels by its header, or exceeds a limit while it is decoded.
    """
    with contextlib.closing(
        VideoReader(str(url), file_path or str(url), limits or VideoLimits(), frame_rate)
    ) as reader:
        yield reader


class VideoReader:
    """An open video: its metadata, and its frames, once and in order.

    Memory holds the frames that the decoder works on and the few that wait to be returned,
    regardless of the length of the video. Made by `open_video`.

    Attributes:
        facts: metadata of the container; width and height are those of every frame.
        problem: why the frames ended early; None as long as no problem is known. Frames returned
            before the damage are valid.
    """

    def __init__(
        self, url: str, file_path: str, limits: VideoLimits, frame_rate: float | None
    ) -> None:
        self.problem: VideoProblem | None = None
        self._file_path = file_path
        self._limits = limits
        self._frames: Iterator[_Told] | None = None
        path = _local_path(url)
        self._is_local = path is not None
        self._url = str(path or url)  # absolute: the worker may run in another folder
        self._opening = opening = (self._url, file_path, limits, frame_rate)
        try:
            self.facts: VideoFacts = (
                run_limited(_facts, *opening, seconds=_FRAME_SECONDS, memory=limits.memory)
                if self._is_local
                else _facts(*opening)
            )
        except LimitExceededError as fault:
            what = f"cannot be decoded: it {fault}"
            raise VideoRefusedError(file_path, fault.reason, what) from None

    def close(self) -> None:
        """Stop decoding; frames that were returned stay valid."""
        if isinstance(self._frames, Generator):
            self._frames.close()

    def frames(self, start: int = 0, every: int = 1) -> Iterator[Frame]:
        """Yield the frames with a number from `start` on that is a multiple of `every`, upright.

        Numbers count decoded frames from 0, regardless of `start` and `every`: a run that was
        stopped continues with `start` one after its last frame and sees the same frames. There is
        no seeking, which is exact in few formats: frames before `start` are decoded and discarded,
        and only the returned ones are converted to RGB. A frame of another size than the first is
        scaled to the size of the first.

        `time_seconds` counts from the first frame and follows the presentation times of the
        container, so a variable frame rate is kept. A frame without a time, or with one that is not
        after its predecessor's, is placed one mean frame interval after it. AVI stores no
        presentation times.

        Raises:
            ValueError: `start` is negative, `every` is not positive, or the frames were requested
                before.
        """
        if start < 0 or every < 1:
            raise ValueError(f"start must be >= 0 and every >= 1; got {start!r} and {every!r}")
        if self._frames is not None:
            raise ValueError(
                f"the frames of {self._file_path!r} were requested before; open it again"
            )
        asked = (*self._opening, start, every)
        memory = self._limits.memory
        self._frames = (
            iterate_limited(_frames, *asked, seconds=_FRAME_SECONDS, memory=memory)
            if self._is_local
            else _frames(*asked)
        )
        return self._given(self._frames)

    def _given(self, results: "Iterator[_Told]") -> Iterator[Frame]:
        count = 0
        try:
            for one in results:
                if isinstance(one, VideoProblem):
                    self.problem = one
                    continue
                count += 1
                if one is not None:
                    yield one
        except LimitExceededError as fault:
            what = f"is read no further after {count:,} frames: the next {fault}"
            refusal = VideoRefusedError(self._file_path, fault.reason, what)
            self.problem = refusal.as_problem()


_Told = Frame | VideoProblem | None
"""A frame, None for a skipped one, or the reason why there are no more."""


def _facts(url: str, file_path: str, limits: VideoLimits, frame_rate: float | None) -> VideoFacts:
    """Return the container's metadata, with the first frame decoded."""
    with _opened(url, file_path, limits, frame_rate) as decoder:
        return decoder.facts


def _frames(
    url: str,
    file_path: str,
    limits: VideoLimits,
    frame_rate: float | None,
    start: int,
    every: int,
) -> Iterator[_Told]:
    """Yield every frame, or None for a skipped one, then the problem with them, if any."""
    with _opened(url, file_path, limits, frame_rate) as decoder:
        yield from decoder.frames(start, every)
        if decoder.problem is not None:
            yield VideoRefusedError(file_path, *decoder.problem).as_problem()


@contextlib.contextmanager
def _opened(
    url: str, file_path: str, limits: VideoLimits, frame_rate: float | None
) -> "Iterator[_Decoder | SequenceDecoder]":
    if is_pattern(url):
        yield _opened_sequence(url, file_path, limits, frame_rate)
        return
    with opened_container(url, file_path) as container:
        stream = _video_stream(container, file_path, limits.max_pixels)
        measured = partial(_measured_rate, url, file_path)
        decoder = _Decoder(file_path, container, stream, limits.max_frames, frame_rate, measured)
        # An unfinished generator would use the decoder after its container is closed.
        with contextlib.closing(decoder):
            yield decoder


def _opened_sequence(
    url: str, file_path: str, limits: VideoLimits, frame_rate: float | None
) -> SequenceDecoder:
    read = partial(_image_at, max_pixels=limits.max_pixels)
    with _located_sequence(url, file_path) as (filesystem, pattern):
        rate = frame_rate or stated_rate(filesystem, pattern)
        return SequenceDecoder(sequence_at(filesystem, pattern), read, rate)


def files_of(url: str, file_path: str) -> list[str]:
    """Return the files of a video: `url`, or the images of a sequence and its `seqinfo.ini`.

    Raises:
        VideoRefusedError: a sequence has no images or cannot be read.
    """
    if not is_pattern(url):
        return [url]
    with _located_sequence(url, file_path) as (filesystem, pattern):
        paths = sequence_at(filesystem, pattern).paths
        described = information_file(filesystem, pattern)
    return paths if described is None else [*paths, filesystem.unstrip_protocol(described)]


@contextlib.contextmanager
def _located_sequence(url: str, file_path: str) -> "Iterator[tuple[AbstractFileSystem, str]]":
    """Yield the file system of a sequence and its pattern there; refuse the video if unusable."""
    filesystem, pattern = located(url)
    try:
        with reaching(filesystem, file_path):
            yield filesystem, pattern
    except SequenceError as refusal:
        raise VideoRefusedError(file_path, refusal.reason, refusal.what) from refusal


def _image_at(url: str, max_pixels: int) -> "Image":
    """Return a frame.

    Raises:
        SequenceError: the file cannot be read or decoded.
        VideoRefusedError: its file system is unreachable.
    """
    try:
        with opened_file(url, posixpath.basename(url)) as file:
            picture = decoded_image(file.read(), max_pixels)
        return as_rgb(turned_upright(picture, orientation_of(picture)))
    except (ImageRefusedError, VideoRefusedError) as refusal:
        if refusal.reason == "unreachable_video":
            raise
        raise SequenceError(refusal.reason, refusal.what) from refusal


class _Decoder:
    """Decodes an open container, in any process."""

    def __init__(
        self,
        file_path: str,
        container: "InputContainer",
        stream: "VideoStream",
        max_frames: int,
        frame_rate: float | None,
        measured: Callable[[], float | None],
    ) -> None:
        from av.video.reformatter import Interpolation, VideoReformatter

        self.problem: tuple[str, str] | None = None
        self._file_path = file_path
        self._max_frames = max_frames
        self._decoded = decoded(container, stream)
        # One for all frames: a reformatter per frame would make its tables again, at twice the
        # cost.
        self._converter = VideoReformatter()
        self._rounding = Interpolation.BILINEAR | Interpolation.ACCURATE_RND  # as on any processor
        self._first = self._first_frame()
        self.facts = facts_of(container, stream, self._first, frame_rate, measured)
        self._pictures_seconds = None if frame_rate else _pictures_seconds(container, stream)
        formats = set(container.format.name.split(","))
        has_times = not frame_rate and self.facts.has_stated_rate and "avi" not in formats
        self._clock = Clock(self.facts.frame_rate, has_times=has_times)

    def close(self) -> None:
        """Stop decoding."""
        self._decoded.close()

    def frames(self, start: int, every: int) -> Iterator[Frame | None]:
        """Yield frames like the reader, with None for each skipped one."""
        for number, picture in enumerate(self._pictures(self._first)):
            time_seconds = self._clock.tell(picture)
            is_wanted = number >= start and number % every == 0
            yield Frame(number, time_seconds, self._upright(picture)) if is_wanted else None

    def _pictures(self, first: "VideoFrame") -> Iterator["VideoFrame"]:
        """Yield all frames in presentation order, until the end or the first damage."""
        import av

        count = 0
        try:
            for picture in itertools.chain([first], self._decoded):
                if count == self._max_frames:
                    what = f"has more than {count:,} frames, and is read no further"
                    self._note("too_many_frames", what)
                    return
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
        """Report a missing end: some formats do not signal it but state the full length."""
        rate = self.facts.frame_rate
        stated_frames = self.facts.frame_count or 0
        stated_seconds = self._pictures_seconds or 0.0
        missing_seconds = max((stated_frames - count) / rate, stated_seconds - self._clock.end)
        tolerated = max(_MOST_MISSING_SECONDS, _MOST_MISSING_SHARE * count / rate)
        if missing_seconds > tolerated:
            what = f"ends after {count:,} frames, {missing_seconds:.1f} seconds before it should"
            self._note("truncated_video", what)

    def _note(self, reason: str, what: str) -> None:
        self.problem = reason, what

    def _upright(self, picture: "VideoFrame") -> Pixels:
        width, height = self.facts.width_px, self.facts.height_px
        turns = self.facts.rotation_degrees // 90
        if turns % 2:
            width, height = height, width
        converted = self._converter.reformat(
            picture, width=width, height=height, format="rgb24", interpolation=self._rounding
        )
        pixels = cast("Pixels", converted.to_ndarray())
        return np.ascontiguousarray(np.rot90(pixels, -turns)) if turns else pixels


# The presentation times of frames.


class Clock:
    """Computes the times of consecutive frames in seconds since the first one, always increasing.

    Args:
        frame_rate: mean number of frames a second.
        has_times: whether the container stores presentation times. AVI does not, and the times that
            FFmpeg guesses for B-frames jump back and forth.
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
        """Return when the last announced frame ends."""
        return self._last + self._duration

    def tell(self, picture: "VideoFrame") -> float:
        """Return the time of the next frame; one interval after the last if `picture` has none."""
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


# Makes `VideoFacts` from an opened container and its first frame.

_MICROSECONDS: Final = 1_000_000
_SLOWEST_RATE: Final = 1 / 3600
_FASTEST_RATE: Final = 240.0
_DOUBTED_RATE: Final = 120.0
"""Above it, a stated rate is often that of the clock that times are counted with."""
_MEASURED_FRAMES: Final = 250


def facts_of(
    container: "InputContainer",
    stream: "VideoStream",
    first: "VideoFrame",
    frame_rate: float | None,
    measured: Callable[[], float | None],
) -> VideoFacts:
    """Return the container's metadata, with the size and the rotation of the first frame.

    `frame_rate` replaces the stated one. If that is missing or impossible (0, or a clock's 1,000 or
    90,000), the rate is `measured`; if that is impossible as well, 25 is assumed.
    """
    rotation = -round(first.rotation / 90) * 90 % 360
    width, height = first.width, first.height
    if rotation in (90, 270):
        width, height = height, width
    seconds = _pictures_seconds(container, stream) or _container_seconds(container)
    rate = frame_rate or _frame_rate(container, stream, seconds, measured)
    return VideoFacts(
        width_px=width,
        height_px=height,
        frame_rate=rate or ASSUMED_FRAME_RATE,
        has_stated_rate=rate is not None,
        frame_count=stream.frames or None,
        duration_seconds=seconds,
        codec=stream.codec_context.name,
        rotation_degrees=rotation,
    )


def _pictures_seconds(container: "InputContainer", stream: "VideoStream") -> float | None:
    """Return the stated duration of the video stream; None if only that of the file is known."""
    if stream.duration and stream.time_base:
        return max(0.0, float(stream.duration * stream.time_base))
    return _container_seconds(container) if len(container.streams) == 1 else None


def _container_seconds(container: "InputContainer") -> float | None:
    return max(0.0, container.duration / _MICROSECONDS) if container.duration else None


def _frame_rate(
    container: "InputContainer",
    stream: "VideoStream",
    seconds: float | None,
    measured: Callable[[], float | None],
) -> float | None:
    if container.format.name in _RAW_FORMATS:  # its `average_rate` is always 25
        return _plausible(stream.codec_context.framerate)
    stated = _plausible(stream.average_rate) or _plausible(stream.guessed_rate)
    counted = _plausible(stream.frames / seconds if seconds else None)
    if stated is None or stated > _DOUBTED_RATE:
        return counted or _plausible(measured()) or stated
    return stated


def _measured_rate(url: str, file_path: str) -> float | None:
    """Return the mean rate of the first frames by their times; None if they have none."""
    with opened_container(url, file_path) as container:
        packets = itertools.islice(container.demux(container.streams.video[0]), _MEASURED_FRAMES)
        times = [packet.pts * packet.time_base for packet in packets if packet.pts is not None]
    seconds = float(max(times) - min(times)) if times else 0.0
    return (len(times) - 1) / seconds if seconds else None


def _plausible(rate: "Fraction | float | None") -> float | None:
    return float(rate) if rate and _SLOWEST_RATE <= rate <= _FASTEST_RATE else None
