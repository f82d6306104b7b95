"""Bar charts and flowcharts: their content, and facts about the image."""

from itertools import pairwise

from loupe.schemas.taxonomy import RetrievalTask
from loupe.schemas.validation import packaged_toml
from loupe.sources.chance import Chance
from loupe.sources.rendered.pen import Box, Pen, Point, Written

CHARTS, FLOWCHARTS = RetrievalTask("chart reading"), RetrievalTask("flowchart reading")
_VALUES = range(10, 100, 5)
_TABLES = packaged_toml(__package__, "charts.toml")


def draw_chart(chance: Chance) -> Written:
    """Draw a bar chart of three to six different numbers."""
    subject = chance.pick(_TABLES["charts"])
    title, count = subject["title"], chance.whole(3, min(6, len(subject["names"])))
    first = chance.whole(0, len(subject["names"]) - count)
    names = subject["names"][first : first + count]
    bars = dict(zip(names, chance.shuffled(_VALUES), strict=False))
    highest, lowest = max(bars, key=bars.__getitem__), min(bars, key=bars.__getitem__)

    def draw(pen: Pen, box: Box) -> None:
        size, step = 0.06 * (box[3] - box[1]), (box[2] - box[0]) / count
        pen.write_centred(((box[0] + box[2]) / 2, box[1] + size / 2), title, 1.2 * size)
        top, bottom = box[1] + 3 * size, box[3] - 1.5 * size
        small = min(size, size * 0.92 * step / max(pen.width(name, size) for name in names))
        pen.stroke([(box[0], bottom), (box[2], bottom)])
        for number, (name, value) in enumerate(bars.items()):
            left, right = box[0] + (number + 0.2) * step, box[0] + (number + 0.8) * step
            height = bottom - (bottom - top) * value / max(_VALUES)
            corners = [(left, bottom), (left, height), (right, height), (right, bottom)]
            pen.fill(corners)
            pen.stroke(corners)
            pen.write_centred(((left + right) / 2, height - 0.7 * size), str(value), size)
            pen.write_centred(((left + right) / 2, bottom + 0.8 * size), name, small)

    said = ", ".join(f"{name} {value}" for name, value in bars.items())
    return Written(
        name=f"a bar chart with the title {title}",
        question=f"{title}: {said}; which is the highest?",
        answer=highest,
        truth={"kind": "bars", "bars": bars},
        facts=(
            f"{highest} has the highest bar, {bars[highest]}",
            f"{lowest} has the lowest bar, {bars[lowest]}",
            *(f"the bar of {name} is labelled {value}" for name, value in bars.items()),
            f"the bars are {sum(bars.values())} together",
        ),
        draw=draw,
    )


def draw_flowchart(chance: Chance) -> Written:
    """Draw a flowchart of one to three questions; each yes leads to a step, and the last no."""
    texts = _TABLES["flowcharts"]
    questions = chance.shuffled(texts["questions"])[: chance.whole(1, 3)]
    *steps, last = chance.shuffled(texts["steps"])[: len(questions) + 1]

    def draw(pen: Pen, box: Box) -> None:
        height, width = (box[3] - box[1]) / (len(questions) + 1), box[2] - box[0]
        x, side, half = box[0] + 0.27 * width, box[0] + 0.8 * width, 0.36 * height
        size = 0.045 * (box[3] - box[1])
        longest = max(pen.width(text, size) for text in questions)
        wide = min(0.27 * width, 0.72 * longest)
        rows = [box[1] + (row + 0.5) * height for row in range(len(questions) + 1)]
        for y, question, step in zip(rows, questions, steps, strict=False):
            diamond = [(x - wide, y), (x, y - half), (x + wide, y), (x, y + half)]
            pen.stroke([*diamond, diamond[0]])
            pen.write_centred((x, y), question, size)
            end = _write_box(pen, (side, y), step, size)
            pen.stroke([(x + wide, y), (end, y)])
            pen.stroke([(end - 8, y - 5), (end, y), (end - 8, y + 5)])
            pen.write_centred(((x + wide + end) / 2, y - 0.8 * size), "yes", 0.9 * size)
        for y, below in pairwise(rows):
            start, end = y + half, below - (half if below != rows[-1] else size)
            pen.stroke([(x, start), (x, end)])
            pen.stroke([(x - 5, end - 8), (x, end), (x + 5, end - 8)])
            pen.write_centred((x + 1.6 * size, (start + end) / 2), "no", 0.9 * size)
        _write_box(pen, (x, rows[-1]), last, size)

    pairs = list(zip(questions, steps, strict=True))
    words = "the question" if len(questions) == 1 else f"{len(questions)} questions"
    return Written(
        name=f"a flowchart with {words}",
        question="; ".join(f"{question} yes: {step}" for question, step in pairs) + f"; no: {last}",
        answer=last,
        truth={"kind": "flow", "questions": questions, "steps": [*steps, last]},
        facts=(
            f"the first question is {questions[0]}",
            *(f"{question} yes leads to {step}" for question, step in pairs),
            f"if every answer is no, the last step is {last}",
        ),
        draw=draw,
    )


def _write_box(pen: Pen, at: Point, text: str, size: float) -> float:
    """Write a text with a box around it; return its left edge."""
    (x, y), wide = at, pen.width(text, size) / 2 + size
    left, right = x - wide, x + wide
    corners = [(left, y - size), (right, y - size), (right, y + size), (left, y + size)]
    pen.stroke([*corners, corners[0]])
    pen.write_centred(at, text, size)
    return left
