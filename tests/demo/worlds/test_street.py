"""Street videos: frames match their ground truth, and files can be decoded and repeated."""

from itertools import islice, pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from loupe.demo.worlds.figure import View
from loupe.demo.worlds.people import draw_person_attributes
from loupe.demo.worlds.street import (
    DETECTIONS,
    RenderedFrame,
    TrueVideo,
    load_street_truth,
    render_street,
    write_street_world,
)
from loupe.demo.worlds.street_script import (
    Camera,
    FaultKind,
    Script,
    Stretch,
    Visit,
    Waypoint,
)
from loupe.sources.chance import Chance
from loupe.sources.motchallenge import read_boxes

_CAMERA = Camera(width_px=256, height_px=144, stature_px=84)


def _visit(number: int, *points: tuple[float, float, float]) -> Visit:
    path = tuple(Waypoint(*point) for point in points)
    return Visit(number=number, identity=number, path=path)


def test_people_face_their_walking_direction() -> None:
    ends = {View.RIGHT: (4, 8), View.LEFT: (-4, 8), View.FRONT: (0, 4), View.BACK: (0, 12)}
    for view, end in ends.items():
        assert _visit(1, (0, 0, 8), (3, *end)).pose_at(1.5, phases=8).view is view


_NEAR = _visit(1, (0, 0.0, 6.5), (1, 0.6, 6.5))
_FAR = _visit(2, (0, 0.25, 7.5), (1, -0.6, 7.5))


def _script(*visits: Visit, **changes: object) -> Script:
    people = {v.identity: draw_person_attributes(Chance("cast", v.identity)) for v in visits}
    values = {"theme": "test", "camera": _CAMERA, "frame_rate": 8, "frame_count": 8}
    return Script.model_validate({**values, "people": people, "visits": visits, **changes})


def _frames(script: Script, count: int = 1) -> list[RenderedFrame]:
    return list(islice(render_street(script, Chance("frames")), count))


def _changed(first: RenderedFrame, second: RenderedFrame) -> NDArray[np.bool_]:
    """Mask of the pixels that differ between two frames."""
    difference = np.abs(first.pixels.astype(int) - second.pixels.astype(int))
    return np.asarray(difference.max(axis=2) > 6)


def test_a_box_fits_its_person_tightly() -> None:
    frame, empty = _frames(_script(_NEAR))[0], _frames(_script())[0]
    sighting = frame.sightings[0]
    left, top, right, bottom = sighting.box_xyxy
    changed = _changed(frame, empty)
    changed[bottom - 8 :] = False  # the shadow around the feet is outside the box
    rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
    assert abs(rows[0] - top) <= 1
    assert left - 2 <= columns[0]
    assert columns[-1] <= right + 1
    assert abs((bottom - top) - _CAMERA.scale_at(6.5) * 1.76) < 12
    assert (sighting.inside, sighting.visible) == (1, 1)


def test_the_visible_share_of_an_occluded_person_matches_the_pixels() -> None:
    both, alone, near_only = (
        _frames(_script(*visits))[0] for visits in ((_NEAR, _FAR), (_FAR,), (_NEAR,))
    )
    near, far = sorted(both.sightings, key=lambda sighting: sighting.visit)
    assert near.visible == near.inside == far.inside == 1
    left, top, right, bottom = alone.sightings[0].box_xyxy
    assert far.box_xyxy == (left, top, right, bottom)
    body = (slice(top, bottom - 8), slice(left, right))
    whole = _changed(alone, _frames(_script())[0])[body].sum()
    seen = _changed(both, near_only)[body].sum()
    assert 0.15 < far.visible < 0.9
    assert far.visible == pytest.approx(seen / whole, abs=0.12)


def test_a_person_at_the_border_is_truncated() -> None:
    edge = _CAMERA.half_width_metres(6.5)
    [sighting] = _frames(_script(_visit(1, (0, edge, 6.5), (1, edge + 1, 6.5))))[0].sightings
    assert sighting.box_xyxy[2] > 256
    assert 0.2 < sighting.inside < 0.8
    assert sighting.visible == sighting.inside
    assert _frames(_script(_visit(1, (0, 30, 8), (1, 31, 8))))[0].sightings == ()


def test_frozen_frames_repeat_the_frame_before_while_time_continues() -> None:
    frozen = Stretch(kind=FaultKind.DUPLICATE, first_frame=2, last_frame=4)
    frames, smooth = _frames(_script(_NEAR, fault=frozen), 6), _frames(_script(_NEAR), 3)
    for frame in frames[2:5]:
        assert np.array_equal(frame.pixels, frames[1].pixels)
    assert [frame.sightings[0].frame for frame in frames] == list(range(6))
    assert frames[5].sightings[0].box_xyxy == smooth[2].sightings[0].box_xyxy
    assert frames[5].sightings[0].box_xyxy != frames[1].sightings[0].box_xyxy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("street")
    write_street_world(target, 7, 4, seconds=6, people=5, size_px=(192, 108), frame_rate=8)
    return target


