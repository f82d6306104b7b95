"""Reading and validating `samples.json` of a contrastive benchmark."""

from typing import Any

import pytest

from loupe.retrieval.contrastive import contrastive_samples
from loupe.schemas.errors import FormatError
from loupe.schemas.taxonomy import DifferenceType
from tests.retrieval.contrastive_world import sample

GROUP = [
    sample("b_1.jpg", "b", "Scene Type"),
    sample("a.jpg", "a"),
    sample("b.jpg", "b"),
    sample("b_2.jpg", "b", "Entity Emotion"),
]


def test_anchors_are_found_in_any_order() -> None:
    samples = contrastive_samples(GROUP, "samples.json")
    assert len(samples) == 4
    assert samples.images == ("b_1.jpg", "a.jpg", "b.jpg", "b_2.jpg")
    assert samples.anchors.tolist() == [2, 1, 2, 2]
    assert samples.is_original.tolist() == [False, True, True, False]
    assert samples.contrastive.tolist() == [0, 3]
    assert samples.pair_differences == [DifferenceType.SCENE_TYPE, DifferenceType.ENTITY_EMOTION]


BROKEN: dict[str, tuple[Any, str]] = {
    "no list": ({"image": "a"}, r"s\.json must be a list of at least one sample; got {'image'"),
    "empty": ([], r"s\.json must be a list of at least one sample; got \[\]"),
    "no object": (
        ["a.jpg"],
        r"s\.json: sample 0 \(from 0\): it must be a table of keys",
    ),
    "a field missing": (
        [sample("a", "a"), {"image": "b", "group": "b"}],
        r"s\.json: sample 1 \(from 0\): contrastive_type is missing",
    ),
    "a name that is a number": (
        [sample("a", "a"), {**sample("b", "b"), "group": 7}],
        r"sample 1 \(from 0\): group: must be a text, got 7",
    ),
    "a type misspelled": (
        [sample("a", "a"), sample("b", "a", "entity emotions")],
        r"contrastive_type: .*got 'entity emotions'; did you mean 'Entity Emotion'\?",
    ),
    "a type that is a number": (
        [sample("a", "a"), {**sample("b", "a"), "contrastive_type": 3}],
        r"contrastive_type: must be 'Entity Type', 'Entity Attribute'.*got 3",
    ),
    "an image twice": (
        [sample("a", "a"), sample("b", "b"), sample("a", "b", "Scene Type")],
        r"must list each image once; 'a' is sample 0 and sample 2",
    ),
    "a group without an anchor": (
        [sample("a", "a"), sample("b_1", "b", "Scene Type")],
        r"sample 1 \(from 0\): its group 'b' has no anchor; exactly one sample of a group",
    ),
    "two anchors": (
        [sample("a", "a"), sample("b", "a")],
        r"group 'a' has two anchors \(samples 0 and 1, counted from 0\); exactly one may have",
    ),
}


def test_invalid_samples_are_refused_with_a_message(subtests: pytest.Subtests) -> None:
    for case in BROKEN:
        with subtests.test(case=case):
            listed, message = BROKEN[case]
            with pytest.raises(FormatError, match=message):
                contrastive_samples(listed, "s.json")
