"""Find videos by folder, glob, list file or path on any file system, and inspect them."""

import hashlib
import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from loupe.schemas.base import Record, Sha256
from loupe.schemas.errors import FormatError
from loupe.schemas.grouping import grouped
from loupe.schemas.text_files import as_utf8
from loupe.schemas.video import VideoFacts
from loupe.sources.video.reader import (
    VideoProblem,
    VideoRefusedError,
    files_of,
    is_local,
    located,
    open_video,
    opened_file,
    reaching,
)
from loupe.sources.video.sequence import any_width, is_image, is_pattern, pattern_of

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_SUFFIXES = (
    "264 265 3g2 3gp asf avc avi dav divx dv f4v flv h264 h265 hevc insv ivf m1v m2p m2t m2ts "
    "m2v m4v mjpeg mjpg mkv mod mov mp4 mpeg mpg mpv mts mxf nut obu ogv qt rm rmvb tod ts vob "
    "webm wmv y4m"
)
_VIDEO_SUFFIXES = frozenset(f".{name}" for name in _SUFFIXES.split())
_LIST_SUFFIXES = frozenset([".txt", ".list"])
_MAGIC = frozenset("*?[")


class FoundVideo(Record):
    """A file that may be a video: `url` is what to open, `file_path` its path below the root.

    `file_path` has forward slashes and does not depend on the location of the root.
    """

    file_path: str
    url: str


class _Root(NamedTuple):
    filesystem: "AbstractFileSystem"
    path: str

    def below(self, path: str) -> str:
        """Return `path`, a path of this file system, relative to the root."""
        return path.removeprefix(self.path).lstrip("/")


def find_videos(spec: str | Path) -> Iterator[FoundVideo | VideoProblem]:
    """Yield the videos that `spec` names, in the same order every time.

    - A folder: every file below it, sorted by path. Images of one folder whose names differ in
      their last number are one video, an image sequence: its path is a pattern (`img1/%d.jpg`).
      Other files without a video suffix are problems; hidden files and folders (`.name`), and what
      belongs to a sequence of MOTChallenge (`seqinfo.ini`, `gt`, `det`), are skipped.
    - A pattern (`img1/%06d.jpg`): one image sequence.
    - A glob (`street/**/*.mp4`): its matches, relative to its part before the first wildcard.
    - A list (`.txt`, `.list`): a path or fsspec URL a line, in the list's order; `#` begins a
      comment. Paths are relative to the list's folder and stay inside it; a URL (`file:///…`,
      `s3://…`) may refer to any place, and its `file_path` is the URL without the scheme.
    - Anything else: that one file.

    `spec` itself may be an fsspec URL. Files are not opened, so their contents are not checked.
    """
    try:
        filesystem, path = located(str(spec))
        with reaching(filesystem, str(spec)):
            yield from _found(filesystem, path)
    except VideoRefusedError as refusal:
        yield refusal.as_problem()


def _found(filesystem: "AbstractFileSystem", path: str) -> Iterator[FoundVideo | VideoProblem]:
    if filesystem.isdir(path):
        root = _Root(filesystem, path.rstrip("/"))
        yield from _checked(root, sorted(filesystem.find(path)), path)
    elif is_pattern(path):
        folder = posixpath.dirname(path)
        yield _sequence(_Root(filesystem, posixpath.dirname(folder)), path)
    elif _MAGIC & set(path) and not filesystem.exists(path):
        yield from _matching(filesystem, path)
    elif posixpath.splitext(path)[1].lower() in _LIST_SUFFIXES:
        yield from _listed(filesystem, path)
    else:
        yield _file(filesystem, path, _storable(posixpath.basename(path)))


def _matching(
    filesystem: "AbstractFileSystem", pattern: str
) -> Iterator[FoundVideo | VideoProblem]:
    first = next(at for at, letter in enumerate(pattern) if letter in _MAGIC)
    root = _Root(filesystem, pattern[:first].rpartition("/")[0])
    paths = [path for path in sorted(filesystem.glob(pattern)) if filesystem.isfile(path)]
    yield from _checked(root, paths, pattern)


