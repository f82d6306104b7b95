"""Images without captions: a text file with a path a line, as `ls` or `find` writes it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from schemas.errors import FormatError
from schemas.json_stream import open_annotations
from schemas.records import Split
from sources.fields import Field, FieldError, bad_row, checked_path
from sources.records import ReadOptions, Row, SourceRow
from sources.terms import ImporterTerms

IMAGE_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")
_LONGEST_PATH_BYTES: Final = 4096


class ImageListImporter(ImporterTerms):
    """Reads the paths of images, each its own identity; blank lines and `#` lines are passed over.

    Nothing is known of such images, so state their licence on import.
    """

    default_split: Split = "test"

    def rows(self, path: Path, options: ReadOptions | None = None) -> Iterator[Row]:
        """One row, or one bad row, for each line that counts.

        Raises:
            FormatError: the file cannot be opened, or its first line names no image.
        """
        options = options or ReadOptions()
        index = 0
        with open_annotations(path) as file:
            while data := file.readline(_LONGEST_PATH_BYTES):
                line = data.decode("utf-8", "surrogateescape").strip("\ufeff \t\r\n")
                if not line or line.startswith("#"):
                    continue
                if index == 0 and not line.casefold().endswith(IMAGE_SUFFIXES):
                    raise FormatError(
                        f"{path} is not a {self.format} file: its first line, {line[:80]!r}, is "
                        f"not the path of an image ({', '.join(IMAGE_SUFFIXES)})"
                    )
                yield self._row(index, line, path.name, options)
                index += 1
        if index == 0:
            raise FormatError(f"{path} is not a {self.format} file: it names no image")

    def _row(self, index: int, line: str, file: str, options: ReadOptions) -> Row:
        try:
            file_path = checked_path(Field("line", line.removeprefix("./")))
        except FieldError as fault:
            return bad_row(fault, file, index, line)
        return SourceRow(
            index=index,
            identity=file_path,
            split=options.split or self.default_split,
            file_path=file_path,
            captions=(),
            positions=(),
        )


IMAGE_LIST = ImageListImporter(
    format="image-list",
    licence="Unknown: the format names none",
    citation="Unknown: the format names none",
)
