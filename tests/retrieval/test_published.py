"""The shipped published scores are complete, cited and equal to the texts of the papers."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from retrieval.published import PublishedRow, PublishedTable, published_on, published_tables
from schemas.evaluation import METRICS
from schemas.taxonomy import DifferenceType

PAPERS = Path(__file__).parents[2].parent / "shared" / "papers"


def test_tables_are_cited_and_in_percent() -> None:
    for one in published_tables():
        assert one.citation
        assert one.place.startswith(("table ", "section "))
        assert "mSD_released" not in one.metrics, (
            "published values use the definition, not the released code"
        )
        if one.is_by_difference:
            assert list(one.metrics) == list(DifferenceType)
        else:
            assert set(one.metrics) <= set(METRICS)
        assert len({row.model for row in one.rows}) == len(one.rows)
        assert all(0 < score <= 100 for row in one.rows for score in row.scores)
        for row in one.rows:
            recalls = row.scores[: sum(name.startswith("R@") for name in one.metrics)]
            assert sorted(recalls) == list(recalls) or row.disputed, row


def test_every_table_of_the_papers_is_shipped() -> None:
    found: dict[str, int] = {}
    for one in published_tables():
        place = f"{one.paper} {one.place.split(',')[0]}"
        found[place] = found.get(place, 0) + len(one.rows)
    assert found == {
        "ufinebench table 2": 12,
        "ufinebench table 3 (a)": 18,
        "ufinebench table 4": 12,
        "ufinebench table 8": 5,
        "ufinebench table 9": 19,
        "ufinebench section 5.3": 4,
        "recos table 2": 90,
        "recos table 3": 3,
        "ccd table 2": 50,
        "ccd table 4": 50,
        "ccd table 6": 25,
        "ccd table 7": 25,
        "ccd table 8": 24,
        "ccd table 9": 24,
    }


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the texts of the papers are not here")
def test_every_row_is_printed_in_its_paper() -> None:
    """The scores of a row follow each other in the text; for ReCoS, in a column of its table."""
    texts = {
        paper: " ".join((PAPERS / f"{paper}.txt").read_text(encoding="utf-8").split())
        for paper in ("ufinebench", "recos", "ccd")
    }
    columns = _recos_columns(texts["recos"])
    for table in published_tables():
        for row in table.rows:
            where = f"{table.paper}, {table.place}, {table.dataset}, {table.direction}: {row}"
            if (table.paper, table.place) == ("recos", "table 2"):
                assert row.scores in columns[row.model], where
            else:
                assert _is_printed(row.scores, texts[table.paper]), where


def _is_printed(scores: tuple[float, ...], text: str) -> bool:
    """Whether the numbers occur in this order and close together; others may be in between."""
    numbers = (rf"(?<![\d.]){re.escape(f'{score:g}')}(?:\.0+|0+)?(?![\d.]\d)" for score in scores)
    return re.search(r".{1,25}?".join(numbers), text) is not None


def _recos_columns(text: str) -> dict[str, list[tuple[float, ...]]]:
    """R@1, R@5 and R@10 of each model in table 2, by dataset."""
    names = ["VSE++", "SCAN", "VSRN", "CLIP", "ALBEF", "X-VLM", "X2-VLM", "BLIP", "BLIP2"]
    rows = [
        [float(value) for value in line.split("|")]
        for line in re.findall(r"R@\d+ \|((?: [\d.]+ \|){8} [\d.]+) \|", text)
    ]
    assert len(rows) == 30
    return {
        name: [(rows[at][k], rows[at + 1][k], rows[at + 2][k]) for at in range(0, 30, 3)]
        for k, name in enumerate(names)
    }


def test_contradicting_scores_of_a_paper_are_marked_as_disputed() -> None:
    """Table 4 prints the PLIP column of table 2 for CFAM (L/14) on UFine3C."""
    disputed = {
        (table.place, row.model): row.scores
        for table in published_on("UFine3C", "text-to-image")
        for row in table.rows
        if row.disputed
    }
    theirs = (62.84, 77.82, 83.23, 59.31, 46.04)
    assert disputed == {
        ("table 2", "CFAM"): (64.59, 80.16, 85.63, 60.43, 47.76),
        ("table 2", "PLIP"): theirs,
        ("table 4", "CFAM (L/14)"): theirs,
    }
    ufine = [one for one in published_on("UFine6926", "text-to-image") if "4" in one.place]
    assert ["57.09" in row.disputed for row in ufine[0].rows if row.disputed] == [True]


def test_unpublished_benchmarks_have_no_table() -> None:
    assert published_on("UFine3C", "image-to-text") == ()
    assert published_on("mine", "text-to-image") == ()
    assert published_on("ReCoS v1", "text-to-image", by_difference=True) == ()


def test_a_row_has_a_score_for_each_metric() -> None:
    values = published_on("UFine3C", "text-to-image")[0].model_dump()
    values["rows"] = (PublishedRow(model="CLIP", scores=(1.0,)),)
    with pytest.raises(ValidationError, match="CLIP must have 5 scores"):
        PublishedTable.model_validate(values)