def _checked(root: _Root, paths: list[str], where: str) -> Iterator[FoundVideo | VideoProblem]:
    """Yield each of `paths` as a video or a problem, and a problem if there are no paths."""
    visible = [path for path in paths if "/." not in f"/{root.below(path)}"]
    if not visible:
        yield _no_videos(where)
    described = {posixpath.dirname(path) for path in visible if path.endswith("/seqinfo.ini")}
    images = grouped((pattern_of(path), path) for path in visible if is_image(path))
    for path in visible:
        pattern = pattern_of(path)
        try:
            if _describes_sequence(path, described):
                continue
            if not is_image(path):
                yield _named_as_video(root, root.below(path))
            elif len(images[pattern]) == 1:
                what = "is a single image: a sequence has several, named alike, such as 000001.jpg"
                raise VideoRefusedError(root.below(path), "single_image", what)  # noqa: TRY301
            elif path == images[pattern][0]:
                yield _sequence(root, pattern)
        except VideoRefusedError as refusal:
            yield refusal.as_problem()


def _describes_sequence(path: str, described: set[str]) -> bool:
    """Whether a file lies beside the images of a sequence of MOTChallenge and belongs to it."""
    folder, name = posixpath.split(path)
    parent, last = posixpath.split(folder)
    return name == "seqinfo.ini" or (last in {"gt", "det"} and parent in described)


def _sequence(root: _Root, pattern: str) -> FoundVideo:
    """Return an image sequence; one directly in the root also names the root's own folder."""
    pattern = any_width(pattern)
    folder, name = posixpath.split(pattern)
    file_path = root.below(pattern)
    if folder == root.path:
        file_path = f"{posixpath.basename(folder)}/{name}"
    url = root.filesystem.unstrip_protocol(pattern)
    return FoundVideo(file_path=_storable(file_path), url=url)


def _named_as_video(root: _Root, file_path: str) -> FoundVideo:
    suffix = posixpath.splitext(file_path)[1].lower()
    if suffix not in _VIDEO_SUFFIXES:
        what = f"is not named as a video: ends in {suffix!r}, wanted one such as '.mp4'"
        raise VideoRefusedError(file_path, "not_a_video", what)
    return _one(root, file_path)


def _listed(filesystem: "AbstractFileSystem", path: str) -> Iterator[FoundVideo | VideoProblem]:
    if not filesystem.isfile(path):
        yield _missing(path).as_problem()
        return
    root, seen = _Root(filesystem, posixpath.dirname(path)), set[str]()
    try:
        lines = list(_lines(filesystem, path))
    except FormatError as error:
        yield VideoProblem(file_path=path, reason="unreadable_list", detail=str(error))
        return
    if not lines:
        yield _no_videos(path)
    for line in lines:
        try:
            found = _entry(root, line)
            if found.url in seen:
                what = f"is in {path!r} more than once"
                raise VideoRefusedError(line, "listed_twice", what)  # noqa: TRY301
            seen.add(found.url)
            yield found
        except VideoRefusedError as refusal:
            yield refusal.as_problem()


def _lines(filesystem: "AbstractFileSystem", path: str) -> Iterator[str]:
    """Yield the entries of a list file. Names that are not UTF-8 are kept and can be opened."""
    with filesystem.open(path, "rb") as file, as_utf8(file, path) as lines:
        for line in lines:
            entry = line.decode("utf-8", "surrogateescape").partition(" #")[0].strip()
            if entry and not entry.startswith("#"):
                yield entry


def _entry(root: _Root, line: str) -> FoundVideo:
    if "://" not in line and "::" not in line:
        return _one(root, line.replace("\\", "/"))
    filesystem, path = located(line)
    file_path = line.rpartition("://")[2].lstrip("/")
    with reaching(filesystem, line):
        if not filesystem.isfile(path):
            raise _missing(line)
    return FoundVideo(file_path=_storable(file_path), url=line)


