"""`list_faults` returns the planted faults and those that follow from the sightings."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sources.demonstration.people import Chance
from sources.demonstration.street_script import (
    Camera,
    FaultKind,
    PixelBox,
    Script,
    Theme,
    Trouble,
    TrueSighting,
    dressed_alike,
    list_faults,
    overlap,
    write_script,
)

_CAMERA = Camera(width_px=256, height_px=144, stature_px=84)


def _script(theme: Theme, people: int = 6, first: int = 1) -> Script:
    return write_script(_CAMERA, 10, 10, people, theme, first, Chance(theme, people))


def _sighting(frame: int, visit: int, left: int, **shares: float) -> TrueSighting:
    box = (left, 10, left + 40, 110)
    values = {"inside": 1.0, "visible": 1.0} | shares
    return TrueSighting(frame=frame, visit=visit, box_xyxy=box, visible_xyxy=box, **values)


def test_truncation_and_occlusion_last_exactly_as_long_as_the_shares_are_low() -> None:
    script = _script(Theme.HAND_HELD)
    sightings = [
        _sighting(3, 1, 0, inside=0.97, visible=0.97),
        _sighting(4, 1, 0, inside=0.5, visible=0.5),
        _sighting(5, 1, 0),
        _sighting(7, 1, 0, visible=0.7),
        _sighting(8, 1, 0, visible=0.71),
    ]
    faults = [fault for fault in list_faults(script, sightings) if fault.visits]
    assert [(f.kind, f.first_frame, f.last_frame) for f in faults] == [
        (FaultKind.TRUNCATION, 3, 4),
        (FaultKind.OCCLUSION, 7, 7),
    ]


def test_crossing_people_are_an_identity_switch_fault_with_its_cause() -> None:
    script = _script(Theme.CROSSINGS)
    sightings = [_sighting(frame, 1, 10 * frame) for frame in range(20)]
    sightings += [_sighting(frame, 2, 200 - 10 * frame) for frame in range(20)]
    crossings = [
        fault for fault in list_faults(script, sightings) if fault.kind is FaultKind.IDENTITY_SWITCH
    ]
    assert [(c.visits, c.cause) for c in crossings] == [((1, 2), "alike")]
    assert (crossings[0].first_frame, crossings[0].last_frame) == (9, 11)


def test_every_theme_plants_its_troubles() -> None:
    cases: dict[Theme, set[Trouble]] = {
        Theme.CROSSINGS: {Trouble.FROZEN},
        Theme.OBSTACLES: set(),
        Theme.HAND_HELD: {Trouble.DEFOCUS, Trouble.MOTION_BLUR},
        Theme.EVENING: {Trouble.LIGHTS_OUT},
    }
    for theme, troubles in cases.items():
        script = _script(theme)
        assert {stretch.trouble for stretch in script.stretches} == troubles, theme
        listed = [fault for fault in list_faults(script, []) if not fault.visits]
        assert [(f.first_frame, f.last_frame) for f in listed] == [
            (stretch.first_frame, stretch.last_frame) for stretch in script.stretches
        ], theme


def test_people_dressed_alike_are_different_people() -> None:
    one, other, third, *_ = _script(Theme.CROSSINGS).people.values()
    assert dressed_alike(one, other)
    assert other != one
    assert not dressed_alike(one, third)


def test_a_script_has_as_many_people_as_asked_for() -> None:
    for people, theme in itertools.product((0, 1, 2, 3, 6, 30), Theme):
        script = _script(theme, people, 5)
        assert sorted(script.people) == list(range(5, 5 + people)), (people, theme)
        assert {visit.identity for visit in script.visits} == set(script.people), (people, theme)
        numbers = {visit.number for visit in script.visits}
        assert len(numbers) == len(script.visits), (people, theme)


_SIDE = st.integers(0, 50)
_BOX = st.tuples(_SIDE, _SIDE, st.integers(51, 99), st.integers(51, 99))


@given(_BOX, _BOX)
def test_overlap_is_symmetric_and_one_for_equal_boxes(first: PixelBox, second: PixelBox) -> None:
    assert overlap(first, first) == 1
    assert overlap(first, second) == overlap(second, first)
    assert 0 <= overlap(first, second) <= 1
