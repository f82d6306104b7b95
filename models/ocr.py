"""Reads text in pictures: PP-OCR, run by RapidOCR."""

import importlib.util
import threading
from collections.abc import Iterable
from importlib.metadata import version
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from PIL import Image

from loupe.schemas.chat import ModelRef
from loupe.schemas.decoders import as_rgb
from loupe.schemas.extras import needs_extra
from loupe.schemas.profile import TextReaderName

_MODULE: Final = "rapidocr_onnxruntime"
_MODEL: Final = "PP-OCRv4"


class TextLine(NamedTuple):
    """A line of text.

    `height_px` is the size of the writing; `left_px` and `right_px` are its ends.
    """

    text: str
    height_px: float
    left_px: float
    right_px: float


def by_columns(lines: Iterable[TextLine]) -> list[TextLine]:
    """Lines column by column, as on sheets side by side."""
    columns: list[list[TextLine]] = []
    for line in lines:
        for column in columns:
            last = column[-1]
            shared = min(line.right_px, last.right_px) - max(line.left_px, last.left_px)
            narrower = min(line.right_px - line.left_px, last.right_px - last.left_px)
            if shared > narrower / 2:
                column.append(line)
                break
        else:
            columns.append([line])
    return list(chain.from_iterable(columns))


class TextReader:
    """Reads lines of text in pictures with the package's own weights, Chinese and English.

    Thread-safe: each thread has its own engine of one thread, because an engine cannot read two
    pictures at once.

    Attributes:
        ref: PP-OCR, at the version of the package that carries its weights.

    Raises:
        MissingExtraError: RapidOCR is not installed.
    """

    def __init__(self) -> None:
        with needs_extra("reading text in pictures", "ocr"):
            from rapidocr_onnxruntime import RapidOCR
        self._make = RapidOCR
        self._own = threading.local()
        self.ref = ModelRef(name=_MODEL, revision=f"rapidocr-{version('rapidocr-onnxruntime')}")

    def read(self, picture: Image.Image) -> list[TextLine]:
        """The lines in a picture, from top to bottom and from left to right."""
        pixels = np.asarray(as_rgb(picture))[:, :, ::-1]
        # Its angle classifier turns lines of code upside down.
        found, _ = self._engine()(np.ascontiguousarray(pixels), use_cls=False)
        return [_line(box, text) for box, text, _ in found or ()]

    def _engine(self) -> Any:
        if not hasattr(self._own, "engine"):
            self._own.engine = self._make(intra_op_num_threads=1, inter_op_num_threads=1)
        return self._own.engine


def build_text_reader(name: TextReaderName) -> TextReader | None:
    """The reader that a profile names; None for `none`, and for `auto` without the extra `ocr`.

    Raises:
        MissingExtraError: it is named, and the extra is not installed.
    """
    if name == "none" or (name == "auto" and importlib.util.find_spec(_MODULE) is None):
        return None
    return TextReader()


def _line(box: list[list[float]], text: str) -> TextLine:
    """A line in a box given by its corners, which may be rotated."""
    corners = np.asarray(box)
    sides = np.linalg.norm(corners - np.roll(corners, 1, axis=0), axis=1)
    left = corners[:, 0].min()
    right = corners[:, 0].max()
    return TextLine(text, float(sides.min()), float(left), float(right))