def _one(root: _Root, file_path: str) -> FoundVideo:
    """Return the file at `file_path` below the root.

    Raises:
        VideoRefusedError: it is missing or outside the root.
    """
    file_path = posixpath.normpath(_storable(file_path))
    path = f"{root.path}/{file_path}"
    if file_path.startswith("/") or ".." in file_path.split("/") or not _is_inside(root, path):
        what = "leads out of the folder it is relative to, wanted a path below it"
        raise VideoRefusedError(file_path, "path_outside_root", what)
    if is_pattern(path):
        return _sequence(root, path)
    return _file(root.filesystem, path, file_path)


def _file(filesystem: "AbstractFileSystem", path: str, file_path: str) -> FoundVideo:
    if not filesystem.isfile(path):
        raise _missing(file_path)
    return FoundVideo(file_path=file_path, url=filesystem.unstrip_protocol(path))


def _is_inside(root: _Root, path: str) -> bool:
    """Whether the file behind all symbolic links lies below the root."""
    return not is_local(root.filesystem) or Path(path).resolve().is_relative_to(
        Path(root.path).resolve()
    )


def _storable(file_path: str) -> str:
    if "\0" in file_path:  # as in lists in UTF-16
        what = "has a name with NUL characters; if it is from a list, save the list as UTF-8"
        raise VideoRefusedError(file_path, "unreadable_video", what)
    try:
        file_path.encode()
    except UnicodeEncodeError as fault:
        what = "has a name that is no UTF-8, and cannot be recorded; rename it"
        raise VideoRefusedError(file_path, "unreadable_video", what) from fault
    return file_path


def _no_videos(where: str) -> VideoProblem:
    return VideoRefusedError(where, "no_videos", "names no files at all").as_problem()


def _missing(file_path: str) -> VideoRefusedError:
    return VideoRefusedError(file_path, "missing_video", "does not exist, or is not a file")


# Inspects videos before they are imported: digest, size, and the container's metadata.

_CHUNK_BYTES = 1024 * 1024


class InspectedVideo(Record):
    """A video whose first frame can be decoded; the digest is that of `video_digest`."""

    file_path: str
    url: str
    sha256: Sha256
    size_bytes: int = Field(gt=0)
    facts: VideoFacts


def inspect_video(found: FoundVideo) -> InspectedVideo | VideoProblem:
    """Inspect `found`: read all its bytes and decode one frame; return a problem if unusable."""
    try:
        with open_video(found.url, file_path=found.file_path) as reader:
            facts = reader.facts
        sha256, size = video_digest(found.url, found.file_path)
    except VideoRefusedError as refusal:
        return refusal.as_problem()
    return InspectedVideo(
        file_path=found.file_path, url=found.url, facts=facts, sha256=sha256, size_bytes=size
    )


def unknown_rate(video: InspectedVideo, remedy: str) -> str:
    """Return what to do about the assumed frame rate of a video, as a sentence."""
    rate = f"{video.facts.frame_rate:g}"
    return f"video {video.file_path!r} states no frame rate: {rate} is assumed; set {remedy}"


def video_digest(url: str, file_path: str) -> tuple[str, int]:
    """Return the SHA-256 and the number of bytes of a video, reading it in chunks.

    The digest of an image sequence is that of the list which `sha256sum` prints of its images, in
    the order of their numbers, and of its `seqinfo.ini`, if it has one, in the end.

    Raises:
        VideoRefusedError: a file is missing, empty, or cannot be read.
    """
    if not is_pattern(url):
        return _file_digest(url, file_path)
    listing, total = hashlib.sha256(), 0
    for one in files_of(url, file_path):
        name = posixpath.basename(one)
        digest, size = _file_digest(one, name)
        listing.update(f"{digest}  {name}\n".encode(errors="surrogateescape"))
        total += size
    return listing.hexdigest(), total


def _file_digest(url: str, file_path: str) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with opened_file(url, file_path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def find_all_videos(addresses: Iterable[str]) -> Iterator[FoundVideo | VideoProblem]:
    """Return the videos at the addresses, in order; a file named twice is returned once."""
    seen: set[str] = set()
    for address in addresses:
        for found in find_videos(address):
            if isinstance(found, FoundVideo):
                if found.url in seen:
                    continue
                seen.add(found.url)
            yield found
