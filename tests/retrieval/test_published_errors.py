"""The published errors by type: whole, and those of the paper."""

import itertools

import pytest

from retrieval.published import accuracies, error_table
from schemas.evaluation import DIRECTIONS
from schemas.taxonomy import DifferenceType


def test_tables_are_whole(subtests: pytest.Subtests) -> None:
    for direction, dataset in itertools.product(DIRECTIONS, ("MSCOCO-CCD", "Flickr30k-CCD")):
        with subtests.test(direction=direction, dataset=dataset):
            table = error_table(dataset, direction)
            assert table is not None
            assert len(table.rows) == (25 if dataset == "MSCOCO-CCD" else 24)
            assert len({row.model for row in table.rows}) == len(table.rows)
            for row in table.rows:
                found = accuracies(row)
                assert set(found) == {kind.value for kind in DifferenceType}
                assert all(50 < value < 100 for value in found.values())


def test_rows_are_those_of_the_paper() -> None:
    table = error_table("MSCOCO-CCD", "image-to-text")
    assert table is not None
    (row,) = [row for row in table.rows if row.model == "GME (Qwen2-VL-7B)"]
    found = accuracies(row)
    assert found["Entity Type"] == 81.6
    assert found["Scene Attribute"] == 64.7
    assert found["Event/Action Attribute"] == 73.0
    assert found["Style & Presentation"] == 74.1


def test_other_datasets_have_none() -> None:
    assert error_table("ReCoS v1", "text-to-image") is None
