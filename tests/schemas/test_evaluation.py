"""Evaluations as values: JSON round trips and ids."""

import pytest

from loupe.schemas.evaluation import Score
from tests.schemas.evaluations import evaluation


def test_the_id_covers_everything_that_scores_depend_on(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, object]] = [
        {"split": "val"},
        {"protocol": "other"},
        {"code_revision": "1" * 40},
        {"release": evaluation().release.model_copy(update={"id": "b" * 64})},
        {"model": evaluation().model.model_copy(update={"parameters": {"dtype": "float16"}})},
        {"model": evaluation().model.model_copy(update={"checkpoint_sha256": "c" * 64})},
    ]
    for case, changes in enumerate(cases):
        with subtests.test(case=case):
            assert evaluation().model_copy(update=changes).id != evaluation().id


def test_the_id_does_not_cover_time_and_machine() -> None:
    slow = evaluation(seconds=9.0, hardware={"processor": "x", "cores": 1, "memory_bytes": 1})
    assert slow.id == evaluation().id


def test_edited_code_is_distinguished_by_its_scores() -> None:
    edited, same = evaluation(code_revision="0+changed"), evaluation(code_revision="0+changed")
    better = evaluation(code_revision="0+changed", r1=60.0)
    assert edited.id == same.id != better.id
    assert evaluation(r1=60.0).id == evaluation().id


def test_directions_are_found_by_name() -> None:
    found = evaluation().direction("text-to-image")
    assert found is not None
    assert found.scores["R@1"] == Score(value=50.0, low=40.0, high=60.0)
    assert evaluation().direction("image-to-text") is None
