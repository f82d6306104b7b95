"""Videos looked at before they are imported: digest, size, and what the container says."""

import hashlib
from typing import NamedTuple

from pydantic import Field

from schemas.base import Record
from schemas.records import Sha256
from schemas.video import VideoFacts
from sources.video.finding import FoundVideo
from sources.video.opening import opened_file
from sources.video.problem import VideoProblem, VideoRefusedError
from sources.video.reader import VideoLimits, open_video

_CHUNK_BYTES = 1024 * 1024


class VideoDigest(NamedTuple):
    """SHA-256 and number of the bytes of a file."""

    sha256: str
    size_bytes: int


class InspectedVideo(Record):
    """A video whose first frame decodes; the digest is that of all its bytes."""

    file_path: str
    url: str
    sha256: Sha256
    size_bytes: int = Field(gt=0)
    facts: VideoFacts


def inspect_video(
    found: FoundVideo, limits: VideoLimits | None = None
) -> InspectedVideo | VideoProblem:
    """What `found` is, or why it cannot be used. Reads all its bytes; decodes one frame."""
    try:
        with open_video(found.url, limits, found.file_path) as reader:
            facts = reader.facts
        digest = video_digest(found)
    except VideoRefusedError as refusal:
        return refusal.as_problem()
    return InspectedVideo(file_path=found.file_path, url=found.url, facts=facts, **digest._asdict())


def video_digest(found: FoundVideo) -> VideoDigest:
    """The digest of all the bytes, of which one chunk at a time is in memory.

    Raises:
        VideoRefusedError: the file is missing, empty, or cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with opened_file(found.url, found.file_path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return VideoDigest(digest.hexdigest(), size)
