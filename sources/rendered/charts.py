"""Bar charts and flowcharts: their content, their look, and facts about the image."""

import tomllib
from collections.abc import Callable
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from schemas.taxonomy import RetrievalTask
from sources.demonstration.people import Chance
from sources.rendered.pen import (
    SURFACES,
    Box,
    Draft,
    FontShelf,
    Pen,
    RenderedImage,
    lay_ink,
    mixed,
    paint_surface,
    rendered,
)

CHARTS, FLOWCHARTS = RetrievalTask("chart reading"), RetrievalTask("flowchart reading")
_SIZES = ((720, 540), (800, 600), (768, 576))
_VALUES = range(10, 100, 5)
_BAR_TINT = 0.35


@cache
def _tables() -> dict[str, Any]:
    file = resources.files("sources.rendered").joinpath("charts.toml")
    return tomllib.loads(file.read_text("utf-8"))


def draw_chart(chance: Chance, shelf: FontShelf) -> Draft:
    """Draw a bar chart of three to six different numbers."""
    subject = chance.pick(_tables()["charts"])
    count = chance.whole(3, min(6, len(subject["names"])))
    first = chance.whole(0, len(subject["names"]) - count)
    names = subject["names"][first : first + count]
    values = chance.shuffled(_VALUES)[:count]
    bars = dict(zip(names, values, strict=True))
    highest, lowest = max(bars, key=bars.__getitem__), min(bars, key=bars.__getitem__)

    def draw(picture: Image.Image, pen: Pen, box: Box, stroke: float) -> None:
        size = 0.05 * picture.height
        pen.write_centred(((box[0] + box[2]) / 2, box[1] + size / 2), subject["title"], 1.2 * size)
        top, bottom, step = box[1] + 3 * size, box[3] - 1.5 * size, (box[2] - box[0]) / count
        small = min(size, size * 0.92 * step / max(pen.width(name, size) for name in names))
        pen.stroke([(box[0], bottom), (box[2], bottom)], stroke)
        tint = ImageDraw.Draw(picture)
        red, green, blue = map(int, np.asarray(picture)[box[1], box[0]])
        dark = (40, 90, 150) if red + green + blue > 380 else (230, 230, 230)
        tinted = mixed((red, green, blue), dark, _BAR_TINT)
        for number, (name, value) in enumerate(bars.items()):
            left, right = box[0] + (number + 0.2) * step, box[0] + (number + 0.8) * step
            height = bottom - (bottom - top) * value / max(_VALUES)
            tint.rectangle((left, height, right, bottom), tinted)
            corners = [(left, bottom), (left, height), (right, height), (right, bottom)]
            pen.stroke(corners, stroke)
            pen.write_centred(((left + right) / 2, height - 0.7 * size), str(value), size)
            pen.write_centred(((left + right) / 2, bottom + 0.8 * size), name, small)

    facts = (
        f"{highest} has the highest bar, {bars[highest]}",
        f"{lowest} has the lowest bar, {bars[lowest]}",
        *(f"the bar of {name} is labelled {value}" for name, value in bars.items()),
        f"the bars are {sum(values)} together",
    )
    said = ", ".join(f"{name} {value}" for name, value in bars.items())
    what = f"a bar chart with the title {subject['title']}"
    truth = {"kind": "bars", "bars": bars}
    question = f"{subject['title']}: {said}; which is the highest?"
    return _draft(CHARTS, shelf, what, question, highest, truth, facts, draw)


