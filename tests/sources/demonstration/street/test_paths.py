"""Paths through the street: positions, viewing directions and strides."""

import pytest

from sources.demonstration.figure import Action, View
from sources.demonstration.street_script import STRIDE_METRES, Place, Visit, Waypoint


def _visit(*points: tuple[float, float, float]) -> Visit:
    path = tuple(Waypoint(seconds=seconds, x=x, z=z) for seconds, x, z in points)
    return Visit(number=1, identity=1, path=path)


def test_a_visit_has_no_position_before_its_start_and_after_its_end() -> None:
    visit = _visit((1, 0, 8), (3, 4, 8))
    assert visit.place_at(0.99) is None
    assert visit.place_at(3.01) is None
    assert visit.place_at(2) == Place(2, 8)


def test_people_face_their_walking_direction(subtests: pytest.Subtests) -> None:
    cases: list[tuple[tuple[float, float], View]] = [
        ((4, 8), View.RIGHT),
        ((-4, 8), View.LEFT),
        ((0, 4), View.FRONT),
        ((0, 12), View.BACK),
    ]
    for end, view in cases:
        with subtests.test(view=view):
            visit = _visit((0, 0, 8), (3, *end))
            assert visit.pose_at(1.5, phases=8).view is view


def test_one_stride_is_one_full_leg_cycle() -> None:
    visit = _visit((0, 0, 8), (10, 10 * STRIDE_METRES, 8))
    phases = [visit.pose_at(0.5 + step / 8 + 0.01, phases=8).phase for step in range(9)]
    assert sorted(phases[:8]) == [step / 8 for step in range(8)]
    assert phases[8] == phases[0]


def test_a_standing_person_keeps_direction_and_pose() -> None:
    visit = _visit((0, 0, 8), (2, 3, 8), (4, 3, 8), (6, 3, 12))
    poses = {visit.pose_at(2.4 + step / 10, phases=8) for step in range(13)}
    assert len(poses) == 1
    pose = poses.pop()
    assert pose.action is Action.STANDING
    assert pose.view is View.RIGHT
    assert visit.standing() == [(2, 4)]
