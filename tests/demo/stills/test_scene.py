"""A scene is read from the coded strip of its drawing only."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from loupe.demo.stills.drawing import draw_still
from loupe.demo.stills.scene import (
    COLOURS,
    GARMENTS,
    KINDS,
    SIZES,
    STYLES,
    THINGS,
    Scene,
    Thing,
    read_scene,
)
from loupe.demo.worlds.stills import jpeg_of, plan_stills

SEED = 2718


def test_the_scene_read_from_a_still_equals_the_drawn_scene() -> None:
    for truth in plan_stills(SEED, 15):
        with Image.open(io.BytesIO(jpeg_of(draw_still(truth.scene)))) as picture:
            assert read_scene(picture.convert("RGB")) == truth.scene


def test_a_resized_still_is_read() -> None:
    for truth in plan_stills(SEED, 3):
        still = draw_still(truth.scene)
        for size in ((200, 150), (280, 210), (321, 241), (532, 392), (640, 480)):
            resized = still.resize(size, Image.Resampling.BICUBIC)
            with Image.open(io.BytesIO(jpeg_of(resized))) as picture:
                assert read_scene(picture.convert("RGB")) == truth.scene, size


_THINGS = st.builds(
    lambda *values: Thing(*values),
    st.sampled_from(THINGS),
    st.sampled_from(tuple(COLOURS)),
    st.integers(0, 159).map(lambda half: 2 * half),
    st.integers(0, 119).map(lambda half: 2 * half),
    st.integers(12, 75).map(lambda half: 2 * half),
    st.sampled_from(SIZES),
    st.booleans(),
)


@settings(max_examples=10)
@given(st.lists(_THINGS, max_size=6))
def test_eight_objects_at_any_position_fit_into_the_strip(things: list[Thing]) -> None:
    worn = tuple((garment, "red") for garment in GARMENTS)
    person = Thing("person", None, 20, 200, 112, action="waving", clothes=worn)
    sign = Thing("sign", None, 200, 200, 84, word="OPEN")
    scene = Scene("park", STYLES[0], 65535, (person, sign, *things))
    assert read_scene(draw_still(scene)) == scene


def test_a_scene_that_does_not_fit_into_the_strip_is_refused() -> None:
    thing = Thing("ball", "red", 0, 100, 60)
    with pytest.raises(ValueError, match="cannot be coded"):
        draw_still(Scene("park", STYLES[0], 0, (thing,) * 16))


def test_no_scene_is_read_from_other_images(subtests: pytest.Subtests) -> None:
    random = np.random.default_rng(1)
    still = draw_still(next(plan_stills(SEED, 1)).scene)
    damaged = np.array(still)
    damaged[-4:, 100:104] = 255 - damaged[-4:, 100:104].astype(int) // 2
    coarse = Image.fromarray(random.integers(0, 255, (9, 12, 3), np.uint8))
    pictures = {
        "noise": Image.fromarray(random.integers(0, 255, (240, 320, 3), np.uint8)),
        "clouds": coarse.resize((400, 300), Image.Resampling.BICUBIC),
        "white": Image.new("RGB", (320, 240), "white"),
        "cut": still.crop((0, 0, 320, 230)),
        "a still with another square": Image.fromarray(damaged),
        "a still upside down": still.rotate(180),
    }
    for name, picture in pictures.items():
        with subtests.test(name=name):
            assert read_scene(picture) is None


def test_every_kind_is_drawn_in_its_colours_within_its_box(subtests: pytest.Subtests) -> None:
    empty = np.asarray(draw_still(Scene("street", STYLES[0], 5, ())), int)[:224]
    for kind in THINGS:
        for colour in KINDS[kind].colours[:2]:
            with subtests.test(kind=kind, colour=colour):
                thing = Thing(kind, colour, 100, 200, 90)
                drawn = np.asarray(draw_still(Scene("street", STYLES[0], 5, (thing,))), int)[:224]
                changed = np.abs(drawn - empty).max(axis=2) > 8
                left, top, right, bottom = (round(edge) for edge in thing.box)
                inside = np.s_[top - 2 : bottom + 3, left - 2 : right + 3]
                near = np.abs(drawn[inside] - np.array(COLOURS[colour])).max(axis=2) < 12
                assert near.mean() > 0.08
                changed[inside] = False
                assert not changed.any()
