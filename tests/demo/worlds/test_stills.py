"""Drawn stills: captions are true, and the variants of a family differ in one detail."""

from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.demo.stills.scene import HEIGHT_PX, STRIP_BOX, WIDTH_PX, apart
from loupe.demo.stills.text import content_of
from loupe.demo.worlds.stills import (
    TASKS,
    StillTruth,
    compose,
    lay_out,
    load_stills_truth,
    write_stills_world,
)
from loupe.schemas.taxonomy import RetrievalTask
from loupe.sources.chance import Chance
from loupe.sources.importer import importer_for
from loupe.sources.records import SourceRow

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
    rows = list(importer_for("coco-captions").rows(home / "captions_test.json"))
    assert all(isinstance(row, SourceRow) for row in rows)
    assert [row.captions for row in rows if isinstance(row, SourceRow)] == [
        truth.captions for truth in truths
    ]


def test_a_shorter_world_of_the_same_seed_is_a_prefix(
    home: Path, tmp_path: Path, truths: tuple[StillTruth, ...]
) -> None:
    write_stills_world(tmp_path, 5, 12)
    for path in sorted((tmp_path / "images").iterdir()):
        assert path.read_bytes() == (home / "images" / path.name).read_bytes()
    assert load_stills_truth(tmp_path) == truths[:12]


def test_only_planted_pairs_share_a_scene_content(truths: tuple[StillTruth, ...]) -> None:
    own = [truth for truth in truths if truth.same_caption_as is None]
    planted = [truth for truth in truths if truth.same_caption_as is not None]
    assert (len(own), len(planted)) == (COUNT, PAIRS)
    assert len({truth.content for truth in own}) == COUNT
    assert {task for truth in own for task in [truth.task]} == set(TASKS)
    by_id = {truth.image_id: truth for truth in truths}
    for truth in planted:
        original = by_id[truth.same_caption_as or 0]
        assert truth.content == original.content
        assert truth.captions == original.captions
        assert truth.scene != original.scene


def test_variants_differ_from_the_first_in_one_detail(truths: tuple[StillTruth, ...]) -> None:
    family = defaultdict(list)
    for truth in truths[:COUNT]:
        family[truth.family].append(truth)
    for first, *variants in family.values():
        assert first.change is None
        for variant in variants:
            assert variant.change
            assert variant.task == first.task
            differing = [
                one != two for one, two in zip(first.content, variant.content, strict=True)
            ]
            assert sum(differing) == 1


@given(st.integers(0, 10**6), st.sampled_from(TASKS))
def test_things_do_not_overlap_and_keep_the_composed_relations(
    seed: int, task: RetrievalTask
) -> None:
    content = compose(Chance(seed), task)
    scene = lay_out(content, Chance(seed, "layout"))
    assert len(scene.things) == sum(group.number or 0 for group in content.groups)
    assert all(apart(one.box, two.box) for one, two in combinations(scene.things, 2))
    for thing in scene.things:
        left, top, right, bottom = thing.box
        assert 0 <= left < right <= WIDTH_PX
        assert 0 <= top < bottom <= STRIP_BOX[1] < HEIGHT_PX
    assert set(content.relations) <= set(content_of(scene).relations)
