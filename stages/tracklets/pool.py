"""The few observations of a track that are kept while it goes on: bounded, spread, the best."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

from pydantic import Field

from models.tracking.association import TrackedPerson, packed
from models.tracking.detector import Frame
from schemas.base import Record
from schemas.records import Rejection, Sha256
from schemas.video import Observation, Track
from stages.tracklets.measures import Boxes, QuickMeasures, measure_quickly, perceptual_hash
from stages.tracklets.quality import quality
from stages.tracklets.scissors import MARGIN, Crop, cut, encode

_STAGE = "track_people"  # that of `stages.follow_people`, which builds on this module
Put = Callable[[bytes, str], Sha256]
"""Stores bytes of a media type and gives their SHA-256, as `BlobStore.put` does."""


class TrackOrigin(NamedTuple):
    """Where a track is from: the fields of `Track` that all tracks of a video share."""

    source: str
    video: str
    video_sha256: Sha256
    author: str


class PoolState(Record):
    """A pool at a checkpoint; the bytes of its crops are in the blob store."""

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


class ObservationPool:
    """At most `most` observations of one live track, spread over the whole of its time.

    The time since the track began is cut into spans of equal length, and of each span the best
    observation (by `quality`, the earlier of equals) is kept. When more than `most` spans have one,
    spans become twice as long: neighbours are merged, and the better of two stays. So a track that
    was seen without a gap keeps between half of `most` and `most`, each the best of its span,
    whatever came before or after; and people who come nearer, ever better to see, do not crowd out
    the time when they were far.

    Crops are encoded when they are kept; a pool holds no pixels of frames.
    """

    def __init__(self, number: int, most: int) -> None:
        self.number = number
        self._most = most
        self._first_frame = self._last_frame = self._seen_frames = 0
        self._span_frames = 1
        self._kept: dict[int, _Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def offer(self, frame: Frame, person: TrackedPerson, others: Boxes) -> None:
        """Considers what is seen of the track's person in a frame; frames must rise.

        Args:
            frame: the frame.
            person: the person in it.
            others: (n, 4) the boxes of all other people in the frame.
        """
        if not self._seen_frames:
            self._first_frame = frame.number
        self._last_frame = frame.number
        self._seen_frames += 1
        measures = measure_quickly(frame, person.box_xyxy, others)
        if measures is None:
            return
        found = quality(measures, _score(person))
        span = self._span_of(frame.number)
        present = self._kept.get(span)
        if present is None or found > present.quality:
            crop = encode(cut(frame.pixels, person.box_xyxy, MARGIN))
            observation = _observation(frame, person, measures, crop)
            self._kept[span] = _Kept(found, observation, crop.data)
            self._merge_until_it_fits()

    def state(self, put: Put) -> PoolState:
        """All that is needed to go on, with the crops in the blob store."""
        self._store_crops(put)
        return PoolState(
            number=self.number,
            most=self._most,
            first_frame=self._first_frame,
            last_frame=self._last_frame,
            seen_frames=self._seen_frames,
            span_frames=self._span_frames,
            observations=self._observations(),
        )

    @classmethod
    def restored(cls, state: PoolState) -> Self:
        """The pool that `state` was taken of: it goes on as that one would have."""
        pool = cls(state.number, state.most)
        pool._first_frame, pool._last_frame = state.first_frame, state.last_frame
        pool._seen_frames, pool._span_frames = state.seen_frames, state.span_frames
        for observation in state.observations:
            found = quality(observation.measures, observation.score)
            pool._kept[pool._span_of(observation.frame)] = _Kept(found, observation, None)
        return pool

    def close(self, put: Put, origin: TrackOrigin) -> Track | Rejection:
        """The track, with its crops in the blob store; a rejection where no crop could be cut."""
        if not self._kept:
            return Rejection(
                stage=_STAGE,
                reason="never_in_view",
                detail=(
                    f"Track {self.number} of {origin.video!r} never had a box inside the frame, in "
                    f"frames {self._first_frame} to {self._last_frame}."
                ),
                context={"file": origin.video, "index": self.number},
            )
        self._store_crops(put)
        return Track(
            **origin._asdict(),
            number=self.number,
            first_frame=self._first_frame,
            last_frame=self._last_frame,
            seen_frames=self._seen_frames,
            observations=self._observations(),
        )

    def _span_of(self, frame_number: int) -> int:
        return (frame_number - self._first_frame) // self._span_frames

    def _merge_until_it_fits(self) -> None:
        while len(self._kept) > self._most:
            self._span_frames *= 2
            merged: dict[int, _Kept] = {}
            for kept in self._kept.values():  # in the order of time
                span = self._span_of(kept.observation.frame)
                if span not in merged or kept.quality > merged[span].quality:
                    merged[span] = kept
            self._kept = merged

    def _store_crops(self, put: Put) -> None:
        for span, kept in self._kept.items():
            if kept.data is not None:
                put(kept.data, kept.observation.crop.media_type)
                self._kept[span] = kept._replace(data=None)

    def _observations(self) -> tuple[Observation, ...]:
        return tuple(kept.observation for kept in self._kept.values())


def with_keypoints(track: Track, visible: Mapping[int, int]) -> Track:
    """The track with the visible keypoints that a pose model counted, by frame."""
    return track.model_copy(
        update={
            "observations": tuple(
                observation.model_copy(
                    update={
                        "measures": observation.measures.model_copy(
                            update={"keypoints": visible.get(observation.frame)}
                        )
                    }
                )
                for observation in track.observations
            )
        }
    )


def _score(person: TrackedPerson) -> float:
    return round(min(1.0, max(0.0, float(person.score))), 4)


def _observation(
    frame: Frame, person: TrackedPerson, measures: QuickMeasures, crop: Crop
) -> Observation:
    left, top, right, bottom = (round(float(side), 2) for side in person.box_xyxy)
    return Observation(
        frame=frame.number,
        time_seconds=round(frame.time_seconds, 4),
        box_xyxy=(left, top, right, bottom),
        score=_score(person),
        crop=crop.picture,
        measures=measures.with_hash(perceptual_hash(cut(frame.pixels, person.box_xyxy))),
        embedding="" if person.embedding is None else packed(person.embedding),
    )
