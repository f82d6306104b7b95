"""Images without captions: a text file with a path a line, as `ls` or `find` writes it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from schemas.json_stream import open_annotations
from sources.annotations import Importer
from sources.fields import Field, FieldError, bad_row, checked_path
from sources.records import DEFAULT_OPTIONS, ReadOptions, Row, SourceRow

_IMAGE_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")
_LONGEST_PATH_BYTES: Final = 4096


class ImageListImporter(Importer):
    """Reads the paths of images, each its own identity; blank and `#` lines are skipped.

    The list has no metadata, so state the licence of the images on import.
    """

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield one row, or one bad row, for each line that counts.

        Raises:
            FormatError: the file cannot be opened, or its first line names no image.
        """
        index = 0
        with open_annotations(path) as file:
            while data := file.readline(_LONGEST_PATH_BYTES):
                line = data.decode("utf-8", "surrogateescape").strip("\ufeff \t\r\n")
                if not line or line.startswith("#"):
                    continue
                if index == 0 and not line.casefold().endswith(_IMAGE_SUFFIXES):
                    suffixes = ", ".join(_IMAGE_SUFFIXES)
                    first = f"its first line, {line[:80]!r},"
                    raise self.stranger(path, f": {first} is not the path of an image ({suffixes})")
                try:
                    name = checked_path(Field("line", line.removeprefix("./")))
                    yield SourceRow(
                        index=index, identity=name, split=options.split_or_test, file_path=name
                    )
                except FieldError as fault:
                    yield bad_row(fault, path.name, index, line)
                index += 1
        if index == 0:
            raise self.stranger(path, ": it names no image")
