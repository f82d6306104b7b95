"""A world of stills: what is written is what is drawn, and what is said of it is true."""

import json
import re
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from models.builtin.drawing.people_and_signs import Figure
from models.builtin.drawing.vocabulary import COLOURS, KINDS, Action, Place, Style
from schemas.errors import ConfigurationError
from schemas.retrieval_task import RetrievalTask
from sources.coco import COCO_CAPTIONS
from sources.demonstration.people import Chance
from sources.demonstration.stills import StillTruth, load_stills_truth, write_stills_world
from sources.demonstration.stills.composing import (
    TASKS,
    Group,
    Relation,
    Scene,
    compose,
    render_still,
    vary,
)
from sources.demonstration.stills.writing import captions_of, facts_of
from sources.records import SourceRow

COUNT, PAIRS = 48, 6


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stills")
    write_stills_world(folder, 5, COUNT, same_caption_pairs=PAIRS)
    return folder


@pytest.fixture(scope="module")
def truths(home: Path) -> tuple[StillTruth, ...]:
    return load_stills_truth(home)


def test_the_importer_reads_every_image_with_five_captions(
    home: Path, truths: tuple[StillTruth, ...]
) -> None:
    rows = list(COCO_CAPTIONS.rows(home / "captions_test.json"))
    assert all(isinstance(row, SourceRow) for row in rows)
    assert [row.captions for row in rows if isinstance(row, SourceRow)] == [
        truth.captions for truth in truths
    ]


def test_equal_seeds_give_equal_bytes_and_a_longer_world_starts_alike(
    home: Path, tmp_path: Path, truths: tuple[StillTruth, ...]
) -> None:
    write_stills_world(tmp_path, 5, 12, captions=False)
    for path in sorted((tmp_path / "images").iterdir()):
        assert path.read_bytes() == (home / "images" / path.name).read_bytes()
    assert load_stills_truth(tmp_path) == truths[:12]
    assert json.loads((tmp_path / "captions_test.json").read_text("utf-8"))["annotations"] == []


def test_no_two_scenes_are_alike_but_in_planted_pairs(truths: tuple[StillTruth, ...]) -> None:
    own = [truth for truth in truths if truth.same_caption_as is None]
    planted = [truth for truth in truths if truth.same_caption_as is not None]
    assert (len(own), len(planted)) == (COUNT, PAIRS)
    assert len({truth.scene.key() for truth in own}) == COUNT
    assert {task for truth in own for task in [truth.task]} == set(TASKS)
    by_id = {truth.image_id: truth for truth in truths}
    for truth in planted:
        original = by_id[truth.same_caption_as or 0]
        assert truth.scene == original.scene
        assert truth.captions == original.captions
        assert truth.things != original.things


def test_variants_differ_from_the_first_in_what_they_say(truths: tuple[StillTruth, ...]) -> None:
    family = defaultdict(list)
    for truth in truths[:COUNT]:
        family[truth.family].append(truth)
    for first, *variants in family.values():
        assert first.change is None
        for variant in variants:
            assert variant.change
            assert variant.task == first.task
            one, two = first.scene.model_dump(), variant.scene.model_dump()
            assert sum(one[field] != two[field] for field in one) == 1


def test_more_pairs_than_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="at most count; got 3 of 2"):
        write_stills_world(tmp_path, 1, 2, same_caption_pairs=3)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(TASKS))
def test_captions_and_facts_name_everything_that_is_drawn(seed: int, task: RetrievalTask) -> None:
    chance = Chance(seed)
    scene, _ = vary(chance, compose(chance, task))
    captions, facts = captions_of(scene, seed), facts_of(scene)
    assert len(set(captions)) == 5
    for text in (*captions, " ".join(facts)):
        for group in scene.groups:
            noun = group.kind if group.count == 1 else KINDS[group.kind].plural
            assert re.search(rf"\b{group.colour} {noun}\b", text)
        assert not re.search(r"\ban? (?:\w+ )?\w+s who\b|\ba [aeiou]|\ban [^aeiou]", text)
        if scene.sign:
            assert f'"{scene.sign}"' in text
        if scene.figure:
            assert scene.figure.action.value in text


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(TASKS))
def test_nothing_hides_anything(seed: int, task: RetrievalTask) -> None:
    scene = compose(Chance(seed), task)
    picture, placed = render_still(scene, seed)
    assert picture.size == (320, 240)
    wanted = sum(group.count for group in scene.groups)
    assert len(placed) == wanted + bool(scene.figure) + bool(scene.sign)
    for one, two in combinations(placed, 2):
        assert (
            one.left + one.width < two.left
            or two.left + two.width < one.left
            or one.top + one.height < two.top
            or two.top + two.height < one.top
        )


def test_a_thing_is_mostly_of_its_colour(subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            for colour in KINDS[kind].colours:
                scene = Scene(
                    task=RetrievalTask.COLOR,
                    place=Place.STREET,
                    groups=(Group(kind=kind, colour=colour),),
                )
                picture, (box,) = render_still(scene, 1)
                inside = np.asarray(picture, np.int64)[
                    int(box.top) : int(box.top + box.height),
                    int(box.left) : int(box.left + box.width),
                ].reshape(-1, 3)
                nearest = (
                    np.abs(inside[:, None] - np.array([COLOURS[colour]])).max(axis=2).min(axis=1)
                )
                assert (nearest < 12).mean() > 0.08


def test_relations_are_as_drawn() -> None:
    groups = (Group(kind="cat", colour="black"), Group(kind="box", colour="red"))
    for relation in Relation:
        for seed in range(5):
            scene = Scene(
                task=RetrievalTask.LOCATION, place=Place.PARK, groups=groups, relation=relation
            )
            one, two = sorted(render_still(scene, seed).placed)[::-1][-2:][::-1]
            assert (one.group, two.group) in ((0, 1), (1, 0))
            cat, box = (one, two) if one.group == 0 else (two, one)
            if relation is Relation.LEFT:
                assert cat.left + cat.width < box.left
            elif relation is Relation.RIGHT:
                assert box.left + box.width < cat.left
            else:
                assert cat.top + cat.height < box.top
                assert (box.top - cat.top - cat.height < 10) == (relation is Relation.ON)


def test_styles_look_different_and_keep_the_ink(subtests: pytest.Subtests) -> None:
    for style in Style:
        with subtests.test(style=style):
            figure = Figure(action=Action.WAVING, shirt="red", trousers="blue")
            scene = Scene(task=RetrievalTask.FIGURE, place=Place.PARK, style=style, figure=figure)
            pixels = np.asarray(render_still(scene, 2).picture, np.float64)
            flat = np.asarray(
                render_still(scene.model_copy(update={"style": Style.FLAT}), 2).picture, np.float64
            )
            assert (np.abs(pixels - flat).mean() > 5) == (style is not Style.FLAT)
            assert (pixels.max(axis=2) < 60).sum() > 150


def test_truth_says_where_things_are(home: Path, truths: tuple[StillTruth, ...]) -> None:
    for truth in truths[:12]:
        with Image.open(home / "images" / truth.file_name) as picture:
            assert picture.size == (320, 240)
        for thing in truth.things:
            assert 0 <= thing.left < thing.right <= 320
            assert 0 <= thing.top < thing.bottom <= 240
