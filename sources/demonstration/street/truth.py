"""What is true of a video of the street, and how frames are encoded."""

from collections.abc import Iterator
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from numpy.typing import NDArray

from schemas.base import Record
from sources.demonstration.people import Person

if TYPE_CHECKING:
    from av.video.stream import VideoStream


# What is known of generated street videos: who is where in every frame, and what is wrong.

TRUTH_FILE = "street_truth.json"

TRUNCATED_BELOW = 0.98
"""A person is truncated where less than this share of them lies inside the frame."""

OCCLUDED_FROM = 0.3
"""A person is occluded where at least this share of what lies inside the frame is hidden."""

PixelBox = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels; right and bottom are not part of the box."""


class FaultKind(StrEnum):
    """What can be wrong with the crop of a person, or make a tracker go wrong."""

    BLUR = "blur"
    DARKNESS = "darkness"
    TRUNCATION = "truncation"
    OCCLUSION = "occlusion"
    DUPLICATE = "duplicate"
    IDENTITY_SWITCH = "identity_switch"


class Fault(Record):
    """Something planted, from `first_frame` to `last_frame` (both included).

    `visits` are the visits that it concerns; where there are none, everybody in those frames.
    `cause` says how: defocus, motion, lights out, frozen (every frame equals the one before
    `first_frame`), standing still, border, hidden, alike or unlike (clothes of two who cross, which
    is an opportunity for a tracker to switch identities, no fault of the crops).
    """

    kind: FaultKind
    cause: str
    first_frame: int
    last_frame: int
    visits: tuple[int, ...] = ()


class TruePerson(Record):
    """A person of a video, with descriptions of the side that is seen most."""

    identity: int
    person: Person
    descriptions: tuple[str, ...]


class TrueVisit(Record):
    """One passage of a person; `number` is the track id in the MOTChallenge file.

    The frames are the first and last in which a part of the person lies inside the frame.
    """

    number: int
    identity: int
    first_frame: int
    last_frame: int


class TrueSighting(Record):
    """A visitor in one frame.

    Attributes:
        frame: counts from 0.
        box_xyxy: the whole figure, hidden parts included; may reach out of the frame.
        visible_xyxy: what can be seen of it, None where that is nothing.
        inside: share of the figure's pixels that lie inside the frame.
        visible: share of the figure's pixels that can be seen.
    """

    frame: int
    visit: int
    box_xyxy: PixelBox
    visible_xyxy: PixelBox | None
    inside: float
    visible: float

    @property
    def hidden(self) -> float:
        """Share of what lies inside the frame that something else covers."""
        return 1 - self.visible / self.inside if self.inside else 0.0


class TrueVideo(Record):
    """What is known of one video; `file_path` and `mot_path` are relative to the world's folder.

    `same_content_as` names the video of which this one is a copy, encoded again.
    """

    name: str
    theme: str
    file_path: str
    mot_path: str
    width_px: int
    height_px: int
    frame_rate: float
    frame_count: int
    people: tuple[TruePerson, ...]
    visits: tuple[TrueVisit, ...]
    sightings: tuple[TrueSighting, ...]
    faults: tuple[Fault, ...]
    same_content_as: str | None = None

    def identity_of(self, visit: int) -> int:
        """The person whose visit this is."""
        return next(one.identity for one in self.visits if one.number == visit)

    def faulty(self) -> Iterator[tuple[TrueSighting, frozenset[FaultKind]]]:
        """Every sighting with what is wrong with it, for a filter's precision and recall."""
        for sighting in self.sightings:
            yield (
                sighting,
                frozenset(
                    fault.kind
                    for fault in self.faults
                    if fault.first_frame <= sighting.frame <= fault.last_frame
                    and (not fault.visits or sighting.visit in fault.visits)
                ),
            )


class StreetTruth(Record):
    """Everything that is known of a world of street videos."""

    seed: int
    videos: tuple[TrueVideo, ...]


class StreetWorld(Record):
    """A generated world: its videos in order, and the file with the truth about them."""

    folder: Path
    seed: int
    videos: tuple[Path, ...]
    truth_file: Path


def load_street_truth(folder: Path) -> StreetTruth:
    """The truth about the street videos that were written to `folder`."""
    return StreetTruth.model_validate_json((folder / TRUTH_FILE).read_bytes())


# H.264 files from drawn frames.

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
