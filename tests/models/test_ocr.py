"""PP-OCR with its published weights reads the rendered texts."""

import io
from collections.abc import Sequence

import pytest
from PIL import Image

from loupe.models.ocr import TextLine, TextReader, build_text_reader, by_columns
from loupe.schemas.taxonomy import RetrievalTask
from loupe.sources.rendered.collection import render_tasks
from loupe.sources.rendered.pen import RenderedImage
from loupe.sources.rendered.signs import MOST_UNREAD, drawn_texts, unread_share

pytestmark = pytest.mark.slow

ERROR_RATE = 0.05
"""Upper bound of the character error rate; docs/benchmarks.md has larger measurements."""


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


@pytest.mark.parametrize("task", [RetrievalTask.CALCULATION, RetrievalTask.CODE])
def test_rendered_text_is_read(reader: TextReader, task: RetrievalTask) -> None:
    judged = (one for one in render_tasks(task, 2, 40) if drawn_texts(one.truth))
    assert unread(reader, first := next(judged), first) <= ERROR_RATE < MOST_UNREAD


def test_a_blank_picture_is_unread(reader: TextReader) -> None:
    assert reader.read(Image.new("RGB", (400, 300), "white")) == []
    assert unread_share(["some text"], []) == 1


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
