"""Total-Text: photographs with the words that are legible in them."""

import ast
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from loupe.schemas.errors import FormatError
from loupe.schemas.wording import storable
from loupe.sources.annotations import (
    Field,
    FieldError,
    Importer,
    bad_row,
    checked_caption,
    checked_path,
    split_in_name,
)
from loupe.sources.files import digest_file
from loupe.sources.records import DEFAULT_OPTIONS, ReadOptions, Row, SourceRow, shown

# The words of one ground-truth file of Total-Text: numpy's arrays as Python prints them.

_START = re.compile(r"^[ \t]*x:", re.MULTILINE)
_NUMBERS = r"(?:array\()?\[\[?(?P<{0}>[-+\d.,eE\s]*)\]?\](?:,?\s*dtype=\w+)?\)?"
_EXAMPLE = "x: [[…]], y: [[…]], ornt: [u'c'], transcriptions: [u'the']"
_LITERAL = r"""[uU]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_RECORD = re.compile(
    rf"x:\s*{_NUMBERS.format('x')}\s*,\s*y:\s*{_NUMBERS.format('y')}\s*,"
    rf"\s*ornt:\s*\[\s*(?:{_LITERAL})?\s*\]\s*,"
    rf"\s*transcriptions:\s*\[\s*(?P<text>{_LITERAL})?\s*\]",
    re.DOTALL,
)


class Word(NamedTuple):
    """A word in an image, and the area of the polygon around it in pixels²."""

    text: str
    area_px: float


Polygon = tuple[str, list[float], list[float]]
"""A text, and the x and y of the corners around it."""

RecordT = TypeVar("RecordT")


def words_of(text: str, options: ReadOptions) -> Iterator[Word | FieldError]:
    """Return the word of each record in a file's text, in order; illegible ones are skipped.

    A record begins with `x:` at the start of a line; numpy wraps long arrays, so that it may
    continue for several lines.
    """
    starts = [found.start() for found in _START.finditer(text)]
    ends = [*starts, len(text)]
    if text[: ends[0]].strip():
        yield FieldError("", "malformed_record", f"it begins with no record: got {shown(text)}")
    records = (text[start:end].strip() for start, end in pairwise(ends))
    yield from _checked(records, _read_text, options)


def _words_of_mat(data: bytes, options: ReadOptions) -> Iterator[Word | FieldError]:
    """Return the words of a file in MATLAB's form: rows of `x:`, xs, `y:`, ys, text, orientation.

    Raises:
        FieldError: the file is not of that form.
    """
    from scipy.io import loadmat

    try:
        rows = loadmat(io.BytesIO(data))["polygt"]
    except Exception as fault:
        detail = f"it is no MATLAB file with a polygt: {type(fault).__name__}"
        raise FieldError("", "malformed_record", detail) from fault
    return _checked(rows, _read_row, options)


def _checked(
    records: Iterable[RecordT], read: Callable[[RecordT], Polygon], options: ReadOptions
) -> Iterator[Word | FieldError]:
    for place, record in enumerate(records):
        at = f"words[{place}]"
        try:
            text, xs, ys = read(record)
            area = _area(list(zip(xs, ys, strict=True)))
            if any(map(str.isalnum, text)):  # `#` stands for text that is illegible or ignored
                yield Word(checked_caption(Field(at, text), options), area)
        except FieldError as fault:
            yield fault
        except (IndexError, SyntaxError, TypeError, ValueError):
            detail = f"{at} is no text with its polygon: got {shown(str(record))}"
            yield FieldError(at, "malformed_record", detail)


def _read_text(record: str) -> Polygon:
    found = _RECORD.fullmatch(record)
    if found is None:
        raise ValueError(record)
    xs, ys = ([float(one) for one in found[axis].replace(",", " ").split()] for axis in "xy")
    return str(ast.literal_eval(found["text"] or "''")), xs, ys


def _read_row(row: Any) -> Polygon:
    xs, ys = ([float(number) for number in row[place].ravel()] for place in (1, 3))
    return str(row[4].item()) if row[4].size else "", xs, ys


def _area(corners: list[tuple[float, float]]) -> float:
    """Return the area of a polygon, by the shoelace formula."""
    turned = corners[1:] + corners[:1]
    return abs(sum(x * v - u * y for (x, y), (u, v) in zip(corners, turned, strict=True))) / 2


# Total-Text: images with writing, and for each a file with the words that are on it.
#
# The annotations are the folder with those files, as text or in MATLAB's form; its folders are
# those of the images::
#
# Groundtruth/Test/poly_gt_img1.txt      Images/Test/img1.jpg

_PREFIX, _MATLAB = "poly_gt_", ".mat"
_SUFFIXES = (".jpg", ".JPG", ".jpeg", ".png")
"""Suffix of images, whose ground truth states only a name; one of Total-Text's is `.JPG`."""


