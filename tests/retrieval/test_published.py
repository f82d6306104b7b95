"""The shipped published scores are complete, cited and equal to the texts of the papers."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from loupe.retrieval.published import (
    PublishedRow,
    PublishedTable,
    named_datasets,
    published_on,
    published_tables,
)
from loupe.schemas.evaluation import METRICS
from loupe.schemas.taxonomy import DifferenceType, PrimaryType

_NAMED_LINES = ("table 2", "table 3 (a)", "table 4", "table 9")
"""The tables of UFineBench whose rows the text prints with their names."""
PAPERS = Path(__file__).parents[2].parent / "shared" / "papers"
needs_papers = pytest.mark.skipif(
    not PAPERS.is_dir(), reason="the texts of the papers are not in ../shared/papers"
)


def test_tables_are_cited_and_in_percent() -> None:
    for one in published_tables():
        assert one.citation
        assert one.place.startswith(("table ", "section "))
        assert "mSD_released" not in one.metrics, (
            "published values use the definition, not the released code"
        )
        if one.is_by_difference:
            assert list(one.metrics) == [*DifferenceType, *list(PrimaryType)[:3]]
            for row in one.rows:
                assert row.disputed or _means_lie_between(row.scores), row
        else:
            assert set(one.metrics) <= set(METRICS)
        assert len({row.model for row in one.rows}) == len(one.rows)
        assert all(0 < score <= 100 for row in one.rows for score in row.scores)
        for row in one.rows:
            recalls = row.scores[: sum(name.startswith("R@") for name in one.metrics)]
            assert sorted(recalls) == list(recalls) or row.disputed, row


@needs_papers
def test_every_row_is_printed_in_its_paper() -> None:
    """Where rows of a table are printed with their names, under the name and in its columns.

    The rest is UFineBench's table 8 and section 5.3, and table 3 of ReCoS: in a sequence.
    """
    texts = _texts()
    columns = _recos_columns(texts["recos"])
    running = {paper: " ".join(text.split()) for paper, text in texts.items()}
    lines_of_ufine = _ufine_lines(running["ufinebench"])
    for table in published_tables():
        if table.paper == "ccd":
            lines = _ccd_lines(texts["ccd"], table.place)
        for row in table.rows:
            where = f"{table.paper}, {table.place}, {table.dataset}, {table.direction}: {row}"
            if (table.paper, table.place) == ("recos", "table 2"):
                assert columns[table.direction, table.dataset, row.model] == row.scores, where
            elif table.paper == "ufinebench" and table.place.startswith(_NAMED_LINES):
                key = (table.trained_on, table.dataset, row.model)
                assert lines_of_ufine[key] == row.scores, where
            elif table.paper == "ccd":
                printed = lines[row.model]
                if not table.is_by_difference:
                    chosen = [0, 1] if table.direction == "text-to-image" else [2, 3]
                else:
                    chosen = [0, 1, 2, 3, 5, 6, 8, 9, 11, 4, 7, 10]  # the means last
                assert tuple(printed[at] for at in chosen) == row.scores, where
            else:
                assert _is_printed(row.scores, running[table.paper]), where


@needs_papers
def test_every_row_that_is_printed_with_its_name_is_published() -> None:
    """Except CLIP (ViT-L) in tables 8 and 9 of CCD, where a number is missing."""
    texts = _texts()
    printed = {("ufinebench", *row) for row in _ufine_lines(" ".join(texts["ufinebench"].split()))}
    printed |= {("recos", *row) for row in _recos_columns(texts["recos"])}
    published = set()
    for table in published_tables():
        by = table.direction if table.paper == "recos" else table.trained_on
        models = {row.model for row in table.rows}
        published |= {(table.paper, by, table.dataset, model) for model in models}
        if table.paper == "ccd":
            short = {"CLIP (ViT-L, 307M)"} if table.place in ("table 8", "table 9") else set()
            assert set(_ccd_lines(texts["ccd"], table.place)) == models | short, table.place
    assert printed <= published


@needs_papers
@pytest.mark.parametrize(
    ("paper", "names"),
    [
        ("ufinebench", ("UFine6926", "UFine3C")),
        ("recos", ("ReCoS v0", "ReCoS v1", "ReCoS v2")),
        ("ccd", ("MSCOCO-CCD", "Flickr30k-CCD")),
    ],
)
def test_sizes_of_a_papers_own_datasets_are_printed(paper: str, names: tuple[str, ...]) -> None:
    text = (PAPERS / f"{paper}.txt").read_text(encoding="utf-8").replace(",", "")
    for name in names:
        dataset = named_datasets()[name]
        images, texts = dataset.test
        if paper == "ccd":  # it prints the images only, "each with one image and five captions"
            assert texts == 5 * images
            texts = images
        for size in (images, texts, dataset.train_pairs or images):
            assert re.search(rf"\b{size}\b", text), (name, size)


def _texts() -> dict[str, str]:
    """The texts of the papers."""
    papers = ("ufinebench", "recos", "ccd")
    return {one: (PAPERS / f"{one}.txt").read_text(encoding="utf-8") for one in papers}


def _means_lie_between(scores: tuple[float, ...]) -> bool:
    """Whether the mean of each aspect lies between the lowest and the highest of its types."""
    parts = (scores[:4], scores[4:6], scores[6:8])
    means = zip(parts, scores[9:], strict=True)
    return all(min(types) <= mean <= max(types) for types, mean in means)


def _is_printed(scores: tuple[float, ...], text: str) -> bool:
    """Whether the numbers occur in this order and close together; others may be in between."""
    numbers = (rf"(?<![\d.]){re.escape(f'{score:g}')}(?:\.0+|0+)?(?![\d.]\d)" for score in scores)
    return re.search(r".{1,25}?".join(numbers), text) is not None


def _ufine_lines(text: str) -> dict[tuple[str, str, str], tuple[float, ...]]:
    """The numbers of UFineBench's named rows, by training set, dataset and model."""
    names = {"CUHK": "CUHK-PEDES", "ICFG": "ICFG-PEDES", "RSTP": "RSTPReid", "UFine": "UFine6926"}
    found: dict[tuple[str, str, str], tuple[float, ...]] = {}
    table_2 = "CUHK-PEDES|ICFG-PEDES|RSTPReid|UFine6926"
    for name, printed in re.findall(rf"({table_2}|\w+→\w+)((?: \d+\.\d\d){{15}})(?! \d)", text):
        sets = [names[side] for side in name.split("→")] if "→" in name else [name, "UFine3C"]
        values = tuple(map(float, printed.split()))
        for at, model in enumerate(("CFAM", "IRRA", "PLIP")):
            found[sets[0], sets[1], model] = values[5 * at : 5 * at + 5]
    table_4 = text[text.index("Methods Metrics R@1") :]
    models = r"(NAFS|LGUR|SSAN|IRRA|CFAM\([BL]/1[46]\))(?: \[\d+\])?((?: \d\d\.\d\d){5})"
    for number, (model, printed) in enumerate(re.findall(models, table_4)[:12]):
        dataset = ("UFine3C", "UFine6926")[number // 6]
        found["UFine6926", dataset, model.replace("(", " (")] = tuple(map(float, printed.split()))
    table_9 = text[text.index("share depth queries") :]
    rows = r"(\d+) (✓ )?(\d) (\d+)((?: \d\d\.\d\d){5})"
    for number, shared, blocks, queries, printed in re.findall(rows, table_9)[:19]:
        decoder = f"{'shared' if shared else 'unshared'} decoder"
        plural = "block" if blocks == "1" else "blocks"
        model = f"CFAM no. {number}: {decoder}, {blocks} {plural}, {queries} queries"
        found["CUHK-PEDES", "CUHK-PEDES", model] = tuple(map(float, printed.split()))
    return found


def _recos_columns(text: str) -> dict[tuple[str, str, str], tuple[float, ...]]:
    """R@1, R@5 and R@10 in table 2, by direction, dataset and model."""
    names = ["VSE++", "SCAN", "VSRN", "CLIP", "ALBEF", "X-VLM", "X2-VLM", "BLIP", "BLIP2"]
    datasets = {"MSCOCO": "MSCOCO", "Flickr30K": "Flickr30K", "MSCOCO _{FG}": "MSCOCO-FG",
                "Flickr30K _{FG}": "Flickr30K-FG", "ReCoS _{v1}": "ReCoS v1"}  # fmt: skip
    found: dict[tuple[str, str, str], tuple[float, ...]] = {}
    direction = dataset = ""
    for line in re.findall(r"^\|(.*R@\d+ \|(?: [\d.]+ \|){9})$", text, re.MULTILINE):
        first, second, _, *values = (cell.strip() for cell in line.rstrip("|").split("|"))
        direction = first.lower().replace("→", "-to-") or direction
        dataset = datasets[second] if second else dataset
        for name, value in zip(names, map(float, values), strict=True):
            key = (direction, dataset, name)
            found[key] = (*found.get(key, ()), value)
    assert len(found) == 90
    return found


def _ccd_lines(text: str, place: str) -> dict[str, tuple[float, ...]]:
    """The numbers of each line of a table of CCD, by model as the seeds name it."""
    spelled = {"UniME-OneVision": "UniME-OneV", "BGE-VL-MLLM-S1": "BGE-VL-S1",
               "BGE-VL-MLLM-S2": "BGE-VL-S2", "BGE-VL-v1.5-mmemb": "BGE-VL-mmeb",
               "BGE-VL-v1.5-mmeh": "BGE-VL-mmeb", "Align-base": "ALIGN-base"}  # fmt: skip
    end = text.index(f"\n{place.capitalize()}:")
    found = {}
    for line in text[text.rindex("\nModel\t", 0, end) : end].splitlines():
        cells = [re.sub(r"</?b>", "", cell).strip() for cell in line.split("\t") if cell]
        if len(cells) > 5 and re.fullmatch(r"[\d.]+", cells[2]):
            model, backbone = cells[0], re.sub(r"\((.*)\)", r", \1", cells[1])
            named = f"{spelled.get(model, model)} ({backbone.removesuffix('+BERT')})"
            found[named] = tuple(map(float, cells[2:]))
    return found


def test_contradicting_scores_of_a_paper_are_marked_as_disputed() -> None:
    """On UFine3C, table 4 contradicts table 2, and prints its PLIP column for CFAM (L/14)."""
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
        ("table 4", "CFAM (B/16)"): (58.51, 74.92, 80.9, 55.53, 43.22),
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