def draw_flowchart(chance: Chance, shelf: FontShelf) -> Draft:
    """Draw a flowchart of one to three questions; each yes leads to a step, and the last no."""
    texts = _tables()["flowcharts"]
    questions = chance.shuffled(texts["questions"])[: chance.whole(1, 3)]
    *steps, last = chance.shuffled(texts["steps"])[: len(questions) + 1]

    def draw(_: Image.Image, pen: Pen, box: Box, stroke: float) -> None:
        rows = len(questions) + 1
        height, width = (box[3] - box[1]) / rows, box[2] - box[0]
        x, side, half = box[0] + 0.27 * width, box[0] + 0.8 * width, 0.3 * height
        size = 0.045 * (box[3] - box[1])
        reach = max(pen.width(text, size) for text in (*questions, *steps, last)) / 2
        middles = [box[1] + (row + 0.5) * height for row in range(rows)]
        for y, question, step in zip(middles, questions, steps, strict=False):
            wide = min(0.27 * width, 1.25 * reach)
            diamond = [(x - wide, y), (x, y - 1.2 * half), (x + wide, y), (x, y + 1.2 * half)]
            pen.stroke([*diamond, diamond[0]], stroke)
            pen.write_centred((x, y), question, size)
            _write_box(pen, (side, y), step, size, stroke)
            end = side - pen.width(step, size) / 2 - size
            pen.stroke([(x + wide, y), (end, y)], stroke)
            pen.stroke([(end - 8, y - 5), (end, y), (end - 8, y + 5)], stroke)
            pen.write_centred(((x + wide + end) / 2, y - 0.8 * size), "yes", 0.9 * size)
        for y, below in pairwise(middles):
            end = below - (1.2 * half if below != middles[-1] else size)
            pen.stroke([(x, y + 1.2 * half), (x, end)], stroke)
            pen.stroke([(x - 5, end - 8), (x, end), (x + 5, end - 8)], stroke)
            pen.write_centred((x + 1.6 * size, (y + 1.2 * half + end) / 2), "no", 0.9 * size)
        _write_box(pen, (x, middles[-1]), last, size, stroke)

    pairs = list(zip(questions, steps, strict=True))
    facts = (
        f"the first question is {questions[0]}",
        *(f"{question} yes leads to {step}" for question, step in pairs),
        f"if every answer is no, the last step is {last}",
    )
    words = "the question" if len(questions) == 1 else f"{len(questions)} questions"
    return _draft(
        FLOWCHARTS,
        shelf,
        f"a flowchart with {words}",
        "; ".join(f"{question} yes: {step}" for question, step in pairs) + f"; no: {last}",
        last,
        {"kind": "flow", "questions": questions, "steps": [*steps, last]},
        facts,
        draw,
    )


def _write_box(pen: Pen, at: tuple[float, float], text: str, size: float, stroke: float) -> None:
    (x, y), wide = at, pen.width(text, size) / 2 + size
    corners = [
        (x - wide, y - size),
        (x + wide, y - size),
        (x + wide, y + size),
        (x - wide, y + size),
    ]
    pen.stroke([*corners, corners[0]], stroke)
    pen.write_centred(at, text, size)


def _draft(
    task: RetrievalTask,
    shelf: FontShelf,
    what: str,
    question: str,
    answer: str,
    truth: dict[str, Any],
    facts: tuple[str, ...],
    draw: Callable[[Image.Image, Pen, Box, float], None],
) -> Draft:
    """A draft whose `draw` gets the surface, a pen, the box to draw in and the width of lines."""

    def render(chance: Chance, seed: int) -> RenderedImage:
        surface, size = chance.pick(SURFACES), chance.pick(_SIZES)
        ink, is_hand = chance.pick(surface.inks), surface.handwritten
        styles = ("handwritten",) if is_hand else ("serif", "sans-serif")
        typeface = chance.pick(shelf.names(*styles))
        picture, box = paint_surface(surface, size, chance)
        pen = Pen(size, shelf, typeface, chance, 1.0 if is_hand else 0.0)
        draw(picture, pen, box, ink.stroke)
        lay_ink(picture, pen.mask(), ink, chance)
        drawn = "drawn by hand" if is_hand else "printed"
        return rendered(
            task,
            seed,
            picture,
            question=question,
            answer=answer,
            look={
                "surface": surface.name,
                "ink": ink.name,
                "typeface": typeface,
                "writing": "handwritten" if is_hand else "typeset",
            },
            truth=truth,
            facts=(f"{what} is {drawn} in {ink.name} on {surface.phrase}", *facts),
        )

    return Draft(question, answer, render)
