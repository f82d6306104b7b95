"""Tables of images: CSV with the columns that a source states, in any dialect and encoding."""

import io
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from loupe.schemas.columns import TableColumns
from loupe.schemas.errors import FormatError
from loupe.schemas.text_files import open_text, recoded
from loupe.sources.annotations import checked_object
from loupe.sources.columns import CAPTIONS, IMAGES, Found, RecordImporter, merged
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row
from loupe.sources.tables import Table

_SAMPLE_BYTES: Final = 256 * 1024
_ENCODINGS: Final = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r"),
    *("mac_roman", "shift_jis", "cp932", "euc_jp", "gb18030", "big5", "euc_kr"),
)
"""The encodings that are considered for a table that is not Unicode."""
_NO_ASCII: Final = re.compile(rb"[\x80-\xff]+")
_EQUAL_CHAOS: Final = 0.05
_MOST_SHOWN: Final = 4
_SHOWN_CHARACTERS: Final = 30


class CsvImporter(RecordImporter):
    """Reads a table: one line an image, or one line a caption.

    Lines of one image that follow each other are one record.

    Attributes:
        delimiter: what separates cells if the source does not state it; None to find out.
    """

    delimiter: str | None = None

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield one row or one bad row for each image; see `RecordImporter`."""
        return merged(super().rows(path, options))

    def records(self, path: Path, options: ReadOptions) -> Iterator[Found | BadRow]:
        """Yield the lines below the names of the columns.

        Raises:
            FormatError: the file cannot be opened or decoded.
        """
        columns = options.columns or TableColumns()
        delimiter = columns.delimiter or self.delimiter
        with (
            _opened(path, columns.encoding) as file,
            closing(Table(file, path, delimiter)) as table,
        ):
            table.header(_wanted(columns))
            for element in self.table_elements(path, table):
                if isinstance(element, BadRow):
                    yield element
                else:
                    yield Found(path.name, element.index, checked_object(element.value))


@contextmanager
def _opened(path: Path, encoding: str | None) -> Iterator[io.BufferedReader]:
    """Open a table as UTF-8, in the encoding that is stated or that its bytes show.

    Raises:
        FormatError: none is recognized.
    """
    with open_text(path, "a table") as file:
        encoding = encoding or _encoding_of(path)
        yield file if encoding is None else recoded(file, encoding)


def _encoding_of(path: Path) -> str | None:
    """Return the encoding of a file; None if it is Unicode, apart from a few damaged bytes.

    Raises:
        FormatError: it is not recognized.
    """
    with open_text(path, "a table") as file:
        sample = file.read(_SAMPLE_BYTES)
    try:
        sample.decode()
    except UnicodeDecodeError as fault:
        if fault.end >= len(sample) - 4 and len(sample) == _SAMPLE_BYTES:
            return None  # a character that the sample cuts off
        byte, line = sample[fault.start], sample.count(b"\n", 0, fault.start) + 1
    else:
        return None
    if _is_mostly_utf8(sample):
        return None  # what is damaged spoils its line only
    likely = _likely(sample)
    if len(likely) == 1:
        return next(iter(likely.values()))
    may_be = ", ".join(f"{encoding} ({_sample_of(text)})" for text, encoding in likely.items())
    raise FormatError(
        f"{path} is not UTF-8 (byte 0x{byte:02x} in line {line:,}), and its encoding is "
        f"uncertain{f': it may be {may_be}' if may_be else ''}; state it, such as "
        f'encoding = "cp1252" (--encoding cp1252), or save the file as UTF-8'
    )


def _is_mostly_utf8(sample: bytes) -> bool:
    """Tell whether most of what is not ASCII is UTF-8, which hardly happens by chance."""
    found = _NO_ASCII.findall(sample)
    return sum(_is_utf8(one) for one in found) > len(found) / 2


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _likely(sample: bytes) -> dict[str, str]:
    """Return the encodings that a text may be in, each by what it says then."""
    from charset_normalizer import from_bytes

    found = list(from_bytes(sample, cp_isolation=list(_ENCODINGS)))
    likely: dict[str, str] = {}
    for match in found:
        usual = [one for one in _ENCODINGS if one in match.could_be_from_charset]
        if match.chaos <= found[0].chaos + _EQUAL_CHAOS and usual:
            likely.setdefault(str(match), usual[0])
    order = sorted((_ENCODINGS.index(encoding), text) for text, encoding in likely.items())
    return {text: _ENCODINGS[place] for place, text in order[:_MOST_SHOWN]}


def _sample_of(text: str) -> str:
    """Return the first word of a text that is not ASCII."""
    words = re.findall(r"\w+", text)
    return next((word for word in words if not word.isascii()), "…")[:_SHOWN_CHARACTERS]


def _wanted(columns: TableColumns) -> AbstractSet[str]:
    """Return the columns that tell the delimiter: those that are stated, or all usual ones."""
    stated = [columns.image, columns.identity, *columns.captions]
    found = {one.strip().casefold() for one in stated if one}
    return found or {*IMAGES, *CAPTIONS}
