"""Written street worlds: the videos decode and match their ground truth."""

from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from sources.demonstration.street import (
    FaultKind,
    StreetTruth,
    TrueVideo,
    load_street_truth,
    write_street_world,
)

_SIZE = (192, 108)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("street")
    write_street_world(target, 7, 4, seconds=6, people=5, size_px=_SIZE, frame_rate=8)
    return target


@pytest.fixture(scope="module")
def truth(folder: Path) -> StreetTruth:
    return load_street_truth(folder)


def _frames(folder: Path, video: TrueVideo) -> list[NDArray[np.uint8]]:
    with av.open(str(folder / video.file_path)) as container:
        frames = (frame.to_ndarray(format="rgb24") for frame in container.decode(video=0))
        return [np.asarray(frame, np.uint8) for frame in frames]


def _faulty_frames(video: TrueVideo, kind: FaultKind) -> set[int]:
    """Frames with a fault of this kind that affects the whole frame."""
    return {
        frame
        for fault in video.faults
        if fault.kind is kind and not fault.visits
        for frame in range(fault.first_frame, fault.last_frame + 1)
    }


def test_videos_have_the_size_and_frame_count_of_the_truth(
    folder: Path, truth: StreetTruth
) -> None:
    assert len(truth.videos) == 5
    for video in truth.videos:
        frames = _frames(folder, video)
        assert len(frames) == video.frame_count == 48
        assert frames[0].shape == (video.height_px, video.width_px, 3)
        with av.open(str(folder / video.file_path)) as container:
            assert container.streams.video[0].average_rate == 8


def test_only_frames_with_a_darkness_fault_are_dark(folder: Path, truth: StreetTruth) -> None:
    dark_frames = 0
    for video in truth.videos:
        dark = _faulty_frames(video, FaultKind.DARKNESS)
        dark_frames += len(dark)
        for number, frame in enumerate(_frames(folder, video)):
            assert (frame.mean() < 35) == (number in dark)
    assert dark_frames > 3


def test_duplicate_frames_look_like_the_frame_before(folder: Path, truth: StreetTruth) -> None:
    video = truth.videos[0]
    frozen = _faulty_frames(video, FaultKind.DUPLICATE)
    assert frozen
    frames = [frame.astype(int) for frame in _frames(folder, video)]
    changes = [np.abs(b - a).mean() for a, b in pairwise(frames)]
    still = [change for number, change in enumerate(changes, 1) if number in frozen]
    moving = [change for number, change in enumerate(changes, 1) if number not in frozen]
    assert max(still) < 0.5 * float(np.median(moving))


def test_the_copied_video_has_equal_content_and_other_bytes(
    folder: Path, truth: StreetTruth
) -> None:
    first, copy = truth.videos[:2]
    assert [video.same_content_as for video in truth.videos] == [None, first.name, None, None, None]
    assert copy.sightings == first.sightings
    assert (folder / copy.file_path).read_bytes() != (folder / first.file_path).read_bytes()
    for ours, theirs in zip(_frames(folder, first), _frames(folder, copy), strict=True):
        assert np.abs(ours.astype(int) - theirs.astype(int)).mean() < 6


def test_every_kind_of_fault_occurs(truth: StreetTruth) -> None:
    found = {kind for video in truth.videos for _, kinds in video.faulty() for kind in kinds}
    assert found == set(FaultKind)


def test_truncation_and_occlusion_follow_the_shares_of_a_sighting(truth: StreetTruth) -> None:
    for video in truth.videos:
        for sighting, kinds in video.faulty():
            assert (FaultKind.TRUNCATION in kinds) == (sighting.inside < 0.98)
            assert (FaultKind.OCCLUSION in kinds) == (sighting.hidden >= 0.3)


def test_people_who_enter_or_leave_are_truncated(truth: StreetTruth) -> None:
    video = truth.videos[0]
    kinds = {(s.visit, s.frame): kinds for s, kinds in video.faulty()}
    entering = [v for v in video.visits if v.first_frame > 0]
    leaving = [v for v in video.visits if v.last_frame < video.frame_count - 1]
    assert entering
    assert leaving
    for visit in entering:
        assert FaultKind.TRUNCATION in kinds[visit.number, visit.first_frame]
    for visit in leaving:
        assert FaultKind.TRUNCATION in kinds[visit.number, visit.last_frame]


def test_the_mot_file_matches_the_truth(folder: Path, truth: StreetTruth) -> None:
    for video in truth.videos:
        rows = np.loadtxt(folder / video.mot_path, delimiter=",", ndmin=2)
        assert len(rows) == len(video.sightings)
        known = {(s.frame + 1, s.visit): s for s in video.sightings}
        for frame, visit, left, top, width, height, considered, kind, visibility in rows:
            sighting = known[int(frame), int(visit)]
            assert (left, top, left + width, top + height) == sighting.box_xyxy
            assert visibility == pytest.approx(sighting.visible, abs=1e-4)
            assert considered == (sighting.visible >= 0.1)
            assert kind == 1


def test_one_person_visits_twice(truth: StreetTruth) -> None:
    video = truth.videos[0]
    visits = [visit for visit in video.visits if visit.identity == 3]
    assert len(visits) == 2
    assert visits[0].last_frame < visits[1].first_frame
    assert video.identity_of(visits[1].number) == 3


def test_every_person_is_in_one_video_and_has_two_descriptions(truth: StreetTruth) -> None:
    originals = [video for video in truth.videos if video.same_content_as is None]
    people = [person for video in originals for person in video.people]
    assert len({person.identity for person in people}) == len(people)
    assert len({person.person for person in people}) == len(people)
    for person in people:
        assert len(set(person.descriptions)) == 2
        assert all(len(text.split()) > 30 for text in person.descriptions)


def test_files_are_repeatable_and_depend_on_the_seed(tmp_path: Path) -> None:
    def written(name: str, seed: int) -> dict[str, bytes]:
        home = tmp_path / name
        write_street_world(home, seed, 1, 0.4, people=1, size_px=(96, 64), frame_rate=5)
        return {
            path.relative_to(home).as_posix(): path.read_bytes()
            for path in sorted(home.rglob("*"))
            if path.is_file()
        }

    first, again, other = written("first", 7), written("again", 7), written("other", 8)
    assert first == again
    assert first["videos/street-01.mp4"] != other["videos/street-01.mp4"]


def test_a_street_without_people_can_be_written(tmp_path: Path) -> None:
    world = write_street_world(
        tmp_path, 7, 1, 0.5, people=0, size_px=(64, 128), frame_rate=4, copy_first=False
    )
    video = load_street_truth(tmp_path).videos[0]
    assert world.videos == (tmp_path / "videos/street-01.mp4",)
    assert (video.people, video.visits, video.sightings) == ((), (), ())
    assert len(_frames(tmp_path, video)) == 2
    assert (tmp_path / video.mot_path).read_text() == ""


def test_odd_sizes_and_negative_numbers_of_people_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be even; got 65x64"):
        write_street_world(tmp_path, people=0, seconds=1, size_px=(65, 64))
    with pytest.raises(ValueError, match="must be 0 or more; got -1"):
        write_street_world(tmp_path, people=-1)
