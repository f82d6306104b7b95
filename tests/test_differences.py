"""The list of differences from the papers is true of the papers, files and settings it names."""

import re
from functools import cache, reduce
from pathlib import Path

import pytest

from benchmarks.differences import DOCS, PAGE, PAPERS, differences, page
from loupe.models.profiles.loader import load_profile
from loupe.retrieval.reproduction import absent_from, table_names

TEXTS = Path(__file__).parents[2] / "shared" / "papers"
needs_texts = pytest.mark.skipif(
    not TEXTS.is_dir(), reason="the texts of the papers are not in ../shared/papers"
)


def test_the_page_is_written_from_the_file() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `make reference`"


def test_every_difference_names_files_that_exist() -> None:
    for one in differences():
        assert one["paper"] in PAPERS
        assert one["does"].endswith(".")
        if one.get("kind") == "misprint":
            assert not {"where", "checked"} & set(one)
        else:
            for key in ("where", "checked"):
                assert (DOCS.parent / one[key]).is_file(), one[key]


def test_every_named_setting_has_its_value() -> None:
    named = [one["setting"] for one in differences() if "setting" in one]
    assert len(named) >= 5
    for profile, key, value in named:
        assert reduce(getattr, key.split("."), load_profile(profile)) == value, key


@needs_texts
def test_every_quotation_is_in_its_paper() -> None:
    for one in differences():
        quotations = re.findall("“(.+?)”", one["says"])
        assert quotations, f"{one['says']} quotes nothing"
        for part in "[…]".join(quotations).split("[…]"):
            assert bare(part) in bare(text_of(one["paper"])), part


@needs_texts
@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_is_reproduced_or_listed_as_absent(paper: str) -> None:
    tables = [name.split("/")[1] for name in table_names() if name.startswith(paper.lower())]
    listed = {*tables, *(name for one in absent_from(paper.lower()) for name in one.what)}
    text = text_of(paper).replace("Ta- ble", "Table")
    for number, part in re.findall(r"\bTable (\d+)(?: \(([ab])\))?", text):
        names = {number + part} if part else {number, f"{number}a", f"{number}b"}
        assert names & listed, f"table {number} {part}"
    for number in re.findall(r"\bFigure (\d+)", text):
        assert f"figure {number}" in listed


@cache
def text_of(paper: str) -> str:
    """Return the text of a paper on one line."""
    return " ".join((TEXTS / f"{paper.lower()}.txt").read_text("utf-8").split())


def bare(text: str) -> str:
    """Return a text without spaces, hyphens and emphasis, which lines and columns break."""
    return re.sub(r"[\s*$-]", "", text)
