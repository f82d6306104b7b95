from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from loupe.models.builtin.pedestrians.background import overlaps
from loupe.models.builtin.pedestrians.detector import BuiltinPedestrianDetector
from loupe.models.tracking.association import as_bytes
from loupe.models.tracking.detector import Detections, Frame
from loupe.schemas.errors import IntegrityError
from loupe.schemas.tracking import BuiltinDetector
from loupe.sources.video.reader import open_video
from tests.models.builtin.pedestrians.street import Walker, frame_of, place
from tests.requirements import unavailable

REAL_VIDEO = Path("../shared/data/video/pedestrians_vtest.avi")
TWO = [Walker(40, 60), Walker(400, 120, pace=-3, shirt=(240, 240, 240), trousers=(20, 20, 20))]


def detector() -> BuiltinPedestrianDetector:
    return BuiltinPedestrianDetector(BuiltinDetector())


def walk(count: int, shakes: list[tuple[int, int]] | None = None) -> list[Frame]:
    """Return frames in which two people walk, after a first frame without them."""
    shakes = shakes or [(0, 0)]
    people = [[], *[TWO] * (count - 1)]
    return [
        frame_of(people[number], number, shake=shakes[number % len(shakes)])
        for number in range(count)
    ]


def detected(frames: list[Frame]) -> list[Detections]:
    model = detector()
    return [model.detect(frame) for frame in frames]


def assert_same(one: Detections, other: Detections) -> None:
    for field, wanted in zip(one, other, strict=True):
        assert field is not None
        assert wanted is not None
        np.testing.assert_array_equal(field, wanted)


def found(detections: Detections, walker: Walker, number: int, least_score: float = 0.4) -> bool:
    sure = detections.boxes_xyxy[detections.scores >= least_score]
    return bool(len(sure)) and float(overlaps(sure, walker.box(number)[None]).max()) >= 0.5


def test_walking_people_are_found_and_nothing_else() -> None:
    seen = detected(walk(12))
    for walker in TWO:
        assert sum(found(seen[number], walker, number) for number in range(1, 12)) >= 10
    assert sum(np.count_nonzero(result.scores >= 0.4) for result in seen) <= 2 * 11 + 2
    for result in seen:  # the contract of detections
        assert result.boxes_xyxy.dtype == result.scores.dtype == np.float32
        assert result.boxes_xyxy.shape == (len(result.scores), 4)
        assert (np.diff(result.scores) <= 0).all()
        assert ((result.scores >= 0) & (result.scores <= 1)).all()
        assert result.embeddings is not None
        assert result.embeddings.dtype == np.float32
        assert len(result.embeddings) == len(result.scores)
        np.testing.assert_allclose(np.linalg.norm(result.embeddings, axis=1), 1, atol=1e-5)


def test_a_restored_detector_continues_identically() -> None:
    frames = walk(5, [(0, 0), (1, 0), (2, 0)])
    whole = detected(frames)
    first, second = detector(), detector()
    for frame in frames[:3]:
        first.detect(frame)
    second.restore(first.state())
    for frame, wanted in zip(frames[3:], whole[3:], strict=True):
        assert_same(second.detect(frame), wanted)


def test_detectors_share_no_state_and_a_reset_one_equals_a_new_one() -> None:
    frames = walk(2, [(0, 0), (1, 0)])
    used, other = detector(), detector()
    for frame, wanted in zip(frames, detected(frames), strict=True):
        other.detect(frame_of([], frame.number, street=place()[::-1]))
        assert_same(used.detect(frame), wanted)
    used.reset()
    assert_same(used.detect(frames[1]), detected(frames[1:2])[0])


def test_an_invalid_state_is_refused() -> None:
    for state in (b"", b"nonsense", as_bytes({"known": np.zeros((0, 4))})):
        with pytest.raises(IntegrityError, match="cannot be read"):
            detector().restore(state)


def test_a_change_of_light_is_not_a_person() -> None:
    seen = detected([frame_of([], n, light=1.0 if n < 3 else 0.6) for n in range(6)])
    assert not any((result.scores >= 0.4).any() for result in seen)


def test_people_are_found_while_the_camera_shakes() -> None:
    shakes = [(0, 0), (2, -1), (-3, 2), (1, 3), (-2, -2)]
    seen = detected(walk(12, shakes))
    hits = 0
    for number in range(1, 12):
        for walker in TWO:
            right, down = shakes[number % 5]
            moved = walker._replace(left=walker.left + right, top=walker.top + down)
            hits += found(seen[number], moved, number)
    assert hits >= 18


def test_boxes_are_in_pixels_of_the_original_frame() -> None:
    frames = walk(6)
    large = [
        frame._replace(pixels=np.repeat(np.repeat(frame.pixels, 4, axis=0), 4, axis=1))
        for frame in frames
    ]
    model = BuiltinPedestrianDetector(BuiltinDetector(working_height_px=270))
    seen = [model.detect(frame) for frame in large]
    sure = seen[-1].boxes_xyxy[seen[-1].scores >= 0.4] / np.float32(4)
    for walker in TWO:
        assert overlaps(sure, walker.box(5)[None]).max() >= 0.5


def test_a_change_of_frame_size_is_accepted() -> None:
    model = detector()
    model.detect(frame_of(TWO, 0))
    other = frame_of([], 1, street=place(360, 240))
    assert model.detect(other).boxes_xyxy.shape[1] == 4


def test_frames_of_any_size_are_accepted(subtests: pytest.Subtests) -> None:
    for case, size in enumerate(((1, 1), (3, 400), (400, 3), (64, 64))):
        with subtests.test(case=case):
            model = detector()
            for number in range(3):
                pixels = np.full((*size, 3), 40 * number, np.uint8)
                assert not (model.detect(Frame(number, 0.0, pixels)).scores > 0.5).any()


@pytest.mark.slow
def test_people_of_a_real_street_are_found() -> None:
    """At most one of the people counted by eye (except those behind the sign) is missed."""
    if not REAL_VIDEO.is_file():
        unavailable(f"{REAL_VIDEO} is not on this machine")
    people = {100: 7, 200: 7, 300: 6}
    model = detector()
    with open_video(REAL_VIDEO) as reader:
        for frame in islice(reader.frames(), 0, None, 4):
            seen = model.detect(frame)
            if frame.number in people:
                sure = seen.boxes_xyxy[seen.scores >= 0.4]
                assert abs(len(sure) - people[frame.number]) <= 1, frame.number
                assert (sure[:, 3] - sure[:, 1] < 110).all()
            if frame.number == 300:
                break
