"""PP-OCR with its own weights reads what is rendered here."""

import io
from collections.abc import Sequence
from itertools import islice

import pytest
from PIL import Image

from models.ocr import TextLine, TextReader, build_text_reader, by_columns
from schemas.retrieval_task import RetrievalTask
from sources.rendered import RenderedImage, render_tasks
from sources.rendered.signs import MOST_UNREAD, drawn_texts, unread_share

_AS_MEASURED = {
    RetrievalTask.TRANSLATION: 0.05,
    RetrievalTask.CALCULATION: 0.05,
    RetrievalTask.CODE: 0.05,
}
"""The character error rate of several pictures, at most; docs/benchmarks.md has those of many."""


@pytest.fixture(scope="module")
def reader() -> TextReader:
    made = build_text_reader("pp-ocr")
    assert made is not None
    return made


def unread(reader: TextReader, picture: RenderedImage, truth: RenderedImage) -> float:
    """The share of what was drawn by `truth` that cannot be read in a picture."""
    with Image.open(io.BytesIO(picture.png)) as opened:
        lines = reader.read(opened)
    orders = (lines, by_columns(lines))
    return unread_share(drawn_texts(truth.truth), *([one.text for one in many] for many in orders))


def error_rate(drawn: Sequence[str], read: Sequence[str]) -> float:
    """The same by the definition: every stretch, every table of edit distances."""

    def distance(one: str, other: str) -> int:
        row = list(range(len(other) + 1))
        for at, left in enumerate(one, start=1):
            above, row[0] = row[0], at
            for to, right in enumerate(other, start=1):
                above, row[to] = row[to], min(above + (left != right), row[to] + 1, row[to - 1] + 1)
        return row[-1]

    reading = "".join(read)
    stretches = {
        reading[first:last]
        for first in range(len(reading) + 1)
        for last in range(first, len(reading) + 1)
    }
    wrong = sum(min(distance(one, stretch) for stretch in stretches) for one in drawn)
    return wrong / sum(map(len, drawn))


@pytest.mark.parametrize("task", _AS_MEASURED)
def test_rendered_text_is_read_back(reader: TextReader, task: RetrievalTask) -> None:
    judged = (one for one in render_tasks(task, 2, 40) if drawn_texts(one.truth))
    drawn = list(islice(judged, 4))
    found = [unread(reader, one, one) for one in drawn]
    assert sum(found) / len(found) <= _AS_MEASURED[task], found
    assert max(found) <= MOST_UNREAD


def test_what_a_blank_or_another_picture_shows_is_not_what_was_drawn(reader: TextReader) -> None:
    first, second = list(render_tasks(RetrievalTask.CODE, 3, 2))
    assert reader.read(Image.new("RGB", (400, 300), "white")) == []
    assert unread_share(drawn_texts(first.truth), []) == 1
    assert unread(reader, second, first) > MOST_UNREAD


def test_sheets_side_by_side_are_read_one_after_the_other() -> None:
    rows = [("Mind", 0, 90), ("Keep", 100, 190), ("your head", 5, 95), ("out", 120, 160)]
    lines = [TextLine(text, 20, left, right) for text, left, right in rows]
    assert [one.text for one in by_columns(lines)] == ["Mind", "your head", "Keep", "out"]


def test_the_unread_share_is_an_edit_distance_to_the_nearest_stretch() -> None:
    for drawn, read in (
        (["abc"], ["xxabcxx"]),
        (["abc", "de"], ["abxc", "ed"]),
        (["abcd"], ["ad"]),
        (["abc"], []),
        (["aa", "aa"], ["baab"]),
    ):
        assert unread_share(drawn, read) == error_rate(drawn, read), (drawn, read)
    assert unread_share(["I0 × 2"], ["1O x2"]) == 0
