"""Drawings are seen from pixels alone, on seeds that nothing was learnt from."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from PIL import Image

from benchmarks.stills_seeing import judged
from models.builtin.drawing.vocabulary import Place, Style
from models.builtin.stills.reading import content_of_image
from models.builtin.stills.seeing import fit, see_still
from schemas.retrieval_task import RetrievalTask
from sources.demonstration.stills.composing import Group, Relation, Scene, render_still
from sources.demonstration.stills.writing import draw_still, plan_stills

SEED = 2718


def test_what_is_drawn_is_seen() -> None:
    good: dict[str, Counter[str]] = defaultdict(Counter)
    asked: dict[str, Counter[str]] = defaultdict(Counter)
    for still in plan_stills(SEED, 90):
        picture, truth = draw_still(still, SEED)
        flat = "flat" if truth.scene.style is Style.FLAT else "styled"
        for name, right in judged(see_still(picture), truth):
            asked[flat][name] += 1
            good[flat][name] += right
    for name in ("kind", "count", "colour", "place", "style", "action", "nothing else"):
        assert good["flat"][name] >= 0.95 * asked["flat"][name], name
        assert good["styled"][name] >= 0.75 * asked["styled"][name], name


def test_where_things_are_is_seen(subtests: pytest.Subtests) -> None:
    for relation in Relation:
        with subtests.test(relation=relation):
            groups = (Group(kind="cat", colour="black"), Group(kind="box", colour="red"))
            wanted = {
                Relation.LEFT: ("cat", "left", "box"),
                Relation.RIGHT: ("box", "left", "cat"),
                Relation.ABOVE: ("cat", "above", "box"),
                Relation.ON: ("cat", "on", "box"),
            }[relation]
            scene = Scene(
                task=RetrievalTask.LOCATION, place=Place.BEACH, groups=groups, relation=relation
            )
            for seed in range(8):
                content = content_of_image(see_still(render_still(scene, seed).picture))
                assert content.relations == (wanted,)


@pytest.mark.parametrize("size", [(280, 210), (640, 480), (321, 241)])
def test_a_drawing_of_another_size_shows_the_same(size: tuple[int, int]) -> None:
    groups = (Group(kind="car", colour="blue", count=2), Group(kind="apple", colour="red"))
    scene = Scene(task=RetrievalTask.COUNT, place=Place.DESERT, groups=groups)
    picture = render_still(scene, 4).picture
    seen = see_still(picture.resize(size, Image.Resampling.BICUBIC))
    assert Counter((thing.kind, thing.colour) for thing in seen.things) == {
        ("car", "blue"): 2, ("apple", "red"): 1,
    }  # fmt: skip
    assert seen.place == "desert"


def test_nothing_is_claimed_of_what_is_no_still(subtests: pytest.Subtests) -> None:
    for kind in ("noise", "clouds", "white", "text"):
        with subtests.test(kind=kind):
            random = np.random.default_rng(1)
            pixels = np.full((300, 400, 3), 255, np.uint8)
            if kind == "noise":
                pixels = random.integers(0, 255, (300, 400, 3), np.uint8)
            picture = Image.fromarray(pixels)
            if kind == "clouds":
                small = Image.fromarray(random.integers(0, 255, (9, 12, 3), np.uint8))
                picture = small.resize((400, 300), Image.Resampling.BICUBIC)
            if kind == "text":
                from PIL import ImageDraw, ImageFont

                pen = ImageDraw.Draw(picture)
                pen.text((20, 90), "3/4 + 5/8", fill="black", font=ImageFont.load_default(size=60))
            seen = see_still(picture)
            assert seen.things == ()
            assert seen.place is None


def test_the_discriminant_tells_two_clouds_of_points_apart() -> None:
    random = np.random.default_rng(0)
    points = np.concatenate([random.normal(0, 1, (80, 5)), random.normal(2, 1, (80, 5))])
    found = fit(points.astype(np.float32), ["low"] * 80 + ["high"] * 80)
    right = [found.best(row.astype(np.float32))[0] == "low" for row in points]
    assert np.mean(right[:80]) > 0.95
    assert np.mean(right[80:]) < 0.05


def test_what_is_remembered_of_one_image_is_not_said_of_another() -> None:
    scene = Scene(
        task=RetrievalTask.COUNT, place=Place.DESERT, groups=(Group(kind="car", colour="blue"),)
    )
    picture = render_still(scene, 4).picture
    empty = Image.new("RGB", picture.size)
    lying = Image.frombytes("RGB", (picture.height, picture.width), picture.tobytes())
    seen = see_still(picture)
    assert seen.things
    assert see_still(empty) != seen
    assert see_still(lying) != seen
    assert see_still(picture.copy()) == seen
