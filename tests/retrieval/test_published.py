"""The published scores as they are shipped: whole, cited, and those of the papers."""

import pytest
from pydantic import ValidationError

from retrieval.published import PublishedRow, PublishedTable, published_on, published_tables
from schemas.evaluation import METRICS


def test_tables_are_cited_and_in_percent() -> None:
    tables = published_tables()
    assert {one.dataset for one in tables} == {
        "UFine3C",
        "UFine6926",
        *("ReCoS v0", "ReCoS v1", "ReCoS v2"),
        *("MSCOCO-CCD", "Flickr30k-CCD"),
    }
    for one in tables:
        assert one.citation
        assert one.place.startswith("table ")
        assert "mSD_released" not in one.metrics, "published values are the definition's"
        assert set(one.metrics) <= set(METRICS)
        assert len({row.model for row in one.rows}) == len(one.rows)
        assert all(0 < score < 100 for row in one.rows for score in row.scores)
        assert [row.scores[0] <= row.scores[1] for row in one.rows].count(False) == 0


def test_rows_are_those_of_the_papers(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, str, tuple[float, ...]]] = [
        ("UFine3C", "text-to-image", "CFAM (B/16)", (58.51, 74.92, 80.90, 55.53, 43.22)),
        ("UFine6926", "text-to-image", "CFAM (L/14)", (88.51, 95.58, 97.49, 87.09, 68.45)),
        ("ReCoS v1", "image-to-text", "X2-VLM", (79.3, 89.8, 89.0)),
        ("ReCoS v2", "text-to-image", "CLIP", (25.0, 50.1, 60.1)),
        ("MSCOCO-CCD", "image-to-text", "GME (Qwen2-VL-7B)", (52.8, 84.9)),
        ("Flickr30k-CCD", "text-to-image", "Rzen-E (Qwen2-VL-7B)", (74.7, 99.5)),
    ]
    for dataset, direction, model, scores in cases:
        with subtests.test(dataset=dataset, direction=direction, model=model):
            (table,) = published_on(dataset, direction)  # type: ignore[arg-type]
            assert {row.model: row.scores for row in table.rows}[model] == scores


def test_what_the_paper_contradicts_is_shown_both_ways() -> None:
    """Table 4's CFAM (L/14) on UFine3C is table 2's column of PLIP."""
    (table,) = published_on("UFine3C", "text-to-image")
    disputed = {row.model: row.scores for row in table.rows if row.disputed}
    assert disputed == {
        "CFAM (L/14)": (62.84, 77.82, 83.23, 59.31, 46.04),
        "CFAM": (64.59, 80.16, 85.63, 60.43, 47.76),
    }
    (table,) = published_on("UFine6926", "text-to-image")
    assert ["57.09" in row.disputed for row in table.rows if row.disputed] == [True]


def test_what_no_paper_measured_is_not_there() -> None:
    assert published_on("UFine3C", "image-to-text") == ()
    assert published_on("mine", "text-to-image") == ()


def test_a_row_has_a_score_for_each_metric() -> None:
    values = published_on("UFine3C", "text-to-image")[0].model_dump()
    values["rows"] = (PublishedRow(model="CLIP", scores=(1.0,)),)
    with pytest.raises(ValidationError, match="CLIP must have 5 scores"):
        PublishedTable.model_validate(values)
