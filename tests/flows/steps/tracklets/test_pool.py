"""Observation pools: bounded size, the best frame of each span of time, saving and restoring."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.flows.cropping import MARGIN, cut, encode
from loupe.flows.ufine6926.crops import (
    Boxes,
    ObservationPool,
    PoolState,
    TrackOrigin,
    measure_quickly,
    quality,
)
from loupe.flows.ufine6926.noise_filter import filter_track
from loupe.models.tracking.association import TrackedPerson, unpacked
from loupe.models.tracking.detector import Frame
from loupe.schemas.base import sha256_of
from loupe.schemas.records import Picture
from loupe.schemas.tracking import FilterSettings
from loupe.schemas.video import Track
from tests.flows.steps.tracklets.samples import person

ORIGIN = TrackOrigin("street", "street/one.mp4", "0" * 64, "tracker@1")
NOBODY = np.zeros((0, 4))
BOX = np.array([10.0, 5, 34, 60])
_NOISE = np.random.default_rng(0).integers(0, 256, (64, 48, 3)).astype(np.float64)


class Blobs:
    """A blob store that counts its `put` calls."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.puts = 0

    def put(self, data: bytes, crop: Picture) -> Picture:
        assert (crop.media_type, crop.sha256) == ("image/jpeg", sha256_of(data))
        self.puts += 1
        self.stored[crop.sha256] = data
        return crop


def frame(number: int, strength: int) -> Frame:
    """Return a frame whose sharpness increases with `strength` (0 to 9)."""
    pixels = 128 + (_NOISE - 128) * (strength + 1) / 20 + number % 5
    return Frame(number, number / 10, pixels.astype(np.uint8))


def seen(score: float = 0.9, box: Boxes = BOX) -> TrackedPerson:
    return TrackedPerson(1, box, score, person(3))


Seen = list[tuple[int, int]]
sightings: st.SearchStrategy[Seen] = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=40
).map(
    lambda steps: [
        (sum(step for step, _ in steps[: place + 1]), strength)
        for place, (_, strength) in enumerate(steps)
    ]
)


def pool_of(frames: Seen, limit: int) -> ObservationPool:
    pool = ObservationPool(1, limit)
    for number, strength in frames:
        pool.offer(frame(number, strength), seen(), NOBODY)
    return pool


def literal_choice(frames: Seen, limit: int) -> list[int]:
    """Return the best frame of each span, for the shortest spans that number at most `limit`."""
    first = frames[0][0]
    qualities = {}
    for number, strength in frames:
        measures = measure_quickly(frame(number, strength), BOX, NOBODY)
        assert measures is not None
        qualities[number] = quality(measures, 0.9)
    length = 1
    while True:
        spans: dict[int, list[int]] = {}
        for number, _ in frames:
            spans.setdefault((number - first) // length, []).append(number)
        if len(spans) <= limit:
            return [
                max(span, key=lambda number: (qualities[number], -number))
                for span in spans.values()
            ]
        length *= 2


@settings(max_examples=20, deadline=None)
@given(sightings, st.integers(2, 8))
def test_a_pool_keeps_the_best_frame_of_each_span(frames: Seen, limit: int) -> None:
    track = pool_of(frames, limit).close(Blobs().put, ORIGIN)
    assert isinstance(track, Track)
    assert [one.frame for one in track.observations] == literal_choice(frames, limit)
    assert track.seen_frames == len(frames)
    assert (track.first_frame, track.last_frame) == (frames[0][0], frames[-1][0])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=10, max_size=60), st.integers(2, 12))
def test_a_pool_is_bounded_and_covers_the_whole_time(strengths: list[int], limit: int) -> None:
    pool = ObservationPool(1, limit)
    for number, strength in enumerate(strengths):
        pool.offer(frame(number, strength), seen(), NOBODY)
        assert len(pool) <= limit
        assert len(pool) >= min(number + 1, limit // 2)
    state = pool.state(Blobs().put)
    frames = [one.frame for one in state.observations]
    length = state.span_frames
    assert frames[0] < length
    assert len(strengths) - 1 - frames[-1] < length
    assert all(b - a < 2 * length for a, b in pairwise(frames))


@settings(max_examples=20, deadline=None)
@given(sightings, st.integers(2, 8), st.data())
def test_a_restored_pool_gives_the_same_track(
    frames: Seen, limit: int, data: st.DataObject
) -> None:
    cuts = data.draw(st.sets(st.integers(0, len(frames)), max_size=3))
    blobs = Blobs()
    pool = ObservationPool(1, limit)
    for place, (number, strength) in enumerate(frames):
        if place in cuts and place:
            text = pool.state(blobs.put).model_dump_json()
            pool = ObservationPool.restored(PoolState.model_validate_json(text))
        pool.offer(frame(number, strength), seen(), NOBODY)
    track = pool.close(blobs.put, ORIGIN)
    whole = pool_of(frames, limit).close(Blobs().put, ORIGIN)
    assert isinstance(track, Track)
    assert isinstance(whole, Track)
    assert track.payload() == whole.payload()
    thresholds = FilterSettings(least_height_px=10)
    assert filter_track(track, thresholds) == filter_track(whole, thresholds)
    assert {one.crop.sha256 for one in track.observations} <= blobs.stored.keys()


def test_crops_are_stored_once_and_match_their_records() -> None:
    blobs = Blobs()
    pool = pool_of([(0, 3), (1, 4)], 4)
    assert blobs.puts == 0
    pool.state(blobs.put)
    pool.state(blobs.put)
    track = pool.close(blobs.put, ORIGIN)
    assert isinstance(track, Track)
    assert blobs.puts == 2
    for one, pixels in zip(
        track.observations, (frame(0, 3).pixels, frame(1, 4).pixels), strict=True
    ):
        expected = encode(cut(pixels, BOX, MARGIN))
        assert one.crop == expected.picture
        assert blobs.stored[one.crop.sha256] == expected.data
        assert one.box_xyxy == tuple(BOX)
        assert unpacked(one.embedding) @ person(3) > 0.999


def test_a_person_never_inside_the_frame_has_no_track() -> None:
    pool = ObservationPool(4, 8)
    pool.offer(frame(7, 5), seen(box=np.array([-50.0, 0, -10, 60])), NOBODY)
    assert pool.close(Blobs().put, ORIGIN) is None


def test_a_crop_is_recorded_as_it_was_stored() -> None:
    pool = pool_of([(1, 3), (2, 5)], 4)
    track = pool.close(lambda _data, crop: crop.model_copy(update={"sha256": "0" * 64}), ORIGIN)
    assert track is not None
    assert {one.crop.sha256 for one in track.observations} == {"0" * 64}