@pytest.fixture(scope="module")
def videos(folder: Path) -> tuple[TrueVideo, ...]:
    return load_street_truth(folder)


def _decoded(folder: Path, video: TrueVideo) -> list[NDArray[np.int16]]:
    with av.open(str(folder / video.file_path)) as container:
        assert container.streams.video[0].average_rate == video.frame_rate
        frames = (frame.to_ndarray(format="rgb24") for frame in container.decode(video=0))
        return [np.asarray(frame, np.int16) for frame in frames]


def _frames_with(kind: FaultKind, video: TrueVideo) -> set[int]:
    fault = video.fault
    return {at for at in range(48) if fault and fault.kind is kind and fault.holds(at)}


def test_videos_have_the_frames_and_the_faults_of_the_truth(
    folder: Path, videos: tuple[TrueVideo, ...]
) -> None:
    first, copy, *others = videos
    assert [video.same_content_as for video in videos] == [None, first.name, None, None, None]
    for video in (first, *others):
        frames, dark = _decoded(folder, video), _frames_with(FaultKind.DARKNESS, video)
        assert len(frames) == 48
        assert frames[0].shape == (108, 192, 3)
        assert {number for number, frame in enumerate(frames) if frame.mean() < 35} == dark
        frozen = _frames_with(FaultKind.DUPLICATE, video)
        changes = [float(np.abs(b - a).mean()) for a, b in pairwise(frames)]
        still = [change for number, change in enumerate(changes, 1) if number in frozen]
        moving = [change for number, change in enumerate(changes, 1) if number not in frozen]
        assert max(still, default=0.0) < 0.5 * float(np.median(moving))
    assert copy.sightings == first.sightings
    assert (folder / copy.file_path).read_bytes() != (folder / first.file_path).read_bytes()
    for ours, theirs in zip(_decoded(folder, first), _decoded(folder, copy), strict=True):
        assert np.abs(ours - theirs).mean() < 6


def test_detections_have_the_stated_noise(folder: Path, videos: tuple[TrueVideo, ...]) -> None:
    visible = missed = 0
    errors: list[float] = []
    for video in videos:
        boxes, _ = read_boxes(folder / DETECTIONS / f"{video.name}.txt")
        found = dict(boxes.by_frame())
        for one in video.sightings:
            if one.visible < 0.3:
                continue
            visible += 1
            left, top, right, bottom = one.box_xyxy
            true = np.array([left, top, right - left, bottom - top])
            here = found[one.frame + 1].boxes_tlwh if one.frame + 1 in found else np.empty((0, 4))
            off = np.abs(here - true).max(axis=1) / (bottom - top)
            missed += not (off < 0.2).any()
            if (off < 0.2).any():
                errors += ((here[off.argmin()] - true)[:2] / (bottom - top)).tolist()
    assert 0.005 < missed / visible < 0.06
    assert np.std(errors) == pytest.approx(0.02, rel=0.2)


def test_every_kind_of_fault_occurs(videos: tuple[TrueVideo, ...]) -> None:
    faults = {kind for video in videos for _, kinds in video.faulty() for kind in kinds}
    assert faults == set(FaultKind)


def test_one_person_visits_twice_and_nobody_is_in_two_videos(
    videos: tuple[TrueVideo, ...],
) -> None:
    visits = [number for number, person in videos[0].identities.items() if person == 3]
    assert len(visits) == 2
    people = [set(video.identities.values()) for video in videos[1:]]
    assert len(set.union(*people)) == sum(map(len, people)) > 15


def test_files_are_repeatable_and_depend_on_the_seed(tmp_path: Path) -> None:
    def written(name: str, seed: int) -> dict[str, bytes]:
        home = tmp_path / name
        write_street_world(home, seed, 1, 0.4, people=1, size_px=(96, 64), frame_rate=5)
        files = [path for path in sorted(home.rglob("*")) if path.is_file()]
        return {path.relative_to(home).as_posix(): path.read_bytes() for path in files}

    first, again, other = written("first", 7), written("again", 7), written("other", 8)
    assert first == again
    assert first["videos/street-01.mp4"] != other["videos/street-01.mp4"]


def test_a_street_without_people_can_be_written(tmp_path: Path) -> None:
    size = (64, 128)
    write_street_world(tmp_path, 7, 1, 0.5, people=0, size_px=size, frame_rate=4, copy_first=False)
    [video] = load_street_truth(tmp_path)
    assert (video.identities, video.sightings) == ({}, ())
    assert len(_decoded(tmp_path, video)) == 2
