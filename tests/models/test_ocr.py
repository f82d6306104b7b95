"""PP-OCR with its published weights reads the rendered texts."""

import io
from collections.abc import Sequence
from itertools import islice

import pytest
from PIL import Image

from models.ocr import TextLine, TextReader, build_text_reader, by_columns
from schemas.retrieval_task import RetrievalTask
from sources.rendered import RenderedImage, render_tasks
from sources.rendered.signs import MOST_UNREAD, drawn_texts, unread_share

_ERROR_RATES = {
    RetrievalTask.TRANSLATION: 0.05,
    RetrievalTask.CALCULATION: 0.05,
    RetrievalTask.CODE: 0.05,
}
"""Upper bounds of the character error rate; docs/benchmarks.md has larger measurements."""


@pytest.fixture(scope="module")
def reader() -> TextReader:
    reader = build_text_reader("pp-ocr")
    assert reader is not None
    return reader


def unread(reader: TextReader, picture: RenderedImage, truth: RenderedImage) -> float:
    """Return the share of the texts in `truth` that cannot be read in a picture."""
    with Image.open(io.BytesIO(picture.png)) as opened:
        lines = reader.read(opened)
    orders = (lines, by_columns(lines))
    return unread_share(drawn_texts(truth.truth), *([one.text for one in many] for many in orders))


def error_rate(drawn: Sequence[str], read: Sequence[str]) -> float:
    """Reference for `unread_share`: try every substring with a full edit distance."""

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


@pytest.mark.parametrize("task", _ERROR_RATES)
def test_rendered_text_is_read(reader: TextReader, task: RetrievalTask) -> None:
    judged = (one for one in render_tasks(task, 2, 40) if drawn_texts(one.truth))
    drawn = list(islice(judged, 2))
    found = [unread(reader, one, one) for one in drawn]
    assert sum(found) / len(found) <= _ERROR_RATES[task], found
    assert max(found) <= MOST_UNREAD


def test_a_blank_or_different_picture_is_unread(reader: TextReader) -> None:
    first, second = list(render_tasks(RetrievalTask.CODE, 3, 2))
    assert reader.read(Image.new("RGB", (400, 300), "white")) == []
    assert unread_share(drawn_texts(first.truth), []) == 1
    assert unread(reader, second, first) > MOST_UNREAD


def test_columns_are_read_one_after_the_other() -> None:
    rows = [("Mind", 0, 90), ("Keep", 100, 190), ("your head", 5, 95), ("out", 120, 160)]
    lines = [TextLine(text, 20, left, right) for text, left, right in rows]
    assert [one.text for one in by_columns(lines)] == ["Mind", "your head", "Keep", "out"]


def test_the_unread_share_is_an_edit_distance_to_the_nearest_substring() -> None:
    for drawn, read in (
        (["abc"], ["xxabcxx"]),
        (["abc", "de"], ["abxc", "ed"]),
        (["abcd"], ["ad"]),
        (["abc"], []),
        (["aa", "aa"], ["baab"]),
    ):
        assert unread_share(drawn, read) == error_rate(drawn, read), (drawn, read)
    assert unread_share(["I0 × 2"], ["1O x2"]) == 0