class TotalTextImporter(Importer):
    """Reads the words in images, each its own identity; images without legible words are kept.

    The split is that of the folder of a file, if it has such a name (`Train`, `Test`), else the one
    given by the options, else test.
    """

    def digest(self, path: Path) -> str:
        """Return the SHA-256 of the list of all ground-truth files.

        Raises:
            FormatError: there is none, or one cannot be read.
        """
        listed = hashlib.sha256()  # in the format of `sha256sum`
        for name in self._files(path):
            line = f"{digest_file(path / name)}  {name}\n"
            listed.update(line.encode("utf-8", "surrogateescape"))
        return listed.hexdigest()

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield for each file one bad row per bad word, then its row, or one bad row.

        Raises:
            FormatError: the folder has no such file, or the first one with content has no word.
        """
        is_known = False
        for index, name in enumerate(self._files(path)):
            try:
                data = _content(path / name, options)
                if name.endswith(_MATLAB):
                    words = list(_words_of_mat(data, options))
                else:
                    text = data.decode("utf-8-sig", "surrogateescape").replace("\r\n", "\n")
                    if text.strip() and not is_known and _START.search(text) is None:
                        raise self.stranger(path / name, f": it has no line such as {_EXAMPLE}")
                    is_known = is_known or bool(text.strip())
                    words = list(words_of(text, options))
            except FieldError as fault:
                yield bad_row(fault, storable(name), index, name)
                continue
            yield from self._rows_of(index, name, words, options)

    def _files(self, folder: Path) -> list[str]:
        """Return the ground-truth files below a folder, by name; MATLAB's if there are no texts."""
        if not folder.is_dir():
            raise FormatError(f"{folder} cannot be read: wanted a folder of {self.format} files")
        for suffix in (".txt", _MATLAB):
            found = (one for one in folder.rglob(f"{_PREFIX}*{suffix}") if one.is_file())
            if names := sorted(one.relative_to(folder).as_posix() for one in found):
                return names
        raise FormatError(
            f"{folder} is not a {self.format} folder: it has no file such as "
            f"{_PREFIX}img1.txt or {_PREFIX}img1{_MATLAB}, below it or in it"
        )

    def _rows_of(
        self, index: int, name: str, found: list[Word | FieldError], options: ReadOptions
    ) -> Iterator[Row]:
        parent = PurePosixPath(name).parent
        stem = PurePosixPath(name).stem.removeprefix(_PREFIX)
        try:
            identity = checked_path(Field("file", (parent / stem).as_posix()))
        except FieldError as fault:
            yield bad_row(fault, storable(name), index, name)
            return
        words: list[Word] = []
        for word in found:
            if isinstance(word, Word):
                words.append(word)
            else:
                yield bad_row(word, storable(name), index, str(word), "fact")
        first, *others = (f"{identity}{suffix}" for suffix in _SUFFIXES)
        yield SourceRow(
            index=index,
            identity=identity,
            split=next(filter(None, map(split_in_name, reversed(parent.parts))), None)
            or options.split_or_test,
            file_path=first,
            other_paths=tuple(others),
            facts=_facts(words),
        )


def _content(path: Path, options: ReadOptions) -> bytes:
    limit = options.max_record_characters
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as fault:
        detail = f"{path.name} cannot be read: {fault.strerror}"
        raise FieldError("", "unreadable_file", detail) from fault
    if len(data) > limit:
        detail = f"{path.name} is too long, wanted at most {limit:,} bytes"
        raise FieldError("", "record_too_large", detail)
    return data


def _facts(words: list[Word]) -> tuple[str, ...]:
    """Return a sentence for each different word, the largest first, equal ones as in the file."""
    largest: dict[str, float] = {}
    for word in words:
        largest[word.text] = max(word.area_px, largest.get(word.text, 0.0))
    ordered = sorted(largest, key=lambda text: -largest[text])
    return tuple(f"The word “{text}” is written." for text in ordered)
