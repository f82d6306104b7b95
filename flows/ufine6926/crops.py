"""Cut crops of people from frames, measure them, and keep the best few of each track."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from loupe.flows.cropping import MARGIN, Crop, cut, encode, window
from loupe.models.tracking.association import TrackedPerson, packed
from loupe.models.tracking.detector import Frame, Pixels
from loupe.schemas.base import Record, Sha256
from loupe.schemas.records import Picture
from loupe.schemas.video import Body, CropMeasures, Observation, Track

_LEAST_SHARE_OF_OTHERS = 0.05
"""Share of a crop from which the box of another person in it is recorded."""
_LEAST_SIDE_PX = 2
"""Minimum number of whole pixels inside the frame, in either direction, to see a person.
"""


def cut_person(pixels: Pixels, box_xyxy: NDArray[np.float64], others: "Boxes") -> Crop:
    """Return the crop of a person, with the boxes of the others who cover enough of it.

    Args:
        pixels: the frame.
        box_xyxy: (4,) the person's box.
        others: (n, 4) the boxes of all other people in the frame.
    """
    left, top, right, bottom = window(pixels, box_xyxy, MARGIN)
    crop = encode(pixels[top:bottom, left:right])
    size = (right - left, bottom - top)
    inside = np.clip(others.reshape(-1, 4) - (left, top, left, top), 0, size * 2)
    areas = (inside[:, 2] - inside[:, 0]) * (inside[:, 3] - inside[:, 1])
    covering = inside[areas >= _LEAST_SHARE_OF_OTHERS * size[0] * size[1]]
    boxes = tuple(tuple(round(side, 1) for side in box) for box in covering.tolist())
    return crop._replace(picture=crop.picture.model_copy(update={"others_xyxy": boxes}))


# Measurements that the noise filter compares with its thresholds. Pixels are measured inside the
# box itself, without the margin of the crop.

_SHARPNESS_HEIGHT_PX = 128
"""Height that crops are scaled to before sharpness is measured, against effects of distance.
"""

Boxes = NDArray[np.float64]
"""Boxes of shape (n, 4): left, top, right, bottom in pixels of the frame."""


def measure_quickly(frame: Frame, box_xyxy: Boxes, others: Boxes) -> CropMeasures | None:
    """Measure a person in a frame; None if the box is outside the frame.

    The perceptual hash stays empty, because it takes longer than everything else together.

    Args:
        frame: the frame.
        box_xyxy: (4,) the person's box, not clipped.
        others: (n, 4) the boxes of all other people in the frame.
    """
    import cv2

    inside = cut(frame.pixels, box_xyxy)
    if min(inside.shape[:2]) < _LEAST_SIDE_PX:
        return None
    height, width = frame.pixels.shape[:2]
    clipped = np.clip(box_xyxy, 0, (width, height, width, height))
    grey = cv2.cvtColor(inside, cv2.COLOR_RGB2GRAY).astype(np.uint8, copy=False)
    left, top, right, bottom = map(float, box_xyxy)
    border_distance = min(left, top, width - right, height - bottom)
    return CropMeasures.model_construct(
        width_px=round(float(clipped[2] - clipped[0]), 2),
        height_px=round(float(clipped[3] - clipped[1]), 2),
        cut_off=round(max(0.0, 1 - _area(clipped) / _area(box_xyxy)), 4),
        border_px=round(max(0.0, border_distance), 2),
        sharpness=round(sharpness(grey), 2),
        brightness=round(float(grey.mean()), 2),
        contrast=round(float(grey.std()), 2),
        overlap=round(overlap(clipped, others), 4),
        other_people=other_people(clipped, others),
        perceptual_hash="",
    )


def sharpness(grey: NDArray[np.uint8]) -> float:
    """Return the variance of the Laplacian (3×3 cross) of a grey image, scaled to 128 px."""
    import cv2

    height, width = grey.shape
    size = max(1, round(width * _SHARPNESS_HEIGHT_PX / height)), _SHARPNESS_HEIGHT_PX
    interpolation = cv2.INTER_AREA if height > _SHARPNESS_HEIGHT_PX else cv2.INTER_LINEAR
    scaled = cv2.resize(grey, size, interpolation=interpolation)
    return float(cv2.Laplacian(scaled, cv2.CV_64F).var())


def perceptual_hash(pixels: Pixels) -> str:
    """Return the pHash of an image: 64 bits as 16 hex digits."""
    from imagehash import phash
    from PIL import Image

    return str(phash(Image.fromarray(pixels)))


def hash_distance(one: str, other: str) -> int:
    """Return the number of bits, 0 to 64, in which two perceptual hashes differ."""
    return (int(one, 16) ^ int(other, 16)).bit_count()


def overlap(box_xyxy: Boxes, others: Boxes) -> float:
    """Return the largest share of a box that the box of one other person covers, 0 to 1.

    It does not matter who is in front: the crop shows both either way.
    """
    if not len(others):
        return 0.0
    return float(min(1.0, (_shared_areas(box_xyxy, others) / _area(box_xyxy)).max()))


def other_people(box_xyxy: Boxes, others: Boxes) -> int:
    """Count the other people with at least half of their box in this one, in front or behind."""
    if not len(others):
        return 0
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    return int((_shared_areas(box_xyxy, others) >= 0.5 * areas).sum())


def _area(box_xyxy: Boxes) -> float:
    return float((box_xyxy[2] - box_xyxy[0]) * (box_xyxy[3] - box_xyxy[1]))


def _shared_areas(box_xyxy: Boxes, others: Boxes) -> NDArray[np.float64]:
    upper_left = np.maximum(box_xyxy[:2], others[:, :2])
    lower_right = np.minimum(box_xyxy[2:], others[:, 2:])
    shared: NDArray[np.float64] = np.clip(lower_right - upper_left, 0, None).prod(axis=1)
    return shared


# The quality of a crop decides between neighbouring frames. It uses no thresholds, so the crops
# that are kept of a track do not depend on how the track is filtered.

_HALF_SHARPNESS = 100.0
_HALF_HEIGHT_PX = 160.0


def quality(measures: CropMeasures, score: float) -> float:
    """Return how sharp, large, complete, unoccluded and confident a crop is, 0 to 1.

    Sharpness and height count as x / (x + h), which is one half at h and saturates above: doubling
    the sharpness matters much if everything is blurred and little if everything is sharp. The parts
    are multiplied, so that a good one cannot compensate for a bad one.
    """
    sharp = measures.sharpness / (measures.sharpness + _HALF_SHARPNESS)
    large = measures.height_px / (measures.height_px + _HALF_HEIGHT_PX)
    whole = 1 - measures.cut_off
    alone = (1 - measures.overlap) / (1 + measures.other_people)
    return sharp * large * whole * alone * score


# The observations of a track that are kept while it continues: few, spread over time, the best.

Put = Callable[[bytes, Picture], Picture]
"""Stores the bytes of a crop, whose faces it may change, and returns the crop as it is stored."""


class TrackOrigin(NamedTuple):
    """Where a track comes from: the fields of `Track` that all tracks of a video share."""

    source: str
    video: str
    video_sha256: Sha256
    author: str


class PoolState(Record):
    """State of a pool at a checkpoint; the bytes of its crops are in the blob store."""

    number: int = Field(ge=1)
    most: int = Field(ge=2)
    first_frame: int = Field(ge=0)
    last_frame: int = Field(ge=0)
    seen_frames: int = Field(ge=0)
    span_frames: int = Field(ge=1)
    observations: tuple[Observation, ...]


class _Kept(NamedTuple):
    """An observation with its quality, and the bytes of its crop until they are stored."""

    quality: float
    observation: Observation
    data: bytes | None


@dataclass
class ObservationPool:
    """At most `most` observations of one live track, spread over its whole duration.

    The time since the track began is divided into spans of equal length. Of each span the best
    observation is kept (by `quality`, the earlier one in case of a tie). If more than `most` spans
    have one, the length of a span is doubled: neighbours are merged and the better of two
    observations is kept. A track without gaps therefore keeps between half of `most` and `most`
    observations, each the best of its span. People who approach the camera, and become easier to
    see, do not displace the time when they were far away.

    Crops are encoded when they are kept; a pool holds no pixels of frames.
    """

    number: int
    most: int
    first_frame: int = 0
    last_frame: int = 0
    seen_frames: int = 0
    span_frames: int = 1
    _kept: dict[int, _Kept] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._kept)

    def offer(self, frame: Frame, person: TrackedPerson, others: Boxes) -> None:
        """Consider the track's person in a frame; frames must increase from call to call.

        Args:
            frame: the frame.
            person: the track's person in it.
            others: (n, 4) the boxes of all other people in the frame.
        """
        if not self.seen_frames:
            self.first_frame = frame.number
        self.last_frame = frame.number
        self.seen_frames += 1
        measures = measure_quickly(frame, person.box_xyxy, others)
        if measures is None:
            return
        found = quality(measures, _score(person))
        span = self._span_of(frame.number)
        present = self._kept.get(span)
        if present is None or found > present.quality:
            crop = cut_person(frame.pixels, person.box_xyxy, others)
            observation = _observation(frame, person, measures, crop)
            self._kept[span] = _Kept(found, observation, crop.data)
            self._merge_until_it_fits()

    def state(self, put: Put) -> PoolState:
        """Return everything needed to continue, with the crops in the blob store."""
        self._store_crops(put)
        return PoolState.model_validate(self, from_attributes=True)

    @classmethod
    def restored(cls, state: PoolState) -> Self:
        """Return a pool that continues exactly as the one that `state` was taken of."""
        pool = cls(**state.model_dump(exclude={"observations"}))
        for observation in state.observations:
            found = quality(observation.measures, observation.score)
            pool._kept[pool._span_of(observation.frame)] = _Kept(found, observation, None)
        return pool

    def close(self, put: Put, origin: TrackOrigin) -> Track | None:
        """Return the track, its crops in the blob store; None if it never was inside the frame."""
        if not self._kept:
            return None
        self._store_crops(put)
        return Track(
            **origin._asdict(),
            number=self.number,
            first_frame=self.first_frame,
            last_frame=self.last_frame,
            seen_frames=self.seen_frames,
            observations=self.observations,
        )

    def _span_of(self, frame_number: int) -> int:
        return (frame_number - self.first_frame) // self.span_frames

    def _merge_until_it_fits(self) -> None:
        while len(self._kept) > self.most:
            self.span_frames *= 2
            merged: dict[int, _Kept] = {}
            for kept in self._kept.values():  # in the order of time
                span = self._span_of(kept.observation.frame)
                if span not in merged or kept.quality > merged[span].quality:
                    merged[span] = kept
            self._kept = merged

    def _store_crops(self, put: Put) -> None:
        for span, kept in self._kept.items():
            if kept.data is not None:
                crop = put(kept.data, kept.observation.crop)
                observation = kept.observation.model_copy(update={"crop": crop})
                self._kept[span] = _Kept(kept.quality, observation, None)

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The observations that are kept, in the order of time."""
        return tuple(kept.observation for kept in self._kept.values())


def with_bodies(track: Track, bodies: Mapping[int, Body]) -> Track:
    """Return the track with the results of a pose model, by frame."""

    def seen(one: Observation) -> Observation:
        body = bodies[one.frame].model_dump(exclude={"visible"}) if one.frame in bodies else {}
        return one.model_copy(update={"measures": one.measures.model_copy(update=body)})

    return track.model_copy(update={"observations": tuple(map(seen, track.observations))})


def _score(person: TrackedPerson) -> float:
    return round(min(1.0, max(0.0, float(person.score))), 4)


def _observation(
    frame: Frame, person: TrackedPerson, measures: CropMeasures, crop: Crop
) -> Observation:
    left, top, right, bottom = (round(float(side), 2) for side in person.box_xyxy)
    known = perceptual_hash(cut(frame.pixels, person.box_xyxy))
    return Observation(
        frame=frame.number,
        time_seconds=round(frame.time_seconds, 4),
        box_xyxy=(left, top, right, bottom),
        score=_score(person),
        crop=crop.picture,
        measures=CropMeasures(**dict(measures) | {"perceptual_hash": known}),
        embedding="" if person.embedding is None else packed(person.embedding),
    )
