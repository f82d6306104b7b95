"""Rendered frames: ground truth matches the pixels, and rendering is repeatable."""

from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray

from sources.demonstration.people import Chance, draw_person_attributes
from sources.demonstration.street import RenderedFrame, render_street
from sources.demonstration.street_script import (
    Camera,
    Place,
    Script,
    Stretch,
    Trouble,
    Visit,
    Waypoint,
)

_CAMERA = Camera(width_px=256, height_px=144, stature_px=84)


def _visit(number: int, *points: tuple[float, float, float]) -> Visit:
    path = tuple(Waypoint(seconds=seconds, x=x, z=z) for seconds, x, z in points)
    return Visit(number=number, identity=number, path=path)


_NEAR = _visit(1, (0, 0.0, 6.5), (1, 0.6, 6.5))
_FAR = _visit(2, (0, 0.25, 7.5), (1, -0.6, 7.5))


def _script(*visits: Visit, **changes: object) -> Script:
    return Script.model_validate(
        {
            "theme": "test",
            "camera": _CAMERA,
            "frame_rate": 8,
            "frame_count": 8,
            "people": {
                v.identity: draw_person_attributes(Chance("cast", v.identity)) for v in visits
            },
            "visits": visits,
        }
        | changes
    )


def _frames(script: Script, count: int = 1) -> list[RenderedFrame]:
    return list(islice(render_street(script, Chance("frames")), count))


def _changed(first: RenderedFrame, second: RenderedFrame) -> NDArray[np.bool_]:
    """Mask of the pixels that differ between two frames."""
    difference = np.abs(first.pixels.astype(int) - second.pixels.astype(int))
    return np.asarray(difference.max(axis=2) > 6)


def test_rendering_is_repeatable_and_depends_on_the_chance() -> None:
    script = _script(_NEAR)
    first, second = _frames(script, 3), _frames(script, 3)
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one.pixels, other.pixels)
        assert one.sightings == other.sightings
    elsewhere = next(render_street(script, Chance("other frames")))
    assert not np.array_equal(elsewhere.pixels, first[0].pixels)


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
    assert sighting.visible_xyxy == sighting.box_xyxy
    assert (sighting.inside, sighting.visible) == (1, 1)


def test_the_visible_share_of_an_occluded_person_matches_the_pixels() -> None:
    both, alone, near_only = (
        _frames(_script(*visits))[0] for visits in ((_NEAR, _FAR), (_FAR,), (_NEAR,))
    )
    near, far = sorted(both.sightings, key=lambda sighting: sighting.visit)
    assert near.visible == near.inside == 1
    assert far.inside == 1
    left, top, right, bottom = alone.sightings[0].box_xyxy
    assert far.box_xyxy == (left, top, right, bottom)
    body = (slice(top, bottom - 8), slice(left, right))
    whole = _changed(alone, _frames(_script())[0])[body].sum()
    seen = _changed(both, near_only)[body].sum()
    assert 0.15 < far.visible < 0.9
    assert far.visible == pytest.approx(seen / whole, abs=0.12)


def test_an_obstacle_hides_only_people_behind_it() -> None:
    frame = _frames(_script(_NEAR, _FAR, kiosk=Place(0.2, 7.0)))[0]
    near, far = sorted(frame.sightings, key=lambda sighting: sighting.visit)
    assert near.visible == 1
    assert far.visible < 0.1
    assert far.hidden > 0.9


def test_a_person_at_the_border_is_truncated() -> None:
    edge = _CAMERA.half_width_metres(6.5)
    frame = _frames(_script(_visit(1, (0, edge, 6.5), (1, edge + 1, 6.5))))[0]
    sighting = frame.sightings[0]
    assert sighting.box_xyxy[2] > 256
    assert sighting.visible_xyxy is not None
    assert sighting.visible_xyxy[2] == 256
    assert 0.2 < sighting.inside < 0.8
    assert sighting.visible == sighting.inside


def test_a_person_outside_the_frame_has_no_sighting() -> None:
    assert _frames(_script(_visit(1, (0, 30, 8), (1, 31, 8))))[0].sightings == ()


def test_frozen_frames_repeat_the_frame_before_while_time_continues() -> None:
    frozen = Stretch(trouble=Trouble.FROZEN, first_frame=2, last_frame=4)
    frames = _frames(_script(_NEAR, stretches=(frozen,)), 6)
    for frame in frames[2:5]:
        assert np.array_equal(frame.pixels, frames[1].pixels)
    assert [frame.sightings[0].frame for frame in frames] == list(range(6))
    smooth = _frames(_script(_NEAR), 3)
    assert frames[5].sightings[0].box_xyxy == smooth[2].sightings[0].box_xyxy
    assert frames[5].sightings[0].box_xyxy != frames[1].sightings[0].box_xyxy


def test_a_shaken_camera_moves_the_boxes() -> None:
    still = _visit(1, (0, 0, 6.5), (1, 0, 6.5))
    shaken = _CAMERA.model_copy(update={"shaken": True})
    frames = _frames(_script(still, camera=shaken, frame_rate=15), 8)
    corners = {frame.sightings[0].box_xyxy[:2] for frame in frames}
    assert len(corners) > 2


def test_blur_softens_edges() -> None:
    for trouble in (Trouble.DEFOCUS, Trouble.MOTION_BLUR):
        stretch = Stretch(trouble=trouble, first_frame=1, last_frame=1)
        frames = _frames(_script(_NEAR, stretches=(stretch,)), 2)
        assert _edges(frames[1].pixels) < 0.5 * _edges(frames[0].pixels), trouble


def _edges(pixels: NDArray[np.uint8]) -> float:
    grey = pixels.mean(axis=2)
    return float(np.maximum(0, np.abs(np.diff(grey, axis=1)) - 8).mean())


def test_noise_is_small_and_differs_from_frame_to_frame() -> None:
    empty = _frames(_script(), 2)
    difference = empty[0].pixels.astype(int) - empty[1].pixels.astype(int)
    assert 0.5 < difference.std() < 4
