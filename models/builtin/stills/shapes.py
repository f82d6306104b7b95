"""Numbers for what was cut out, for letters, and for a place."""

import cv2
import numpy as np
from numpy.typing import NDArray

from models.builtin.describer.colour_names import Lab, lab_of
from models.builtin.stills.cutting import Cut

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (212, 44, 48),
    "orange": (242, 136, 36),
    "yellow": (246, 212, 60),
    "green": (60, 158, 78),
    "blue": (44, 104, 206),
    "purple": (130, 72, 172),
    "pink": (244, 142, 184),
    "brown": (134, 84, 46),
    "black": (66, 64, 72),
    "white": (246, 245, 240),
}
"""Ten names of colours, and how they are drawn."""

NAMES = tuple(COLOURS)
SIDE = 20
LETTER_SIDE = 14
_BODY_DISTANCE = 16.0

Features = NDArray[np.float32]


def named(pixels: NDArray[np.float32]) -> NDArray[np.intp]:
    """For each pixel, of shape (…, 3) in 0 … 255, the index in `NAMES` of the nearest colour."""
    lab = _lab(pixels)
    distances = np.linalg.norm(lab[..., None, :] - _anchors(), axis=-1)
    return np.asarray(distances.argmin(axis=-1), np.intp)


def is_turned(cut: Cut) -> bool:
    """Whether a thing is to be mirrored before it is compared: its mass lies in its right half."""
    columns = (cut.shape & ~cut.ink).sum(axis=0, dtype=np.float64)
    middle = (columns * np.arange(columns.size)).sum() / max(columns.sum(), 1)
    return bool(middle > (columns.size - 1) / 2)


def shape_features(cut: Cut) -> Features:
    """Of shape (3 · SIDE² + 2,): outline, ink, where the main colour is, and the proportions."""
    inside = cut.shape & ~cut.ink
    fields = [cut.shape, cut.ink, inside & _main_colour(cut, inside)]
    turned = is_turned(cut)
    small = [_shrunk(field[:, ::-1] if turned else field) for field in fields]
    share = float(cut.shape.mean())
    proportions = [np.log(cut.width / cut.height) * 6, share * 6]
    return np.concatenate([*(field.ravel() for field in small), proportions]).astype(np.float32)


def colour_map(cut: Cut) -> Features:
    """Of shape (SIDE, SIDE, len(NAMES)): how much of each colour is where, mirrored alike."""
    names = named(cut.pixels)
    inside = cut.shape & ~cut.ink
    turned = is_turned(cut)
    fields = ((names == index) & inside for index in range(len(NAMES)))
    small = [_shrunk(f[:, ::-1] if turned else f) for f in fields]
    return np.stack(small, axis=-1).astype(np.float32)


def letter_features(mask: NDArray[np.bool_]) -> Features:
    """Of shape (LETTER_SIDE² + 1,): a letter's form in its box, and the box's proportions."""
    side = (LETTER_SIDE, LETTER_SIDE)
    small = cv2.resize(mask.astype(np.float32), side, interpolation=cv2.INTER_AREA)
    proportion = np.log(mask.shape[1] / mask.shape[0]) * 3
    return np.append(small.ravel(), proportion).astype(np.float32)


def place_features(pixels: NDArray[np.float32], free: NDArray[np.bool_]) -> Features:
    """Of shape (8 · 4 · 3,): mean colour of the free parts of a grid; hidden cells as their row."""
    lab = _lab(pixels)
    rows, columns = 8, 4
    cells = np.zeros((rows, columns, 3), np.float32)
    height, width = free.shape
    for row in range(rows):
        band = np.s_[row * height // rows : (row + 1) * height // rows]
        whole = lab[band][free[band]]
        mean = whole.mean(axis=0) if whole.size else lab[band].mean(axis=(0, 1))
        for column in range(columns):
            part = np.s_[band, column * width // columns : (column + 1) * width // columns]
            seen = lab[part][free[part]]
            cells[row, column] = seen.mean(axis=0) if len(seen) > 20 else mean
    return (cells.ravel() / 20).astype(np.float32)


def _main_colour(cut: Cut, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where a thing has the colour that prevails in it."""
    if not inside.any():
        return inside
    lab = _lab(cut.pixels)
    bins = (lab / (12, 14, 14)).round().astype(np.int64)
    keys = (bins * (1, 1000, 1000000)).sum(axis=-1)
    values, counts = np.unique(keys[inside], return_counts=True)
    colour = np.median(lab[inside & (keys == values[counts.argmax()])], axis=0)
    return np.asarray(np.linalg.norm(lab - colour, axis=-1) < _BODY_DISTANCE)


def _shrunk(field: NDArray[np.bool_]) -> Features:
    small = cv2.resize(field.astype(np.float32), (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float32)


def _lab(pixels: NDArray[np.float32]) -> Lab:
    return lab_of(np.clip(pixels, 0, 255).astype(np.uint8))


def _anchors() -> Lab:
    return lab_of(np.array([list(COLOURS.values())], np.uint8)).reshape(-1, 3)
