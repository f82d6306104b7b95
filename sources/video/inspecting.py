"""Videos looked at before they are imported: digest, size, and what the container says."""

import hashlib

from pydantic import Field

from schemas.base import Record
from schemas.records import Sha256
from schemas.video import VideoFacts
from sources.video.finding import FoundVideo
from sources.video.opening import opened_file
from sources.video.problem import VideoProblem, VideoRefusedError
from sources.video.reader import open_video

_CHUNK_BYTES = 1024 * 1024


class InspectedVideo(Record):
    """A video whose first frame decodes; the digest is that of all its bytes."""

    file_path: str
    url: str
    sha256: Sha256
    size_bytes: int = Field(gt=0)
    facts: VideoFacts


def inspect_video(found: FoundVideo) -> InspectedVideo | VideoProblem:
    """What `found` is, or why it cannot be used. Reads all its bytes; decodes one frame."""
    try:
        with open_video(found.url, file_path=found.file_path) as reader:
            facts = reader.facts
        sha256, size = video_digest(found.url, found.file_path)
    except VideoRefusedError as refusal:
        return refusal.as_problem()
    return InspectedVideo(
        file_path=found.file_path, url=found.url, facts=facts, sha256=sha256, size_bytes=size
    )


def video_digest(url: str, file_path: str) -> tuple[str, int]:
    """SHA-256 and number of the bytes of a file, of which one chunk at a time is in memory.

    Raises:
        VideoRefusedError: the file is missing, empty, or cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with opened_file(url, file_path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size
