"""Draws a plane figure to scale, with its measures beside its lines."""

from collections.abc import Sequence

from PIL import Image, ImageDraw

from sources.rendered.figures import Figure, bounds
from sources.rendered.pen import Pen, Point
from sources.rendered.surfaces import Box, Colour, Ink

TINTS: dict[str, Colour] = {
    "yellow": (250, 206, 84),
    "blue": (122, 180, 236),
    "green": (150, 208, 118),
    "red": (240, 136, 130),
    "purple": (186, 156, 226),
}


class _Frame:
    """Where the figure's units lie in the picture."""

    def __init__(self, figure: Figure, room: tuple[float, float, float, float]) -> None:
        left, top, right, bottom = bounds(figure)
        wide, high = room[2] - room[0], room[3] - room[1]
        self.scale = min(wide / (right - left), high / (bottom - top))
        self._dx = (room[0] + room[2] - self.scale * (left + right)) / 2
        self._dy = (room[1] + room[3] - self.scale * (top + bottom)) / 2

    def at(self, point: Point) -> Point:
        return point[0] * self.scale + self._dx, point[1] * self.scale + self._dy

    def all(self, points: Sequence[Point]) -> list[Point]:
        return [self.at(point) for point in points]


def draw_figure_into(
    picture: Image.Image, pen: Pen, figure: Figure, box: Box, ink: Ink, tint: str | None, asked: str
) -> None:
    """Draws `figure` inside `box`, filled with a tint or empty, and writes `asked` below it."""
    size = (picture.height + 200) * 0.042
    sides = max(pen.width(label.text, size) for label in figure.labels) + 0.8 * size
    room = (box[0] + sides, box[1] + 1.5 * size, box[2] - sides, box[3] - 3.4 * size)
    frame = _Frame(figure, room)
    if tint:
        _fill(picture, figure, frame, TINTS[tint])
    _draw_lines(pen, figure, frame, ink.stroke + (0.6 if pen.is_hand else 0.2))
    for corner, one, other in figure.square_corners:
        _mark_corner(pen, frame.at(corner), one, other, 0.5 * size)
    for label in figure.labels:
        x, y = frame.at(label.at)
        reach = pen.width(label.text, size) / 2 + 0.4 * size
        middle = (x + label.away[0] * reach, y + label.away[1] * 0.8 * size)
        pen.write_centred(middle, label.text, size)
    pen.write_centred(((box[0] + box[2]) / 2, box[3] - 0.9 * size), asked, 1.1 * size)


def _draw_lines(pen: Pen, figure: Figure, frame: _Frame, width: float) -> None:
    corners = frame.all(figure.outline)
    if corners:
        pen.stroke([*corners, corners[0]], width)
    for circle in figure.circles:
        pen.arc(frame.at(circle.centre), circle.radius * frame.scale, width, circle.turns)
    for line in figure.dashed:
        pen.stroke(frame.all(line), max(1.4, width * 0.7), dashed=True)
    for line in figure.solid:
        pen.stroke(frame.all(line), width)
    if figure.shape == "circle":
        pen.dot(frame.at((0, 0)), 1.6 * width)


def _fill(picture: Image.Image, figure: Figure, frame: _Frame, colour: Colour) -> None:
    mask = Image.new("L", picture.size)
    draw, cover = ImageDraw.Draw(mask), 120
    if figure.outline:
        draw.polygon([(round(x), round(y)) for x, y in frame.all(figure.outline)], cover)
    for circle in figure.circles:
        (x, y), r = frame.at(circle.centre), circle.radius * frame.scale
        box = (round(x - r), round(y - r), round(x + r), round(y + r))
        draw.pieslice(box, 360 * circle.turns[0], 360 * circle.turns[1], cover)
    picture.paste(colour, (0, 0), mask)


def _mark_corner(pen: Pen, at: Point, one: Point, other: Point, side: float) -> None:
    first = (at[0] + one[0] * side, at[1] + one[1] * side)
    second = (at[0] + other[0] * side, at[1] + other[1] * side)
    both = (first[0] + other[0] * side, first[1] + other[1] * side)
    pen.stroke([first, both, second], 1.4)
