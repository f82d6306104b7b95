"""Open a container safely wherever it is stored: only video formats, no external references."""

import contextlib
import stat
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from sources.video.problem import RemoteFile, VideoRefusedError, reaching

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream
    from fsspec import AbstractFileSystem

# FFmpeg also reads playlists, subtitles, scripts and images as formats. A playlist named `a.mp4`
# would make it open other files and addresses.
_FORMATS = (
    "asf,av1,avi,dv,flv,h264,hevc,ivf,m4v,matroska,mov,mp4,mpeg,mpegts,mpegvideo,mxf,nut,obu,ogg,"
    "rm,webm,yuv4mpegpipe"
)
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
        local = local_path(url)
        if local is not None and not stat.S_ISREG(local.stat().st_mode):
            raise VideoRefusedError(name, "not_a_file", "is a folder, a device or a pipe")
        file = local.open("rb") if local is not None else _remote_file(filesystem, path, name)
    except (FileNotFoundError, NotADirectoryError) as fault:
        raise VideoRefusedError(name, "missing_video", "does not exist") from fault
    except (PermissionError, IsADirectoryError, ValueError, ImportError) as fault:
        raise VideoRefusedError(name, "unreadable_video", f"cannot be read: {fault}") from fault
    with file:
        if not file.read(1):
            raise VideoRefusedError(name, "empty_file", "is empty: has 0 bytes")
        file.seek(0)
        yield file


def _remote_file(filesystem: "AbstractFileSystem", path: str, name: str) -> BinaryIO:
    with reaching(filesystem, name):
        opened = cast("BinaryIO", filesystem.open(path, "rb"))
    return cast("BinaryIO", RemoteFile(opened, filesystem, name))


def local_path(url: str) -> Path | None:
    """Return the path of a file on this machine; None if `url` refers to another machine."""
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    filesystem, path = fsspec.core.url_to_fs(url)
    return Path(path) if isinstance(filesystem, LocalFileSystem) else None


@contextlib.contextmanager
def opened_container(url: str, name: str) -> Iterator["InputContainer"]:
    """Open the container at `url`: its streams are known and nothing is decoded.

    Raises:
        VideoRefusedError: it is missing, empty, or of an unsupported format.
    """
    import av

    with opened_file(url, name) as file:
        local = local_path(url)
        # FFmpeg reads local files faster itself; `file:` keeps it from interpreting names as
        # protocols.
        source = file if local is None else f"file:{local}"
        try:
            container = av.open(
                source, mode="r", container_options=_OPTIONS, metadata_errors="replace"
            )
        except av.FFmpegError as fault:
            what = f"is no video that can be read: {fault.strerror}"
            raise VideoRefusedError(name, "not_a_video", what) from fault
        with container:
            yield container


def video_stream(container: "InputContainer", name: str, max_pixels: int) -> "VideoStream":
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
