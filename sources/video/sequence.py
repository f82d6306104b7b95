"""Image sequences as videos: numbered images of one folder, named by a pattern (`img1/%06d.jpg`).

Frames are in the order of their numbers. The step between neighbours is the greatest that fits all
of them, so that every tenth image of a video has no gaps. If most numbers are missing they are no
frame numbers (but times, for example), and frames are counted from 0 as they come.
"""

import configparser
import math
import posixpath
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from loupe.models.tracking.detector import Frame, Pixels
from loupe.schemas.video import VideoFacts

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem
    from PIL.Image import Image

ASSUMED_FRAME_RATE: Final = 25.0
IMAGE_SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})
_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)", re.DOTALL)
_PATTERN = re.compile(r"((?:[^%]|%%)*)%\d*d((?:[^%]|%%)*)", re.DOTALL)
_SHOWN_GAPS: Final = 3


class SequenceError(Exception):
    """A sequence or one of its images cannot be used."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason
        self.what = what


class Sequence(NamedTuple):
    """The images that a pattern names: `paths` (URLs) in the order of their `numbers`."""

    paths: list[str]
    numbers: list[int]


class _Damage(NamedTuple):
    """What is wrong with the frames of a sequence, in words."""

    unreadable: list[str]
    scaled: list[str]


def is_image(path: str) -> bool:
    """Whether a path is named as an image."""
    return posixpath.splitext(path)[1].lower() in IMAGE_SUFFIXES


def is_pattern(path: str) -> bool:
    """Whether a path names images by a pattern such as `%06d.jpg` or `frame%d.png`."""
    return is_image(path) and _PATTERN.fullmatch(posixpath.basename(path)) is not None


def any_width(pattern: str) -> str:
    """Return a pattern with `%d` for its number, however many digits it wants."""
    folder, name = posixpath.split(pattern)
    return posixpath.join(folder, _PATTERN.sub(r"\1%d\2", name))


def pattern_of(path: str) -> str:
    """Return the pattern of an image and its neighbours: its last number becomes `%d`.

    A path without a number is returned unchanged.
    """
    folder, name = posixpath.split(path)
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None:
        return path
    before, _, after = (part.replace("%", "%%") for part in numbered.groups())
    return posixpath.join(folder, f"{before}%d{after}")


def sequence_at(filesystem: "AbstractFileSystem", pattern: str) -> Sequence:
    """Return the images that `pattern` names.

    Raises:
        SequenceError: there are none, two have the same number, or one is a link to a place
            outside the folder.
    """
    folder, name = posixpath.split(pattern)
    before, after = (part.replace("%%", "%") for part in _PATTERN.findall(name)[0])
    wanted = re.compile(rf"{re.escape(before)}(\d+){re.escape(after)}", re.DOTALL)
    found: dict[int, str] = {}
    for one in filesystem.ls(folder, detail=True) if filesystem.isdir(folder) else []:
        path = one["name"]
        matched = wanted.fullmatch(posixpath.basename(path))
        if matched is None or one["type"] == "directory":
            continue
        number = int(matched[1])
        if number in found:
            names = " and ".join(sorted(map(posixpath.basename, (found[number], path))))
            raise SequenceError("same_number", f"has two frames {number}: {names}")
        if one.get("islink") and not Path(path).resolve().is_relative_to(Path(folder).resolve()):
            what = f"has a frame that is a link out of its folder: {posixpath.basename(path)}"
            raise SequenceError("path_outside_root", what)
        found[number] = path
    if not found:
        raise SequenceError("missing_video", "names no image")
    numbers = sorted(found)
    paths = [filesystem.unstrip_protocol(found[number]) for number in numbers]
    return Sequence(paths, numbers)


def information_file(filesystem: "AbstractFileSystem", pattern: str) -> str | None:
    """Return the path of the `seqinfo.ini` beside the folder of a sequence, if there is one."""
    path = posixpath.join(posixpath.dirname(posixpath.dirname(pattern)), "seqinfo.ini")
    return path if filesystem.isfile(path) else None


def stated_rate(filesystem: "AbstractFileSystem", pattern: str) -> float | None:
    """Return the frame rate in `seqinfo.ini`; None if there is none."""
    path = information_file(filesystem, pattern)
    if path is None:
        return None
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with filesystem.open(path, "r", encoding="utf-8-sig") as file:
            parser.read_file(file)
        rate = parser.getfloat("Sequence", "frameRate")
    except (configparser.Error, ValueError, OSError):
        return None
    return rate if math.isfinite(rate) and rate > 0 else None


class SequenceDecoder:
    """Decodes the images of a sequence, in any process; has the interface of a decoder of videos.

    Args:
        sequence: the images.
        read: returns an image in RGB, upright; raises `SequenceError` for an unusable one.
        frame_rate: None if it is not known.

    Attributes:
        facts: width and height are those of the first image that can be read.
        problem: what is wrong with frames, known when all were requested; None if nothing is.
    """

    def __init__(
        self,
        sequence: Sequence,
        read: "Callable[[str], Image]",
        frame_rate: float | None,
    ) -> None:
        self.problem: tuple[str, str] | None = None
        self._paths = sequence.paths
        self._read = read
        self._rate = frame_rate or ASSUMED_FRAME_RATE
        self._places, self._missing = _places(sequence.numbers)
        first = self._first()
        self.facts = VideoFacts(
            width_px=first.width,
            height_px=first.height,
            frame_rate=self._rate,
            has_stated_rate=frame_rate is not None,
            frame_count=len(self._paths),
            duration_seconds=(self._places[-1] + 1) / self._rate,
            codec="images",
        )

    def frames(self, start: int, every: int) -> Iterator[Frame | None]:
        """Yield frames like the reader, with None for each skipped one."""
        damage = _Damage([], [])
        for place, path in zip(self._places, self._paths, strict=True):
            pixels = None
            if place >= start and place % every == 0:
                pixels = self._pixels(path, damage)
            yield None if pixels is None else Frame(place, place / self._rate, pixels)
        if what := self._told(damage):
            self.problem = "incomplete_sequence", what

    def _first(self) -> "Image":
        """Return the first image that can be read.

        Raises:
            SequenceError: there is none.
        """
        refused = ""
        for path in self._paths:
            try:
                return self._read(path)
            except SequenceError as refusal:
                refused = refused or f"{posixpath.basename(path)} {refusal.what}"
        raise SequenceError("no_frames", f"has no image that can be read: {refused}")

    def _pixels(self, path: str, damage: _Damage) -> Pixels | None:
        name, size = posixpath.basename(path), (self.facts.width_px, self.facts.height_px)
        try:
            picture = self._read(path)
        except SequenceError as refusal:
            damage.unreadable.append(f"{name} {refusal.what}")
            return None
        if picture.size != size:
            damage.scaled.append(f"{name} has {picture.width}×{picture.height} pixels")
            picture = picture.resize(size)
        return np.asarray(picture)

    def _told(self, damage: _Damage) -> str | None:
        parts = []
        if self._missing:
            parts.append(f"has gaps in its numbers: {self._missing}")
        if damage.unreadable:
            parts.append(f"lacks frames that cannot be read: {_first_of(damage.unreadable)}")
        if damage.scaled:
            size = f"{self.facts.width_px}×{self.facts.height_px}"
            parts.append(f"has frames that are scaled to {size}: {_first_of(damage.scaled)}")
        return "; ".join(parts) or None


def _first_of(told: list[str]) -> str:
    rest = len(told) - 1
    return told[0] + (f" (and {rest:,} more)" if rest else "")


def _places(numbers: list[int]) -> tuple[list[int], str]:
    """Return the frame number, from 0, of each image, and what is missing in words."""
    steps = [after - before for before, after in pairwise(numbers)]
    step = math.gcd(*steps) or 1
    places = [(number - numbers[0]) // step for number in numbers]
    missing = places[-1] + 1 - len(places)
    if not missing:
        return places, ""
    if missing > len(places):
        return list(range(len(places))), "frames are counted as they come"
    return places, f"{_gaps(numbers, steps, step)} missing"


def _gaps(numbers: list[int], steps: list[int], step: int) -> str:
    gaps = [
        f"{number + step}" if size == 2 * step else f"{number + step} to {number + size - step}"
        for number, size in zip(numbers, steps, strict=False)
        if size > step
    ]
    rest = len(gaps) - _SHOWN_GAPS
    shown = ", ".join(gaps[:_SHOWN_GAPS]) + (f" and {rest:,} more" if rest > 0 else "")
    return f"{shown} {'is' if shown.isdecimal() else 'are'}"
